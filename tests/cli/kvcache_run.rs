//! `stormlp kvcache mlperf`: runs of the workload on real files.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::{stderr, stdout, stormlp};

/// A short run with small objects, in `folder`.
fn words(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let words = "kvcache mlperf tiny-1b --users 2 --duration 1s --quiet --tune telemetry=off --dir";
    words.split(' ').map(str::to_string).chain([folder]).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn objects(folder: &Path) -> Vec<String> {
    names(folder).into_iter().filter(|name| name.ends_with(".npy")).collect()
}

#[test]
fn a_run_is_reported_and_leaves_no_objects() {
    let dir = TempDir::new_in(".").unwrap();
    let folder = dir.path().join("objects");
    let mut ran = stormlp();
    let ran = ran.current_dir(&dir).args(words(&folder)).args(["--format", "json"]).assert();
    let json: Value = serde_json::from_str(&stdout(ran.success())).unwrap();
    assert_eq!(json["kind"], "kvcache");
    assert_eq!(json["ending"]["status"], "complete");
    let trial = &json["trials"][0];
    // Requests are finished, be it after the window.
    let sum = |of: &Value, what: [&str; 2]| what.map(|key| of[key].as_u64().unwrap());
    assert!(sum(&trial["written"], ["objects", "late_objects"]).iter().sum::<u64>() > 0);
    assert!(sum(&trial["read"], ["bytes", "late_bytes"]).iter().sum::<u64>() > 0, "{trial:#}");
    let (window, total) = (trial["window_seconds"].as_f64(), trial["total_seconds"].as_f64());
    assert!(window == Some(1.0) && total >= window, "{trial:#}");
    let rate = trial["read"]["bytes"].as_f64().unwrap() / (1u64 << 30) as f64;
    assert!((trial["read_gib_per_second"].as_f64().unwrap() - rate).abs() < 1e-6);
    assert!(json["histograms"].as_array().unwrap().len() >= 6);
    assert_eq!(objects(&folder), Vec::<String>::new());
}

#[test]
fn a_report_shows_in_every_format() {
    let dir = TempDir::new_in(".").unwrap();
    let exports = ["a.csv", "a.md", "a.html", "a.prom", "a.svg", "a.txt", "a.json"];
    let mut ran = stormlp();
    ran.env("STORMLP_DETAILS", "0").env("COLUMNS", "80");
    ran.current_dir(&dir).args(words(Path::new("objects"))).args(["--runs", "2"]);
    for name in exports {
        ran.args(["--output", name]);
    }
    let text = stdout(ran.assert().success());
    assert!(text.lines().count() <= 24, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let last = text.trim_end().rsplit("\n\n").next().unwrap();
    assert!(last.starts_with("kvcache mlperf tiny-1b: ") && last.contains(" GiB/s"), "{text}");
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let csv = read("a.csv");
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(csv.starts_with("format_version,started_at,hostname,command,workload,seed,path"));
    assert!(read("a.html").contains("Read rate of each run"));
    assert!(read("a.prom").contains("stormlp_kvcache_read_bytes_per_second{"));
    let listed = stdout(stormlp().current_dir(&dir).args(["report"]).assert().success());
    assert!(listed.contains("kvcache"), "{listed}");
    let saved = dir.path().join("a.json");
    let saved = saved.display().to_string();
    let compared = ["compare", &saved, &saved];
    let compared = stdout(stormlp().current_dir(&dir).args(compared).assert().success());
    assert!(compared.contains("tiny-1b read"), "{compared}");
}

#[test]
fn a_plan_is_printed_and_nothing_is_made() {
    let dir = TempDir::new_in(".").unwrap();
    let plan =
        ["kvcache", "mlperf", "--closed", "--dry-run", "--dir", "objects", "--format", "json"];
    let results = ["--results-dir", "/dev/shm"];
    let ran = stormlp().current_dir(&dir).args(plan).args(results).assert();
    let json: Value = serde_json::from_slice(&ran.get_output().stdout).unwrap();
    assert_eq!(json["passes"].as_array().unwrap().len(), 3);
    assert_eq!(
        (json["trials"].as_u64(), json["duration_seconds"].as_f64()),
        (Some(3), Some(300.0))
    );
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[test]
fn wrong_requests_are_refused_with_what_to_do() {
    let dir = TempDir::new_in(".").unwrap();
    let refused = |words: &str, code: i32, says: &str| {
        let words = words.split(' ');
        let ran = stormlp().current_dir(&dir).arg("kvcache").args(words).assert().code(code);
        let text = stderr(ran);
        assert!(text.contains(says), "{text}");
    };
    refused("mlperf llama3-8b", 3, "use `llama3.1-8b`");
    refused("mlperf tiny-1b --users 0", 2, "from 1 to 100000");
    refused("mlperf tiny-1b --duration 0", 2, "use 100ms to 168h");
    refused("mlperf tiny-1b --io-size 5000", 2, "not a multiple of 4K");
    refused("mlperf --mlperf-option 4", 2, "--mlperf-option");
    refused("mlperf --closed --users 3", 2, "--closed");
    refused("mlperf --closed --capacity 10G", 2, "--capacity");
    refused("mlperf tiny-1b --capacity 1M", 4, "the largest object of tiny-1b needs");
    refused("mlperf tiny-1b --capacity 1000T", 4, "use a smaller --capacity");
    refused("mlperf tiny-1b --dir /etc/hosts", 4, "/etc/hosts is not a folder");
    refused("mlperf --closed --tune seed=7", 2, "--tune seed has no effect with --closed");
    refused("size --users 3", 2, "--users");
    refused("tiny-1b", 2, "`stormlp kvcache serving tiny-1b`");
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[test]
fn a_folder_of_somebody_else_is_refused_and_left_alone() {
    let dir = TempDir::new_in(".").unwrap();
    fs::create_dir(dir.path().join("photos")).unwrap();
    fs::write(dir.path().join("photos/cat.npy"), "meow").unwrap();
    let ran = stormlp().current_dir(&dir).args(words(Path::new("photos"))).assert().code(4);
    assert!(stderr(ran).contains("photos contains cat.npy, which stormlp did not make"));
    assert_eq!(names(&dir.path().join("photos")), ["cat.npy"]);
    stormlp().current_dir(&dir).args(["clean", "photos"]).assert().code(4);
}

#[test]
fn objects_that_stay_are_removed_by_clean_and_nothing_else_is() {
    let dir = TempDir::new_in(".").unwrap();
    let folder = dir.path().join("objects");
    stormlp().current_dir(&dir).args(words(&folder)).arg("--no-cleanup").assert().success();
    let kept = objects(&folder);
    assert!(!kept.is_empty());
    // A file in the place of an object, with its name.
    fs::write(folder.join("user_0000_req_000000.npy"), vec![7; 5000]).unwrap();
    fs::write(folder.join("cat.npy"), "meow").unwrap();
    // Empty, and so without a beginning.
    fs::write(folder.join("dog.npy"), "").unwrap();
    let dry = ["clean", "objects", "--dry-run"];
    let text = stdout(stormlp().current_dir(&dir).args(dry).assert().success());
    assert!(text.contains(&format!("would remove {} file", kept.len())), "{text}");
    let ran = stormlp().current_dir(&dir).args(["clean", "objects"]).assert().success();
    let text = stderr(ran);
    let says = "user_0000_req_000000.npy with the name of an object but other content, which stormlp \
                did not create";
    assert!(text.contains(says), "{text}");
    // A name that no object has needs no reason.
    assert!(text.contains("cat.npy, which stormlp did not create"), "{text}");
    assert!(folder.join("dog.npy").exists(), "{text}");
    fs::remove_file(folder.join("cat.npy")).unwrap();
    fs::remove_file(folder.join("dog.npy")).unwrap();
    assert_eq!(objects(&folder), ["user_0000_req_000000.npy"]);
    let ran = stormlp().current_dir(&dir).args(words(&folder)).assert().code(4);
    assert!(stderr(ran).contains("use another --dir, or move it away"));
    fs::remove_file(folder.join("user_0000_req_000000.npy")).unwrap();
    stormlp().current_dir(&dir).args(["clean", "objects"]).assert().success();
    assert!(!folder.exists());
}

#[test]
fn a_killed_run_leaves_nothing_that_the_next_one_reads() {
    let dir = TempDir::new_in(".").unwrap();
    let folder = dir.path().join("objects");
    let kill = ["--inject-fault", "nth=12,call=write,errno=KILL"];
    stormlp().current_dir(&dir).args(words(&folder)).args(kill).assert().failure();
    assert!(names(&folder).contains(&".stormlp-kvcache.json".to_string()));
    stormlp().current_dir(&dir).args(words(&folder)).assert().success();
    assert_eq!(objects(&folder), Vec::<String>::new());
}

#[test]
fn failed_storage_fails_the_run() {
    let dir = TempDir::new_in(".").unwrap();
    for (fault, says) in [
        ("read:3:EIO", "Input/output error"),
        ("write:3:EIO", "Input/output error"),
        ("write:3:ENOSPC", "no space left while writing"),
        ("sync:3:EIO", "data loss: fsync of"),
    ] {
        let mut ran = stormlp();
        ran.current_dir(&dir).args(words(Path::new("objects")));
        let ran = ran.args(["--inject-fault", fault, "--format", "json"]).assert().code(5);
        let text = String::from_utf8(ran.get_output().stderr.clone()).unwrap();
        assert!(text.contains(says), "{fault}: {text}");
        let json: Value = serde_json::from_slice(&ran.get_output().stdout).unwrap();
        assert_eq!(json["ending"]["status"], "failed");
        assert_eq!(objects(&dir.path().join("objects")), Vec::<String>::new(), "{fault}");
    }
}

#[test]
fn the_files_of_mlperfs_client_are_written_beside_the_report() {
    let dir = TempDir::new_in(".").unwrap();
    let mut ran = stormlp();
    ran.current_dir(&dir).args(words(Path::new("objects"))).args(["--mlperf-output", "official"]);
    ran.args(["--format", "json"]);
    let report: Value = serde_json::from_str(&stdout(ran.assert().success())).unwrap();
    let runs = dir.path().join("official/kv_cache/tiny-1b/run");
    let [run] = names(&runs).try_into().unwrap();
    let run = runs.join(&run);
    let read = |path: &Path| -> Value {
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let summary = read(&run.join("summary.json"));
    let rank = run.join("option_custom/trial_0/rank_0");
    let [file] = names(&rank).try_into().unwrap();
    let stats = read(&rank.join(file))["summary"]["cache_stats"].clone();
    let trial = &report["trials"][0];
    let bytes = |key: &str| trial["read"][key].as_u64().unwrap();
    assert_eq!(stats["total_read_bytes"], bytes("bytes") + bytes("late_bytes"));
    let option = &summary["options"]["custom"];
    let rate = option["aggregated_read_bandwidth_gbps"].as_f64().unwrap();
    let of_rank = stats["tier_storage_read_bandwidth_gbps"].as_f64().unwrap();
    assert!((rate - of_rank).abs() < 1e-9 && summary["partial_failure"] == false, "{summary:#}");
    let both = ["kvcache", "mlperf", "--dry-run", "--mlperf-output", "official"];
    stormlp().current_dir(&dir).args(both).assert().code(2);
    let serving = ["kvcache", "serving", "--mlperf-output", "official"];
    let refused = stderr(stormlp().current_dir(&dir).args(serving).assert().code(2));
    assert!(refused.contains("--mlperf-output is an option of"), "{refused}");
}

#[test]
fn a_run_that_measured_nothing_exports_no_figure() {
    let dir = TempDir::new_in(".").unwrap();
    let mut ran = stormlp();
    // All objects stay in memory.
    ran.current_dir(&dir).args(words(Path::new("objects"))).args(["--tune", "cpu-cache=40G"]);
    ran.args(["--output", "m.csv", "--output", "m.prom", "--mlperf-output", "official"]);
    let text = stderr(ran.assert().code(3));
    assert!(text.contains("no result"), "{text}");
    assert!(text.contains("the files of MLPerf's client are not written"), "{text}");
    assert_eq!(names(&dir.path().join("official")), Vec::<String>::new());
    let csv = fs::read_to_string(dir.path().join("m.csv")).unwrap();
    let [head, row] = csv.lines().collect::<Vec<_>>().try_into().unwrap();
    let place = |name: &str| head.split(',').position(|column| column == name).unwrap();
    // No field before these has a comma.
    let fields: Vec<&str> = row.split(',').collect();
    assert_eq!((fields[place("read_gib_per_second")], fields[place("read_bytes")]), ("", "0"));
    let prom = fs::read_to_string(dir.path().join("m.prom")).unwrap();
    assert!(!prom.contains("bytes_per_second") && prom.contains("no result"), "{prom}");
    let listed = stdout(stormlp().current_dir(&dir).args(["report"]).assert().success());
    assert!(listed.contains("no result") && !listed.contains("complete"), "{listed}");
}

#[test]
fn the_rules_of_kv_caches_are_checked_on_the_files_of_a_run() {
    let dir = TempDir::new_in(".").unwrap();
    let system = dir.path().join("tree/closed/Org/results/system");
    fs::create_dir_all(&system).unwrap();
    let system = system.display().to_string();
    let mut ran = stormlp();
    ran.current_dir(&dir).args(words(Path::new("objects"))).args(["--runs", "3"]);
    ran.args(["--mlperf-output", &system]).assert().success();
    let verdicts = || -> Vec<(String, String)> {
        let checked = stormlp()
            .current_dir(&dir)
            .args(["submission", "check", "tree", "--format", "json"])
            .output();
        let found: Value = serde_json::from_slice(&checked.unwrap().stdout).unwrap();
        let rules = found["rules"].as_array().unwrap().iter();
        let of = |rule: &Value, key: &str| rule[key].as_str().unwrap().to_string();
        rules.map(|rule| (of(rule, "id"), of(rule, "result"))).collect()
    };
    let has = |id: &str, result: &str| verdicts().contains(&(id.to_string(), result.to_string()));
    assert!(has("6.3.2.1", "passed") && has("6.3.4.1", "passed"), "{:?}", verdicts());
    let runs = Path::new(&system).join("kv_cache/tiny-1b/run");
    let [run] = names(&runs).try_into().unwrap();
    let rank = runs.join(run).join("option_custom/trial_2/rank_0");
    let [name] = names(&rank).try_into().unwrap();
    let file = rank.join(name);
    let mut result: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    result["summary"]["cache_stats"]["tier_storage_read_bandwidth_gbps"] = 1e6.into();
    fs::write(&file, result.to_string()).unwrap();
    assert!(has("6.3.4.1", "failed"), "{:?}", verdicts());
    fs::remove_file(&file).unwrap();
    assert!(has("6.3.3.3", "warned"), "{:?}", verdicts());
}
