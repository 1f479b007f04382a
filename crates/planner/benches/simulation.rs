//! Speed of the simulation: unet3d on 10,000 accelerators, 500 steps and 5 epochs by default.
//! Pass others with `cargo bench -p stormlp-planner -- ACCELERATORS STEPS EPOCHS HOSTS DEVICES`.
//!
//! It does not use a statistics harness: one run takes half a minute, and its memory use matters as
//! much as its time.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Instant;

use stormlp_core::path::PathKind;
use stormlp_core::stop::StopToken;
use stormlp_planner::plan::{Scenario, StorageModel};
use stormlp_planner::simulate::simulate;
use stormlp_training::plan::catalog;
use stormlp_training::plan::request::{RunLength, TrainRequest};
use stormlp_training::plan::resolve::imagined;
use stormlp_training::plan::train_plan::TrainPlan;
use stormlp_transfer::telemetry::peak_rss_bytes;

/// unet3d on H100 with as many files as the steps need.
fn plan(accelerators: u32, steps: u64, epochs: u32) -> TrainPlan {
    let workload = catalog::find("unet3d", Some("h100")).unwrap();
    let request = TrainRequest {
        accelerators: Some(accelerators),
        length: RunLength { steps: Some(steps), epochs: Some(epochs) },
        files: Some(u64::from(accelerators) * 7 * steps),
        ..TrainRequest::default()
    };
    let workload = workload.workload(&[]).unwrap();
    let host = stormlp_fixtures::host();
    imagined(&workload, &request, &host, PathKind::Buffered).unwrap()
}

fn main() {
    let arguments = std::env::args().skip(1);
    let given: Vec<u64> = arguments.filter_map(|text| text.parse().ok()).collect();
    let or = |nth: usize, default| given.get(nth).copied().unwrap_or(default);
    // `cargo test --benches` runs this too, so keep debug builds short.
    let accelerators = or(0, if cfg!(debug_assertions) { 10 } else { 10_000 });
    let (steps, epochs) = (or(1, 500), or(2, 5));
    let (hosts, devices) = (or(3, 1) as u32, or(4, 1) as u32);
    let plan = plan(accelerators as u32, steps, epochs as u32);
    let mut storage =
        StorageModel::of_bandwidth(0.9 * plan.demand_bytes_per_second() / f64::from(devices));
    storage.devices = devices;
    storage.device.latency_seconds = 80e-6;
    let scenario = Scenario {
        hosts,
        barrier_seconds: if hosts > 1 { 100e-6 } else { 0.0 },
        sample_stdev_bytes: 68_341_808.0,
        ..Scenario::of(storage)
    };
    let began = Instant::now();
    let prediction = simulate(&plan, &scenario, &StopToken::new()).unwrap();
    let seconds = began.elapsed().as_secs_f64();
    let reads = (accelerators * steps * epochs * u64::from(plan.batch_size)) as f64;
    println!(
        "{accelerators} accelerators x {steps} steps x {epochs} epochs: {seconds:.1} s, {:.2} M reads/s, \
         {:.2} M events/s, {} MiB at most; AU {:.3} %, {:.1} simulated s, limited by {}",
        reads / seconds / 1e6,
        prediction.events as f64 / seconds / 1e6,
        peak_rss_bytes() >> 20,
        prediction.au_percent,
        prediction.run_seconds,
        prediction.limited_by.name(),
    );
}
