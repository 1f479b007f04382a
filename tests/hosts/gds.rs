//! `stormlp gds` on two hosts: cells that start together, one report, and an
//! end for all when one fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::launcher::{Launcher, said, second_process};

/// Two cells on small files, short enough for a test.
const SMALL: [&str; 13] = [
    "gds",
    "--path",
    "cpu",
    "--op",
    "write,read",
    "--io-size",
    "64K",
    "--threads",
    "2",
    "--file-size",
    "1M",
    "--duration",
    "300ms",
];

/// The folders of the runs in `folder`.
pub(crate) fn runs(folder: &Path) -> Vec<PathBuf> {
    let Ok(runs) = fs::read_dir(folder.join("stormlp-results")) else {
        return Vec::new();
    };
    runs.map(|entry| entry.unwrap().path()).collect()
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Runs stormlp alone.
pub(crate) fn alone(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stormlp"));
    command.env("COLUMNS", "1000").env("STORMLP_DETAILS", "1");
    command.args(words).current_dir(folder);
    command.output().unwrap()
}

pub(crate) fn sum(hosts: &Value, key: &str) -> u64 {
    let hosts = hosts.as_array().unwrap().iter();
    hosts.map(|host| host[key].as_u64().unwrap()).sum()
}

#[test]
fn two_hosts_measure_one_matrix() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir().unwrap();
        let output = launcher.two(folder.path(), &SMALL).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let runs = runs(folder.path());
        assert_eq!(runs.len(), 1, "{runs:?}");
        let whole = json(&runs[0].join("report.json"));
        assert_eq!(whole["ending"]["status"], "complete");
        assert_eq!(whole["group"]["size"], 2);
        assert_eq!(whole["hosts"].as_array().unwrap().len(), 2);
        let cells = whole["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 2);
        assert_eq!(sum(&whole["hosts"], "slowest"), 2, "of each cell one is");
        for cell in cells {
            assert_eq!(cell["status"], "ok");
            assert_eq!(cell["bytes"].as_u64().unwrap(), sum(&cell["hosts"], "bytes"));
            let longest = cell["hosts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|host| host["duration_seconds"].as_f64().unwrap())
                .fold(0.0, f64::max);
            assert_eq!(cell["duration_seconds"].as_f64(), Some(longest));
        }
        assert_eq!(said.matches("slowest of cells").count(), 1, "{said}");
        assert!(said.contains("and as many for each of 2 "), "{said}");
        assert!(!said.contains("of 2 cells") || said.contains("in 2 of 2 cells"), "{said}");
        // Each has separate files.
        for rank in ["rank-0", "rank-1"] {
            let file = folder.path().join("stormlp-data/gds").join(rank);
            assert!(file.join("stormlp.0").is_file(), "{rank}");
        }
    });
}

#[test]
fn hosts_with_different_cells_measure_nothing() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir().unwrap();
        let others: [(&[&str], &str); 4] = [
            (&["--queue-depth", "4"], "setting `queue_depths`"),
            (&["--verify"], "setting `verify`"),
            (&["--fsync", "end"], "setting `fsync`"),
            (&["--dir", "elsewhere"], "place of the files"),
        ];
        for (more, what) in others {
            let mut command = launcher.two_of(folder.path(), &SMALL, more);
            let output = command.output().unwrap();
            let said = said(&output);
            assert_eq!(output.status.code(), Some(3), "{said}");
            let message = format!("the hosts differ in the {what}");
            assert_eq!(said.matches(&message).count(), 1, "{said}");
            assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
        }
        let one_file = ["gds", "--file", "f", "--op", "write"];
        let output = launcher.two(folder.path(), &one_file).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
    });
}

#[test]
fn a_host_that_cannot_begin_ends_the_others() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir().unwrap();
        let refused: [(Vec<&str>, &str); 3] = [
            (vec!["gds", "--nonsense"], "--nonsense"),
            (vec!["report"], "`stormlp report` is for one"),
            (vec!["gds", "--duration", "0x"], "--duration"),
        ];
        for (words, told) in refused {
            let mut run = launcher.each(folder.path(), [&SMALL, &words]);
            run.stderr(Stdio::piped());
            let mut run = run.spawn().unwrap();
            let ended = end_of(&mut run);
            let said = said(&run.wait_with_output().unwrap());
            assert!(!ended.success(), "{words:?}: {said}");
            assert!(said.contains(told), "{words:?}: {said}");
        }
    });
}

#[test]
fn a_host_that_only_plans_is_reported() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir().unwrap();
        // Where all do, they plan for all.
        let plan = [&SMALL[..], &["--dry-run"]].concat();
        let message = said(&launcher.two(folder.path(), &plan).output().unwrap());
        assert!(message.contains("and as many for each of 2 "), "{message}");
        assert!(message.contains("filled by 2 processes ("), "{message}");
        for command in ["train", "checkpoint"] {
            let words = match command {
                "train" => vec!["train", "unet3d", "--dir", "d"],
                _ => vec!["checkpoint", "llama3-8b", "--dir", "d"],
            };
            let mut run = launcher.two_of(folder.path(), &words, &["--dry-run"]);
            let output = run.output().unwrap();
            let said = said(&output);
            assert_eq!(output.status.code(), Some(3), "{said}");
            assert!(said.contains("differ in the command: "), "{said}");
            assert!(said.contains(&format!("{command} --dry-run")), "{said}");
        }
    });
}

#[test]
fn a_missing_folder_is_created() {
    let Some(launcher) = Launcher::found().pop() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut asked = SMALL.to_vec();
    asked.extend(["--dir", "made"]);
    let output = launcher.two(folder.path(), &asked).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(folder.path().join("made/rank-1/stormlp.0").is_file());
    // The folder above it is not: a mount point may be mistyped.
    asked.extend(["--dir", "mistyped/dir"]);
    let output = launcher.two(folder.path(), &asked).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
}

/// A long matrix on two hosts, once its first cell is over.
fn begun(launcher: Launcher, folder: &Path) -> Child {
    let mut asked = SMALL.to_vec();
    asked.extend(["--runs", "100"]);
    let mut command = launcher.two(folder, &asked);
    let run = command.env("STORMLP_BARRIER_TIMEOUT", "4s").spawn().unwrap();
    let begun = Instant::now();
    let cells = |run: &PathBuf| run.join("report.journal.jsonl").is_file();
    while !runs(folder).iter().any(cells) {
        assert!(begun.elapsed() < Duration::from_secs(120), "no cell is over");
        std::thread::sleep(Duration::from_millis(50));
    }
    run
}

pub(crate) fn signal(signal: &str, process: u32) {
    let mut kill = Command::new("kill");
    let _ = kill.args([&format!("-{signal}"), &process.to_string()]).status();
}

pub(crate) fn end_of(run: &mut Child) -> std::process::ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = run.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > Duration::from_secs(90) {
            run.kill().unwrap();
            panic!("the run did not end");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn measurements_outlive_a_host() {
    Launcher::under_each(|launcher| {
        for name in ["KILL", "STOP"] {
            let folder = tempfile::tempdir().unwrap();
            let mut run = begun(launcher, folder.path());
            let victim = second_process(run.id());
            signal(name, victim);
            let ended = end_of(&mut run);
            signal("KILL", victim);
            assert!(!ended.success(), "{name}: {ended:?}");
            let runs = runs(folder.path());
            if name == "STOP" {
                let whole = json(&runs[0].join("report.json"));
                let why = whole["ending"]["fact"].as_str().unwrap();
                assert!(why.contains("(rank 1) did not respond"), "{why}");
                assert!(!why.contains("at a barrier"), "{why}");
            }
            let run = runs[0].to_str().unwrap();
            let shown = said(&alone(folder.path(), &["report", "show", run]));
            assert!(shown.contains("and as many for each of 2 "), "{name}: {shown}");
            let left = alone(folder.path(), &["report", "show", run, "--format", "json"]);
            assert!(left.status.success(), "{name}: {}", said(&left));
            let left: Value = serde_json::from_slice(&left.stdout).unwrap();
            let cells = left["cells"].as_array().unwrap();
            assert!(!cells.is_empty(), "{name}");
            // The one in which the host was lost is not among them.
            for cell in cells {
                assert_eq!(cell["interrupted"], false, "{name}: {cell}");
            }
            assert_ne!(left["ending"]["status"], "complete");
        }
    });
}

#[test]
fn an_interrupted_host_ends_all() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir().unwrap();
        let mut run = begun(launcher, folder.path());
        signal("INT", second_process(run.id()));
        let ended = end_of(&mut run);
        assert!(!ended.success(), "{ended:?}");
        let runs = runs(folder.path());
        let whole = json(&runs[0].join("report.json"));
        assert_eq!(whole["ending"]["status"], "stopped");
    });
}

#[test]
fn an_interrupted_launcher_does_not_look_like_a_failure() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir().unwrap();
        let mut run = begun(launcher, folder.path());
        signal("INT", run.id());
        // The launcher has a different exit code.
        end_of(&mut run);
        let whole = json(&runs(folder.path())[0].join("report.json"));
        // Launchers kill processes that do not end soon, and a process that does not hear of the
        // rest by then cannot know.
        let status = whole["ending"]["status"].as_str().unwrap();
        let message = whole["ending"]["fact"].as_str().unwrap_or_default();
        assert!(
            matches!(status, "stopped" | "unfinished")
                || message.contains("it was interrupted (Ctrl-C"),
            "{}",
            whole["ending"]
        );
    });
}

#[test]
fn a_stopped_run_is_resumed() {
    let Some(launcher) = Launcher::found().pop() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut run = begun(launcher, folder.path());
    signal("INT", second_process(run.id()));
    assert!(!end_of(&mut run).success());
    let run = runs(folder.path()).remove(0);
    let report = run.join("report.json");
    let done = json(&report)["cells"].as_array().unwrap().len();
    let report = report.to_str().unwrap();
    // The same options but for their number: no other matrix, and not on one host.
    let mut asked = SMALL.to_vec();
    asked.extend(["--runs", "100", "--resume", report]);
    let refused = alone(folder.path(), &asked);
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    let message = said(&refused);
    assert!(
        message.contains("was measured by ") && message.contains("this run has one process"),
        "{message}"
    );
    let mut again = launcher.two(folder.path(), &asked).spawn().unwrap();
    let begun = Instant::now();
    let journal = run.join("report.journal.jsonl");
    while !journal.is_file() {
        assert!(begun.elapsed() < Duration::from_secs(120), "no cell is over");
        std::thread::sleep(Duration::from_millis(50));
    }
    signal("INT", second_process(again.id()));
    assert!(!end_of(&mut again).success());
    let whole = json(Path::new(report));
    let cells = whole["cells"].as_array().unwrap();
    assert!(cells.len() > done, "{} of {done}", cells.len());
    for cell in cells {
        assert_eq!(cell["hosts"].as_array().unwrap().len(), 2);
    }
    let of_cells: u64 = cells.iter().map(|cell| sum(&cell["hosts"], "bytes")).sum();
    assert_eq!(sum(&whole["hosts"], "bytes"), of_cells);
}
