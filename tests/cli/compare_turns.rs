//! `stormlp compare --baseline --candidate`: commands in turns, and every way to end early. The
//! commands are scripts that leave a report with a given rate, so no result depends on the machine.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::compare::measured;
use crate::gds::{folder, read_json};
use crate::{at_a_terminal, last_line, stderr, stdout, stormlp};

/// Leaves a report with the rate of `$1`, which varies by up to 0.4 % from run to run, and counts
/// its runs. It fails while there is a file `broken`, and hangs while there is one called `hung`.
const FAKE: &str = r#"
n=$(cat runs 2>/dev/null || echo 0)
echo $((n + 1)) > runs
if [ -e broken ] && [ "$n" -ge 4 ]; then echo "error: the disk is gone" >&2; exit 5; fi
if [ -e hung ] && [ "$n" -ge 4 ]; then echo $$ > pid; exec sleep 600; fi
rate=$(($1 / 1000 * (1000 + n * 7 % 5)))
mkdir -p "$STORMLP_RESULTS_DIR/gds-fake"
sed "s/\"@RATE@\"/$rate/" "${2:-template}" > "$STORMLP_RESULTS_DIR/gds-fake/report.json"
"#;

/// The line about the setting in which the sides differ.
const SIZES: &str = "\n  - I/O sizes: 1 MiB (baseline), 4 MiB (candidate)";
const FULL: &str = "sh fake 1000000000";
const LESS: &str = "sh fake 800000000";

/// The script and its template in `folder`.
fn scripts(folder: &Path) -> Value {
    let mut report = measured(folder);
    let cell = &mut report["cells"][0];
    cell["throughput_bytes_per_second"] = json!("@RATE@");
    // Otherwise it would have to fit the rate.
    cell["duration_seconds"] = json!(0);
    cell["first_done_seconds"] = json!(0);
    cell["last_done_seconds"] = json!(0);
    fs::write(folder.join("template"), report.to_string()).unwrap();
    fs::write(folder.join("fake"), FAKE).unwrap();
    report
}

fn compare(folder: &Path, run: &str, against: &str, words: &str) -> assert_cmd::assert::Assert {
    let mut command = stormlp();
    command.current_dir(folder).args(["compare", "--baseline", run, "--candidate", against]);
    command.args(words.split_whitespace()).args(["--results-dir", "kept"]).assert()
}

/// The only folder of a comparison.
fn kept(folder: &Path) -> PathBuf {
    let mut found = fs::read_dir(folder.join("kept")).unwrap();
    found.next().unwrap().unwrap().path()
}

fn resumed(folder: &Path) -> assert_cmd::assert::Assert {
    // From another folder: commands run where they began.
    let mut command = stormlp();
    command.current_dir("/").args(["compare", "--format", "json", "--resume"]);
    command.arg(kept(folder)).assert()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_same_command_twice_is_the_same_after_five_pairs() {
    let folder = folder();
    let folder = folder.path();
    scripts(folder);
    let assert = compare(folder, FULL, FULL, "--format json").success();
    let json = parsed(&stdout(assert));
    assert_eq!((&json["verdict"], &json["pairs"]), (&json!("same"), &json!(5)), "{json}");
    assert_eq!(json["figures"][0]["interval"].as_array().unwrap().len(), 2);
    assert_eq!(fs::read_to_string(folder.join("runs")).unwrap().trim(), "10");
    for pair in 1..=5 {
        for side in ["baseline", "candidate"] {
            let report = format!("pair-{pair:02}/{side}/gds-fake/report.json");
            assert!(kept(folder).join(&report).is_file(), "{report}");
        }
    }
    assert_eq!(read_json(&kept(folder).join("comparison.json")), json);
    // A finished comparison is shown again without another run.
    let again = parsed(&stdout(resumed(folder).success()));
    assert_eq!(again, json);
    assert_eq!(fs::read_to_string(folder.join("runs")).unwrap().trim(), "10");
}

#[test]
fn a_slower_command_regressed_and_fails_on_request() {
    let folder = folder();
    let folder = folder.path();
    scripts(folder);
    let assert = compare(folder, FULL, LESS, "--fail-on-regression 5").code(7);
    let said = stderr(assert);
    assert!(said.contains("pair 1 of at most 15: throughput is "), "{said}");
    assert!(said.contains("pair 5 of at most 15: ") && said.contains("(between -"), "{said}");
    let text = stdout(compare(folder, LESS, FULL, "--fail-on-regression 5").success());
    assert!(
        last_line(&text, 0).starts_with("candidate is faster than baseline: throughput is "),
        "{text}"
    );
    assert!(text.contains("5 of at most 15 pairs of runs"), "{text}");
    // Certainly 3 % worse, and still less than the smallest change that matters.
    let slightly = "sh fake 966000000";
    let text = stdout(compare(folder, FULL, slightly, "--fail-on-regression 2").code(7));
    assert!(last_line(&text, 0).starts_with("same"), "{text}");
    compare(folder, FULL, slightly, "--fail-on-regression 5").success();
    let mut narrow = at_a_terminal();
    narrow.current_dir(folder);
    narrow.args(["compare", "--baseline", FULL, "--candidate", LESS, "--quiet"]);
    let screen = stdout(narrow.assert().success());
    assert!(screen.lines().count() <= 24, "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    assert!(
        screen.lines().any(|line| line.starts_with("candidate is slower than baseline: ")),
        "{screen}"
    );
}

#[test]
fn a_command_that_fails_ends_it_and_resume_continues() {
    let folder = folder();
    let folder = folder.path();
    scripts(folder);
    fs::write(folder.join("broken"), "").unwrap();
    let assert = compare(folder, FULL, LESS, "--format json").code(5);
    let said = stderr(assert);
    for words in ["failed in pair 3", "the disk is gone", "--resume", "pair-03"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let so_far = read_json(&kept(folder).join("comparison.json"));
    assert_eq!(so_far["pairs"], 2, "{so_far}");
    fs::remove_file(folder.join("broken")).unwrap();
    let json = parsed(&stdout(resumed(folder).success()));
    assert_eq!((&json["verdict"], &json["pairs"]), (&json!("worse"), &json!(5)), "{json}");
    assert!(kept(folder).join("pair-03-cut-1").is_dir());
}

#[test]
fn a_run_that_fails_with_a_complete_report_is_measured_again() {
    let folder = folder();
    let folder = folder.path();
    scripts(folder);
    // The report is there, and the exit code says that a cell failed.
    let broken = FAKE
        .replace("rate=$((", "trap '[ -e broken ] && [ \"$n\" -ge 4 ] && exit 5' EXIT\nrate=$((");
    fs::write(folder.join("fake"), broken.replacen("if [ -e broken ]", "if false", 1)).unwrap();
    fs::write(folder.join("broken"), "").unwrap();
    let said = stderr(compare(folder, FULL, LESS, "--format json").code(5));
    assert!(said.contains("failed in pair 3") && said.contains("--resume"), "{said}");
    fs::remove_file(folder.join("broken")).unwrap();
    let ended = resumed(folder).success();
    let said = stderr(ended);
    assert!(said.contains("measured again: --") && said.contains("pair-03"), "{said}");
    assert!(kept(folder).join("pair-03-cut-1").is_dir());
}

#[test]
fn a_torn_report_of_a_history_is_left_out_and_named() {
    let folder = folder();
    let folder = folder.path();
    let report = scripts(folder).to_string().replace("\"@RATE@\"", "1000000000");
    for night in 0..4 {
        let place = folder.join(format!("nightly/{night}"));
        fs::create_dir_all(&place).unwrap();
        let bytes = if night == 2 { report.len() / 2 } else { report.len() };
        fs::write(place.join("report.json"), &report[..bytes]).unwrap();
    }
    let mut command = stormlp();
    command.current_dir(folder).args(["compare", "--history", "nightly"]);
    let said = stderr(command.assert().success());
    assert!(said.contains("left out: nightly/2/report.json cannot be used"), "{said}");
}

#[test]
fn ctrl_c_keeps_the_answer_so_far_and_ends_the_command() {
    let folder = folder();
    let folder = folder.path();
    scripts(folder);
    fs::write(folder.join("hung"), "").unwrap();
    let mut child: Child = Command::new(env!("CARGO_BIN_EXE_stormlp"))
        .current_dir(folder)
        .args([
            "compare",
            "--baseline",
            FULL,
            "--candidate",
            LESS,
            "--results-dir",
            "kept",
            "--details",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut messages = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("pair 2 of") {
        line.clear();
        assert!(messages.read_line(&mut line).unwrap() > 0);
    }
    while fs::read_to_string(folder.join("pid")).is_ok_and(|pid| pid.is_empty())
        || !folder.join("pid").exists()
    {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    let mut said = String::new();
    messages.read_to_string(&mut said).unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert!(text.contains("2 of at most 15 pairs of runs"), "{text}");
    assert!(said.contains("stopped after 2 pairs") && said.contains("--resume"), "{said}");
    let pid = fs::read_to_string(folder.join("pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "the command still runs");
    fs::remove_file(folder.join("hung")).unwrap();
    assert_eq!(parsed(&stdout(resumed(folder).success()))["verdict"], "worse");
}

#[test]
fn setup_runs_before_every_run_and_ends_it_where_it_fails() {
    let folder = folder();
    let folder = folder.path();
    scripts(folder);
    let mut command = stormlp();
    command.current_dir(folder).args([
        "compare",
        "--baseline",
        FULL,
        "--candidate",
        FULL,
        "--quiet",
    ]);
    command.args(["--setup", "echo $STORMLP_SIDE >> sides", "--results-dir", "kept"]);
    command.assert().success();
    let sides = fs::read_to_string(folder.join("sides")).unwrap();
    let sides: Vec<&str> = sides.lines().collect();
    assert_eq!(sides.len(), 10);
    for pair in sides.chunks(2) {
        assert_ne!(pair[0], pair[1], "{sides:?}");
    }
    let said = stderr(compare(folder, FULL, FULL, "--setup false").code(4));
    assert!(said.contains("--setup failed in pair 1"), "{said}");
}

#[test]
fn other_work_and_commands_without_a_report_are_refused() {
    let folder = folder();
    let folder = folder.path();
    let mut other = scripts(folder);
    other["cells"][0]["io_size_bytes"] = json!(4 << 20);
    fs::write(folder.join("other"), other.to_string()).unwrap();
    let against = format!("{FULL} other");
    let assert = compare(folder, FULL, &against, "").code(3);
    assert_eq!(stdout(assert), "");
    let said = stderr(compare(folder, FULL, &against, "").code(3));
    assert!(said.contains(SIZES) && said.contains("--force"), "{said}");
    let text = stdout(compare(folder, FULL, &against, "--force").success());
    assert!(text.contains("compared anyway"), "{text}");
    // The comparison is of the options on one side only.
    let typed = format!("{against} --io-size=4M");
    let text = stdout(compare(folder, FULL, &typed, "").success());
    assert!(text.contains("compared anyway:") && text.contains(SIZES), "{text}");
    // Places and tags are no such option.
    let elsewhere = format!("{against} --dir elsewhere --tag v=2");
    let said = stderr(compare(folder, FULL, &elsewhere, "").code(3));
    assert!(said.contains(SIZES) && said.contains("--force"), "{said}");
    for (command, code, told) in [
        ("true", 3, "left no report"),
        (
            "sh fake 1000000000 && cp -r $STORMLP_RESULTS_DIR/gds-fake $STORMLP_RESULTS_DIR/two",
            3,
            "left 2 reports",
        ),
        ("nowhere-to-be-found", 4, "failed in pair 1"),
        ("stormlp gds --results-dir x", 2, "its report is kept by compare"),
    ] {
        let said = stderr(compare(folder, command, command, "").code(code));
        assert!(said.contains(told), "{command}: {said}");
    }
    for (words, told) in [
        (&["--baseline", "true"][..], "--candidate"),
        (&["--baseline", "true", "--candidate", "true", "a1"], "cannot be used with"),
        (&["--resume", "x", "--min-change", "3"], "cannot be used with"),
    ] {
        let mut command = stormlp();
        let said = stderr(command.current_dir(folder).arg("compare").args(words).assert().code(2));
        assert!(said.contains(told), "{words:?}: {said}");
    }
    let mut command = stormlp();
    command.current_dir(folder).args(["compare", "--resume", "kept"]);
    assert!(stderr(command.assert().code(4)).contains("request.json"));
}

#[test]
fn the_shell_is_found_and_named_without_a_search_path() {
    let folder = folder();
    let mut command = stormlp();
    let words = ["compare", "--baseline", "nonsense 1", "--candidate", "nonsense 2"];
    let failed = command.env_clear().current_dir(folder.path()).args(words).assert();
    let said = stderr(failed.failure());
    assert!(said.contains("/bin/sh: ") && said.contains("nonsense: not found"), "{said}");
    assert!(said.contains("give the whole command"), "{said}");
}
