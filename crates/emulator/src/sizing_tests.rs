//! Answers beside published rows, and what parts of runs, hosts and clients come to.

use stormlp_model::facts::HostFacts;
use stormlp_model::path::PathKind;
use stormlp_model::sizing::presets;
use stormlp_model::training::catalog;
use stormlp_model::training::client::ClientCost;
use stormlp_model::training::profile::Profile;
use stormlp_model::training::request::TrainRequest;
use stormlp_model::units::GIB;

use super::*;

/// What is asked of `storage`, for an H100 by the rules of v1.0 and hosts with as much memory as
/// the published ones.
fn request(workload: &str, storage: StorageModel) -> SizingRequest {
    let entry = catalog::find(workload, Some("h100")).unwrap();
    SizingRequest {
        workload: entry.workload(&[]).unwrap(),
        train: TrainRequest {
            profile: Some(Profile::V1),
            ..TrainRequest::default()
        },
        host: HostFacts::fixture(),
        accelerators: None,
        hosts: None,
        accelerators_per_host: None,
        host_memory_bytes: 1006 * GIB,
        host_cpus: 104,
        client: None,
        barrier_seconds: 0.0,
        path: PathKind::Buffered,
        storage,
        storage_source: "a test".to_string(),
        checkpoint: None,
        mtbf_seconds: None,
    }
}

fn study<'a>(request: &'a SizingRequest, stop: &'a StopToken) -> Study<'a> {
    Study {
        request,
        stop,
        look: &|_| {},
        done: Cell::new(0),
        known: BTreeMap::new(),
    }
}

#[test]
fn published_rows_that_drives_limit_are_foretold() {
    // Drive, drives, the most accelerators and MiB/s, as published.
    for (drive, devices, published, mib_per_second) in [
        ("solidigm-d7-ps1010", 1, 4, 11_869.57),
        ("solidigm-d5-p5336", 2, 4, 11_864.99),
        ("solidigm-d5-p5336", 1, 2, 5_938.05),
    ] {
        let storage = StorageModel {
            devices,
            ..presets::find(drive).unwrap().storage
        };
        let (request, stop) = (request("unet3d", storage), StopToken::new());
        let mut study = study(&request, &stop);
        let largest = study.largest(devices).unwrap();
        assert!(largest.abs_diff(published) <= 1, "{drive}: {largest}");
        let foretold = study.at(published, 1, devices).unwrap();
        let error = foretold.mib_per_second / mib_per_second - 1.0;
        assert!(error.abs() < 0.05, "{drive}: {error}");
    }
}

#[test]
fn a_part_of_a_run_is_judged_as_all_of_it() {
    // Storage that gives five accelerators 80 % of what they ask for.
    let (request, stop) = (
        request("unet3d", StorageModel::of_bandwidth(12.7e9)),
        StopToken::new(),
    );
    let simulated = |extent| {
        let case = request.case(5, 1, &request.storage, extent).unwrap();
        let foretold = simulate(&case.plan, &case.scenario, &stop).unwrap();
        (foretold.au_percent, foretold.run_seconds * case.stretch)
    };
    let part = simulated(Extent::Reads(10_000));
    let whole = simulated(Extent::Reads(200_000));
    assert!((part.0 - whole.0).abs() < 1.0, "{part:?} {whole:?}");
    assert!((part.1 / whole.1 - 1.0).abs() < 0.05, "{part:?} {whole:?}");
}

#[test]
fn a_client_that_costs_time_limits_before_storage() {
    let mut request = request("unet3d", StorageModel::of_bandwidth(1e12));
    request.client = Some(ClientCost {
        step_seconds: 0.1,
        cpu_seconds_per_gib: 0.0,
        cpus: 1,
        estimated: false,
    });
    let stop = StopToken::new();
    let mut study = study(&request, &stop);
    assert_eq!(study.largest(1).unwrap(), 0);
    let one = study.at(1, 1, 1).unwrap();
    assert_eq!(one.limited_by, LimitedBy::Client);
    // 323 ms of compute in each 423 ms.
    assert!((one.au_percent - 76.4).abs() < 0.5, "{}", one.au_percent);
}

#[test]
fn hosts_and_drives_that_a_number_needs_are_found() {
    let mut storage = StorageModel::of_bandwidth(7e9);
    storage.link = Some(stormlp_model::sizing::Link {
        bytes_per_second: 12.5e9,
        round_trip_seconds: 20e-6,
    });
    let request = request("unet3d", storage);
    let stop = StopToken::new();
    let (hosts, devices) = study(&request, &stop).needed(10).unwrap();
    // 28.6 GB/s for 90 % of their demand: four and a bit at each host is 35 GB/s in three.
    assert!(matches!(hosts, Some(3)), "{hosts:?}");
    assert!(matches!(devices, Some(5 | 6)), "{devices:?}");
}

#[test]
fn no_profile_tells_more_than_storage_gives() {
    let storage = StorageModel::of_bandwidth(7e9);
    for profile in [Profile::V1, Profile::V2, Profile::V3] {
        let mut request = request("resnet50", storage.clone());
        request.train.profile = Some(profile);
        let case = request.case(64, 1, &request.storage, Extent::Reads(10_000));
        let case = case.unwrap();
        let foretold = simulate(&case.plan, &case.scenario, &StopToken::new()).unwrap();
        // 7 GB/s are 6,676 MiB/s.
        let over = foretold.mib_per_second / 6_676.0;
        assert!((0.9..1.02).contains(&over), "{profile}: {over}");
    }
}

#[test]
fn the_limit_of_steps_of_a_workload_is_none_beyond_its_dataset() {
    let mut request = request("unet3d", StorageModel::of_bandwidth(7e9));
    request.host_memory_bytes = GIB;
    request.workload.train.total_training_steps = Some(1000);
    let storage = request.storage.clone();
    let steps = |request: &SizingRequest| {
        let case = request.case(1, 1, &storage, Extent::Whole).unwrap();
        case.plan.steps_per_epoch
    };
    assert!((499..=500).contains(&steps(&request)));
    request.workload.train.total_training_steps = Some(50);
    assert_eq!(steps(&request), 50);
}

#[test]
fn drives_that_are_needed_have_the_bandwidth_that_is_asked_for() {
    let mut request = request("unet3d", StorageModel::of_bandwidth(1e9));
    request.host_memory_bytes = GIB;
    request.train.epochs = Some(1);
    let stop = StopToken::new();
    let (hosts, devices) = study(&request, &stop).needed(40).unwrap();
    let devices = devices.unwrap();
    // 90 % of what 40 of them ask for, 3.18 GB/s each, is 114.3 GB/s.
    assert!((115..=120).contains(&devices), "{devices}");
    let storage = StorageModel {
        devices,
        ..request.storage.clone()
    };
    let case = request.case(40, hosts.unwrap(), &storage, FULL).unwrap();
    let whole = simulate(&case.plan, &case.scenario, &stop).unwrap();
    assert!(whole.au_percent >= 90.0, "{}", whole.au_percent);
}
