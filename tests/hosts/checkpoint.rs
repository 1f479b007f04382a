//! `stormlp checkpoint` on two hosts: ranks dealt to them, files that the other one wrote restored.

use std::fs;

use crate::gds::{json, parts, runs, sum};
use crate::launcher::{Launcher, said};

/// A model of 60 MB on 8 ranks.
const TINY: &str = include_str!("../html/tiny.yaml");

/// It is saved and restored twice.
const SMALL: [&str; 14] = [
    "checkpoint",
    "tiny.yaml",
    "--ranks",
    "8",
    "--scale",
    "1",
    "--dir",
    "ckpt",
    "--writes",
    "2",
    "--reads",
    "2",
    "--pause",
    "0",
];

/// A folder with the small model's file in it.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.yaml"), TINY).unwrap();
    folder
}

#[test]
fn two_hosts_save_and_restore_one_checkpoint() {
    for launcher in Launcher::found() {
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
        assert!(said.contains("4 further"), "{said}");
        for part in parts(&runs[0]) {
            assert_eq!(json(&part)["saves"].as_array().unwrap().len(), 2);
        }
    }
}

#[test]
fn a_checkpoint_of_before_is_gone_before_anybody_writes() {
    for launcher in Launcher::found() {
        let folder = folder();
        for _ in 0..2 {
            let output = launcher.two(folder.path(), &SMALL).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        }
    }
}

#[test]
fn hosts_that_would_save_elsewhere_save_nothing() {
    for launcher in Launcher::found() {
        let folder = folder();
        let more = ["--fsync", "none"];
        let output = launcher.two_of(folder.path(), &SMALL, &more).output();
        let output = output.unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert_eq!(said.matches("differ in the fsync").count(), 1, "{said}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
