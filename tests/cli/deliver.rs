//! What becomes of results means the same for every command that measures.

use std::fs;
use std::path::Path;

use crate::checkpoint::folder;
use crate::gds::QUICK;
use crate::{stderr, stdout, stormlp};

const GDS: &str = "gds --path buffered";
const TRAIN: &str = "train unet3d --storage null --steps 4 --compute-time 2ms --epochs 2 \
    --params metric.au=0.001";
const CHECKPOINT: &str = "checkpoint tiny.yaml --ranks 8 --writes 1 --reads 1 --pause 0";

fn run(folder: &Path, words: &str) -> assert_cmd::assert::Assert {
    let mut command = stormlp();
    command.current_dir(folder).args(words.split_whitespace());
    command.env("STORMLP_RESULTS_DIR", "results").assert()
}

/// The only report below `folder`.
fn saved(folder: &Path) -> String {
    let runs: Vec<_> = fs::read_dir(folder.join("results")).unwrap().collect();
    assert_eq!(runs.len(), 1);
    let path = runs[0].as_ref().unwrap().path().join("report.json");
    path.to_str().unwrap().to_string()
}

#[test]
fn every_command_exports_compares_and_shows_in_every_format() {
    for command in [&format!("{GDS} {QUICK}"), TRAIN, CHECKPOINT] {
        let folder = folder();
        let folder = folder.path();
        let words = format!("{command} --format csv --export a.csv --export a.md");
        let printed = stdout(run(folder, &words).success());
        assert!(
            printed.starts_with("format_version,started_at,"),
            "{printed}"
        );
        let exported = fs::read_to_string(folder.join("a.csv")).unwrap();
        assert_eq!(exported, printed, "{command}");
        let page = fs::read_to_string(folder.join("a.md")).unwrap();
        assert!(page.starts_with("### ") && page.contains("| ---"), "{page}");
        let report = saved(folder);
        for format in ["text", "table", "json", "csv", "markdown"] {
            run(folder, &format!("report {report} --format {format}")).success();
        }
        let compared = stdout(run(folder, &format!("report {report} --baseline {report}")));
        assert!(compared.contains("× baseline"), "{compared}");
        let narrow = stormlp()
            .current_dir(folder)
            .args(["report", &report])
            .env("COLUMNS", "80")
            .assert();
        let narrow = stdout(narrow.success());
        let widths = narrow.lines().map(|line| line.chars().count());
        let widest = widths.max().unwrap();
        assert!(widest <= 80, "{widest}: {narrow}");
    }
}

#[test]
fn options_without_effect_and_reports_of_another_command_are_refused() {
    let folder = folder();
    run(folder.path(), TRAIN).success();
    let report = saved(folder.path());
    let refused = |words: &str, code: i32, said: &str| {
        let text = stderr(run(folder.path(), words).code(code));
        assert!(text.contains(said), "{words}: {text}");
    };
    for command in [GDS, TRAIN, CHECKPOINT] {
        for option in ["--export a.csv", "--baseline b.json", "--results-dir d"] {
            refused(
                &format!("{command} --dry-run {option}"),
                2,
                "has no effect with --dry-run",
            );
        }
        refused(
            &format!("{command} --dry-run --format csv"),
            2,
            "a plan has the formats",
        );
        refused(&format!("{command} --export a.xlsx"), 2, "names no format");
    }
    for command in [TRAIN, CHECKPOINT] {
        refused(&format!("{command} --format gdsio"), 2, "stormlp gds");
    }
    for command in [GDS, CHECKPOINT] {
        refused(
            &format!("{command} --baseline {report}"),
            3,
            "stormlp train",
        );
    }
    refused(
        &format!("report {report} --columns study-a"),
        2,
        "stormlp gds",
    );
    refused(
        &format!("report {report} --format json --baseline {report}"),
        2,
        "--baseline",
    );
    refused("report results --export a.csv", 2, "one report");
}
