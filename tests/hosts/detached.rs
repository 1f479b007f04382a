//! `stormlp checkpoint --start-at`: hosts without a launcher, each with its own checkpoints, and their
//! merged reports.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::checkpoint::{SMALL, folder};
use crate::gds::{alone, json, sum};
use crate::launcher::{Launcher, said};

/// So many bytes has a checkpoint of the small model.
const BYTES: u64 = 62_377_984;

/// The arguments of a host that saves to its folder: as [`SMALL`], with others in place of its own.
fn words<'w>(host: &'w str, more: &[&'w str]) -> Vec<&'w str> {
    let mut words = SMALL.to_vec();
    let place = words.iter().position(|word| *word == "ckpt").unwrap();
    words[place] = host;
    words.extend(more);
    words
}

/// The same of one that begins at a time, as part of the run `id`, its report in a folder beside.
fn host(folder: &Path, host: &str, at: u64, id: &str, more: &[&str]) -> Child {
    let (at, results) = (at.to_string(), format!("results-{host}-{id}"));
    let mut words = words(host, more);
    words.extend(["--start-at", &at, "--run-id", id, "--results-dir", &results]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_stormlp"));
    command.env("COLUMNS", "1000").env("STORMLP_DETAILS", "1");
    command.args(words).current_dir(folder);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// A time that a loaded machine is ready before.
pub(crate) fn soon() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() + 20
}

/// The report of the only run in `results`.
pub(crate) fn report(folder: &Path, results: &str) -> PathBuf {
    let mut runs = fs::read_dir(folder.join(results)).unwrap();
    runs.next().unwrap().unwrap().path().join("report.json")
}

fn merge(folder: &Path, places: &[&str], more: &[&str]) -> Output {
    alone(folder, &[&["report", "merge"], places, more].concat())
}

#[test]
fn checkpoints_of_hosts_without_a_launcher_are_merged() {
    let folder = folder();
    let path = folder.path();
    let at = soon();
    // The third one is of another run.
    let asked = [("h1", "night"), ("h2", "night"), ("h3", "day")];
    let started = asked.map(|(name, id)| host(path, name, at, id, &[]));
    for host in started {
        let output = host.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains("the measurement starts at"));
    }
    let own = json(&report(path, "results-h1-night"));
    assert_eq!(own["part"]["run_id"], "night");
    assert!(own["part"]["start_at"].is_string() && own["part"]["rank"].is_null());
    assert_eq!(own["hosts"], Value::Null, "it is one host's");
    assert!(own["saves"][0]["started_unix_seconds"].as_f64().unwrap() >= at as f64);

    let parts = ["results-h1-night", "results-h2-night"];
    let merged = merge(path, &parts, &["--format", "json", "--export", "whole.json"]);
    assert!(merged.status.success(), "{}", said(&merged));
    let merged: Value = serde_json::from_slice(&merged.stdout).unwrap();
    assert!(merged["group"].is_null() && merged["part"].is_null());
    for phase in ["saves", "restores"] {
        let all = merged[phase].as_array().unwrap();
        assert_eq!(all.len(), 2, "{phase}");
        for one in all {
            assert_eq!(one["bytes"], 2 * BYTES);
            assert_eq!(sum(&one["hosts"], "bytes"), 2 * BYTES);
            assert_eq!(one["ranks"].as_array().unwrap().len(), 16);
            assert_eq!(one["ranks"][15]["rank"], 15);
            let longest = one["hosts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|host| host["duration_seconds"].as_f64().unwrap())
                .fold(0.0, f64::max);
            assert_eq!(one["duration_seconds"]["max"].as_f64(), Some(longest));
            let share = one["at_once_share"].as_f64().unwrap();
            assert!((0.0..=1.0).contains(&share), "{share}");
        }
    }
    assert_eq!(sum(&merged["hosts"], "bytes"), 8 * BYTES);
    assert_eq!(sum(&merged["hosts"], "slowest"), 4);
    let warnings = merged["warnings"].to_string();
    for told in [
        "checkpoints of its own",
        "whose offsets were not measured",
        "measured each save and restore at the same time",
        "merged from 2 parts of the run `night`",
    ] {
        assert!(warnings.contains(told), "{told}: {warnings}");
    }
    everything_shows_it(path);
    what_does_not_belong_together_is_refused(path);
}

/// The merged report in `whole.json` is marked as merged in every format.
fn everything_shows_it(folder: &Path) {
    let headline = "on 2 detached hosts, each with checkpoints of its own";
    for (format, message) in [
        ("text", headline),
        ("markdown", headline),
        ("html", headline),
        ("csv", ",2,true,"),
        ("openmetrics", "hosts=\"2\",detached=\"true\""),
    ] {
        let output = alone(folder, &["report", "whole.json", "--format", format]);
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains(message), "{format}: {}", said(&output));
        assert!(!said(&output).contains("contradicts"), "{}", said(&output));
    }
    let part = report(folder, "results-h1-night");
    let output = alone(folder, &["compare", part.to_str().unwrap(), "whole.json"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let message = "hosts 2 with checkpoints of their own against 1";
    assert!(said(&output).contains(message), "{}", said(&output));
}

/// Parts of other runs, of other work, of another command and the same one twice.
fn what_does_not_belong_together_is_refused(folder: &Path) {
    let one = report(folder, "results-h1-night");
    let changed = |change: fn(&mut Value), name: &str| {
        let mut other = json(&report(folder, "results-h2-night"));
        change(&mut other);
        fs::write(folder.join(name), other.to_string()).unwrap();
    };
    changed(|other| other["plan"]["request"]["cold"] = true.into(), "cold.json");
    changed(|other| other["plan"]["content"]["seed"] = 9.into(), "seed.json");
    changed(|other| other["part"]["start_at"] = "2020-01-01T00:00:00Z".into(), "before.json");
    let gds = ["gds", "--path", "cpu", "--file-size", "1M", "--duration", "50ms", "--op", "read"];
    let gds = [&gds[..], &["--threads", "1", "--io-size", "64K", "--results-dir", "gds"]].concat();
    assert!(alone(folder, &gds).status.success());
    let mut matrix = json(&report(folder, "gds"));
    matrix["part"] = json(&report(folder, "results-h2-night"))["part"].clone();
    fs::write(folder.join("matrix.json"), matrix.to_string()).unwrap();
    let one = one.to_str().unwrap();
    for (other, told) in [
        ("results-h3-day", "they are parts of two runs"),
        ("before.json", "they are parts of two runs called night: "),
        ("cold.json", "the hosts differ in the setting `cold`: "),
        ("matrix.json", "ran `stormlp "),
        (one, "two of them are the same part"),
        ("gds", "is not part of a run"),
    ] {
        let output = merge(folder, &[one, other], &[]);
        assert_eq!(output.status.code(), Some(3), "{other}: {}", said(&output));
        assert!(said(&output).contains(told), "{other}: {}", said(&output));
    }
    let output = merge(folder, &[one, "seed.json"], &[]);
    assert!(output.status.success(), "{}", said(&output));
    let output = merge(folder, &[one], &[]);
    assert!(said(&output).contains("on 1 detached host"), "{}", said(&output));
}

#[test]
fn options_impossible_for_detached_hosts_are_refused() {
    let folder = folder();
    let detached = ["--start-at", "2036-01-01T00:00:00Z", "--run-id", "r"];
    for (more, code, message) in [
        (&["--closed"][..], 2, "--closed needs one checkpoint of all hosts"),
        (&["--mlperf-output", "m"], 2, "--mlperf-output needs one checkpoint"),
        (&["--find-knee"], 2, "--find-knee"),
        (&["--overlap"], 2, "--overlap"),
        (&["--clean"], 2, "--clean"),
        (&["--local-data"], 2, "--local-data has no effect on one host"),
    ] {
        let output = alone(folder.path(), &words("ckpt", &[&detached, more].concat()));
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains(message), "{}", said(&output));
    }
    for (asked, message) in [
        (&["--start-at", "2020-01-01T00:00:00Z", "--run-id", "r"][..], "has passed"),
        (&["--start-at", "soon", "--run-id", "r"], "invalid time"),
        (&["--start-at", "14:30"], "--run-id"),
        (&["--run-id", "r"], "--start-at"),
    ] {
        let output = alone(folder.path(), &words("ckpt", asked));
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(message), "{}", said(&output));
    }
    let rehearsal = ["submission", "rehearse", "checkpointing", "llama3-8b"];
    let output = alone(folder.path(), &[&rehearsal[..], &detached].concat());
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("cannot be used in a rehearsal"), "{}", said(&output));
    // Ten checkpoints of 0.9 TiB are cut, and each host would cut them otherwise.
    let large = ["checkpoint", "llama3-70b", "--dir", "ckpt"];
    let output = alone(folder.path(), &[&large[..], &detached].concat());
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("the same --scale FACTOR"), "{}", said(&output));
    assert!(!folder.path().join("ckpt").exists(), "nothing was written");
    for launcher in Launcher::found() {
        let output = launcher.two(folder.path(), &words("ckpt", &detached)).output().unwrap();
        assert!(!output.status.success());
        let message = "--start-at has no effect under a launcher";
        assert!(said(&output).contains(message), "{}", said(&output));
    }
}

#[test]
fn a_host_that_waits_keeps_others_out_of_its_folder_and_can_be_stopped() {
    let folder = folder();
    let first = host(folder.path(), "ckpt", soon() + 3600, "r", &[]);
    let begun = Instant::now();
    let checkpoint = folder.path().join("ckpt/.global_epoch1_step1.partial");
    while !checkpoint.is_dir() {
        assert!(begun.elapsed() < Duration::from_secs(120), "it is not ready");
        std::thread::sleep(Duration::from_millis(50));
    }
    let second = host(folder.path(), "ckpt", soon() + 3600, "s", &[]).wait_with_output().unwrap();
    assert_eq!(second.status.code(), Some(4), "{}", said(&second));
    assert!(said(&second).contains("is in use by another"), "{}", said(&second));
    assert!(said(&second).contains("a --dir of its own"), "{}", said(&second));
    assert!(!folder.path().join("results-ckpt-s").exists());
    let id = first.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let first = first.wait_with_output().unwrap();
    assert_eq!(first.status.code(), Some(130), "{}", said(&first));
    let kept = json(&report(folder.path(), "results-ckpt-r"));
    assert_eq!(kept["ending"]["status"], "stopped");
    assert_eq!(kept["saves"], serde_json::json!([]));
}
