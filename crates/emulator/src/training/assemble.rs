//! From what was measured to the report.

use stormlp_model::histogram::LatencyHistogram;
use stormlp_model::report::Ending;
use stormlp_model::training::metrics::{self, Rule};
use stormlp_model::training::plan::TrainPlan;
use stormlp_model::training::report::{
    AcceleratorEpoch, AuPercent, BlockSums, Cost, DeviceUse, EpochReport, EvaluationReport,
    Measures, RunReport, Slowest, StepLatency, StepLists, Verdict, WaitingSeconds,
    WrittenCheckpoint, scored,
};
use stormlp_transfer::page_cache::Method;

use super::machine::{BlockTally, StepHistograms};
use super::measured::{PhaseKind, PhaseMeasured, RunMeasured};
use super::verdict;

pub use super::verdict::{READ_AHEAD_SHARE, read_ahead_share};

/// The epochs of a run.
pub fn epochs(plan: &TrainPlan, run: &RunMeasured) -> Vec<EpochReport> {
    let mut epochs: Vec<EpochReport> = Vec::new();
    for phase in &run.phases {
        match phase.kind {
            PhaseKind::Training => epochs.push(epoch(plan, phase)),
            PhaseKind::Evaluation => {
                if let Some(last) = epochs.last_mut() {
                    last.evaluation = evaluation(plan, phase);
                }
            }
        }
    }
    epochs
}

/// One epoch.
pub fn epoch(plan: &TrainPlan, phase: &PhaseMeasured) -> EpochReport {
    let accelerators = accelerators(phase);
    let blocks: Vec<&[BlockSums]> = accelerators.iter().map(|a| a.blocks.as_slice()).collect();
    let mut measures = metrics::epoch_measures(&Rule::of(plan), &blocks);
    let waiting = &phase.waiting;
    measures.waiting_seconds = WaitingSeconds {
        storage: waiting.storage_seconds,
        cpu: waiting.client_seconds,
        barrier: waiting.barrier_seconds,
        startup: waiting.startup_seconds,
    };
    let elapsed = phase.elapsed_seconds.max(f64::MIN_POSITIVE);
    measures.read_mib_per_second = phase.bytes_read as f64 / f64::from(1u32 << 20) / elapsed;
    let samples = plan.steps_per_epoch * plan.global_batch();
    let share = phase.preread_samples as f64 / samples.max(1) as f64;
    measures.preread_share = Some(share.min(1.0));
    EpochReport {
        epoch: phase.epoch,
        measures,
        cost: cost(phase),
        started_seconds: phase.started_seconds,
        duration_seconds: phase.elapsed_seconds,
        cached_share: phase.cached_share,
        cached_method: phase.cached_method.map(|method| {
            match method {
                Method::Cachestat => "cachestat",
                Method::Mincore => "mincore",
            }
            .to_string()
        }),
        device: device_use(phase),
        slowest: slowest(&phase.blamed_seconds),
        latency: step_latency(&phase.histograms, None),
        accelerators,
        evaluation: None,
    }
}

/// The accelerators that began a block in this phase, with their blocks.
fn accelerators(phase: &PhaseMeasured) -> Vec<AcceleratorEpoch> {
    let all = (0..).zip(&phase.blocks);
    all.filter(|(_, blocks)| !blocks.is_empty())
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

fn cost(phase: &PhaseMeasured) -> Cost {
    Cost {
        bytes_read: phase.bytes_read,
        device_bytes_read: phase.device.map(|device| device.read_bytes),
        cpu_user_seconds: phase.cpu.user_seconds,
        cpu_system_seconds: phase.cpu.system_seconds,
    }
}

fn device_use(phase: &PhaseMeasured) -> Option<DeviceUse> {
    let device = phase.device?;
    let milliseconds = (1e3 * phase.elapsed_seconds).max(f64::MIN_POSITIVE);
    Some(DeviceUse {
        busy_percent: (100.0 * device.busy_ms as f64 / milliseconds).min(100.0),
        queue_depth: device.queued_ms as f64 / milliseconds,
        request_bytes: device.read_bytes as f64 / device.reads.max(1) as f64,
        bytes_per_second: 1e3 * device.read_bytes as f64 / milliseconds,
    })
}

fn slowest(blamed_seconds: &[f64]) -> Option<Slowest> {
    let (accelerator, kept_others_seconds) = (0..)
        .zip(blamed_seconds.iter().copied())
        .max_by(|a: &(u32, f64), b| a.1.total_cmp(&b.1))?;
    (blamed_seconds.len() > 1 && kept_others_seconds > 0.0).then_some(Slowest {
        accelerator,
        kept_others_seconds,
    })
}

fn step_latency(histograms: &StepHistograms, read: Option<&LatencyHistogram>) -> StepLatency {
    StepLatency {
        fetch_wait_us: histograms.fetch.summary(),
        barrier_wait_us: histograms.barrier.summary(),
        compute_overshoot_us: histograms.overshoot.summary(),
        read_us: read.and_then(LatencyHistogram::summary),
    }
}

/// Distributions over the training phases of several runs; that of reads is over everything these
/// runs read.
pub fn latency(runs: &[RunMeasured]) -> StepLatency {
    let mut steps = StepHistograms::default();
    let mut reads = LatencyHistogram::new();
    for run in runs {
        for phase in &run.phases {
            if phase.kind == PhaseKind::Training {
                steps.fetch.merge(&phase.histograms.fetch);
                steps.barrier.merge(&phase.histograms.barrier);
                steps.overshoot.merge(&phase.histograms.overshoot);
            }
        }
        reads.merge(&run.read_latency);
    }
    step_latency(&steps, Some(&reads))
}

fn evaluation(plan: &TrainPlan, phase: &PhaseMeasured) -> Option<EvaluationReport> {
    let rules = plan.evaluation.as_ref()?;
    let accelerators = accelerators(phase);
    let blocks: Vec<&BlockSums> = accelerators.iter().flat_map(|a| &a.blocks).collect();
    let (mut au, mut throughput) = (0.0, 0.0);
    for block in &blocks {
        let (block_au, block_throughput) = metrics::evaluation(rules.batch_size, block);
        au += block_au / blocks.len() as f64;
        throughput += block_throughput;
    }
    Some(EvaluationReport {
        steps: blocks.iter().map(|block| block.steps).min().unwrap_or(0),
        au_percent: au,
        samples_per_second: throughput,
        started_seconds: phase.started_seconds,
        duration_seconds: phase.elapsed_seconds,
        bytes_read: phase.bytes_read,
        accelerators,
    })
}

/// One run as one of several. When it started on the wall clock is for the caller to say.
pub fn run_report(plan: &TrainPlan, number: u32, warm_up: bool, run: &RunMeasured) -> RunReport {
    let epochs = epochs(plan, run);
    let mean = metrics::mean(&scored(plan, &epochs));
    let complete = matches!(run.ending, Ending::Complete);
    RunReport {
        run: number,
        warm_up,
        mean,
        cost: Cost::total(epochs.iter().map(|epoch| &epoch.cost)),
        complete,
        meets_threshold: complete && mean.au_percent.profile >= plan.metric.threshold_percent,
        started_unix_seconds: 0.0,
        duration_seconds: run.elapsed_seconds,
        checkpoints: checkpoints(run),
        epochs,
    }
}

/// Checkpoints that training wrote.
pub fn checkpoints(run: &RunMeasured) -> Vec<WrittenCheckpoint> {
    let written = run.checkpoints.iter().map(|checkpoint| WrittenCheckpoint {
        epoch: checkpoint.epoch,
        step: checkpoint.step,
        bytes: checkpoint.bytes,
        started_seconds: checkpoint.started_seconds,
        duration_seconds: checkpoint.elapsed_seconds,
    });
    written.collect()
}

/// The times of every step, epoch by epoch; empty unless they were kept.
pub fn step_lists(run: &RunMeasured) -> Vec<StepLists> {
    let mut lists: Vec<StepLists> = Vec::new();
    for phase in run.phases.iter().filter(|p| !p.step_times.is_empty()) {
        match phase.kind {
            PhaseKind::Training => lists.push(StepLists {
                epoch: phase.epoch,
                steps: step_times(phase),
                evaluation: Vec::new(),
            }),
            PhaseKind::Evaluation => {
                if let Some(last) = lists.last_mut() {
                    last.evaluation = step_times(phase);
                }
            }
        }
    }
    lists
}

/// By accelerator and step: fetch wait and measured compute in seconds.
fn step_times(phase: &PhaseMeasured) -> Vec<Vec<(f32, f32)>> {
    let of_each = phase.step_times.iter().map(|steps| {
        let times = steps.iter();
        times
            .map(|step| (step.fetch_seconds, step.compute_seconds))
            .collect()
    });
    of_each.collect()
}

/// Why AU is what it is.
pub fn verdict(
    plan: &TrainPlan,
    epochs: &[&EpochReport],
    mean: &Measures,
    ceiling: Option<&AuPercent>,
) -> Verdict {
    verdict::verdict(plan, epochs, mean, ceiling)
}

/// How the threads were laid out, in words.
pub fn layout(run: &RunMeasured) -> String {
    let layout = &run.layout;
    format!(
        "{} I/O threads, up to {} chunks of {} KiB in flight in each, and one for compute",
        layout.threads,
        layout.depth,
        layout.chunk_bytes >> 10
    )
}
