//! A small run for the tests of all renderers.

#![allow(clippy::unwrap_used)]

use super::run::document;
use super::workloads;
use crate::plan::catalog;
use crate::plan::metrics;
use crate::plan::metrics::Rule;
use crate::plan::request::{RunLength, TrainRequest};
use crate::plan::train_plan::TrainPlan;
use crate::plan::workload::Workload;
use crate::report::*;
use stormlp_core::facts::FoundFile;
use stormlp_core::facts::HostFacts;
use stormlp_core::histogram::LatencyUs;
use stormlp_core::report::{Ending, Head, NamedSeries, Report, ReportKind, Series};
use stormlp_core::telemetry::{DeviceDepth, DeviceQueue};
use stormlp_dataset::inventory::facts::Inventory;
use stormlp_show::document::Document;

/// Bytes read in an epoch, and the epoch's duration.
const BYTES: u64 = 24_628_905_504;
const SECONDS: f64 = 6.5;

/// The host of the report.
pub fn host() -> HostFacts {
    HostFacts { kernel: "6.18".to_string(), cpu_model: "Xeon".to_string(), ..HostFacts::fixture() }
}

/// unet3d on H100.
pub fn workload() -> Workload {
    catalog::find("unet3d", None).unwrap().workload(&[]).unwrap()
}

/// A plan with two accelerators.
pub fn plan() -> TrainPlan {
    let inventory = Inventory {
        folder: "/data/unet3d".into(),
        train: (0..168)
            .map(|index| FoundFile {
                name: format!("train/img_{index:03}_of_168.npz"),
                bytes: 146_600_628,
            })
            .collect(),
        ..Inventory::default()
    };
    let request = TrainRequest {
        accelerators: Some(2),
        length: RunLength { epochs: Some(2), ..RunLength::default() },
        ..TrainRequest::default()
    };
    TrainPlan::resolve(&workload(), &request, &host(), &inventory).unwrap().plan
}

/// The sums of a block that begins at `started` seconds, with steps of `step` seconds.
pub fn block(started: f64, step: f64) -> BlockSums {
    BlockSums {
        started_seconds: started,
        seconds: 2.0 + 11.0 * step,
        steps: 12,
        window_steps: 11,
        window_compute_seconds: 11.0 * 0.323,
        excluded_seconds: 2.0,
        compute_seconds: 12.0 * 0.323,
        fetch_seconds: 1.7,
        barrier_seconds: 0.1,
        first_fetch_seconds: 1.677,
    }
}

/// An epoch whose steps take `step` seconds.
pub fn epoch(plan: &TrainPlan, number: u32, step: f64) -> EpochReport {
    let started = f64::from(number - 1) * 7.0;
    let blocks = [block(started, step)];
    let rule = Rule {
        profile: plan.profile,
        batch_size: plan.batch_size,
        nominal_seconds: 0.323,
        sample_bytes: plan.data.sample_bytes,
    };
    let mut measures = metrics::epoch_measures(&rule, &[&blocks, &blocks]);
    measures.read_mib_per_second = BYTES as f64 / f64::from(1u32 << 20) / SECONDS;
    measures.preread_share = Some(0.34);
    measures.waiting_seconds =
        WaitingSeconds { storage: 1.25, cpu: 0.25, barrier: 0.2, startup: 3.35 };
    EpochReport {
        epoch: number,
        measures,
        cost: Cost { bytes_read: BYTES, ..Cost::default() },
        started_seconds: started,
        duration_seconds: SECONDS,
        cached_share: Some(0.25),
        cached_method: Some("cachestat".to_string()),
        device: Some(DeviceUse {
            busy_percent: 97.0,
            queue_depth: 7.5,
            request_bytes: 262_144.0,
            bytes_per_second: 2e9,
        }),
        slowest: Some(Slowest { accelerator: 1, kept_others_seconds: 0.2 }),
        latency: StepLatency::default(),
        accelerators: (0..2)
            .map(|accelerator| AcceleratorEpoch { accelerator, blocks: blocks.to_vec() })
            .collect(),
        evaluation: None,
    }
}

/// The report of a complete run.
pub fn report() -> TrainReport {
    let plan = plan();
    let epochs = vec![epoch(&plan, 1, 0.38), epoch(&plan, 2, 0.34)];
    let measures: Vec<Measures> = epochs.iter().map(|epoch| epoch.measures).collect();
    let mean = metrics::mean(&measures);
    let head = Head::new(
        ReportKind::Train,
        "stormlp train unet3d".to_string(),
        "2026-11-21T07:25:00Z".to_string(),
        host(),
    );
    let results = TrainResults {
        epochs,
        mean,
        stdev: metrics::spread(&measures),
        meets_threshold: mean.au_percent.profile >= 90.0,
        cost: Cost {
            bytes_read: 2 * BYTES,
            device_bytes_read: Some(40 << 30),
            cpu_user_seconds: 1.5,
            cpu_system_seconds: 3.25,
        },
        peak_rss_bytes: 300 << 20,
        duration_seconds: 13.5,
        runs: Vec::new(),
        latency: StepLatency {
            fetch_wait_us: Some(LatencyUs {
                p50: Some(12.0),
                p99: Some(41_000.0),
                max: 1_300_000.0,
                ..LatencyUs::default()
            }),
            ..StepLatency::default()
        },
        checkpoints: Vec::new(),
        devices: vec!["vda".to_string()],
        layout: "2 I/O threads, 16 chunks of 256 KiB each".to_string(),
        verdict: Verdict {
            bound: Bound::Storage,
            sentence: "storage-bound: 74 % of the waiting had reads in flight".to_string(),
        },
        calibration: None,
        find_max: None,
        hosts: Vec::new(),
        group: None,
        started_unix_seconds: 1_795_245_900.25,
        steps: Vec::new(),
    };
    // Slow at first, with a period of inactivity.
    let moved: Vec<u64> =
        (0..27u64).map(|n| [(n % 7).min(4), 0][usize::from(n / 6 == 2)] << 30).collect();
    let share = |part: u64| moved.iter().map(|bytes| bytes / 4 * part).collect();
    let depth = |depth, requests| DeviceDepth { depth, samples: 1000, requests };
    let series = Series {
        interval_seconds: 0.5,
        rank_interval_bytes: vec![share(1), share(3)],
        device_queues: vec![DeviceQueue {
            of: "nvme0n1".to_string(),
            depths: vec![depth(0, 100), depth(1, 300), depth(6, 600)],
        }],
        interval_bytes: moved,
        ..Series::default()
    };
    let name = "run 1".to_string();
    TrainReport {
        ending: Ending::Complete,
        series: vec![NamedSeries { name, series }],
        ..Report::new(head, plan, results)
    }
}

/// A small run, for the tests of all renderers.
pub fn sample_report() -> TrainReport {
    report()
}

/// Documents for the tests of all renderers.
pub fn samples() -> Vec<(&'static str, Document)> {
    let whole = catalog::CATALOG.iter().map(|entry| entry.workload(&[]).unwrap());
    vec![
        ("train", document(&report())),
        ("train_plan", super::plan(&self::plan())),
        ("workloads", workloads(&whole.collect::<Vec<_>>())),
    ]
}
