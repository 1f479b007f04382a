//! `stormlp kvcache` on two hosts: each with separate users and folder, trials that begin together,
//! one report.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::gds::{alone, json, runs};
use crate::launcher::{Launcher, said};

/// Two short trials of few users of a small model.
const SMALL: [&str; 13] = [
    "kvcache",
    "mlperf",
    "tiny-1b",
    "--users",
    "2",
    "--duration",
    "1s",
    "--runs",
    "2",
    "--capacity",
    "2G",
    "--dir",
    "kv",
];

fn count(of: &Value, place: &str) -> u64 {
    of.pointer(place).and_then(Value::as_u64).unwrap_or_else(|| panic!("{place} of {of:#}"))
}

/// The numbers in the hosts of a trial, and their sum.
fn of_hosts(trial: &Value, place: &str) -> (Vec<u64>, u64) {
    let hosts = trial["hosts"].as_array().unwrap().iter();
    let each: Vec<u64> = hosts.map(|host| count(&host["result"], place)).collect();
    let sum = each.iter().sum();
    (each, sum)
}

fn below(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn two_hosts_measure_trials_together() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir_in(".").unwrap();
        let mut asked = SMALL.to_vec();
        asked.extend(["--no-cleanup", "--mlperf-output", "mlperf"]);
        let output = launcher.two(folder.path(), &asked).output().unwrap();
        let told = said(&output);
        assert_eq!(output.status.code(), Some(0), "{told}");
        let runs = runs(folder.path());
        assert_eq!(runs.len(), 1, "{runs:?}");
        let whole = json(&runs[0].join("report.json"));
        assert_eq!(count(&whole, "/group/size"), 2);
        let trials = whole["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 2);
        for trial in trials {
            let seeds = [0, 1].map(|rank| count(trial, &format!("/hosts/{rank}/seed")));
            assert_eq!(seeds, [42, 43], "as the original has them");
            for place in ["/read/bytes", "/read/late_bytes", "/written/objects", "/tokens"] {
                assert_eq!(of_hosts(trial, place).1, count(trial, place), "{place}");
            }
            // Percentiles are of all requests of both.
            let of_both = count(trial, "/times_ms/request/count");
            assert_eq!(of_hosts(trial, "/times_ms/request/count").1, of_both);
            assert!(of_hosts(trial, "/written/late_objects").0.len() == 2 && of_both > 0);
        }
        assert!(told.contains("2 processes on 1 host"), "{told}");
        for rank in ["kv/rank_0", "kv/rank_1"] {
            let kept = below(&folder.path().join(rank));
            assert!(kept.iter().any(|name| name.ends_with(".npy")), "{rank}: {kept:?}");
        }
        mlperf_has_both(&folder.path().join("mlperf/kv_cache/tiny-1b/run"), trials);
        let cleaned = alone(folder.path(), &["clean", "kv"]);
        assert!(cleaned.status.success(), "{}", said(&cleaned));
        assert_eq!(below(&folder.path().join("kv")), [] as [String; 0]);
    });
}

/// The files for MLPerf's tools have a folder for each rank, and sums over them.
fn mlperf_has_both(run: &Path, trials: &[Value]) {
    let run = run.join(&below(run)[0]);
    let summary = json(&run.join("summary.json"));
    assert_eq!((count(&summary, "/total_ranks"), count(&summary, "/npernode")), (2, 2));
    let option = &summary["options"]["custom"];
    assert_eq!(count(option, "/rank_count"), 2);
    let mut rates = 0.0;
    for (trial, nth) in trials.iter().zip(0..) {
        for rank in 0..2 {
            let folder = run.join(format!("option_custom/trial_{nth}/rank_{rank}"));
            let file = json(&folder.join(&below(&folder)[0]));
            assert_eq!(count(&file, "/seed"), 42 + rank);
            let requests = count(&file, "/requests_completed");
            for list in ["end_to_end_latencies", "storage_latencies", "prefill_latencies"] {
                assert_eq!(file[list].as_array().unwrap().len() as u64, requests, "{list}");
            }
            let stats = &file["summary"]["cache_stats"];
            rates += stats["tier_storage_read_bandwidth_gbps"].as_f64().unwrap();
        }
        assert_eq!(trial["hosts"].as_array().unwrap().len(), 2);
    }
    let told = option["aggregated_read_bandwidth_gbps"].as_f64().unwrap();
    assert!((told - rates / 2.0).abs() < 1e-9, "{told} {rates}");
}

#[test]
fn prompts_of_two_hosts_are_put_together() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir_in(".").unwrap();
        let asked = "kvcache serving tiny-1b --dir kv --duration 1s --chunk-tokens 64 --prefixes 4 \
                     --prefix-tokens 128 --concurrency 2 --tune writers=1 --local-storage";
        let asked: Vec<&str> = asked.split_whitespace().collect();
        let output = launcher.two(folder.path(), &asked).output().unwrap();
        let told = said(&output);
        assert_eq!(output.status.code(), Some(0), "{told}");
        assert!(told.contains("results do not describe shared storage"), "{told}");
        let whole = json(&runs(folder.path())[0].join("report.json"));
        let trial = &whole["trials"][0];
        for place in ["/requests/begun", "/prompts/loads/0/load_ms/count", "/prompts/loads/0/bytes"]
        {
            assert_eq!(of_hosts(trial, place).1, count(trial, place), "{place}");
        }
    });
}

#[test]
fn hosts_with_different_options_write_nothing() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir_in(".").unwrap();
        for more in [["--tune", "seed=7"], ["--capacity", "1G"], ["--chunk-tokens", "64"]] {
            let mut first = SMALL.to_vec();
            let same = first.iter().position(|word| *word == more[0]);
            let mut second = first.clone();
            match same {
                Some(place) => second[place + 1] = more[1],
                None => second.extend(more),
            }
            if more[0] == "--chunk-tokens" {
                for words in [&mut first, &mut second] {
                    words.drain(3..5);
                    words[1] = "serving";
                }
            }
            let output = launcher.each(folder.path(), [&first, &second]).output().unwrap();
            let told = said(&output);
            assert_eq!(output.status.code(), Some(3), "{told}");
            assert!(told.contains("(rank 1)") && told.contains("differ in"), "{told}");
            assert_eq!(below(folder.path()), [] as [String; 0]);
        }
    });
}

#[test]
fn sizes_are_for_one_process() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir().unwrap();
        let output = launcher.two(folder.path(), &["kvcache", "size"]).output().unwrap();
        let told = said(&output);
        assert!(told.contains("`stormlp kvcache size` is for one"), "{told}");
        assert_ne!(output.status.code(), Some(0));
    });
}
