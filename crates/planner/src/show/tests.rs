//! Rendered answers.

use crate::plan::variants::RangeCause;
use crate::plan::{Need, OtherAnswer, Prediction, Range, StorageModel};
use stormlp_core::profile::Profile;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_training::plan::datasize::DataSize;
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
        ..AtCount::of((1, 1), &Prediction { au_percent, ..prediction() }, 90.0)
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
    let page = text::render(&document(&answer), Some(160));
    let last = page.lines().last().unwrap();
    assert!(last.starts_with("unet3d on 5 h100: AU up to 91.5 %, the most"), "{last}");
    for part in [
        "warning: AU is an upper bound",
        "client       DLIO's own work is added, calibrated in dlio.json",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn the_headline_has_the_number_and_that_it_is_predicted() {
    let page = text::render(&document(&answer()), Some(160));
    let answer = page.lines().last().unwrap();
    assert_eq!(
        answer,
        "unet3d on 5 h100: AU 91.5 %, the most accelerators that reach 90 %; range 4 to 6 (predicted, not measured; 1006 GiB of memory per host)"
    );
    for part in [
        "limited by   storage, with one accelerator more",
        "range        6 if page caches keep 20 %",
        "5 times 1006 GiB of memory in 1 host",
        "- everything here is simulated",
        "within 5 %",
        "with a failure every 1 h 00 m",
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
        need: Need { needed_devices: Some(4), needed_hosts: Some(2), tried_devices: None },
        ..answer()
    };
    let page = text::render(&document(&asked), Some(120));
    assert!(
        page.contains("AU 28.6 %, which misses 90 %; the maximum is 5 (range 4 to 6)"),
        "{page}"
    );
    assert!(page.contains("4 drives like this on 2 hosts for 16 accelerators at 90 %"), "{page}");
    let none = SizingAnswer { need: Need { tried_devices: Some(24), ..Need::default() }, ..asked };
    let page = text::render(&document(&none), Some(120));
    assert!(page.contains("up to 24 drives are not enough for 16 accelerators at 90 %"), "{page}");
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
    assert!(page.contains("so 5 is a lower bound for what storage feeds"), "{page}");
}

#[test]
fn programs_get_a_row_for_each_count_and_pages_get_charts() {
    let rows = csv::render(&document(&answer()), true).unwrap();
    assert_eq!(rows.lines().count(), 5);
    let drives = rows.lines().last().unwrap();
    assert!(
        drives.starts_with("unet3d,h100,read=14.5GB/s,5,91.5,99.1,13849,storage,true,1,drives,,"),
        "{rows}"
    );
    let brief =
        SizingAnswer { over_accelerators: Vec::new(), over_devices: Vec::new(), ..answer() };
    let rows = csv::render(&document(&brief), true).unwrap();
    assert_eq!(rows.lines().count(), 2, "{rows}");
    assert!(rows.contains(",5,91.5,99.1,13849,storage,true,1,accelerators,,"), "{rows}");
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
    assert!(page.contains("storage (link), with one accelerator more"), "{page}");
    assert!(page.contains("more drives do not help"), "{page}");
    assert!(page.contains("network links 99.6 %"), "{page}");
}

#[test]
fn actual_reads_are_shown_next_to_record_throughput() {
    let columns = SizingAnswer { read_mib_per_second: 2_900.0, ..answer() };
    let page = text::render(&document(&columns), Some(160));
    assert!(page.contains("MiB/s by the record length, 2,900"), "{page}");
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
    assert!(!page.contains("with one accelerator more"), "{page}");
}
