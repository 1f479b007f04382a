//! Tests the terminal output.

use crate::plan::datasize::{SizeRequest, datasize};
use crate::report::{TrainReport, TrainResults, scored};
use stormlp_core::note::{Cause, Note};
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::report::Ending;

use super::fixtures::{report, workload};
use super::*;
use stormlp_show::document::Document;
use stormlp_show::shown::Lane as _;

fn shown(document: &Document) -> String {
    stormlp_show::text::render(document, None)
}

#[test]
fn a_run_that_was_stopped_has_no_result() {
    let mut report = report();
    report.ending = Ending::Stopped;
    let text = shown(&document(&report));
    assert!(text.contains("no result: the run was stopped"), "{text}");
    assert!(!text.contains("misses"), "{text}");
}

#[test]
fn a_run_from_the_page_cache_is_marked_though_others_read_the_device() {
    let marked = |cached_share: f64, device_bytes: u64| {
        let mut report = report();
        report.plan.transport.path = PathKind::PageCache;
        report.results.cost.device_bytes_read = Some(device_bytes);
        for epoch in &mut report.results.epochs {
            epoch.cached_share = Some(cached_share);
        }
        shown(&document(&report)).contains("; mostly read from memory)")
    };
    let all = report().results.cost.bytes_read;
    assert!(marked(1.0, 2 * all));
    assert!(marked(0.0, all / 10));
    assert!(!marked(0.25, all));
}

#[test]
fn a_threshold_met_by_prefetched_samples_is_marked() {
    let headline = |prefetched_share, meets| {
        let mut report = report();
        report.results.meets_threshold = meets;
        report.results.mean.prefetched_share = prefetched_share;
        document(&report).headline
    };
    let passed = headline(1.0, true);
    assert!(
        passed.starts_with("PASS: AU ") && passed.ends_with("; largely by prefetched samples)")
    );
    for (share, meets) in [(0.0, true), (1.0, false)] {
        let headline = headline(share, meets);
        assert!(!headline.contains("prefetched"), "{headline}");
    }
}

#[test]
fn an_epoch_that_was_cut_short_is_marked() {
    let mut report = report();
    report.ending = Ending::Stopped;
    for accelerator in &mut report.results.epochs[1].accelerators {
        accelerator.blocks[0].steps = 5;
    }
    let text = shown(&document(&report));
    assert!(text.contains("\n 1     "), "{text}");
    assert!(text.contains("\n 2 cut short "), "{text}");
}

#[test]
fn an_epoch_in_which_one_has_fewer_files_was_not_cut_short() {
    let mut report = report();
    report.results.epochs[1].accelerators[1].blocks[0].steps = 5;
    let text = shown(&document(&report));
    assert!(!text.contains("cut short"), "{text}");
    assert!(text.contains("5 to 12 steps, as files are dealt out"), "{text}");
}

#[test]
fn means_omit_epochs_that_were_cut_short_if_there_are_complete_ones() {
    let report = report();
    let mut cut = report.results.epochs[1].clone();
    cut.accelerators.pop();
    let whole = report.results.epochs[0].clone();
    assert_eq!(scored(&report.plan, [&cut, &whole]), [whole.measures]);
    assert_eq!(scored(&report.plan, [&cut]), [cut.measures]);
}

#[test]
fn a_size_says_what_decided() {
    let request = SizeRequest {
        hosts: 2,
        host_memory_bytes: 1006 << 30,
        ..SizeRequest::of(&workload(), Profile::V2, 8)
    };
    let answer = SizeAnswer {
        workload: "unet3d".to_string(),
        accelerator: "h100".to_string(),
        request,
        host_memory_assumed: true,
        size: datasize(&request).unwrap(),
        run_seconds: 1000.0,
        folder: "stormlp-data/unet3d".to_string(),
        free_bytes: Some(20 << 40),
        fits: Some(true),
    };
    insta::assert_snapshot!(shown(&super::datasize(&answer)));
}

#[test]
fn the_keys_that_scripts_rely_on_are_there() {
    let json = serde_json::to_value(report()).unwrap();
    for key in [
        "epochs",
        "au_percent",
        "samples_per_second",
        "mib_per_second",
        "waiting_seconds",
        "meets_threshold",
        "bytes_read",
        "device_bytes_read",
        "cpu_user_seconds",
        "cpu_system_seconds",
        "peak_rss_bytes",
    ] {
        assert!(!json[key].is_null(), "{key}");
    }
    for key in ["workload", "accelerator", "accelerators", "profile", "steps_per_epoch", "metric"] {
        assert!(!json["plan"][key].is_null(), "{key}");
    }
    for object in [&json, &json["epochs"][0]] {
        for key in ["profile", "nominal", "measured", "including_startup"] {
            assert!(object["au_percent"][key].is_f64(), "{key}");
        }
        for key in ["storage", "cpu", "barrier", "startup"] {
            assert!(object["waiting_seconds"][key].is_f64(), "{key}");
        }
    }
    let back: TrainReport = serde_json::from_value(json).unwrap();
    assert_eq!(back, report());
}

#[test]
fn an_epoch_without_a_step_has_no_rates() {
    let mut report = report();
    report.ending = Ending::Failed(Note::new(Cause::Machine, "storage failed", ""));
    report.results.epochs.truncate(1);
    for accelerator in &mut report.results.epochs[0].accelerators {
        accelerator.blocks[0].steps = 0;
    }
    report.results.epochs[0].measures = Default::default();
    let text = shown(&document(&report));
    let row = text.lines().find(|line| line.starts_with(" 1 cut short")).expect("its row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[3..6], ["-"; 3], "{text}");
    assert_eq!(TrainResults::outcome(&report, String::new()).words(), "-");
}

#[test]
fn what_v3_reads_and_discards_is_said() {
    let mut report = report();
    let said = |report: &TrainReport| {
        let text = shown(&document(report)).replace('\n', " ");
        text.contains("read by the loaders, besides the first batch")
    };
    assert!(!said(&report));
    report.plan.prewarm = true;
    assert!(said(&report));
}

#[test]
fn a_search_that_this_host_limits_is_no_verdict_on_storage() {
    use crate::plan::find_max::{FindMax, Limit};
    let headline = |limit| {
        let mut report = report();
        let find = FindMax {
            smallest_failing: Some(1),
            is_lower_bound: limit != Limit::Storage,
            limited_by: Some(limit),
            ..FindMax::begun(1)
        };
        report.results.find_max = Some(find);
        document(&report).headline
    };
    let of_host = headline(Limit::Client);
    assert!(of_host.starts_with("limited by this host, so what storage feeds is unknown"));
    let of_storage = headline(Limit::Storage);
    assert!(of_storage.starts_with("not even one accelerator"), "{of_storage}");
}
