//! Signals end a command with partial results, and a second one ends it whatever storage is doing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use stormlp_fixtures::skipped;

use crate::checkpoint::folder;

/// Starts `stormlp` in `folder`, and waits until `begun` is there.
fn start(folder: &Path, words: &str, begun: &str) -> Child {
    start_with(folder, words, begun, "120")
}

/// The same where calls, and the end after a signal, may take so many seconds.
fn start_with(folder: &Path, words: &str, begun: &str, limit: &str) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stormlp"))
        .current_dir(folder)
        .args(words.split_whitespace())
        .env_remove("STORMLP_RESULTS_DIR")
        .env("STORMLP_CUFILE_TIMEOUT", limit)
        .env("STORMLP_LIBCUFILE", "/nonexistent/libcufile.so.0")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let since = Instant::now();
    while !folder.join(begun).exists() {
        assert!(since.elapsed() < Duration::from_secs(60), "{words}: not begun");
        assert!(child.try_wait().unwrap().is_none(), "{words}: over");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

pub(crate) fn send(signal: &str, child: &Child) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args([signal, &id]).status();
    assert!(sent.unwrap().success());
}

/// The exit code of a child that has to end.
pub(crate) fn code(mut child: Child, words: &str) -> Option<i32> {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if since.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{words}: it does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn report(folder: &Path) -> PathBuf {
    let mut runs = fs::read_dir(folder.join("stormlp-results")).unwrap();
    runs.next().unwrap().unwrap().path().join("report.json")
}

/// Whether SIGHUP is ignored where the tests were started, which child processes inherit.
fn hangup_is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    u64::from_str_radix(mask.unwrap().trim(), 16).unwrap() & 1 != 0
}

/// Commands that would last minutes, and a file that shows that they have begun.
const LONG: [(&str, &str); 4] = [
    ("gds --path null --threads 1 --file-size 1M --duration 5m", "stormlp-data/gds"),
    ("gdsio -D d -w 1 -s 1M -i 1M -x 1 -I 0 -T 300", "d/gdsio.0"),
    ("train unet3d --path null --steps 10000 --compute-time 100ms --epochs 1", "stormlp-results"),
    ("checkpoint tiny.yaml --ranks 8 --saves 2 --pause 5m --dir c", "c/.stormlp-lock"),
];

#[test]
fn each_signal_ends_a_run_with_partial_results() {
    for (words, begun) in LONG {
        for signal in ["-HUP", "-TERM"] {
            if signal == "-HUP" && hangup_is_ignored() {
                skipped("SIGHUP is ignored", "start the tests without nohup");
                continue;
            }
            let folder = folder();
            let child = start(folder.path(), words, begun);
            send(signal, &child);
            assert_eq!(code(child, words), Some(130), "{words} {signal}");
            let report = fs::read_to_string(report(folder.path())).unwrap();
            let report: serde_json::Value = serde_json::from_str(&report).unwrap();
            assert_eq!(report["ending"]["status"], "stopped", "{words} {signal}");
        }
    }
}

#[test]
fn a_second_signal_ends_a_wait_for_storage() {
    let stalled = [
        ("gds --path cpu --op read --file-size 1M --threads 1", "stormlp-data/gds"),
        ("checkpoint tiny.yaml --ranks 8 --saves 1 --pause 0 --scale 1 --dir c", "c"),
    ];
    for (words, begun) in stalled {
        let folder = folder();
        let words = format!("{words} --throttle latency=1h");
        let child = start(folder.path(), &words, begun);
        // Each of them may come before storage stalls, where one is enough. SIGHUP and SIGINT may be
        // ignored by whoever started the tests.
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(300));
            let id = child.id().to_string();
            let _ = Command::new("kill").args(["-TERM", &id]).stderr(Stdio::null()).status();
        }
        assert_eq!(code(child, &words), Some(130), "{words}");
    }
}

#[test]
fn one_signal_ends_a_wait_for_storage_once_a_call_has_had_its_time() {
    let folder = folder();
    let words = "gds --path cpu --op read --file-size 1M --threads 1 --throttle latency=1h";
    let child = start_with(folder.path(), words, "stormlp-results", "0.5");
    std::thread::sleep(Duration::from_millis(300));
    send("-TERM", &child);
    assert_eq!(code(child, words), Some(130));
    let report = fs::read_to_string(report(folder.path())).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["ending"]["status"], "stopped");
}

#[test]
fn no_thread_that_may_wait_for_storage_has_to_take_a_signal() {
    let folder = folder();
    let (words, begun) = LONG[0];
    let child = start(folder.path(), words, begun);
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let mut takers = Vec::new();
    for task in tasks.map(|task| task.unwrap().path()) {
        // A thread may end between the two looks.
        let Ok(status) = fs::read_to_string(task.join("status")) else {
            continue;
        };
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
        let blocked = u64::from_str_radix(field("SigBlk:").unwrap().trim(), 16).unwrap();
        // SIGHUP, SIGINT and SIGTERM.
        if blocked & 0x4003 != 0x4003 {
            takers.push(field("Name:").unwrap().trim().to_string());
        }
    }
    send("-TERM", &child);
    assert_eq!(code(child, words), Some(130));
    assert_eq!(takers, ["signals"]);
}

#[test]
fn a_run_under_nohup_outlives_its_terminal() {
    let folder = folder();
    let program = env!("CARGO_BIN_EXE_stormlp");
    let words = "gds --path null --threads 1,2 --file-size 1M --duration 700ms";
    let line = format!("trap '' HUP; exec {program} {words}");
    let child = Command::new("sh")
        .current_dir(folder.path())
        .args(["-c", &line])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let since = Instant::now();
    while !folder.path().join("stormlp-data/gds").exists() {
        assert!(since.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    send("-HUP", &child);
    assert_eq!(code(child, words), Some(0));
}
