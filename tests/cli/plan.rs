//! `stormlp plan`: what some storage would feed, foretold.

use serde_json::Value;

use crate::{stderr, stdout, stormlp};

/// A run that is short to simulate.
const SHORT: &str = "--host-memory 1GiB --epochs 1 --steps 60";

fn plan(words: &str) -> assert_cmd::assert::Assert {
    let mut command = stormlp();
    command.arg("plan").args(words.split_whitespace());
    command.assert()
}

fn json(words: &str) -> Value {
    let printed = stdout(plan(&format!("{words} {SHORT} --format json")).success());
    serde_json::from_str(&printed).unwrap()
}

#[test]
fn an_answer_has_the_keys_that_scripts_rely_on() {
    let answer = json("unet3d --accelerator h100 --storage read=7GB/s,write=3GB/s --mtbf 6h");
    assert_eq!(answer["workload"], "unet3d");
    assert_eq!(answer["accelerator"], "h100");
    assert_eq!(answer["measured"], false);
    // 7 GB/s are the demand of 2.2 of them.
    assert_eq!(answer["largest_accelerators"], 2);
    assert_eq!(answer["accelerators"], 2);
    assert_eq!(answer["limited_by"], "storage");
    assert!(answer["au_percent"].as_f64().unwrap() > 95.0);
    for key in ["samples_per_second", "mib_per_second", "run_seconds"] {
        assert!(answer[key].as_f64().unwrap() > 0.0, "{key}");
    }
    assert!(answer["assumptions"].as_array().unwrap().len() > 5);
    let checkpoint = &answer["checkpoint"];
    let young = checkpoint["optimum"]["young_interval_seconds"]
        .as_f64()
        .unwrap();
    let save = checkpoint["save_seconds"].as_f64().unwrap();
    assert!((young - (2.0 * save * 6.0 * 3600.0).sqrt()).abs() < 1e-6);
}

#[test]
fn what_is_asked_about_is_told_with_what_it_needs() {
    let words = "unet3d -n 7 --storage solidigm-d5-p5336 --params metric.au=0.9";
    let answer = json(words);
    assert_eq!(answer["accelerators"], 7);
    assert_eq!(answer["meets_threshold"], false);
    assert_eq!(answer["largest_accelerators"], 2);
    // 20 GB/s for 90 % of their demand: three of them.
    assert_eq!(answer["needed_devices"], 3);
    assert_eq!(json(words), answer, "the same answer to the bit");
}

#[test]
fn a_limit_of_the_hosts_makes_a_lower_bound() {
    let page = stdout(
        plan(&format!(
            "unet3d --storage read=100GB/s --hosts 1 --accelerators-per-host 2 {SHORT}"
        ))
        .success(),
    );
    assert!(page.contains("(foretold, not measured)"), "{page}");
    assert!(page.contains("2 is a lower bound"), "{page}");
}

#[test]
fn storage_that_feeds_not_even_one_is_said_with_its_au() {
    let page = stdout(plan(&format!("unet3d --storage read=550MB/s {SHORT}")).success());
    let first = page.lines().next().unwrap();
    assert!(first.contains("unet3d on 1 h100: AU 1"), "{first}");
    assert!(first.contains("not even 1 reaches 90 %"), "{first}");
}

#[test]
fn what_makes_no_plan_is_refused_with_its_place() {
    for (words, code, told) in [
        (
            "unet3d --storage read=0",
            3,
            "character 1: read=0: it must be above 0",
        ),
        (
            "unet3d --storage read=1GB/s,iops=10M",
            3,
            "contradict each other",
        ),
        (
            "unet3d --storage read=1GB/s,latency=-1us",
            3,
            "latency=-1us",
        ),
        ("unet3d --storage pm9a3", 3, "did you mean `samsung-pm9a3`?"),
        (
            "unet3d --storage missing/report.json",
            4,
            "missing/report.json",
        ),
        ("unet --storage read=1GB/s", 3, "did you mean `unet3d`?"),
        ("unet3d", 2, "--storage"),
        ("unet3d --storage read=1GB/s --path null", 2, "--path null"),
        (
            "resnet50 --storage read=1GB/s --mtbf 3h",
            2,
            "--mtbf has no effect",
        ),
        (
            "unet3d --storage read=1GB/s --checkpoint llama9",
            3,
            "neither a size nor a model",
        ),
    ] {
        let said = stderr(plan(words).code(code));
        assert!(said.contains(told), "{words}: {said}");
    }
}

#[test]
fn the_report_of_another_command_is_no_storage() {
    let place = tempfile::tempdir().unwrap();
    let mut command = stormlp();
    command.current_dir(place.path());
    command.args(
        "train unet3d --storage null --epochs 1 --steps 3 --compute-time 1ms --quiet".split(' '),
    );
    let _ = command.assert();
    let reports = std::fs::read_dir(place.path().join("stormlp-results")).unwrap();
    let report = reports.last().unwrap().unwrap().path().join("report.json");
    let said = stderr(plan(&format!("unet3d --storage {}", report.display())).code(3));
    assert!(said.contains("is the report of `stormlp train`"), "{said}");
}

#[test]
fn drives_that_have_a_name_are_listed_with_their_source() {
    let listed = stdout(plan("--list-storage").success());
    assert!(listed.contains("solidigm-d7-ps1010"), "{listed}");
    assert!(listed.contains("read=14.5GB/s"), "{listed}");
}
