//! The measurements of a phase, a run and several runs, and their form in the report.

use crate::plan::metrics::{self, Rule};
use crate::plan::train_plan::TrainPlan;
use crate::report::{
    AcceleratorEpoch, BlockSums, Cost, EpochReport, RunReport, Slowest, StepLatency, StepLists,
    TrainResults, WaitingSeconds, WrittenCheckpoint, scored,
};
use serde::{Deserialize, Serialize};
use stormlp_core::evidence::Evidence;
use stormlp_core::histogram::LatencyHistogram;
use stormlp_core::report::{Ending, HostShare, Series};
use stormlp_transfer::Backing;
use stormlp_transfer::telemetry::{CpuTimes, DeviceCounters};

use super::attribution::Reading;
use super::machine::{BlockTally, Machine, Nanos, StepHistograms};
use super::verdict::verdict;

/// The measurements of one run.
pub(super) struct RunMeasured {
    /// Its epochs, checkpoints and means.
    pub(super) report: RunReport,
    pub(super) ending: Ending,
    /// Times of every step, if requested.
    pub(super) steps: Vec<StepLists>,
    pub(super) series: Series,
    /// Transport evidence, combined over all I/O threads.
    pub(super) evidence: Option<Evidence>,
    pub(super) backing: Backing,
    /// Block devices that hold the files.
    pub(super) devices: Vec<String>,
}

/// Distributions over any number of epochs and runs, in constant memory.
#[derive(Debug, Default)]
pub(super) struct Distributions {
    /// Over the training of all epochs.
    pub(super) steps: StepHistograms,
    /// From taking a read to its last byte, over all reads.
    pub(super) reads: LatencyHistogram,
    /// Registrations of files with cuFile.
    pub(super) registrations: LatencyHistogram,
}

/// The measurements of one phase, by one host or by all of them together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PhaseMeasured {
    /// When it began on the clock of this host's run.
    pub started_ns: Nanos,
    /// How long it took.
    pub duration_ns: Nanos,
    /// Bytes read.
    pub bytes_read: u64,
    /// CPU time of the process.
    pub cpu: CpuTimes,
    /// Counts of this host's block devices; `None` if there are none, or for several hosts, because
    /// their devices have no common utilisation.
    pub device: Option<DeviceCounters>,
    /// Bytes read by the block devices of all hosts.
    pub device_bytes_read: Option<u64>,
    /// Time that accelerators waited for data, by cause.
    pub waiting: WaitingSeconds,
    /// Share of the dataset in the page cache at its start.
    pub cached_share: Option<f64>,
    /// The accelerators that began a block, with their blocks.
    pub accelerators: Vec<AcceleratorEpoch>,
    /// The accelerator that its host's other accelerators waited for longest.
    pub slowest: Option<Slowest>,
    /// How long this host waited for other hosts at each step barrier.
    pub waits_us: Vec<u32>,
    /// The share of each host, once they have been put together.
    pub hosts: Vec<HostShare>,
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
    /// The measurements of `machine` and the counters between `first` and `last`; the first of its
    /// accelerators has the number `first_accelerator`.
    pub fn between(
        [first, last]: [&Reading; 2],
        waiting: WaitingSeconds,
        machine: &Machine,
        first_accelerator: u32,
    ) -> Self {
        let device = first.device.zip(last.device).map(|(first, last)| last.since(first));
        Self {
            started_ns: first.now,
            duration_ns: last.now - first.now,
            bytes_read: last.bytes - first.bytes,
            cpu: last.cpu.since(first.cpu),
            device,
            device_bytes_read: device.map(|device| device.read_bytes),
            waiting,
            cached_share: None,
            accelerators: accelerators(&machine.blocks(), first_accelerator),
            slowest: slowest(&machine.delayed_others_ns(), first_accelerator),
            waits_us: Vec::new(),
            hosts: Vec::new(),
            checkpoints: Vec::new(),
            preread_samples: machine.preread_samples(),
            histograms: machine.histograms().clone(),
            steps: machine.step_times(),
        }
    }

    /// Adds the next host's measurements of the same phase: sums, the longest duration,
    /// accelerators by number. The clock stays the first host's.
    #[must_use]
    fn and(mut self, next: Self) -> Self {
        self.duration_ns = self.duration_ns.max(next.duration_ns);
        self.bytes_read += next.bytes_read;
        self.cpu.user_seconds += next.cpu.user_seconds;
        self.cpu.system_seconds += next.cpu.system_seconds;
        self.device = None;
        let device_bytes = self.device_bytes_read.zip(next.device_bytes_read);
        self.device_bytes_read = device_bytes.map(|(own, theirs)| own + theirs);
        self.waiting += next.waiting;
        self.cached_share =
            [self.cached_share, next.cached_share].into_iter().flatten().reduce(f64::max);
        self.accelerators.extend(next.accelerators);
        self.slowest = Slowest::of(self.slowest.into_iter().chain(next.slowest));
        self.checkpoints.extend(next.checkpoints);
        self.preread_samples += next.preread_samples;
        self.histograms.merge(&next.histograms);
        self.steps.extend(next.steps);
        self
    }

    /// Becomes the phase as `all` hosts measured it, by rank, on the clock of this one.
    ///
    /// Only durations are compared, never clocks: of the hosts that waited for each other at a
    /// barrier, the one that waited least came last, and its wait is the cost of the barrier itself.
    pub(super) fn take_all(&mut self, all: Vec<Self>, names: Vec<String>) {
        let started_ns = self.started_ns;
        let waits: Vec<&[u32]> = all.iter().map(|part| part.waits_us.as_slice()).collect();
        let last_arrivals = last_arrivals(&waits);
        let share = |(nth, (part, name)): (usize, (&Self, String))| HostShare {
            name,
            bytes: part.bytes_read,
            cpu_seconds: part.cpu.total_seconds(),
            slowest: last_arrivals.iter().filter(|(last, _)| *last == nth).count() as u64,
        };
        let hosts = all.iter().zip(names).enumerate().map(share).collect();
        if let Some(sum) = all.into_iter().reduce(Self::and) {
            *self = Self { started_ns, hosts, ..sum };
        }
        for (_, waited_us) in last_arrivals {
            self.histograms.between_hosts.record_ns(1000 * u64::from(waited_us));
        }
    }

    /// The end on the clock of this host's run.
    pub(super) fn ended_ns(&self) -> Nanos {
        self.started_ns + self.duration_ns
    }

    fn seconds(&self) -> f64 {
        seconds(self.duration_ns)
    }
}

/// For each step with a wait of all hosts at its end: the host that came last, and how long it
/// waited. Of hosts that arrived together the first is chosen.
fn last_arrivals(waits_us: &[&[u32]]) -> Vec<(usize, u32)> {
    let steps = waits_us.iter().map(|waits| waits.len()).min().unwrap_or(0);
    let at_step = |step: usize| {
        let waits = waits_us.iter().map(|waits| waits[step]);
        waits.enumerate().min_by_key(|(_, wait)| *wait)
    };
    (0..steps).filter_map(at_step).collect()
}

/// The report of one epoch's training.
pub fn epoch(plan: &TrainPlan, epoch: u32, phase: &PhaseMeasured) -> EpochReport {
    let accelerators = phase.accelerators.clone();
    let blocks: Vec<&[BlockSums]> = accelerators.iter().map(|a| a.blocks.as_slice()).collect();
    let mut measures = metrics::epoch_measures(&Rule::of(plan), &blocks);
    measures.waiting_seconds = phase.waiting;
    let elapsed = phase.seconds().max(f64::MIN_POSITIVE);
    measures.read_mib_per_second = phase.bytes_read as f64 / f64::from(1u32 << 20) / elapsed;
    let samples = plan.steps_per_epoch * plan.global_batch();
    let share = phase.preread_samples as f64 / samples.max(1) as f64;
    measures.prefetched_share = share.min(1.0);
    EpochReport {
        epoch,
        measures,
        cost: Cost {
            bytes_read: phase.bytes_read,
            device_bytes_read: phase.device_bytes_read,
            cpu_user_seconds: phase.cpu.user_seconds,
            cpu_system_seconds: phase.cpu.system_seconds,
        },
        started_seconds: seconds(phase.started_ns),
        duration_seconds: phase.seconds(),
        cached_share: phase.cached_share,
        device_busy_percent: phase
            .device
            .map(|device| (device.busy_ms as f64 / (10.0 * elapsed)).min(100.0)),
        slowest: phase.slowest,
        latency: step_latency(&phase.histograms),
        accelerators,
        hosts: phase.hosts.clone(),
    }
}

/// The accelerators that began a block, with their blocks, by rank; ranks start at `first`.
fn accelerators(blocks: &[Vec<BlockTally>], first: u32) -> Vec<AcceleratorEpoch> {
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

fn slowest(delayed_others_ns: &[Nanos], first: u32) -> Option<Slowest> {
    let delayed = (first..).zip(delayed_others_ns).filter(|(_, ns)| **ns > 0);
    Slowest::of(
        delayed
            .map(|(accelerator, ns)| Slowest { accelerator, delayed_others_seconds: seconds(*ns) }),
    )
}

/// Summarises the distributions; the reads' is not known here.
pub(super) fn step_latency(histograms: &StepHistograms) -> StepLatency {
    StepLatency {
        fetch_wait_us: histograms.fetch.summary(),
        barrier_wait_us: histograms.barrier.summary(),
        compute_overshoot_us: histograms.overshoot.summary(),
        read_us: None,
        registration_us: None,
    }
}

/// Seconds of a time on the clock of a run.
pub(super) fn seconds(now: Nanos) -> f64 {
    now as f64 / 1e9
}

/// Computes means and sums over the measurements of a run that has taken `duration_seconds`;
/// `complete` if it has finished.
pub(super) fn sum_up(run: &mut RunReport, plan: &TrainPlan, complete: bool, duration_seconds: f64) {
    run.mean = metrics::mean(&scored(plan, &run.epochs));
    run.cost = Cost::total(run.epochs.iter().map(|epoch| &epoch.cost));
    run.complete = complete;
    let reached = run.mean.au_percent.profile >= plan.metric.threshold_percent;
    run.meets_threshold = complete && reached;
    run.duration_seconds = duration_seconds;
}

/// Fills in the figures that follow from the `reports` of the runs so far, the last of which had
/// this `ending`.
pub(super) fn take_runs(
    results: &mut TrainResults,
    plan: &TrainPlan,
    reports: Vec<RunReport>,
    ending: &Ending,
) {
    // For a run cut short in its warm-up there is no other run to report.
    let first = reports.iter().position(|run| !run.warm_up).unwrap_or(0);
    let of_scored = &reports[first..];
    let epochs: Vec<&EpochReport> = of_scored.iter().flat_map(|run| &run.epochs).collect();
    let measures = scored(plan, epochs.iter().copied());
    let (shown, timed) = (of_scored.last(), timed(of_scored));
    results.mean = metrics::mean(&measures);
    results.stdev = metrics::spread(&measures);
    // MLPerf asks it of each scored run.
    results.meets_threshold = *ending == Ending::Complete
        && !measures.is_empty()
        && of_scored.iter().all(|run| run.meets_threshold)
        && results.mean.au_percent.profile >= plan.metric.threshold_percent;
    results.cost = Cost::total(timed.iter().map(|run| &run.cost)).shared_by(timed.len());
    let seconds: f64 = timed.iter().map(|run| run.duration_seconds).sum();
    results.duration_seconds = seconds / timed.len().max(1) as f64;
    results.verdict = verdict(plan, &epochs, &results.mean, None, None);
    results.hosts = shares(&epochs);
    results.epochs = shown.map_or_else(Vec::new, |run| run.epochs.clone());
    results.checkpoints = shown.map_or_else(Vec::new, |run| run.checkpoints.clone());
    results.started_unix_seconds = reports.first().map_or(0.0, |run| run.started_unix_seconds);
    results.runs = if plan.runs > 1 { reports } else { Vec::new() };
}

/// The share of each host in all `epochs`.
fn shares(epochs: &[&EpochReport]) -> Vec<HostShare> {
    let mut sums: Vec<HostShare> = Vec::new();
    for (rank, share) in epochs.iter().flat_map(|epoch| epoch.hosts.iter().enumerate()) {
        match sums.get_mut(rank) {
            None => sums.push(share.clone()),
            Some(sum) => {
                sum.bytes += share.bytes;
                sum.cpu_seconds += share.cpu_seconds;
                sum.slowest += share.slowest;
            }
        }
    }
    sums
}

/// The runs that represent a run's duration; incomplete ones are excluded if there are complete
/// ones.
fn timed(runs: &[RunReport]) -> Vec<&RunReport> {
    let whole: Vec<&RunReport> = runs.iter().filter(|run| run.complete).collect();
    if whole.is_empty() { runs.iter().collect() } else { whole }
}

/// The result of an epoch, in one line.
pub(super) fn epoch_line(plan: &TrainPlan, epoch: &EpochReport) -> String {
    let cut_short = epoch.shortfall(plan).map_or(String::new(), |said| format!(", {said}"));
    let measures = &epoch.measures;
    if epoch.fewest_steps() == 0 {
        let number = epoch.epoch;
        return format!("epoch {number} of {}{cut_short}: no measurement", plan.epochs);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_least_came_last() {
        // The second host is late in the second step, so the first one waits for it.
        let [one, other] = [[30, 20_060, 40], [90, 45, 41]];
        assert_eq!(last_arrivals(&[&one, &other]), [(0, 30), (1, 45), (0, 40)]);
    }

    #[test]
    fn steps_not_shared_by_all_are_ignored() {
        assert_eq!(last_arrivals(&[&[1, 2], &[3]]), [(0, 1)]);
        assert_eq!(last_arrivals(&[]), []);
    }

    #[test]
    fn a_run_that_was_cut_short_is_in_no_mean() {
        let run = |run: u32, complete: bool| RunReport { run, complete, ..RunReport::default() };
        let numbers =
            |runs: &[RunReport]| -> Vec<u32> { timed(runs).iter().map(|run| run.run).collect() };
        assert_eq!(numbers(&[run(2, true), run(3, true), run(4, false)]), [2, 3]);
        assert_eq!(numbers(&[run(1, false)]), [1], "there is nothing better");
    }
}
