//! `stormlp kvcache serving --find-max`: how many servers storage feeds. No timing is asserted:
//! each threshold is always kept, or never.

use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::{stderr, stdout, stormlp};

const SEARCH: &str = "kvcache serving tiny-1b --find-max --dir chunks --duration 1s \
                      --chunk-tokens 64 --prefixes 6 --prefix-tokens 128,256 --queue-depth 1 \
                      --tune telemetry=off,writers=1,new-tokens=1 --prefill-rate";

fn words(more: &str) -> Vec<String> {
    format!("{SEARCH} {more}").split_whitespace().map(str::to_string).collect()
}

/// The command where a process may have few open files.
fn with_few_files(dir: &TempDir, more: &str) -> Output {
    let line = format!("ulimit -n 167; exec \"$0\" {SEARCH} {more}");
    let mut command = Command::new("sh");
    command.current_dir(dir.path()).arg("-c").arg(line).arg(env!("CARGO_BIN_EXE_stormlp"));
    command.output().unwrap()
}

fn left(dir: &TempDir) -> usize {
    let chunk =
        |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("chunk_");
    let entries = std::fs::read_dir(dir.path().join("chunks")).into_iter().flatten();
    entries.filter(|entry| entry.as_ref().is_ok_and(chunk)).count()
}

#[test]
fn as_many_are_tried_as_the_host_takes_and_the_answer_is_a_lower_bound() {
    let dir = TempDir::new_in(".").unwrap();
    // At a token a second, loading is always faster than computing.
    let output = with_few_files(&dir, "1 --format json --output page.html");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("probe: 8 servers") && said.contains(", pass ("), "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let find = &json["find_max"];
    assert_eq!((&find["largest"], &find["smallest_failing"]), (&17.into(), &Value::Null));
    assert_eq!(find["is_lower_bound"], true);
    assert!(find["limit"].as_str().unwrap().contains("open files"), "{find:#}");
    let tried = find["tried"].as_array().unwrap();
    let runs: Vec<_> = tried.iter().map(|one| (one["servers"].as_u64(), &one["run"])).collect();
    assert_eq!(runs.last(), Some(&(Some(17), &"full".into())), "{runs:?}");
    // The report is the full run's at the answer.
    assert_eq!(json["plan"]["serving"]["loaders"], 17);
    assert_eq!(json["trials"].as_array().unwrap().len(), 1);
    assert_eq!(left(&dir), 0);
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(page.contains("Numbers of servers tried"), "the page has no chart of the search");
    let listed = stdout(stormlp().current_dir(&dir).arg("report").assert().success());
    assert!(listed.contains("at least 17 servers"), "{listed}");
}

#[test]
fn storage_that_feeds_none_is_said_with_exit_code_6() {
    let dir = TempDir::new_in(".").unwrap();
    let ran = stormlp().current_dir(&dir).args(words("1e9 --tune confirm=0")).assert().code(6);
    let error = stderr(ran);
    assert!(
        error.contains("storage does not feed even one server: P95 too high; a prefix of"),
        "{error}"
    );
    assert_eq!(left(&dir), 0);
}

#[test]
fn a_search_of_probes_alone_has_their_warnings_and_no_full_run() {
    let dir = TempDir::new_in(".").unwrap();
    let output = with_few_files(&dir, "1 --tune confirm=0 --details --output answer.json");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let text = String::from_utf8_lossy(&output.stdout);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(" and 0 full runs"), "{text}");
    assert!(!text.contains("The full run at the answer") && !text.contains("1 run of"), "{text}");
    let json = std::fs::read_to_string(dir.path().join("answer.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["trials"].as_array().map(Vec::len), Some(0));
    // A debug build warns of itself.
    let is_debug = json["warnings"].to_string().contains("this is a debug build");
    assert_eq!(is_debug, cfg!(debug_assertions), "{}", json["warnings"]);
}

#[test]
fn a_search_needs_servers_and_its_plan_is_that_of_the_first_run() {
    let dir = TempDir::new_in(".").unwrap();
    let refused = |line: &str, code: i32, says: &str| {
        let ran = stormlp().current_dir(&dir).args(line.split_whitespace()).assert().code(code);
        let text = stderr(ran);
        assert!(text.contains(says), "{text}");
    };
    refused("kvcache serving --find-max", 2, "--prefill-rate");
    refused("kvcache mlperf --find-max", 2, "--find-max is an option of");
    refused("kvcache serving --find-max --prefill-rate 9 --concurrency 4", 2, "--concurrency");
    refused("kvcache serving --tune confirm=3", 2, "--find-max");
    let plan = stormlp().current_dir(&dir).args(words("9 --dry-run")).assert().success();
    assert!(stderr(plan).contains("its first run, of 8 servers"));
    assert!(!dir.path().join("chunks").exists());
}
