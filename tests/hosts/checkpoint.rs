//! `stormlp checkpoint` on two hosts: ranks distributed over them, each restoring the other's files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::gds::{alone, json, runs, sum};
use crate::launcher::{Launcher, said};

/// A model of 60 MB on 8 ranks.
const TINY: &str = include_str!("../html/tiny.yaml");

/// It is saved and restored twice.
pub(crate) const SMALL: [&str; 14] = [
    "checkpoint",
    "tiny.yaml",
    "--ranks",
    "8",
    "--scale",
    "1",
    "--dir",
    "ckpt",
    "--saves",
    "2",
    "--restores",
    "2",
    "--pause",
    "0",
];

/// A folder with the small model's file in it.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.yaml"), TINY).unwrap();
    folder
}

#[test]
fn two_hosts_save_and_restore_one_checkpoint() {
    Launcher::under_each(|launcher| {
        let folder = folder();
        let mut asked = SMALL.to_vec();
        asked.push("--verify");
        let output = launcher.two(folder.path(), &asked).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let runs = runs(folder.path());
        assert_eq!(runs.len(), 1, "{runs:?}");
        let whole = json(&runs[0].join("report.json"));
        let ranks = whole["plan"]["ranks"].as_array().unwrap().len();
        assert_eq!(whole["plan"]["rank_shift"], ranks.div_ceil(2));
        assert_eq!(whole["group"]["size"], 2);
        assert_eq!(sum(&whole["hosts"], "slowest"), 4);
        let mut moved = 0;
        for result in ["saves", "restores"] {
            for one in whole[result].as_array().unwrap() {
                assert_eq!(one["ranks"].as_array().unwrap().len(), ranks);
                assert_eq!(one["bytes"], whole["plan"]["total_bytes"]);
                moved += one["bytes"].as_u64().unwrap();
            }
        }
        assert_eq!(sum(&whole["hosts"], "bytes"), moved);
        assert_eq!(whole["verified_bytes"].as_u64().unwrap(), moved / 2);
        assert!(said.contains("4 positions later"), "{said}");
        let shown = |format: &str| {
            let asked = ["report", "show", runs[0].to_str().unwrap(), "--format", format];
            String::from_utf8(alone(folder.path(), &asked).stdout).unwrap()
        };
        let rows = shown("csv");
        // Behind it are seven figures of objects, and the tags.
        let hosts = rows.lines().map(|row| row.rsplit(',').nth(8).unwrap());
        assert_eq!(hosts.collect::<Vec<_>>(), ["hosts", "2", "2", "2", "2"]);
        let metrics = shown("openmetrics");
        // Its beginning, and whether data was wrong, are of the run.
        assert_eq!(metrics.matches("hosts=\"2\"").count(), metrics.matches("{").count() - 2);
    });
}

#[test]
fn mlperfs_files_have_every_host_and_rank() {
    Launcher::under_each(|launcher| {
        let folder = folder();
        let mut asked = SMALL.to_vec();
        asked.extend(["--edition", "3.0", "--mlperf-output", "mlperf"]);
        let output = launcher.two(folder.path(), &asked).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let whole = json(&runs(folder.path())[0].join("report.json"));
        let machines = whole["group"]["machines"].as_array().unwrap();
        // Two processes on one machine are one host, as they are to the official tool.
        assert_eq!(machines.len(), 1);
        assert_eq!(machines[0]["ranks"], serde_json::json!([0, 1]));
        let run = folder_with(&folder.path().join("mlperf"), "summary.json").unwrap();
        let summary = json(&run.join("summary.json"));
        assert_eq!(summary["num_hosts"], 1);
        assert_eq!(summary["num_accelerators"], 8);
        for list in ["host_memory_GB", "host_cpu_count", "potential_caching"] {
            assert_eq!(summary[list].as_array().unwrap().len(), 1, "{list}");
        }
        for rank in 0..8 {
            let stats = json(&run.join(format!("{rank}_per_epoch_stats.json")));
            assert!(stats["1"]["save_ckpt2"]["duration"].as_f64().unwrap() > 0.0);
            let output = json(&run.join(format!("{rank}_output.json")));
            assert_eq!(output["hostname"], summary["hostname"]);
        }
    });
}

/// The folder below `folder` that has a file of this name.
fn folder_with(folder: &Path, name: &str) -> Option<PathBuf> {
    if folder.join(name).is_file() {
        return Some(folder.to_path_buf());
    }
    let below = fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path());
    below.into_iter().find_map(|path| folder_with(&path, name))
}

#[test]
fn hosts_with_their_own_folders_restore_what_they_saved() {
    Launcher::under_each(|launcher| {
        let folder = folder();
        let mut asked = SMALL.to_vec();
        asked.extend(["--local-storage", "--verify"]);
        let output = launcher.two(folder.path(), &asked).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("results do not describe shared storage"), "{said}");
        let whole = json(&runs(folder.path())[0].join("report.json"));
        assert_eq!(whole["plan"]["rank_shift"], 0);
        assert_eq!(whole["plan"]["request"]["local_storage"], true);
        let moved = sum(&whole["hosts"], "bytes");
        assert_eq!(whole["verified_bytes"].as_u64(), Some(moved / 2));
    });
}

#[test]
fn requests_for_files_of_other_hosts_are_refused() {
    Launcher::under_each(|launcher| {
        let folder = folder();
        let mut asked = SMALL.to_vec();
        asked.retain(|word| *word != "--saves");
        let at = asked.iter().position(|word| *word == "2").unwrap();
        asked.remove(at);
        asked.extend(["--local-storage", "--saves", "0"]);
        let output = launcher.two(folder.path(), &asked).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("has only its ranks' files"), "{said}");
        assert!(!folder.path().join("ckpt").exists());
    });
}

#[test]
fn an_earlier_run_is_removed_once_the_hosts_have_saved() {
    Launcher::under_each(|launcher| {
        let folder = folder();
        for _ in 0..2 {
            let output = launcher.two(folder.path(), &SMALL).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        }
        let directory = folder.path().join("ckpt");
        assert!(directory.join("run2").exists() && !directory.join("run1").exists());
    });
}

#[test]
fn single_host_options_are_refused() {
    let cases = [
        ("--queue-depth", "2"),
        ("--engine", "psync"),
        ("--keep", "2"),
        ("--tune", "numa=off"),
        ("--tune", "seed=5"),
    ];
    Launcher::under_each(|launcher| {
        for (option, value) in cases {
            let folder = folder();
            let mut command = launcher.two_of(folder.path(), &SMALL, &[option, value]);
            let output = command.output().unwrap();
            let said = said(&output);
            assert_eq!(output.status.code(), Some(3), "{said}");
            let named = option.trim_start_matches("--").replace('-', " ");
            let names = |line: &&str| line.replace('-', " ").contains(&named);
            let line = said.lines().filter(|line| line.contains("(rank 1)")).find(names);
            assert!(line.is_some(), "{option}: {said}");
        }
    });
}

#[test]
fn hosts_with_different_options_save_nothing() {
    Launcher::under_each(|launcher| {
        let folder = folder();
        let more = ["--fsync", "none"];
        let output = launcher.two_of(folder.path(), &SMALL, &more).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert_eq!(said.matches("differ in the option --fsync").count(), 1, "{said}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    });
}
