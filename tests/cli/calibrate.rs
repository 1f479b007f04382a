//! `stormlp calibrate`, and what it saves as the client of `train` and `plan`.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::train::{folder, report, train};
use crate::{stderr, stdout, stormlp};

/// Saves the cost of npz files: half of a step of 10 ms that computes, and of sleeps 2 ms too long.
fn save(place: &Path) {
    let cost = json!({
        "format": "npz",
        "short_step": {"seconds": 0.005, "oversleep_seconds": 0.002},
        "step": {"seconds": 0.005, "oversleep_seconds": 0.002},
        "step_seconds_per_sample": 0.001,
        "workers": {"seconds_per_sample": 0.0, "seconds_per_gib": 0.25},
        "own": {"seconds_per_sample": 0.0, "seconds_per_gib": 0.25},
    });
    let all = json!({
        "calibration_version": 2, "started_at": "2026-11-21T10:15:02Z", "hostname": "node7",
        "cpu_model": "a CPU", "cpus": 2, "load_before": 0.1, "client": "DLIO", "formats": [cost],
        "checkpoint": null,
    });
    fs::write(place, all.to_string()).unwrap();
}

const WORDS: &str = "unet3d --storage null --steps 20 --epochs 1 --batch-size 5 --compute-time 10ms \
    --params metric.au=0.001";

#[test]
fn a_saved_calibration_is_the_clients_cost_in_train_and_plan() {
    let folder = folder();
    let file = folder.path().join("dlio.json");
    save(&file);
    let report = report(folder.path(), &format!("{WORDS} --client dlio.json"));
    let client = &report["plan"]["client"];
    assert_eq!(client["oversleep_seconds"], 0.002);
    assert_eq!(client["estimated"], false);
    // What the loops of this program take for a GiB is not added again.
    assert_eq!(client["cpu_seconds_per_gib"], 0.0);
    assert_eq!(report["plan"]["request"]["client"], "dlio.json");
    // 12 ms count as compute out of 22 ms; a busy host adds to the latter.
    let au = report["au_percent"]["profile"].as_f64().unwrap();
    assert!(au > 0.0 && au < 55.0, "{au}");
    let nominal = report["au_percent"]["nominal"].as_f64().unwrap();
    assert!((nominal / au - 10.0 / 12.0).abs() < 0.01, "{nominal} of {au}");

    let mut plan = stormlp();
    let words = "unet3d --brief --host-memory 1GiB --epochs 1 --steps 60 --batch-size 5 --compute-time \
                 10ms -n 1 --storage read=900GB/s,iops=100M --format json --client";
    plan.arg("plan").args(words.split_whitespace()).arg(&file);
    let answer: serde_json::Value = serde_json::from_str(&stdout(plan.assert().success())).unwrap();
    let predicted = answer["au_percent"].as_f64().unwrap();
    assert!(predicted < 55.0, "{predicted}");
}

#[test]
fn a_file_that_is_no_calibration_is_refused_with_the_command_that_makes_one() {
    let folder = folder();
    let run = |file: &str| train(folder.path(), &format!("{WORDS} --client {file}")).assert();
    let missing = stderr(run("missing.json").code(4));
    assert!(missing.contains("stormlp calibrate"), "{missing}");
    fs::write(folder.path().join("other.json"), "{}").unwrap();
    let other = stderr(run("other.json").code(3));
    assert!(other.contains("is not a calibration"), "{other}");
    save(&folder.path().join("npz.json"));
    let words = "cosmoflow --storage null --steps 4 --client npz.json";
    let format = stderr(train(folder.path(), words).assert().code(3));
    assert!(format.contains("calibrate --formats tfrecord"), "{format}");
}

#[test]
fn without_a_dlio_nothing_is_calibrated_or_left_behind() {
    let folder = folder();
    let run = |words: &str| {
        let mut command = stormlp();
        command.current_dir(folder.path()).arg("calibrate").args(words.split_whitespace());
        command.assert()
    };
    let said = stderr(run("--python /bin/false").code(4));
    assert!(said.contains("--dlio") && said.contains("--python"), "{said}");
    assert!(stderr(run("--formats parquet").code(2)).contains("is not measured"));
    assert!(stderr(run("--save missing/dlio.json").code(4)).contains("--save"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
