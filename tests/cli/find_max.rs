//! `stormlp train --find-max` on tiny datasets: answers, output and reports. Storage is throttled
//! by a factor that no host makes up for, so that answers hold on any machine.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::train::{folder, train};
use crate::{stderr, stdout};

/// One accelerator asks for 0.8 MB/s: two samples of 20 kB every 50 ms.
const SMALL: &str = "unet3d --find-max --files 200 --compute-time 50ms --epochs 1 \
    --params reader.batch_size=2 --params reader.read_threads=1 --params reader.prefetch_size=1 --params dataset.record_length_bytes=20000 \
    --params dataset.record_length_bytes_stdev=0 --params workflow.checkpoint=False";

/// At most seven accelerators get a fifth of their demand.
const SEVEN: &str = "--params metric.au=0.2 --throttle read=1100K";

#[test]
fn the_answer_is_between_meeting_and_missing_counts() {
    let folder = folder();
    let words = format!("{SMALL} {SEVEN} --format json");
    let run = train(folder.path(), &words).assert().success();
    let said = String::from_utf8(run.get_output().stderr.clone()).unwrap();
    assert!(said.contains("the search takes about "), "{said}");
    assert!(said.contains("to see what storage delivers"), "{said}");
    assert!(said.contains("probe: ") && said.contains("a full run of "), "{said}");
    let report: Value = serde_json::from_str(&stdout(run)).unwrap();
    let find = &report["find_max"];
    let largest = find["largest"].as_u64().unwrap();
    assert!((1..=9).contains(&largest), "{find}");
    assert_eq!(find["smallest_failing"], largest + 1);
    assert_eq!(report["plan"]["accelerators"], largest);
    assert_eq!(report["ending"]["status"], "complete");
    let tried = find["tried"].as_array().unwrap();
    for run in tried {
        let meets = run["au_percent"].as_f64().unwrap() >= 20.0;
        assert_eq!(run["meets"].as_bool().unwrap(), meets, "{run}");
        assert!(run["samples_per_second"].as_f64().unwrap() > 0.0, "{run}");
    }
    let full = |count| {
        let of_count = tried.iter().filter(|run| run["accelerators"] == count);
        of_count.filter(|run| run["run"] == "full").count()
    };
    assert!(full(largest) > 0 && full(largest + 1) > 0, "{find}");
}

#[test]
fn the_time_of_a_search_is_known_before_it_begins() {
    let folder = folder();
    let words = format!("{SMALL} --params metric.au=0.2 --dry-run");
    let page = stdout(train(folder.path(), &words).assert().success());
    assert!(page.contains("takes about ") && page.contains(" probes of "), "{page}");
    assert!(page.contains("2 full runs of "), "{page}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is generated or saved");
    let page = stdout(train(folder.path(), &format!("{words} --confirm 0")).assert().success());
    assert!(page.contains("and 0 full runs of "), "{page}");
}

#[test]
fn a_threshold_that_not_even_one_accelerator_meets_is_6_with_its_au() {
    let folder = folder();
    let words = format!("{SMALL} --params metric.au=0.99 --confirm 0 --throttle read=300K");
    let assert = train(folder.path(), &words).assert().code(6);
    let page = stdout(assert);
    assert!(page.contains("not even one accelerator meets the 99.0 % of unet3d"), "{page}");
    assert!(page.contains("Every run"), "{page}");
    let report = report(folder.path());
    assert_eq!(report["find_max"]["largest"], 0);
    assert_eq!(report["find_max"]["smallest_failing"], 1);
}

#[test]
fn a_search_limited_by_the_dataset_is_a_lower_bound_and_reports_what_it_needs() {
    let folder = folder();
    let words = "unet3d --find-max --files 12 --params reader.batch_size=2 --compute-time 50ms --epochs 1 \
        --confirm 0 --params dataset.record_length_bytes=150000 \
        --params dataset.record_length_bytes_stdev=0 --params workflow.checkpoint=False --params metric.au=0.001";
    let page = stdout(train(folder.path(), words).assert().success());
    assert!(page.contains("at least 1 accelerator meets the 0.1 % of unet3d"), "{page}");
    assert!(page.contains("limited by  the size of the dataset"), "{page}");
    assert!(page.contains("use --files "), "{page}");
    let report = report(folder.path());
    assert_eq!(report["find_max"]["is_lower_bound"], true);
    assert_eq!(report["find_max"]["limited_by"], "dataset");
    // All that these epochs are was read before their steps began.
    let tried = report["find_max"]["tried"].as_array().unwrap();
    for run in tried {
        assert_eq!(run["prefetch_bound"], true, "{run}");
        assert_eq!(run["certain"], false, "{run}");
    }
}

#[test]
fn a_small_starter_set_is_enlarged_and_the_search_continues() {
    let folder = folder();
    // One accelerator has 21 steps with the 168 files of the workload.
    let words = "unet3d --find-max --params reader.batch_size=8 --compute-time 200ms --epochs 1 --confirm 0 \
        --params reader.read_threads=1 --params reader.prefetch_size=1 --throttle read=1100K \
        --params dataset.record_length_bytes=20000 --params dataset.record_length_bytes_stdev=0 \
        --params workflow.checkpoint=False --params metric.au=0.5";
    train(folder.path(), words).assert().success();
    let found = report(folder.path());
    let files = found["plan"]["data"]["files"].as_u64().unwrap();
    assert!(files >= 384, "{files} files");
    // A search that was stopped before its set had grown holds the plan of the smaller one.
    let mut stopped = found.clone();
    stopped["plan"]["data"]["files"] = 168.into();
    stopped["plan"]["steps_per_epoch"] = 21.into();
    fs::write(folder.path().join(saved(folder.path())), stopped.to_string()).unwrap();
    let resume = format!("{words} --resume {}", saved(folder.path()).display());
    train(folder.path(), &resume).assert().success();
    let again = report(folder.path());
    assert_eq!(again["find_max"]["tried"], found["find_max"]["tried"]);
}

#[test]
fn a_search_is_resumed_only_with_its_own_options() {
    let folder = folder();
    let words = format!("{SMALL} {SEVEN}");
    train(folder.path(), &format!("{words} --confirm 0")).assert().success();
    let path = saved(folder.path());
    let before = report(folder.path());
    let tried = before["find_max"]["tried"].as_array().unwrap().len();
    let resume = format!("--resume {}", path.display());
    let other = words.replace("reader.read_threads=1", "reader.read_threads=2");
    let other = format!("{other} {resume}");
    let said = stderr(train(folder.path(), &other).assert().code(3));
    assert!(said.contains("is from a different run: `loader` differs"), "{said}");
    let faster = words.replace("--throttle read=1100K", "--throttle read=2200K");
    let said = stderr(train(folder.path(), &format!("{faster} {resume}")).assert().code(3));
    assert!(said.contains("`--throttle`"), "{said}");
    let again = format!("{words} --confirm 1 {resume}");
    train(folder.path(), &again).assert().success();
    assert_eq!(saved(folder.path()), path, "nothing is saved elsewhere");
    let after = report(folder.path());
    let all = after["find_max"]["tried"].as_array().unwrap();
    assert_eq!(all[..tried], before["find_max"]["tried"].as_array().unwrap()[..]);
    assert!(all[tried..].iter().any(|run| run["run"] == "full"), "{all:?}");
}

#[test]
fn options_incompatible_with_a_search_are_refused() {
    let folder = folder();
    for (words, told) in [
        ("unet3d --find-max -n 4", "--accelerators"),
        ("unet3d --confirm 2", "--find-max"),
        ("unet3d --find-max --compute-time 0s --path null", "no compute is emulated"),
    ] {
        let said = stderr(train(folder.path(), words).assert().code(2));
        assert!(said.contains(told), "{words}: {said}");
    }
}

/// The only saved report.
fn saved(folder: &Path) -> std::path::PathBuf {
    let reports: Vec<_> = fs::read_dir(folder.join("stormlp-results"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(reports.len(), 1, "{reports:?}");
    reports[0].strip_prefix(folder).unwrap().join("report.json")
}

fn report(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join(saved(folder))).unwrap();
    serde_json::from_str(&text).unwrap()
}
