//! Simulated runs with known outcomes, and invariants of all runs.

use crate::plan::{
    Connections, DeviceFigures, Link, StorageModel, StoragePart, Surface, SurfacePoint,
};
use proptest::prelude::*;
use stormlp_core::cache::CacheChoice;
use stormlp_core::path::PathKind;
use stormlp_training::plan::catalog;
use stormlp_training::plan::client::ClientCost;
use stormlp_training::plan::request::{RunLength, TrainRequest};
use stormlp_training::plan::resolve::imagined;

use super::*;

const GIB: u64 = 1 << 30;

/// A run of `workload` by `accelerators` on H100.
fn plan(workload: &str, accelerators: u32, steps: u64, epochs: u32) -> TrainPlan {
    plan_by(PathKind::Buffered, workload, accelerators, (steps, epochs))
}

fn plan_by(
    path: PathKind,
    workload: &str,
    accelerators: u32,
    (steps, epochs): (u64, u32),
) -> TrainPlan {
    let entry = catalog::find(workload, None).unwrap();
    let request = TrainRequest {
        accelerators: Some(accelerators),
        length: RunLength { steps: Some(steps), epochs: Some(epochs) },
        files: (workload == "unet3d").then_some(u64::from(accelerators) * 7 * steps),
        ..TrainRequest::default()
    };
    let workload = entry.workload(&[]).unwrap();
    let host = stormlp_fixtures::host();
    imagined(&workload, &request, &host, path).unwrap()
}

fn unet3d(accelerators: u32, steps: u64) -> TrainPlan {
    plan("unet3d", accelerators, steps, 1)
}

fn on(storage: StorageModel) -> Scenario {
    Scenario::of(storage)
}

fn bandwidth(bytes_per_second: f64) -> Scenario {
    on(StorageModel::of_bandwidth(bytes_per_second))
}

fn predicted(plan: &TrainPlan, scenario: &Scenario) -> Prediction {
    simulate(plan, scenario, &StopToken::new()).unwrap()
}

fn assert_near(got: f64, wanted: f64, slack: f64, what: &str) {
    assert!((got - wanted).abs() <= slack, "{what}: {got}, not {wanted}");
}

#[test]
fn ample_storage_keeps_all_accelerators_computing() {
    let run = predicted(&unet3d(8, 50), &bandwidth(100e9));
    assert!(run.au_percent > 99.9, "{run:?}");
    assert_eq!(run.limited_by, LimitedBy::Nothing);
    // v2 counts one step less than its time covers.
    let samples = 8.0 * 7.0 / 0.323 * 48.0 / 49.0;
    assert_near(run.samples_per_second, samples, 0.5, "samples");
    assert!(run.storage_busy_percent < 50.0);
}

#[test]
fn half_the_bandwidth_gives_half_the_utilisation() {
    for workload in ["unet3d", "resnet50", "cosmoflow"] {
        let plan = plan(workload, 4, 200, 1);
        for share in [0.3, 0.5, 0.8] {
            let run = predicted(&plan, &bandwidth(share * plan.demand_bytes_per_second()));
            // Samples prefetched before the first step that counts add to this.
            assert_near(run.au_percent, 100.0 * share, 3.0, workload);
            assert_eq!(run.limited_by, LimitedBy::Storage, "{workload}");
            assert!(run.storage_busy_percent > 97.0, "{workload}: {run:?}");
        }
    }
}

#[test]
fn saturation_is_where_demand_meets_bandwidth() {
    let of_one = unet3d(1, 300).demand_bytes_per_second();
    for (accelerators, wanted) in [(8, 100.0), (9, 100.0 * 8.0 / 9.0), (16, 50.0)] {
        let run = predicted(&unet3d(accelerators, 300), &bandwidth(8.0 * of_one * 1.005));
        assert_near(run.au_percent, wanted, 2.0, "AU");
    }
}

#[test]
fn predictions_are_deterministic() {
    let mut scenario = bandwidth(6e9);
    scenario.sample_stdev_bytes = 68_341_808.0;
    scenario.storage.cache_bytes = Some(20 * GIB);
    scenario.storage.devices = 3;
    let plan = plan("unet3d", 5, 20, 2);
    let run = predicted(&plan, &scenario);
    assert_eq!(run, predicted(&plan, &scenario));
    assert!(run.cached_percent > 1.0, "{run:?}");
    let mut other = scenario.clone();
    other.sample_stdev_bytes = 0.0;
    assert_ne!(run.run_seconds, predicted(&plan, &other).run_seconds);
}

#[test]
fn a_dataset_that_fits_the_cache_is_read_once() {
    let plan = plan("unet3d", 4, 20, 3);
    let mut scenario = bandwidth(0.4 * plan.demand_bytes_per_second());
    scenario.storage.cache_bytes = Some(plan.data.bytes);
    let run = predicted(&plan, &scenario);
    assert!(run.epoch_au_percent[0] < 60.0, "{run:?}");
    assert!(run.epoch_au_percent[2] > 99.0, "{run:?}");
    assert_near(run.cached_percent, 100.0 * 2.0 / 3.0, 1.0, "cached");
    let cold = TrainPlan {
        request: TrainRequest { cache: Some(CacheChoice::Cold), ..plan.request.clone() },
        ..plan
    };
    assert_eq!(predicted(&cold, &scenario).cached_percent, 0.0);
    scenario.direct = true;
    assert_eq!(predicted(&cold, &scenario).cached_percent, 0.0);
}

#[test]
fn a_larger_dataset_is_served_from_the_cache_in_part() {
    let plan = plan("unet3d", 4, 50, 5);
    let share = 0.4;
    let mut scenario = bandwidth(0.5 * plan.demand_bytes_per_second());
    let without = predicted(&plan, &scenario);
    scenario.storage.cache_bytes = Some((plan.data.bytes as f64 * share) as u64);
    let run = predicted(&plan, &scenario);
    assert_near(run.cached_percent, 100.0 * share * 4.0 / 5.0, 4.0, "cached");
    let last = run.epoch_au_percent[4] / without.epoch_au_percent[4];
    assert_near(last, 1.0 / (1.0 - share), 0.15, "speed-up");
}

#[test]
fn each_host_has_its_own_cache_and_link() {
    let plan = plan("unet3d", 8, 30, 2);
    let mut scenario = bandwidth(0.5 * plan.demand_bytes_per_second());
    scenario.storage.cache_bytes = Some(plan.data.bytes / 4);
    let one = predicted(&plan, &scenario);
    scenario.hosts = 4;
    let four = predicted(&plan, &scenario);
    assert_near(one.cached_percent, 100.0 * 0.25 / 2.0, 3.0, "one host");
    assert_near(four.cached_percent, 100.0 / 2.0, 1.0, "four hosts");

    let mut linked = bandwidth(100.0 * plan.demand_bytes_per_second());
    linked.hosts = 4;
    linked.storage.link = Some(Link {
        bytes_per_second: 0.5 * plan.demand_bytes_per_second() / 4.0,
        round_trip_seconds: 0.0,
    });
    let run = predicted(&plan, &linked);
    assert_near(run.epoch_au_percent[0], 50.0, 6.0, "AU behind links");
    assert!(run.link_busy_percent > 90.0, "{run:?}");
    assert_eq!(run.limited_by, LimitedBy::Storage);
}

#[test]
fn devices_in_a_stripe_add_up_for_many_readers() {
    let plan = unet3d(8, 50);
    let whole = 0.6 * plan.demand_bytes_per_second();
    let one = predicted(&plan, &bandwidth(whole));
    for devices in [2, 8, 200] {
        let mut scenario = bandwidth(whole / f64::from(devices));
        scenario.storage.stripe_bytes = Some(4096);
        scenario.storage.devices = devices;
        let run = predicted(&plan, &scenario);
        assert_near(run.au_percent, one.au_percent, 3.0, "devices");
    }
}

#[test]
fn a_single_reader_is_limited_by_its_requests_in_flight() {
    // One worker: a request of 128 KiB and one read ahead, each on one device.
    let mut plan = unet3d(1, 20);
    plan.loader = stormlp_training::plan::train_plan::LoaderPlan::Workers {
        read_threads: 1,
        prefetch_size: 1,
        batches_outstanding: 1,
        persistent: true,
        row_groups_in_flight: 1,
    };
    let latency = 0.001;
    let mut scenario = bandwidth(1e9);
    scenario.storage.devices = 8;
    scenario.storage.device.latency_seconds = latency;
    let run = predicted(&plan, &scenario);
    let request = 131_072.0;
    let rate = 2.0 * request / (latency + request / 1e9);
    let batch = 7.0 * plan.data.mean_file_bytes();
    let step = (batch / rate).max(0.323);
    assert_near(run.au_percent, 100.0 * 0.323 / step, 1.0, "AU");
}

#[test]
fn iops_queue_and_latency_limit_despite_ample_bandwidth() {
    let plan = unet3d(4, 80);
    let demand = plan.demand_bytes_per_second();
    let request = 131_072.0;
    let figures =
        |device: DeviceFigures| on(StorageModel { device, ..StorageModel::of_bandwidth(1e12) });
    let ample = StorageModel::of_bandwidth(1e12).device;
    let by_operations = DeviceFigures { reads_per_second: Some(0.5 * demand / request), ..ample };
    let latency = 0.0002;
    let by_queue = DeviceFigures {
        latency_seconds: latency,
        queue_depth: Some((0.5 * demand / request * latency).round() as u32),
        ..ample
    };
    // Sixteen workers with two requests each.
    let by_latency = DeviceFigures { latency_seconds: 32.0 * request / (0.5 * demand), ..ample };
    for (what, device) in
        [("operations", by_operations), ("queue", by_queue), ("latency", by_latency)]
    {
        let run = predicted(&plan, &figures(device));
        assert_near(run.au_percent, 50.0, 6.0, what);
        assert_eq!(run.limited_by, LimitedBy::Storage, "{what}");
    }
}

#[test]
fn connections_of_each_host_to_an_object_store_limit() {
    let plan = plan_by(PathKind::S3, "unet3d", 4, (80, 1));
    let demand = plan.demand_bytes_per_second();
    let store = |bytes_per_second, number, latency_seconds| {
        let mut storage = StorageModel::of_bandwidth(1e12);
        storage.device.latency_seconds = latency_seconds;
        storage.connections = Some(Connections { bytes_per_second, number });
        Scenario { direct: true, objects: true, ..on(storage) }
    };
    let ample = predicted(&plan, &store(1e11, Some(64), 1e-6));
    assert_eq!(ample.limited_by, LimitedBy::Nothing);
    // Eight connections carry half of the demand.
    let few = predicted(&plan, &store(0.5 * demand / 8.0, Some(8), 1e-6));
    assert_near(few.au_percent, 50.0, 6.0, "few connections");
    assert_eq!(few.storage_part(), Some(StoragePart::Connections));
    // Two hosts have twice as many.
    let two = Scenario { hosts: 2, ..store(0.5 * demand / 8.0, Some(8), 1e-6) };
    assert_near(predicted(&plan, &two).au_percent, 100.0, 6.0, "two hosts");
    // A connection for each of sixteen workers, which wait for bytes, or for the first of them.
    let slow = predicted(&plan, &store(0.5 * demand / 16.0, None, 1e-6));
    assert_near(slow.au_percent, 50.0, 6.0, "slow connections");
    let of_request = (16u64 << 20) as f64;
    let late = predicted(&plan, &store(1e12, None, 16.0 * of_request / (0.5 * demand)));
    // The last request of an object is smaller, and lasts as long.
    assert_near(late.au_percent, 47.0, 6.0, "late first bytes");
    assert_eq!(late.storage_part(), Some(StoragePart::Latency));
}

#[test]
fn a_measured_surface_gives_its_rate_at_the_current_depth() {
    let plan = unet3d(4, 30);
    let demand = plan.demand_bytes_per_second();
    let point = |depth, share: f64| SurfacePoint {
        io_bytes: 131_072,
        depth,
        bytes_per_second: share * demand,
        latency_seconds: 0.001,
    };
    let mut scenario = bandwidth(1.0);
    // Sixteen workers with two requests each.
    scenario.storage.surface = Surface::through([point(1, 0.05), point(32, 0.5), point(64, 9.0)]);
    let run = predicted(&plan, &scenario);
    assert_near(run.au_percent, 50.0, 6.0, "AU");
}

#[test]
fn barrier_and_client_add_to_each_step() {
    let mut plan = unet3d(2, 40);
    let mut scenario = bandwidth(100e9);
    scenario.barrier_seconds = 0.017;
    let run = predicted(&plan, &scenario);
    assert_near(run.au_percent, 100.0 * 0.323 / 0.340, 0.2, "barrier");
    assert_eq!(run.limited_by, LimitedBy::Barrier);
    scenario.barrier_seconds = 0.0;
    plan.client = Some(ClientCost {
        step_seconds: 0.017,
        cpu_seconds_per_gib: 0.9,
        ..ClientCost::NONE.on(64)
    });
    let run = predicted(&plan, &scenario);
    assert_near(run.au_percent, 100.0 * 0.323 / 0.340, 0.2, "client");
    assert_eq!(run.limited_by, LimitedBy::Client);
    // One CPU for all samples: 0.9 s for each GiB.
    plan.client =
        Some(ClientCost { step_seconds: 0.001_25, cpu_seconds_per_gib: 0.9, ..ClientCost::NONE });
    let run = predicted(&plan, &scenario);
    let batches = 2.0 * 7.0 * plan.data.mean_file_bytes();
    let step = 0.9 * batches / GIB as f64;
    assert_near(run.au_percent, 100.0 * 0.323 / step, 2.0, "one CPU");
    assert_eq!(run.limited_by, LimitedBy::Client);
}

#[test]
fn storage_that_is_always_busy_is_the_limit_though_readers_wait_for_the_client_as_well() {
    let mut plan = plan("cosmoflow", 8, 100, 2);
    let demand = plan.demand_bytes_per_second();
    plan.client = Some(ClientCost {
        step_seconds: 0.000_55,
        cpu_seconds_per_gib: 0.85,
        ..ClientCost::NONE.on(64)
    });
    let run = predicted(&plan, &bandwidth(0.7 * demand));
    assert_eq!(run.limited_by, LimitedBy::Storage);
    assert!(run.storage_busy_percent > 95.0, "{}", run.storage_busy_percent);
}

#[test]
fn a_host_limits_what_it_reads_from_storage_and_cache() {
    let plan = plan("unet3d", 4, 30, 2);
    let demand = plan.demand_bytes_per_second();
    let mut scenario = bandwidth(10.0 * demand);
    scenario.storage.cache_bytes = Some(plan.data.bytes);
    scenario.host_bytes_per_second = Some(0.5 * demand);
    let run = predicted(&plan, &scenario);
    assert_near(run.epoch_au_percent[0], 50.0, 7.0, "from storage");
    assert_near(run.epoch_au_percent[1], 50.0, 7.0, "from the cache");
    assert_eq!(run.limited_by, LimitedBy::Client);
    assert!(run.host_busy_percent > 90.0, "{run:?}");
    scenario.hosts = 4;
    assert!(predicted(&plan, &scenario).au_percent > 99.0, "each host has its own rate");
}

#[test]
fn rounding_does_not_raise_au_above_100_percent() {
    let plan = unet3d(1, 12);
    let mut scenario = bandwidth(1.4184352895665708 * plan.demand_bytes_per_second() / 3.0);
    scenario.storage.devices = 3;
    scenario.storage.device.reads_per_second = Some(40_000.0);
    let run = predicted(&plan, &scenario);
    assert!(run.au_percent == 100.0 && run.epoch_au_percent == [100.0], "{run:?}");
}

#[test]
fn runs_that_would_last_for_decades_are_errors() {
    let error = simulate(&unet3d(3, 500), &bandwidth(1e3), &StopToken::new()).unwrap_err();
    assert_eq!(error, SimulateError::Endless);
}

#[test]
fn empty_plans_and_stopped_simulations_are_errors() {
    let nothing = TrainPlan { steps_per_epoch: 0, ..unet3d(2, 5) };
    let scenario = bandwidth(1e9);
    let error = simulate(&nothing, &scenario, &StopToken::new()).unwrap_err();
    assert!(error.to_string().contains("0 steps for 2"), "{error}");
    let stop = StopToken::new();
    stop.stop();
    let plan = unet3d(8, 500);
    assert_eq!(simulate(&plan, &scenario, &stop), Err(DriveError::Stopped.into()));
}

#[test]
fn every_builtin_workload_can_be_predicted() {
    for entry in catalog::CATALOG {
        let workload = entry.workload(&[]).unwrap();
        let request = TrainRequest {
            accelerators: Some(2),
            length: RunLength { steps: Some(5), epochs: Some(2) },
            ..TrainRequest::default()
        };
        let host = stormlp_fixtures::host();
        let plan = imagined(&workload, &request, &host, PathKind::Buffered).unwrap();
        let run = predicted(&plan, &bandwidth(5e9));
        let name = (entry.name, entry.accelerator);
        assert!(run.au_percent > 0.0 && run.events > 10, "{name:?}: {run:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn throughput_is_at_most_bandwidth_and_more_bandwidth_never_hurts(
        accelerators in 1u32..9,
        share in 0.1f64..1.5,
        devices in 1u32..6,
        latency in prop::sample::select(vec![0.0, 0.0001, 0.002]),
        iops in prop::sample::select(vec![None, Some(40_000.0)]),
        queue in prop::sample::select(vec![None, Some(16)]),
        stdev in prop::sample::select(vec![0.0, 30e6]),
    ) {
        let plan = unet3d(accelerators, 12);
        let mut scenario = bandwidth(share * plan.demand_bytes_per_second() / f64::from(devices));
        scenario.sample_stdev_bytes = stdev;
        scenario.storage.devices = devices;
        scenario.storage.device.latency_seconds = latency;
        scenario.storage.device.reads_per_second = iops;
        scenario.storage.device.queue_depth = queue;
        let run = predicted(&plan, &scenario);
        prop_assert!(run.storage_busy_percent <= 100.0 && run.au_percent <= 100.0);
        let bytes = 12.0 * f64::from(accelerators) * 7.0 * plan.data.mean_file_bytes();
        let least = bytes / scenario.storage.read_bytes_per_second();
        // Sizes are drawn about their mean.
        let slack = if stdev > 0.0 { 0.5 } else { 0.999 };
        prop_assert!(run.run_seconds >= least * slack);
        scenario.storage.device.read_bytes_per_second *= 1.5;
        let faster = predicted(&plan, &scenario);
        prop_assert!(faster.au_percent >= run.au_percent - 1.5, "{} {}", run.au_percent, faster.au_percent);
    }
}
