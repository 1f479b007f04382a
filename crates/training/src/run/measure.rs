//! Converts the measurements of a phase and a run to the report's form.

use crate::plan::metrics;
use crate::plan::metrics::Rule;
use crate::plan::train_plan::{EvaluationPlan, TrainPlan};
use crate::report::{
    AcceleratorEpoch, BlockSums, Cost, DeviceUse, EpochReport, EvaluationReport, RunReport,
    Slowest, StepLatency, WaitingSeconds, WrittenCheckpoint, scored,
};
use stormlp_transfer::page_cache::Method;

use super::attribution::Reading;
use super::cache::Cached;
use super::machine::{BlockTally, Nanos, StepHistograms, StepTimes};

/// The measurements of one phase.
pub struct PhaseMeasured {
    /// The counters at its start.
    pub first: Reading,
    /// The counters at its end.
    pub last: Reading,
    /// Time that accelerators waited for data, by cause.
    pub waiting: WaitingSeconds,
    /// The cached share of the dataset at its start; `None` when nothing is read.
    pub cached: Option<Cached>,
    /// The accelerators that began a block, with their blocks.
    pub accelerators: Vec<AcceleratorEpoch>,
    /// How long each accelerator kept the others waiting at barriers.
    pub blamed_ns: Vec<Nanos>,
    /// The number of the first accelerator.
    pub first_accelerator: u32,
    /// How long each step barrier waited for other hosts.
    pub waits_us: Vec<u32>,
    /// Bytes read by the block devices of several hosts; for a single host see its readings.
    pub device_read_bytes: Option<u64>,
    /// Checkpoints written within it.
    pub checkpoints: Vec<WrittenCheckpoint>,
    /// Samples received before AU's window began.
    pub preread_samples: u64,
    /// Histograms of compute, waits and steps.
    pub histograms: StepHistograms,
    /// Times of every step; empty unless requested.
    pub steps: Vec<Vec<(f32, f32)>>,
}

impl PhaseMeasured {
    fn bytes_read(&self) -> u64 {
        self.last.bytes - self.first.bytes
    }

    fn seconds(&self) -> f64 {
        (self.last.now - self.first.now) as f64 / 1e9
    }
}

/// The report of one epoch's training.
pub fn epoch(plan: &TrainPlan, epoch: u32, phase: &PhaseMeasured) -> EpochReport {
    let accelerators = phase.accelerators.clone();
    let blocks: Vec<&[BlockSums]> = accelerators.iter().map(|a| a.blocks.as_slice()).collect();
    let mut measures = metrics::epoch_measures(&Rule::of(plan), &blocks);
    measures.waiting_seconds = phase.waiting;
    let elapsed = phase.seconds().max(f64::MIN_POSITIVE);
    measures.read_mib_per_second = phase.bytes_read() as f64 / f64::from(1u32 << 20) / elapsed;
    let samples = plan.steps_per_epoch * plan.global_batch();
    let share = phase.preread_samples as f64 / samples.max(1) as f64;
    measures.preread_share = Some(share.min(1.0));
    let cpu = phase.last.cpu.since(phase.first.cpu);
    let device = phase.first.device.zip(phase.last.device).map(|(first, last)| last.since(first));
    let milliseconds = 1e3 * elapsed;
    EpochReport {
        epoch,
        measures,
        cost: Cost {
            bytes_read: phase.bytes_read(),
            device_bytes_read: phase.device_read_bytes.or(device.map(|device| device.read_bytes)),
            cpu_user_seconds: cpu.user_seconds,
            cpu_system_seconds: cpu.system_seconds,
        },
        started_seconds: phase.first.now as f64 / 1e9,
        duration_seconds: phase.seconds(),
        cached_share: phase.cached.and_then(|cached| cached.share),
        cached_method: phase.cached.and_then(|cached| cached.method).map(|method| {
            match method {
                Method::Cachestat => "cachestat",
                Method::Mincore => "mincore",
            }
            .to_string()
        }),
        device: device.map(|device| DeviceUse {
            busy_percent: (100.0 * device.busy_ms as f64 / milliseconds).min(100.0),
            queue_depth: device.queued_ms as f64 / milliseconds,
            request_bytes: device.read_bytes as f64 / device.reads.max(1) as f64,
            bytes_per_second: 1e3 * device.read_bytes as f64 / milliseconds,
        }),
        slowest: slowest(&phase.blamed_ns, phase.first_accelerator),
        latency: step_latency(&phase.histograms),
        accelerators,
        evaluation: None,
    }
}

/// The accelerators that began a block, with their blocks, by rank; ranks start at `first`.
pub fn accelerators(blocks: &[Vec<BlockTally>], first: u32) -> Vec<AcceleratorEpoch> {
    (first..)
        .zip(blocks)
        .filter(|(_, blocks)| !blocks.is_empty())
        .map(|(accelerator, blocks)| AcceleratorEpoch {
            accelerator,
            blocks: blocks.iter().map(block_sums).collect(),
        })
        .collect()
}

fn block_sums(block: &BlockTally) -> BlockSums {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    BlockSums {
        started_seconds: seconds(block.start_ns),
        seconds: seconds(block.end_ns - block.start_ns),
        steps: block.steps,
        window_steps: block.window_steps,
        window_compute_seconds: seconds(block.window_compute_ns),
        excluded_seconds: seconds(block.excluded_ns),
        compute_seconds: seconds(block.compute_ns),
        fetch_seconds: seconds(block.fetch_ns),
        barrier_seconds: seconds(block.barrier_ns),
        first_fetch_seconds: seconds(block.first_fetch_ns),
    }
}

fn slowest(blamed_ns: &[Nanos], first: u32) -> Option<Slowest> {
    let (accelerator, most) = (first..).zip(blamed_ns.iter().copied()).max_by_key(|(_, ns)| *ns)?;
    (blamed_ns.len() > 1 && most > 0)
        .then_some(Slowest { accelerator, kept_others_seconds: most as f64 / 1e9 })
}

/// Summarises the distributions; that of reads is not known here.
pub(super) fn step_latency(histograms: &StepHistograms) -> StepLatency {
    StepLatency {
        fetch_wait_us: histograms.fetch.summary(),
        barrier_wait_us: histograms.barrier.summary(),
        compute_overshoot_us: histograms.overshoot.summary(),
        read_us: None,
    }
}

/// The report of one evaluation.
pub(super) fn evaluation(plan: &EvaluationPlan, phase: &PhaseMeasured) -> EvaluationReport {
    let accelerators = phase.accelerators.clone();
    let blocks: Vec<&BlockSums> = accelerators.iter().flat_map(|a| &a.blocks).collect();
    let (mut au, mut throughput) = (0.0, 0.0);
    for block in &blocks {
        let (block_au, block_throughput) = metrics::evaluation(plan.batch_size, block);
        au += block_au / blocks.len() as f64;
        throughput += block_throughput;
    }
    EvaluationReport {
        steps: blocks.iter().map(|block| block.steps).min().unwrap_or(0),
        au_percent: au,
        samples_per_second: throughput,
        started_seconds: phase.first.now as f64 / 1e9,
        duration_seconds: phase.seconds(),
        bytes_read: phase.bytes_read(),
        accelerators,
    }
}

/// Computes means and sums over a run's measurements until `now`; `complete` if it has finished.
pub(super) fn sum_up(run: &mut RunReport, plan: &TrainPlan, complete: bool, now: Nanos) {
    run.mean = metrics::mean(&scored(plan, &run.epochs));
    run.cost = Cost::total(run.epochs.iter().map(|epoch| &epoch.cost));
    run.complete = complete;
    let reached = run.mean.au_percent.profile >= plan.metric.threshold_percent;
    run.meets_threshold = complete && reached;
    run.duration_seconds = now as f64 / 1e9;
}

/// Fetch wait and measured compute in seconds, by accelerator and step.
pub(super) fn step_lists(times: Vec<Vec<StepTimes>>) -> Vec<Vec<(f32, f32)>> {
    let pair = |step: StepTimes| (step.fetch_seconds, step.compute_seconds);
    let of_each = times.into_iter();
    of_each.map(|steps| steps.into_iter().map(pair).collect()).collect()
}

/// The result of an epoch, in one line.
pub(super) fn epoch_line(plan: &TrainPlan, epoch: &EpochReport) -> String {
    let cut_short = epoch.shortfall(plan).map_or(String::new(), |said| format!(", {said}"));
    let measures = &epoch.measures;
    if epoch.fewest_steps() == 0 {
        let number = epoch.epoch;
        return format!("epoch {number} of {}{cut_short}: nothing was measured", plan.epochs);
    }
    format!(
        "epoch {} of {}{cut_short}: AU {:.1} %, {:.2} samples/s, {:.1} MiB/s",
        epoch.epoch,
        plan.epochs,
        measures.au_percent.profile,
        measures.samples_per_second,
        measures.mib_per_second
    )
}
