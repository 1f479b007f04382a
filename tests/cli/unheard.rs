//! Output without a reader: descriptors that are closed, full, or at the end of a broken pipe. No
//! command panics or loses a result over it, and each ends with its exit code.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::checkpoint::folder;
use crate::gds::QUICK;

/// Runs `stormlp` in `folder` with descriptors as a shell redirects them; its exit code, and the
/// readable part of its stderr.
fn run(folder: &Path, words: &str, redirections: &str) -> (i32, String) {
    let program = env!("CARGO_BIN_EXE_stormlp");
    // The code is passed in a file: a pipeline returns its last command's.
    let line = match redirections {
        "|" => format!("({{ {program} {words}; echo $? >code; }} 2>err) | true"),
        "2|" => format!("({{ {program} {words}; echo $? >code; }} 2>&1 >out) | true"),
        _ => format!("{{ {program} {words} {redirections}; }} 2>err; echo $? >code"),
    };
    let status = Command::new("sh")
        .current_dir(folder)
        .args(["-c", &line])
        .env_remove("STORMLP_RESULTS_DIR")
        .env("STORMLP_LIBCUFILE", "/nonexistent/libcufile.so.0")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.code().is_some(), "{line}");
    let code = fs::read_to_string(folder.join("code")).unwrap();
    let said = fs::read_to_string(folder.join("err")).unwrap_or_default();
    assert!(!said.contains("panicked"), "{line}: {said}");
    (code.trim().parse().unwrap(), said)
}

/// All that can be wrong with stdout, stderr or both.
const DEAF: [&str; 9] = [
    ">&-",
    "2>&-",
    "<&- >&- 2>&-",
    ">/dev/full",
    "2>/dev/full",
    ">/dev/full 2>/dev/full",
    ">/dev/full 2>&-",
    "|",
    "2|",
];

#[test]
fn a_run_is_saved_and_ends_with_its_own_code_without_readers() {
    let gds = format!("gds --path buffered {QUICK}");
    let null = "train unet3d --path null --steps 4 --epochs 1 --compute-time";
    let commands = [
        (gds.as_str(), 0),
        ("gdsio -D d -w 1 -s 1M -i 1M -x 1 -I 1", 0),
        (&format!("{null} 2ms --params metric.au=0.001"), 0),
        // Workers that preprocess for longer than a step computes keep every run from 100 %.
        (
            &format!(
                "{null} 1ms --params metric.au=1 --params reader.read_threads=0 --params reader.preprocess_time=0.002"
            ),
            6,
        ),
        ("checkpoint tiny.yaml --ranks 8 --saves 1 --restores 1 --pause 0", 0),
    ];
    for (words, expected) in commands {
        for redirections in DEAF {
            let folder = folder();
            let (code, said) = run(folder.path(), words, redirections);
            assert_eq!(code, expected, "{words} {redirections}: {said}");
            if redirections == ">/dev/full" {
                assert!(said.contains("warning: cannot write to stdout"), "{said}");
            }
            let mut saved = fs::read_dir(folder.path().join("stormlp-results")).unwrap();
            let report = saved.next().unwrap().unwrap().path().join("report.json");
            let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
            assert_eq!(report["ending"]["status"], "complete", "{words} {redirections}");
        }
    }
}

#[test]
fn work_completes_whoever_listens() {
    let small = "datagen unet3d --files 2 --params dataset.record_length_bytes=10000 \
        --params dataset.record_length_bytes_stdev=0 --dir data";
    for redirections in DEAF {
        let folder = folder();
        let steps = [small, &format!("{small} --check"), "clean data"];
        for words in steps
            .iter()
            .filter(|words| !words.contains("check") || !redirections.contains(">/dev/full"))
        {
            let (code, said) = run(folder.path(), words, redirections);
            assert_eq!(code, 0, "{words} {redirections}: {said}");
        }
        assert!(!folder.path().join("data").exists());
    }
}

#[test]
fn commands_that_only_print_report_output_errors() {
    let folder = folder();
    let gds = format!("gds --path null {QUICK}");
    assert_eq!(run(folder.path(), &gds, ">out").0, 0);
    let commands = [
        "--help",
        "gds --help",
        "--version",
        "gdsio -h",
        "datasize unet3d",
        "workloads",
        "workloads show unet3d",
        "doctor",
        "report",
        "generate completions bash",
        "gds --path null --dry-run",
    ];
    for words in commands {
        for redirections in DEAF {
            let (code, said) = run(folder.path(), words, redirections);
            let full = redirections.contains(">/dev/full") && !redirections.starts_with("2>");
            let expected = if full { 5 } else { 0 };
            assert_eq!(code, expected, "{words} {redirections}: {said}");
        }
    }
}
