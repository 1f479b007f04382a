//! Rendered answers.

use crate::plan::variants::RangeCause;
use crate::plan::{
    AnswerRow, LimitedBy, Need, OtherAnswer, Prediction, Range, RowKind, StorageModel, StoragePart,
};
use stormlp_core::profile::Profile;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_training::plan::datasize::{Binding, DataSize};
use stormlp_training::report::WaitingSeconds;

use super::*;
use stormlp_show::{csv, html, markdown, text};

fn prediction() -> Prediction {
    Prediction {
        au_percent: 91.5,
        samples_per_second: 99.1,
        mib_per_second: 13_849.0,
        read_mib_per_second: 13_800.0,
        run_seconds: 1863.0,
        limited_by: LimitedBy::Nothing,
        storage_busy_percent: 99.8,
        link_busy_percent: 0.0,
        connections_busy_percent: 0.0,
        host_busy_percent: 0.0,
        cached_percent: 0.0,
        waiting_seconds: WaitingSeconds::default(),
        epoch_au_percent: vec![91.5],
        events: 1,
    }
}

fn with_page_cache() -> OtherAnswer {
    OtherAnswer {
        cause: RangeCause::PageCache,
        assumption: "if page caches keep 20 %".to_string(),
        largest_accelerators: 6,
        au_percent: 100.0,
    }
}

fn answer() -> SizingAnswer {
    let at = |accelerators, au_percent| AtCount {
        accelerators,
        meets: au_percent >= 90.0,
        ..AtCount::of((1, 1, 1), &Prediction { au_percent, ..prediction() }, 90.0)
    };
    SizingAnswer {
        measured: false,
        workload: "unet3d".to_string(),
        accelerator: "h100".to_string(),
        profile: Profile::V2,
        accelerators: 5,
        asked: false,
        hosts: 1,
        au_percent: 91.5,
        threshold_percent: 90.0,
        meets_threshold: true,
        samples_per_second: 99.1,
        mib_per_second: 13_849.0,
        read_mib_per_second: 13_800.0,
        largest_accelerators: 5,
        range: Range {
            accelerators: [4, 6],
            au_percent: [83.2, 100.0],
            causes: vec![with_page_cache()],
        },
        client: None,
        warnings: Vec::new(),
        storage_alone_accelerators: 5,
        is_lower_bound: false,
        limited_by: LimitedBy::Storage,
        storage_part: Some(StoragePart::Devices),
        search_limited_by: LimitedBy::Storage,
        search_storage_part: Some(StoragePart::Devices),
        need: Need::default(),
        storage: "read=14.5GB/s".to_string(),
        storage_source: "as given".to_string(),
        storage_model: StorageModel::of_bandwidth(14.5e9),
        dataset: DataSize {
            files: 36_841,
            bytes: 5 << 40,
            subfolders: 3,
            steps_per_epoch: 1052,
            binding: Binding::Memory,
            files_for_memory: 36_841,
            files_for_steps: 17_500,
        },
        host_memory_bytes: 1006 << 30,
        host_memory_assumed: false,
        host_read_bytes_per_second: Some(20e9),
        hosts_are_full: false,
        rows: vec![AnswerRow { kind: RowKind::Largest, at: at(5, 91.5) }],
        run_seconds: 1863.0,
        over_accelerators: vec![at(4, 100.0), at(5, 91.5), at(6, 76.3)],
        over_devices: vec![AtCount { limited_by: LimitedBy::Storage, ..at(5, 91.5) }],
        checkpoint: Some(CheckpointTimes::new(
            "the model of unet3d".to_string(),
            499_153_191,
            Some(1e9),
            2e9,
            Some(3600.0),
        )),
        assumptions: vec!["everything here is simulated".to_string()],
        model_error: "within 5 %".to_string(),
        not_validated: Vec::new(),
        prediction: prediction(),
    }
}

#[test]
fn an_upper_bound_and_the_client_are_named_as_in_a_run() {
    let bound = Warning::new(WarningKind::UpperBound, "AU is an upper bound: …", "calibrate");
    let answer = SizingAnswer {
        client: Some("DLIO's own work is added, calibrated in dlio.json".to_string()),
        warnings: vec![bound],
        ..answer()
    };
    let page = text::render(&document(&answer), Some(400));
    for part in [
        "feeds at most 5 h100 (range 4 to 6, limited by storage): AU up to 91.5 %, 90 % required",
        "warning: AU is an upper bound",
        "client   DLIO's own work is added, calibrated in dlio.json",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn the_headline_has_the_number_and_that_it_is_predicted() {
    let page = text::render(&document(&answer()), Some(400));
    let last = page.lines().last().unwrap();
    assert_eq!(
        last,
        "unet3d: 1 host with 1 drive feeds at most 5 h100 (range 4 to 6, limited by storage): \
         AU 91.5 %, 90 % required\
         ; predicted, not measured, for 1006 GiB of memory per host"
    );
    let assumed = SizingAnswer { host_memory_assumed: true, ..answer() };
    let assumed = text::screen(&document(&assumed), 200);
    assert!(
        assumed.contains("assuming 1006 GiB of memory per host (set --host memory=)\n"),
        "{assumed}"
    );
    for part in [
        "Predicted: unet3d on h100, edition 2.0; 1 drive (14.5 GB/s)",
        "limit    of 1 more: bandwidth or IOPS of the drives",
        "range    6 if page caches keep 20 %",
        "5 TiB in 36,841 files (5 times the memory of 1 host); one run on 1 host lasts 31 m 03 s",
        "- everything here is simulated",
        "within 5 %",
        "with a failure every 1 h 00 m",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn the_headline_names_the_missing_rate_of_hosts_and_kinds_without_a_published_run() {
    let of_host = |largest_accelerators| OtherAnswer {
        cause: RangeCause::Host,
        largest_accelerators,
        ..with_page_cache()
    };
    let mut unknown = SizingAnswer { not_validated: vec!["objects"], ..answer() };
    unknown.range.causes.extend([of_host(1), of_host(20)]);
    unknown.range.accelerators = [1, 20];
    let page = text::render(&document(&unknown), Some(400));
    for part in [
        "(range 1 to 20, limited by storage; set --host read=: with the assumed 18.63 GiB/s, 5 to 6)",
        "; predicted, not measured, not validated (objects), for 1006 GiB",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn a_requested_number_is_shown_with_its_needs() {
    let asked = SizingAnswer {
        asked: true,
        accelerators: 16,
        au_percent: 28.6,
        meets_threshold: false,
        need: Need { at: Some(AtCount::of((16, 2, 4), &prediction(), 90.0)), ..Need::default() },
        ..answer()
    };
    let page = text::render(&document(&asked), Some(400));
    let most = "; 1 host with 1 drive feeds at most 5 h100 (range 4 to 6, limited by storage)";
    let verdict = |what: &str| format!("\nunet3d: {what}{most}");
    assert!(page.contains(&verdict("16 h100 need 2 hosts with 4 drives")), "{page}");
    let none =
        SizingAnswer { need: Need { tried_devices: Some(24), ..Need::default() }, ..asked.clone() };
    let page = text::render(&document(&none), Some(200));
    let what = "16 h100 have AU 28.6 %, 90 % required; up to 24 drives on 1 host are not enough";
    assert!(page.contains(&verdict(what)), "{page}");
    let unknown = SizingAnswer { need: Need::default(), ..asked.clone() };
    let page = text::render(&document(&unknown), Some(400));
    assert!(page.contains(&verdict("16 h100 have AU 28.6 %, 90 % required")), "{page}");
    let met = SizingAnswer { accelerators: 4, meets_threshold: true, au_percent: 99.0, ..asked };
    let page = text::render(&document(&met), Some(400));
    let words = "4 h100 on 1 host with 1 drive: AU 99 %, 90 % required; at most 5 h100 \
                 (range 4 to 6, limited by storage)";
    assert!(page.contains(words), "{page}");
}

#[test]
fn a_limit_other_than_storage_makes_a_lower_bound() {
    let bound = SizingAnswer {
        is_lower_bound: true,
        search_limited_by: LimitedBy::Client,
        limited_by: LimitedBy::Client,
        ..answer()
    };
    let page = text::render(&document(&bound), None);
    let words = "a host reads at most 18.63 GiB/s through its page cache (--host read=); 5 is a lower \
                 bound for storage";
    assert!(page.contains(words), "{page}");
}

#[test]
fn programs_get_a_row_for_each_count_and_pages_get_charts() {
    let rows = csv::render(&document(&answer()), true).unwrap();
    assert_eq!(rows.lines().count(), 6);
    let drives = rows.lines().last().unwrap();
    assert!(
        drives.starts_with("unet3d,h100,read=14.5GB/s,5,91.5,99.1,13849,storage,true,1,drives"),
        "{rows}"
    );
    let brief =
        SizingAnswer { over_accelerators: Vec::new(), over_devices: Vec::new(), ..answer() };
    let rows = csv::render(&document(&brief), true).unwrap();
    assert_eq!(rows.lines().count(), 2, "{rows}");
    assert!(rows.contains(",5,91.5,99.1,13849,nothing,true,1,largest"), "{rows}");
    assert!(rows.starts_with("workload,accelerator,storage,accelerators,au_percent"));
    let page = html::page(vec![sheet(&answer())]);
    assert!(page.contains("AU over accelerators"));
    assert!(!page.contains("What ran"), "nothing ran");
    assert!(page.find("In short") < page.find("<svg"), "{page}");
    assert!(page.contains("<svg"));
}

#[test]
fn lists_have_one_bullet_and_utilisation_a_name() {
    let page = markdown::render(&document(&answer()));
    assert!(page.contains("\n- everything here is simulated\n"), "{page}");
    assert!(page.contains("- utilisation: storage 99.8 %"), "{page}");
    let page = html::page(vec![sheet(&answer())]);
    assert!(page.contains("<li>everything here is simulated</li>"), "{page}");
}

#[test]
fn an_interval_without_time_to_train_is_not_recommended() {
    // A save takes 0.5 s.
    let of = |mtbf_seconds| {
        let times = CheckpointTimes::new(
            "a model".to_string(),
            499_153_191,
            Some(1e9),
            2e9,
            Some(mtbf_seconds),
        );
        let answer = SizingAnswer { checkpoint: Some(times), ..answer() };
        text::render(&document(&answer), Some(160))
    };
    assert!(of(0.4).contains("fails before a checkpoint is saved"));
    let page = of(0.6);
    assert!(
        page.contains("no useful interval: with a failure every 600 ms and 499 ms to save"),
        "{page}"
    );
    assert!(of(60.0).contains("one every"));
}

#[test]
fn the_limiting_part_of_storage_is_named() {
    let by_link = SizingAnswer {
        storage_part: Some(StoragePart::Link),
        prediction: Prediction {
            storage_busy_percent: 24.9,
            link_busy_percent: 99.6,
            ..prediction()
        },
        ..answer()
    };
    let page = text::render(&document(&by_link), Some(160));
    assert!(page.contains("limit    of 1 more: the network link of each host"), "{page}");
    assert!(page.contains("more drives do not help"), "{page}");
    assert!(page.contains("network links 99.6 %"), "{page}");
}

#[test]
fn actual_reads_are_shown_next_to_record_throughput() {
    let columns = SizingAnswer { read_mib_per_second: 2_900.0, ..answer() };
    let page = text::render(&document(&columns), Some(160));
    assert!(page.contains("reads    2.83 GiB/s; the table counts whole records"), "{page}");
}

#[test]
fn without_any_fed_accelerator_one_more_is_not_mentioned() {
    let none = SizingAnswer {
        largest_accelerators: 0,
        meets_threshold: false,
        accelerators: 1,
        ..answer()
    };
    let page = text::render(&document(&none), Some(160));
    assert!(!page.contains("of 1 more"), "{page}");
}
