//! `stormlp train` on two hosts: one run, one report, the same files as on one host, and an end for
//! all when one fails.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::gds::{end_of, json, runs, signal, sum};
use crate::launcher::{Launcher, said, second_process};

/// A run without storage, short enough for a test.
const NULL: [&str; 8] =
    ["train", "unet3d", "--path", "null", "--steps", "12", "--compute-time", "20ms"];

/// A dataset of small files in `folder`, and the options to train on it.
fn dataset(folder: &Path) -> Vec<&'static str> {
    let options = [
        "--params",
        "dataset.record_length_bytes=65536",
        "--params",
        "dataset.record_length_bytes_stdev=0",
        "--params",
        "dataset.num_files_train=112",
    ];
    let made = Command::new(env!("CARGO_BIN_EXE_stormlp"))
        .args(["datagen", "unet3d", "--dir", "data"])
        .args(options)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", said(&made));
    let train = ["train", "unet3d", "--dir", "data", "--epochs", "2", "--compute-time", "20ms"];
    train.into_iter().chain(options).collect()
}

/// The one report that a run has left.
fn report(folder: &Path) -> Value {
    let runs: Vec<_> = fs::read_dir(folder.join("stormlp-results"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    let json = fs::read_to_string(runs[0].join("report.json")).unwrap();
    serde_json::from_str(&json).unwrap()
}

#[test]
fn two_hosts_are_one_run_with_one_report() {
    Launcher::under_each(|launcher| {
        for backend in launcher.backends() {
            let folder = tempfile::tempdir().unwrap();
            let mut asked = NULL.to_vec();
            asked.extend(["-n", "4", "--epochs", "2"]);
            let mut command = launcher.two(folder.path(), &asked);
            let output = command.env("STORMLP_GROUP", backend).output().unwrap();
            // AU of so short a run may be below its target, and does not matter here.
            let said = said(&output);
            assert!(matches!(output.status.code(), Some(0 | 6)), "{said}");
            let report = report(folder.path());
            assert_eq!(report["plan"]["accelerators"], 4);
            assert_eq!(report["plan"]["hosts"], serde_json::json!([2, 2]));
            assert_eq!(report["group"]["backend"], backend);
            assert_eq!(report["group"]["size"], 2);
            for barrier in ["empty_barrier_us", "own_barrier_us"] {
                assert!(report["group"][barrier]["p50"].is_f64(), "{said}");
                assert!(report["group"][barrier]["p99"].is_f64(), "{said}");
            }
            let hosts = report["hosts"].as_array().unwrap();
            assert_eq!(hosts.len(), 2);
            let slowest = sum(&report["hosts"], "slowest");
            assert_eq!(slowest, 24, "of every step one host is the last");
            for epoch in report["epochs"].as_array().unwrap() {
                let numbers: Vec<_> = epoch["accelerators"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|one| &one["accelerator"])
                    .collect();
                assert_eq!(numbers, [0, 1, 2, 3]);
            }
            assert_eq!(said.matches("Hosts").count(), 1, "one of them prints: {said}");
        }
    });
}

#[test]
fn the_total_is_shared_as_evenly_as_hosts_can() {
    type Case<'a> = (&'a [&'a str], Option<[u32; 2]>, &'a str);
    let cases: [Case<'_>; 6] = [
        (&["-n", "2"], Some([1, 1]), ""),
        (&["-n", "3"], Some([2, 1]), "different numbers of accelerators"),
        // Both processes of the launcher are on one host.
        (&["--accelerators-per-host", "4"], Some([2, 2]), ""),
        (&[], Some([1, 1]), ""),
        (&["-n", "1"], None, "1 accelerator for 2 processes: each needs one"),
        (&["-n", "3", "--closed"], None, "use -n 2 or -n 4"),
    ];
    let Some(launcher) = Launcher::found().pop() else {
        return;
    };
    for (more, shares, words) in cases {
        let folder = tempfile::tempdir().unwrap();
        let asked = [&NULL[..], more].concat();
        let output = launcher.two(folder.path(), &asked).output().unwrap();
        let said = said(&output);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(words), "{more:?}: {said}");
        match shares {
            Some(shares) => {
                let plan = &report(folder.path())["plan"];
                assert_eq!(plan["hosts"], serde_json::json!(shares), "{more:?}");
                assert_eq!(plan["accelerators"], shares.iter().sum::<u32>(), "{more:?}");
            }
            None => assert!(!folder.path().join("stormlp-results").exists(), "{said}"),
        }
    }
}

#[test]
fn two_hosts_read_the_same_files_as_one() {
    let Some(launcher) = Launcher::found().pop() else {
        return;
    };
    for edition in ["1.0", "2.0", "3.0"] {
        let folder = tempfile::tempdir().unwrap();
        let mut asked = dataset(folder.path());
        asked.extend(["--edition", edition, "-n", "4"]);
        let output = launcher.two(folder.path(), &asked).output().unwrap();
        let on_two = said(&output);
        assert!(matches!(output.status.code(), Some(0 | 6)), "{on_two}");
        let two = report(folder.path());
        fs::remove_dir_all(folder.path().join("stormlp-results")).unwrap();
        let mut alone = Command::new(env!("CARGO_BIN_EXE_stormlp"));
        alone.args(&asked).current_dir(folder.path());
        let output = alone.output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 6)), "{}", said(&output));
        let one = report(folder.path());
        assert_eq!(two["plan"]["steps_per_epoch"], one["plan"]["steps_per_epoch"]);
        // Readers at the end of an epoch may or may not have begun reads that no step waits for.
        let bytes = |report: &Value| report["bytes_read"].as_f64().unwrap();
        let (of_two, of_one) = (bytes(&two), bytes(&one));
        assert!((of_two / of_one - 1.0).abs() < 0.25, "{of_two} {of_one}");
        let hosts = two["hosts"].as_array().unwrap().iter();
        let of_hosts: f64 = hosts.map(|host| host["bytes"].as_f64().unwrap()).sum();
        let epochs = two["epochs"].as_array().unwrap().iter();
        let of_epochs: f64 = epochs.map(|epoch| epoch["bytes_read"].as_f64().unwrap()).sum();
        assert_eq!(of_hosts, of_epochs);
    }
}

#[test]
fn the_first_accelerator_of_all_writes_checkpoints_for_all() {
    Launcher::under_each(|launcher| {
        for (when, written) in [
            ("checkpoint.checkpoint_after_epoch=1", vec![(1, 8), (2, 8)]),
            ("checkpoint.epochs_between_checkpoints=1", vec![]),
            ("checkpoint.steps_between_checkpoints=4", vec![(1, 4), (1, 8), (2, 4), (2, 8)]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let mut asked = dataset(folder.path());
            let every = "checkpoint.epochs_between_checkpoints=1";
            asked.extend(["--params", every, "--params", when]);
            let output = launcher.two(folder.path(), &asked).output().unwrap();
            let said = said(&output);
            assert!(matches!(output.status.code(), Some(0 | 6)), "{said}");
            let run = &runs(folder.path())[0];
            let files: Vec<String> =
                written.iter().map(|(epoch, step)| format!("model-{epoch}-{step}-0.pt")).collect();
            let lie = |name: &String| folder.path().join("checkpoints/unet3d").join(name).is_file();
            assert!(files.iter().all(lie), "{said}");
            // Not there without any.
            let all: Vec<_> = json(&run.join("report.json"))["checkpoints"]
                .take()
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| (one["epoch"].as_u64().unwrap(), one["step"].as_u64().unwrap()))
                .collect();
            assert_eq!(all, written, "{when}");
        }
    });
}

#[test]
fn hosts_with_different_plans_do_nothing() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir().unwrap();
        let mut command =
            launcher.two_of(folder.path(), &NULL, &["--params", "reader.batch_size=3"]);
        let output = command.output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        let lines: Vec<_> = said.lines().filter(|line| line.contains("batch size")).collect();
        assert_eq!(lines.len(), 1, "{said}");
        assert!(lines[0].contains("(rank 0) has 7"), "{said}");
        assert!(lines[0].contains("(rank 1) has 3"), "{said}");
        assert!(!folder.path().join("stormlp-results").exists());
    });
}

#[test]
fn single_host_options_are_refused() {
    let cases: [(&[&str], &str); 8] = [
        (&["--threads", "3"], "option --threads"),
        (&["--tune", "numa=off"], "option --tune"),
        (&["--client-overhead", "dlio"], "option --client-overhead"),
        (&["--tune", "telemetry=off"], "option --tune"),
        (&["--params", "metric.au=0.5"], "metric"),
        (&["--params", "reader.preprocess_time=0.05"], "preprocess"),
        (&["--accelerators", "4"], "option --accelerators"),
        (&["--local-storage"], "--local-storage"),
    ];
    Launcher::under_each(|launcher| {
        for (more, named) in cases {
            let folder = tempfile::tempdir().unwrap();
            let output = launcher.two_of(folder.path(), &NULL, more).output().unwrap();
            let said = said(&output);
            assert_eq!(output.status.code(), Some(3), "{said}");
            let lines: Vec<_> = said.lines().filter(|line| line.contains("(rank 0)")).collect();
            assert_eq!(lines.len(), 1, "{said}");
            assert!(lines[0].contains(named), "{said}");
            assert!(lines[0].contains("(rank 1)"), "{said}");
        }
    });
}

#[test]
fn a_failure_of_one_host_is_reported_once() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir().unwrap();
        let asked = ["train", "unet3d", "--dir", "nowhere"];
        let output = launcher.two(folder.path(), &asked).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert_eq!(said.matches("error:").count(), 1, "{said}");
    });
}

#[test]
fn a_lost_host_ends_the_others() {
    Launcher::under_each(|launcher| {
        for signal in ["KILL", "STOP"] {
            let folder = tempfile::tempdir().unwrap();
            let steps = ["--steps", "1000", "--compute-time", "50ms"];
            let mut asked = NULL[..4].to_vec();
            asked.extend(steps);
            let mut command = launcher.two(folder.path(), &asked);
            let mut run = command.env("STORMLP_BARRIER_TIMEOUT", "4s").spawn().unwrap();
            let results = folder.path().join("stormlp-results");
            let begun = Instant::now();
            while !results.is_dir() && begun.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(50));
            }
            // Steps are under way.
            std::thread::sleep(Duration::from_secs(3));
            let victim = second_process(run.id());
            let mut kill = Command::new("kill");
            let sent = kill.arg(format!("-{signal}")).arg(victim.to_string());
            assert!(sent.status().unwrap().success());
            let begun = Instant::now();
            let ended = loop {
                if let Some(status) = run.try_wait().unwrap() {
                    break status;
                }
                if begun.elapsed() > Duration::from_secs(60) {
                    run.kill().unwrap();
                    panic!("{signal} of one process did not end the run");
                }
                std::thread::sleep(Duration::from_millis(100));
            };
            assert!(!ended.success(), "{signal}: {ended:?}");
            let _ = Command::new("kill").arg("-KILL").arg(victim.to_string()).status();
            let saved = fs::read_dir(&results).unwrap().count();
            assert!(saved >= 1, "{signal}: what was measured is kept");
        }
    });
}

/// A training in the first step of its first epoch, which lasts longer than any host may be silent.
fn in_the_first_step(launcher: Launcher, folder: &Path) -> Child {
    let mut asked = NULL[..4].to_vec();
    asked.extend(["--steps", "3", "--compute-time", "200s"]);
    let run = launcher.two(folder, &asked).spawn().unwrap();
    let results = folder.join("stormlp-results");
    let begun = Instant::now();
    let patience = Duration::from_secs(60);
    while !results.is_dir() && begun.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(50));
    }
    // The threads that steps need are there.
    let second = second_process(run.id());
    while !threads(second).contains(&"pacer".to_string()) && begun.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(3));
    run
}

/// The names of a process's threads.
fn threads(process: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    let names = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")));
    names.map(|name| name.unwrap_or_default().trim().to_string()).collect()
}

#[test]
fn a_hanging_host_is_detected_in_the_first_step_too() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir().unwrap();
        let mut run = in_the_first_step(launcher, folder.path());
        let victim = second_process(run.id());
        signal("STOP", victim);
        let ended = end_of(&mut run);
        signal("KILL", victim);
        assert!(!ended.success(), "{ended:?}");
        let why = report(folder.path())["ending"]["fact"].clone();
        let why = why.as_str().unwrap_or_default();
        assert!(why.contains("(rank 1) did not respond"), "{why}");
    });
}

#[test]
fn a_host_interrupted_in_the_first_step_ends_all() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir().unwrap();
        let mut run = in_the_first_step(launcher, folder.path());
        signal("INT", second_process(run.id()));
        let ended = end_of(&mut run);
        assert!(!ended.success(), "{ended:?}");
        assert_eq!(report(folder.path())["ending"]["status"], "stopped");
    });
}
