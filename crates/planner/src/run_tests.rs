//! Compares answers with published results, and parts of runs with whole ones.

use crate::plan::{KnownStorage, Overhead, SizingRequest, presets};
use stormlp_core::host_spec::HostSpec;
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::units::GIB;
use stormlp_training::plan::catalog;
use stormlp_training::plan::client::{Client, ClientCost};

use super::*;

/// Hosts with as much memory as the published ones.
const MEMORY: HostSpec = HostSpec {
    memory_bytes: Some(1006 * GIB),
    cpus: None,
    read_bytes_per_second: None,
    accelerators: None,
    barrier_seconds: None,
};
const DLIO: Option<Overhead> = Some(Overhead::Of(Client::Dlio));

/// A request for `storage` with H100s by the rules of v1.0 and hosts with as much memory as the
/// published ones.
fn sizing(workload: &str, storage: StorageModel) -> Sizing {
    let entry = catalog::find(workload, Some("h100")).unwrap();
    let asked = SizingRequest {
        profile: Some(Profile::V1),
        host: Some(HostSpec { cpus: Some(104), ..MEMORY }),
        path: Some(PathKind::Buffered),
        ..SizingRequest::default()
    };
    Sizing {
        workload: entry.workload(&[]).unwrap(),
        asked,
        host: stormlp_fixtures::host(),
        storage: KnownStorage {
            model: storage,
            source: "a test".to_string(),
            hosts: None,
            spread: 0.0,
            warnings: Vec::new(),
        },
        calibration: None,
        checkpoint: None,
    }
}

fn study<'a>(sizing: &'a Sizing, stop: &'a StopToken) -> Study<'a> {
    Study { sizing, stop, look: &|_| {}, trial: TRIAL, done: Cell::new(0), known: BTreeMap::new() }
}

#[test]
fn published_results_limited_by_drives_are_predicted() {
    // Drive, drives, the maximum of accelerators and MiB/s, as published.
    for (drive, devices, published, mib_per_second) in [
        ("solidigm-d7-ps1010", 1, 4, 11_869.57),
        ("solidigm-d5-p5336", 2, 4, 11_864.99),
        ("solidigm-d5-p5336", 1, 2, 5_938.05),
    ] {
        let storage = StorageModel { devices, ..presets::find(drive).unwrap().storage };
        let (sizing, stop) = (sizing("unet3d", storage), StopToken::new());
        let mut study = study(&sizing, &stop);
        let largest = study.largest(1, devices).unwrap();
        assert!(largest.abs_diff(published) <= 1, "{drive}: {largest}");
        let prediction = study.at((published, 1, devices)).unwrap();
        let error = prediction.mib_per_second / mib_per_second - 1.0;
        assert!(error.abs() < 0.05, "{drive}: {error}");
    }
}

#[test]
fn no_row_exceeds_what_storage_was_given_and_the_first_is_the_answer() {
    let entry = catalog::find("retinanet", Some("b200")).unwrap();
    let mut sizing = sizing("resnet50", StorageModel::of_bandwidth(40e9));
    sizing.workload = entry.workload(&[]).unwrap();
    sizing.asked = SizingRequest { accelerators: Some(64), hosts: Some(8), ..Default::default() };
    let found = answer(&sizing, true, &StopToken::new(), &|_| {}).unwrap();
    assert_eq!(found.over_devices[0].accelerators, found.largest_accelerators);
    for row in &found.over_devices {
        let bytes = row.mib_per_second * f64::from(1 << 20);
        assert!(bytes <= 40e9 * 1.0001 * f64::from(row.devices), "{row:?}");
    }
}

#[test]
fn the_range_holds_published_results() {
    // Drive, drives, the maximum of accelerators as published, and the end of the search.
    let rows = [
        ("unet3d", "solidigm-d7-ps1010", 8, 8, LimitedBy::Client),
        ("unet3d", "solidigm-d7-ps1010", 1, 4, LimitedBy::Storage),
        ("unet3d", "solidigm-d5-p5336", 4, 8, LimitedBy::Client),
        ("resnet50", "solidigm-d3-s4520", 2, 6, LimitedBy::Storage),
        ("cosmoflow", "solidigm-d5-p5336", 1, 14, LimitedBy::Storage),
    ];
    for (workload, drive, devices, published, limit) in rows {
        let storage = StorageModel { devices, ..presets::find(drive).unwrap().storage };
        let sizing = sizing(workload, storage);
        let found = answer(&sizing, false, &StopToken::new(), &|_| {}).unwrap();
        let [low, high] = found.range.accelerators;
        let likely = found.largest_accelerators;
        assert!(low <= published && published <= high, "{drive} × {devices}: {low} {high}");
        assert!((low..=high).contains(&likely), "{drive}: {likely}");
        let [low, high] = found.range.with_host_rate(likely).unwrap_or([low, high]);
        assert!(f64::from(high - low) <= f64::from(likely) / 2.0 + 2.0, "{drive}: {low} {high}");
        assert_eq!(found.search_limited_by, limit, "{workload} {drive} × {devices}");
        let [low, high] = found.range.au_percent;
        assert!(low <= found.au_percent && found.au_percent <= high, "{drive}: {low} {high}");
        let alone = found.storage_alone_accelerators;
        assert_eq!(alone > likely, limit == LimitedBy::Client, "{drive}: {alone}");
    }
}

#[test]
fn what_the_validation_did_not_vary_is_named() {
    let error = |change: fn(&mut Sizing)| {
        let drive = presets::find("solidigm-d7-ps1010").unwrap().storage;
        let mut sizing = sizing("unet3d", drive);
        sizing.asked.host = Some(MEMORY);
        sizing.asked.length.steps = Some(20);
        change(&mut sizing);
        answer(&sizing, false, &StopToken::new(), &|_| {}).unwrap().model_error
    };
    assert!(error(|_| ()).contains("this plan is like them"));
    type Change = fn(&mut Sizing);
    let changes: [(Change, &str); 6] = [
        (|one| one.asked.client_overhead = DLIO, "a given client overhead"),
        (
            |one| one.asked.client_overhead = Some("step=0.1s".parse().unwrap()),
            "a given client overhead",
        ),
        (|one| one.asked.set_host_rate(None), "a given host rate"),
        (
            |one| one.asked.host = Some(HostSpec { cpus: Some(104), ..MEMORY }),
            "a given number of CPUs",
        ),
        (|one| one.asked.path = Some(PathKind::Cpu), "reads past the page cache"),
        (|one| one.storage.model.device.latency_seconds = 1e-4, "a given latency"),
    ];
    for (change, what) in changes {
        let found = error(change);
        assert!(found.contains(&format!("; none of them covers {what}")), "{found}");
    }
}

#[test]
fn what_a_request_states_is_not_a_cause_of_its_range() {
    let causes = |change: fn(&mut Sizing)| {
        let mut sizing = sizing("unet3d", StorageModel::of_bandwidth(7e9));
        sizing.asked.length.steps = Some(100);
        change(&mut sizing);
        let found = answer(&sizing, false, &StopToken::new(), &|_| {}).unwrap();
        found.range.causes.iter().map(|other| other.cause).collect::<Vec<_>>()
    };
    use crate::plan::variants::RangeCause::{Client, Drives, Latency, PageCache, ReadAhead};
    assert_eq!(causes(|_| ()), [Client, PageCache, Latency, Drives]);
    let borrowed = causes(|sizing| {
        sizing.asked.client_overhead = DLIO;
    });
    assert!(borrowed.contains(&Client), "hosts are not the one it was measured on: {borrowed:?}");
    let stated = causes(|sizing| {
        sizing.asked.client_overhead = Some("none".parse().unwrap());
        sizing.storage.model.device.latency_seconds = 100e-6;
        sizing.asked.path = Some(PathKind::Cpu);
    });
    assert_eq!(stated, [Drives]);
    let over_network = causes(|sizing| {
        let link = crate::plan::Link { bytes_per_second: 25e9, round_trip_seconds: 5e-4 };
        sizing.storage.model.link = Some(link);
    });
    assert!(over_network.contains(&ReadAhead), "{over_network:?}");
}

#[test]
fn without_a_client_au_near_the_threshold_is_an_upper_bound() {
    let found = |client: Option<Overhead>| {
        // 91 % of five accelerators' demand, which leaves a client 3 ms of each step.
        let mut sizing = sizing("unet3d", StorageModel::of_bandwidth(14.5e9));
        sizing.asked.length.steps = Some(100);
        (sizing.asked.accelerators, sizing.asked.client_overhead) = (Some(5), client);
        answer(&sizing, false, &StopToken::new(), &|_| {}).unwrap()
    };
    let silent = found(None);
    assert!(silent.meets_threshold && silent.is_upper_bound(), "{:?}", silent.warnings);
    let words = &silent.warnings[0].fact;
    assert!(
        words.starts_with("AU is an upper bound: it does not include DLIO's own cost"),
        "{words}"
    );
    assert_eq!(silent.client, None);
    let dlio = found(DLIO);
    assert!(!dlio.is_upper_bound());
    assert!(dlio.client.unwrap().contains("AMD EPYC"));
}

#[test]
fn drives_in_each_host_add_up() {
    let mut storage = StorageModel::of_bandwidth(7e9);
    storage.is_per_host = true;
    let mut sizing = sizing("unet3d", storage);
    sizing.asked.hosts = Some(3);
    sizing.asked.length.steps = Some(100);
    let found = answer(&sizing, false, &StopToken::new(), &|_| {}).unwrap();
    // 21 GB/s are 90 % of the demand of 7.3.
    assert_eq!(found.largest_accelerators, 7);
    assert_eq!(found.storage, "1x/host:read=7GB/s");
}

#[test]
fn a_part_of_a_run_predicts_the_whole() {
    // Storage with 80 % of the bandwidth that five accelerators need.
    let (sizing, stop) = (sizing("unet3d", StorageModel::of_bandwidth(12.7e9)), StopToken::new());
    let simulated = |extent| {
        let case = sizing.case(5, 1, &sizing.storage.model, extent).unwrap();
        let prediction = simulate(&case.plan, &case.scenario, &stop).unwrap();
        (prediction.au_percent, case.run_seconds(&case.of_all(prediction.clone())))
    };
    let part = simulated(Extent::reads(10_000));
    let whole = simulated(Extent::reads(200_000));
    assert!((part.0 - whole.0).abs() < 1.0, "{part:?} {whole:?}");
    assert!((part.1 / whole.1 - 1.0).abs() < 0.05, "{part:?} {whole:?}");
}

#[test]
fn a_slow_client_limits_before_storage() {
    let mut sizing = sizing("unet3d", StorageModel::of_bandwidth(1e12));
    let cost = ClientCost { step_seconds: 0.1, ..ClientCost::NONE };
    sizing.asked.client_overhead = Some(Overhead::Typed(cost));
    let stop = StopToken::new();
    let mut study = study(&sizing, &stop);
    assert_eq!(study.largest(1, 1).unwrap(), 0);
    let one = study.at((1, 1, 1)).unwrap();
    assert_eq!(one.limited_by, LimitedBy::Client);
    // 323 ms of compute in each 423 ms.
    assert!((one.au_percent - 76.4).abs() < 0.5, "{}", one.au_percent);
}

#[test]
fn a_sleep_that_takes_too_long_is_said_where_au_counts_it() {
    let mut sizing = sizing("unet3d", StorageModel::of_bandwidth(7e9));
    sizing.asked.length.steps = Some(20);
    let cost = ClientCost { oversleep_seconds: Some(115e-6), ..ClientCost::NONE };
    sizing.asked.client_overhead = Some(Overhead::Typed(cost));
    for (profile, said) in [(Profile::V1, false), (Profile::V2, true)] {
        sizing.asked.profile = Some(profile);
        let found = answer(&sizing, false, &StopToken::new(), &|_| {}).unwrap();
        let notes = found.assumptions.join("; ");
        assert_eq!(notes.contains("each compute takes 115 us too long"), said, "{notes}");
    }
}

#[test]
fn required_hosts_and_drives_are_found() {
    let mut storage = StorageModel::of_bandwidth(7e9);
    storage.link = Some(crate::plan::Link { bytes_per_second: 12.5e9, round_trip_seconds: 20e-6 });
    let sizing = sizing("unet3d", storage);
    let stop = StopToken::new();
    let need = study(&sizing, &stop).needed(10).unwrap().at.unwrap();
    // 90 % of their demand is 28.6 GB/s; three hosts have links for 37.5 GB/s.
    assert_eq!(need.hosts, 3, "{need:?}");
    assert!(matches!(need.devices, 5 | 6), "{need:?}");
    // Two requested hosts are too few, however many drives there are.
    let mut sizing = sizing.clone();
    sizing.asked.hosts = Some(2);
    let Need { at, run, .. } = study(&sizing, &stop).needed(10).unwrap();
    assert_eq!(at.map(|at| at.hosts), Some(3));
    let size = sizing.case(10, 3, &sizing.storage.model, Extent::WHOLE).unwrap().size;
    assert_eq!(run.map(|(size, _)| size), Some(size));
}

#[test]
fn no_profile_reports_more_than_storage_bandwidth() {
    let storage = StorageModel::of_bandwidth(7e9);
    for profile in [Profile::V1, Profile::V2, Profile::V3] {
        let mut sizing = sizing("resnet50", storage.clone());
        sizing.asked.profile = Some(profile);
        let case = sizing.case(64, 1, &sizing.storage.model, Extent::reads(10_000)).unwrap();
        let prediction = simulate(&case.plan, &case.scenario, &StopToken::new()).unwrap();
        let prediction = case.of_all(prediction);
        // 7 GB/s = 6,676 MiB/s.
        let over = prediction.mib_per_second / 6_676.0;
        assert!((0.9..1.02).contains(&over), "{profile}: {over}");
    }
}

#[test]
fn a_step_limit_beyond_the_dataset_has_no_effect() {
    let mut sizing = sizing("unet3d", StorageModel::of_bandwidth(7e9));
    sizing.asked.host = Some(HostSpec { memory_bytes: Some(GIB), ..MEMORY });
    sizing.workload.train.total_training_steps = Some(1000);
    let storage = sizing.storage.model.clone();
    let steps = |sizing: &Sizing| {
        let case = sizing.case(1, 1, &storage, Extent::WHOLE).unwrap();
        case.whole.steps_per_epoch
    };
    assert!((499..=500).contains(&steps(&sizing)));
    sizing.workload.train.total_training_steps = Some(50);
    assert_eq!(steps(&sizing), 50);
}

#[test]
fn required_drives_have_the_required_bandwidth() {
    let mut sizing = sizing("unet3d", StorageModel::of_bandwidth(1e9));
    sizing.asked.host = Some(HostSpec { memory_bytes: Some(GIB), ..MEMORY });
    sizing.asked.length.epochs = Some(1);
    let stop = StopToken::new();
    let AtCount { hosts, devices, .. } = study(&sizing, &stop).needed(40).unwrap().at.unwrap();
    // 90 % of 40 times 3.18 GB/s is 114.3 GB/s.
    assert!((115..=120).contains(&devices), "{devices}");
    let storage = StorageModel { devices, ..sizing.storage.model.clone() };
    let case = sizing.case(40, hosts, &storage, FULL).unwrap();
    let whole = simulate(&case.plan, &case.scenario, &stop).unwrap();
    assert!(whole.au_percent >= 90.0, "{}", whole.au_percent);
}

#[test]
fn some_accelerators_on_their_share_represent_all() {
    let linked =
        |bytes_per_second| Some(crate::plan::Link { bytes_per_second, round_trip_seconds: 50e-6 });
    // Storage and hosts for 160 accelerators, which need 32.8 GB/s in total.
    let slow = StorageModel::of_bandwidth(24e9);
    let mut late = StorageModel::of_bandwidth(60e9);
    late.device.latency_seconds = 0.012;
    let behind_links = StorageModel { link: linked(1.2e9), ..StorageModel::of_bandwidth(90e9) };
    for (what, storage, hosts) in
        [("slow", slow, 1), ("late", late, 1), ("behind links", behind_links, 20)]
    {
        let mut sizing = sizing("resnet50", storage);
        sizing.asked.hosts = Some(hosts);
        let simulated = |extent| {
            let case = sizing.case(160, hosts, &sizing.storage.model, extent).unwrap();
            let prediction = simulate(&case.plan, &case.scenario, &StopToken::new()).unwrap();
            (case.plan.accelerators, case.of_all(prediction))
        };
        let (some, few) = simulated(Extent::reads(10_000));
        let (all, many) = simulated(Extent::reads(2_200_000));
        assert!(some <= 64 && all == 160, "{some} {all}");
        let apart = few.au_percent - many.au_percent;
        assert!(apart.abs() < 1.0, "{what}: {few:?} {many:?}");
        let rate = few.mib_per_second / many.mib_per_second;
        assert!((rate - 1.0).abs() < 0.01, "{what}: {few:?} {many:?}");
        assert_eq!(few.storage_part(), many.storage_part(), "{what}");
    }
}

/// A request for a workload of the catalog with its edition and `accelerator`.
fn of_catalog(workload: &str, accelerator: &str, storage: StorageModel) -> Sizing {
    let entry = catalog::find(workload, Some(accelerator)).unwrap();
    let mut sizing = sizing("unet3d", storage);
    sizing.workload = entry.workload(&[]).unwrap();
    sizing.asked.profile = None;
    sizing
}

#[test]
fn dependence_on_prefetched_samples_is_an_assumption() {
    let sizing = of_catalog("flux", "b200", StorageModel::of_bandwidth(14.5e9));
    let case = sizing.case(200, 1, &sizing.storage.model, TRIAL).unwrap();
    let notes = case.assumptions().join("; ");
    assert!(notes.contains("batches ahead, and an epoch has"), "{notes}");
    assert!(!case.prefetch_bound(), "bandwidth is sufficient for 200");
    let sizing = of_catalog("unet3d", "b200", StorageModel::of_bandwidth(14.5e9));
    let case = sizing.case(8, 1, &sizing.storage.model, TRIAL).unwrap();
    assert_eq!(case.assumptions(), Vec::<String>::new());
    assert!(!case.prefetch_bound(), "it does not read that far ahead");
}

#[test]
fn read_ahead_does_not_raise_the_largest_number_above_bandwidth() {
    let storage = StorageModel::of_bandwidth(3e8);
    let mut sizing = of_catalog("flux", "b200", storage.clone());
    sizing.asked.host = Some(HostSpec { memory_bytes: Some(GIB), ..MEMORY });
    let found = answer(&sizing, true, &StopToken::new(), &|_| {}).unwrap();
    let one = sizing.case(1, 1, &storage, TRIAL).unwrap().whole;
    let takes = one.demand_bytes_per_second() * one.metric.threshold_percent / 100.0;
    assert_eq!(found.largest_accelerators, (3e8 / takes) as u32);
    assert_eq!(found.search_limited_by, LimitedBy::Storage);
    // One more reaches the threshold in a run of this length; the table marks it.
    let above = found.largest_accelerators + 1;
    let mut rows = found.over_accelerators.iter();
    let row = rows.find(|row| row.accelerators == above).unwrap();
    assert!(row.meets && row.prefetch_bound, "{row:?}");
}

#[test]
fn with_fewer_files_than_accelerators_each_reads_all_files() {
    let mut sizing = of_catalog("bert", "v100", StorageModel::of_bandwidth(14.5e7));
    sizing.asked.host = Some(HostSpec { memory_bytes: Some(16 * GIB), ..MEMORY });
    let found = answer(&sizing, false, &StopToken::new(), &|_| {}).unwrap();
    let files = u32::try_from(found.dataset.files).unwrap();
    // With more accelerators than files, each reads the whole dataset.
    assert_eq!(found.largest_accelerators, files);
    assert_eq!(found.limited_by, LimitedBy::Dataset);
    assert!(found.is_lower_bound);
}

#[test]
fn a_part_of_a_run_predicts_the_whole_for_record_formats() {
    // Limited by bandwidth, by latency, and not at all.
    for (bytes_per_second, latency_seconds) in [(1.3e9, 0.0), (3e9, 0.012), (2e9, 0.005)] {
        let mut storage = StorageModel::of_bandwidth(bytes_per_second);
        storage.device.latency_seconds = latency_seconds;
        let mut sizing = sizing("resnet50", storage);
        sizing.asked.host = Some(HostSpec { memory_bytes: Some(GIB), ..MEMORY });
        sizing.asked.length.epochs = Some(1);
        let simulated = |extent| {
            let case = sizing.case(4, 1, &sizing.storage.model, extent).unwrap();
            let prediction = simulate(&case.plan, &case.scenario, &StopToken::new()).unwrap();
            (case.plan.steps_per_epoch, prediction.au_percent)
        };
        let (part, whole) = (simulated(Extent::reads(10_000)), simulated(Extent::WHOLE));
        assert!(part.0 < 100 && whole.0 > 400, "{part:?} {whole:?}");
        assert!((part.1 - whole.1).abs() < 1.0, "{part:?} {whole:?}");
    }
}

#[test]
fn the_callback_receives_each_simulation() {
    let mut sizing = sizing("unet3d", StorageModel::of_bandwidth(7e9));
    sizing.asked.host = Some(HostSpec { memory_bytes: Some(GIB), ..MEMORY });
    sizing.asked.length.epochs = Some(1);
    sizing.asked.length.steps = Some(20);
    sizing.asked.accelerators = Some(3);
    let seen = std::cell::RefCell::new(Vec::new());
    let look = |done| seen.borrow_mut().push(done);
    answer(&sizing, true, &StopToken::new(), &look).unwrap();
    let seen: Vec<u64> = seen.into_inner();
    assert!(seen.len() > 3 && seen.iter().copied().eq(0..seen.len() as u64), "{seen:?}");
}

#[test]
fn throughput_above_storage_bandwidth_is_explained() {
    let notes = |accelerators| {
        let mut sizing = sizing("unet3d", StorageModel::of_bandwidth(7e9));
        sizing.asked.host = Some(HostSpec { memory_bytes: Some(GIB), ..MEMORY });
        sizing.asked.length.epochs = Some(1);
        sizing.asked.profile = Some(Profile::V2);
        sizing.asked.accelerators = Some(accelerators);
        let found = answer(&sizing, false, &StopToken::new(), &|_| {}).unwrap();
        found.assumptions.join("; ")
    };
    let (limited, fed) = (notes(8), notes(1));
    assert!(limited.contains("% above the storage bandwidth"), "{limited}");
    assert!(!fed.contains("above the storage bandwidth"), "{fed}");
}
