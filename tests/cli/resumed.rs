//! `stormlp submission rehearse --resume`: rehearsals that were interrupted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{stderr, stdout, stormlp};

const RESULT: &str = "rehearsal/closed/stormlp-rehearsal/results/fast";

fn rehearse(folder: &Path, words: &str, code: i32) -> String {
    let mut command = stormlp();
    command.current_dir(folder).args(["submission", "rehearse"]);
    stderr(command.args(words.split_whitespace()).assert().code(code))
}

/// Starts a rehearsal, and waits until `is_there` says so.
fn begin(folder: &Path, words: &str, is_there: impl Fn() -> bool) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stormlp"))
        .current_dir(folder)
        .args(["submission", "rehearse"])
        .args(words.split_whitespace())
        .env_remove("STORMLP_RESULTS_DIR")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let since = Instant::now();
    while !is_there() {
        assert!(since.elapsed() < Duration::from_secs(120), "not begun");
        assert!(child.try_wait().unwrap().is_none(), "over");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// The folders of runs that are whole, with when their summaries were written.
fn whole(parent: &Path) -> Vec<(PathBuf, std::time::SystemTime)> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path());
    let whole = folders.filter(|path| path.join("provenance.json").is_file());
    let written = |path: &Path| {
        let facts = fs::metadata(path.join("summary.json")).unwrap();
        facts.modified().unwrap()
    };
    let mut whole: Vec<_> = whole.map(|path| (path.clone(), written(&path))).collect();
    whole.sort();
    whole
}

/// What a check of the tree has against it.
fn failed(tree: &Path) -> Vec<String> {
    let mut command = stormlp();
    let assert = command.args(["submission", "check", "--json"]).arg(tree);
    let report: Value = serde_json::from_str(&stdout(assert.assert())).unwrap();
    assert!(report["rehearsal"].is_string(), "{report:#}");
    let rules = report["rules"].as_array().unwrap().iter();
    let failed = rules.filter(|rule| rule["result"] == "failed");
    failed.map(|rule| format!("{}: {}", rule["id"], rule["evidence"])).collect()
}

#[test]
fn a_killed_rehearsal_continues_after_its_complete_runs() {
    let folder = crate::train::folder();
    let options = |compute: u32| {
        format!(
            "--system fast training unet3d --accelerator b200 --files 21 --epochs 1 \
             --compute-time {compute}ms {}",
            crate::train::SMALL
        )
    };
    let runs = folder.path().join(RESULT).join("training/unet3d/run");
    let mut child = begin(folder.path(), &options(400), || whole(&runs).len() >= 2);
    child.kill().unwrap();
    child.wait().unwrap();
    let before = whole(&runs);
    assert!(before.len() >= 2 && before.len() < 6, "{before:?}");
    // As if it had been killed while it wrote.
    fs::create_dir(runs.join("29991231_000000")).unwrap();

    let message = rehearse(folder.path(), &options(400), 4);
    assert!(message.contains("--resume"), "{message}");
    let message = rehearse(folder.path(), &format!("--resume {}", options(300)), 3);
    assert!(
        message.contains("is from a different rehearsal: plan.compute")
            && message.contains("was 0.4, and is now 0.3")
            && message.contains("--compute-time 400ms"),
        "{message}"
    );
    assert!(runs.join("29991231_000000").is_dir());

    let message = rehearse(folder.path(), &format!("--resume {}", options(400)), 0);
    let next = format!("run {} of 6", before.len() + 1);
    assert!(message.contains(&next) && message.contains("was incomplete"), "{message}");
    let after = whole(&runs);
    assert_eq!(after.len(), 6);
    assert_eq!(after[..before.len()], before);
    let cut_off = folder.path().join("rehearsal-cut-off/29991231_000000");
    assert!(cut_off.is_dir());
    let csv = fs::read_to_string(runs.join("results.csv")).unwrap();
    assert!(csv.contains("Training - Read B/W"), "{csv}");
    let results = fs::read_to_string(runs.join("results.json")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    assert_eq!(results.as_array().unwrap().len(), 6);
    // It is as an uninterrupted one of this size is; on a slow host it may have paused too long.
    let known = ["2.1.18", "3.1.2", "3.2.1", "3.3.1", "3.3.2", "3.4.2", "3.6.2"];
    for one in failed(&folder.path().join("rehearsal")) {
        assert!(known.iter().any(|id| one.contains(id)), "{one}");
    }

    let message = rehearse(folder.path(), &format!("--resume {}", options(400)), 0);
    assert!(message.contains("nothing left to run"), "{message}");
}

#[test]
fn a_stopped_checkpointing_result_is_rerun_completely() {
    let folder = crate::checkpoint::folder();
    let options = |pause: &str| {
        format!(
            "--system fast checkpointing tiny.yaml --ranks 8 --writes 4 --reads 4 --pause {pause}"
        )
    };
    let begun = folder.path().join("stormlp-data/checkpoint/tiny");
    let mut child = begin(folder.path(), &options("2s"), || begun.is_dir());
    std::thread::sleep(Duration::from_millis(200));
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let runs = folder.path().join(RESULT).join("checkpointing/tiny");
    assert!(!runs.exists());

    rehearse(folder.path(), &format!("--resume {}", options("0")), 0);
    assert_eq!(whole(&runs).len(), 1);
    let message = rehearse(folder.path(), &format!("--resume {}", options("0")), 0);
    assert!(message.contains("nothing left to run"), "{message}");
    let message = rehearse(folder.path(), &format!("--resume {}", options("1s")), 3);
    assert!(message.contains("is from a different rehearsal"), "{message}");
}

#[test]
fn a_search_is_not_a_rehearsal() {
    let folder = tempfile::tempdir().unwrap();
    let said = rehearse(folder.path(), "training unet3d --find-max", 2);
    assert!(said.contains("cannot be used in a rehearsal"), "{said}");
}
