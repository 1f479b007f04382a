//! Results of a training run. Scripts rely on these keys.

pub mod outcome;
pub mod verdict;

use derive_more::{Add, AddAssign, Div, Mul};
use serde::{Deserialize, Serialize};

use self::verdict::Verdict;
use crate::plan::find_max::FindMax;
use crate::plan::train_plan::TrainPlan;
use stormlp_core::group::GroupFacts;
use stormlp_core::histogram::LatencyUs;
use stormlp_core::report::{Ending, HostShare, Report};

/// The report of `stormlp train`.
pub type TrainReport = Report<TrainPlan, TrainResults>;

/// The measurements of a training run; the plan next to them describes their subject.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrainResults {
    /// Epochs of the scored run; of the last one if there are several.
    pub epochs: Vec<EpochReport>,
    /// Means over the epochs of all scored runs.
    #[serde(flatten)]
    pub mean: Measures,
    /// Population standard deviations over the same epochs.
    pub stdev: Spread,
    /// Whether every epoch ran and the mean AU by the profile's formula reaches the threshold.
    pub meets_threshold: bool,
    /// Mean bytes and CPU time of the epochs of a scored run; excludes the time between epochs.
    #[serde(flatten)]
    pub cost: Cost,
    /// Peak resident memory of the process in bytes.
    pub peak_rss_bytes: u64,
    /// Mean wall time of a scored run in seconds.
    pub duration_seconds: f64,
    /// All runs if there were several, the warm-up first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunReport>,
    /// Distributions over all accelerators and steps of the scored runs.
    pub latency: StepLatency,
    /// Checkpoints written during training; with several runs, the last one's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<WrittenCheckpoint>,
    /// Block devices that hold the dataset; empty if there are none.
    pub devices: Vec<String>,
    /// The cause of AU.
    pub verdict: Verdict,
    /// The same workload on infinitely fast storage, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Measures>,
    /// The search for the maximum number of accelerators (`--find-max`); all other fields describe
    /// its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find_max: Option<FindMax>,
    /// Each process by rank, if there were several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostShare>,
    /// How the processes connected, and the cost of their barriers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupFacts>,
    /// Start of the run in seconds since 1970, for the files of other tools.
    pub started_unix_seconds: f64,
    /// Times of every step by run, if requested; not saved.
    #[serde(skip)]
    pub steps: Vec<Vec<StepLists>>,
}

impl TrainResults {
    /// The epochs of all scored runs.
    pub fn scored_epochs(&self) -> Vec<&EpochReport> {
        let scored = self.runs.iter().filter(|run| !run.warm_up);
        match scored.clone().next() {
            Some(_) => scored.flat_map(|run| &run.epochs).collect(),
            // A single run, or one that ended in its warm-up: there is no other run to report.
            None => self.epochs.iter().collect(),
        }
    }

    /// The runs of `plan`, also a single one, whose figures have keys of the results.
    pub fn all_runs(&self, plan: &TrainPlan) -> Vec<RunReport> {
        if plan.runs > 1 || !self.runs.is_empty() {
            return self.runs.clone();
        }
        vec![RunReport {
            run: 1,
            epochs: self.epochs.clone(),
            meets_threshold: self.meets_threshold,
            started_unix_seconds: self.started_unix_seconds,
            duration_seconds: self.duration_seconds,
            checkpoints: self.checkpoints.clone(),
            ..RunReport::default()
        }]
    }
}

/// AU in percent by each definition.
#[derive(
    Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, Add, AddAssign, Mul, Div,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuPercent {
    /// By the profile's formula; compared against the threshold.
    pub profile: f64,
    /// Nominal compute over the window without the excluded steps.
    pub nominal: f64,
    /// Compute time of the steps over the same window, as drawn.
    pub measured: f64,
    /// Nominal compute of all steps over the whole time, including the first fetch.
    pub including_startup: f64,
}

/// Waiting time in seconds by cause, summed over accelerators.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, Add, AddAssign, Div)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitingSeconds {
    /// Reads were in flight and storage was working on them.
    pub storage: f64,
    /// Reads were being copied or waited for a CPU while storage was idle; also the client overhead
    /// of each step, if accounted for.
    pub cpu: f64,
    /// Other accelerators were slower.
    pub barrier: f64,
    /// Waiting for the first batch of each epoch, while loaders start cold.
    pub startup: f64,
}

impl WaitingSeconds {
    /// Total waiting time.
    pub fn total(&self) -> f64 {
        self.storage + self.cpu + self.barrier + self.startup
    }
}

/// Measures of an epoch, or their mean over several.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, Add, Div)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measures {
    /// AU in percent.
    pub au_percent: AuPercent,
    /// Samples per second over all accelerators by the profile's formula.
    pub samples_per_second: f64,
    /// The same in MiB/s by the configured record length.
    pub mib_per_second: f64,
    /// Samples per second over the window of `au_percent.measured`, for every profile.
    pub window_samples_per_second: f64,
    /// MiB/s actually read, over the whole epoch.
    pub read_mib_per_second: f64,
    /// Samples read before AU's window began, as a share of the epoch's samples, 0 to 1.
    pub prefetched_share: f64,
    /// Waiting time by cause.
    pub waiting_seconds: WaitingSeconds,
}

/// Population standard deviations over epochs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// Deviation of `au_percent.profile`, in points.
    pub au_percent: f64,
    /// Deviation of samples per second.
    pub samples_per_second: f64,
    /// Deviation of MiB/s.
    pub mib_per_second: f64,
}

/// Resources used by a run or an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes read by the block devices in the same time; `None` if there are none.
    pub device_bytes_read: Option<u64>,
    /// CPU time of the process in user mode.
    pub cpu_user_seconds: f64,
    /// CPU time of the process in the kernel.
    pub cpu_system_seconds: f64,
}

impl Cost {
    /// The sum of `costs`.
    pub fn total<'a>(costs: impl IntoIterator<Item = &'a Self>) -> Self {
        let sum = |sum: Self, cost: Self| Self {
            bytes_read: sum.bytes_read + cost.bytes_read,
            device_bytes_read: sum
                .device_bytes_read
                .zip(cost.device_bytes_read)
                .map(|(sum, bytes)| sum + bytes),
            cpu_user_seconds: sum.cpu_user_seconds + cost.cpu_user_seconds,
            cpu_system_seconds: sum.cpu_system_seconds + cost.cpu_system_seconds,
        };
        costs.into_iter().copied().reduce(sum).unwrap_or_default()
    }

    /// The mean, given the sum over `count` runs.
    #[must_use]
    pub fn shared_by(self, count: usize) -> Self {
        let count = count.max(1);
        Self {
            bytes_read: self.bytes_read / count as u64,
            device_bytes_read: self.device_bytes_read.map(|bytes| bytes / count as u64),
            cpu_user_seconds: self.cpu_user_seconds / count as f64,
            cpu_system_seconds: self.cpu_system_seconds / count as f64,
        }
    }
}

/// One epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EpochReport {
    /// Its number, from 1.
    pub epoch: u32,
    /// AU, throughput, waiting.
    #[serde(flatten)]
    pub measures: Measures,
    /// Bytes and CPU time.
    #[serde(flatten)]
    pub cost: Cost,
    /// Seconds from the start of its run.
    pub started_seconds: f64,
    /// Wall time in seconds.
    pub duration_seconds: f64,
    /// Share of the files in the page cache at its start, 0 to 1; `None` without reads.
    pub cached_share: Option<f64>,
    /// Share of the time in which the block devices had requests, in percent.
    pub device_busy_percent: Option<f64>,
    /// The accelerator that was waited for longest.
    pub slowest: Option<Slowest>,
    /// Distributions over all accelerators and steps.
    pub latency: StepLatency,
    /// The accelerators, with their blocks of steps.
    pub accelerators: Vec<AcceleratorEpoch>,
    /// The share of each process by rank, if there were several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostShare>,
}

impl EpochReport {
    /// Whether every accelerator completed all its steps; the last epoch of a run that was stopped
    /// or failed may be cut short.
    pub fn is_whole(&self, plan: &TrainPlan) -> bool {
        self.accelerators.len() == plan.accelerators as usize
            && self.accelerators.iter().all(|accelerator| {
                let blocks = accelerator.blocks.iter();
                blocks.map(|block| block.steps).sum::<u64>() >= plan.steps_per_epoch
            })
    }

    fn steps(&self) -> impl Iterator<Item = u64> {
        let blocks = self.accelerators.iter().map(|one| one.blocks.iter());
        blocks.map(|blocks| blocks.map(|block| block.steps).sum())
    }

    /// Steps completed by every accelerator.
    pub fn fewest_steps(&self) -> u64 {
        self.steps().min().unwrap_or(0)
    }

    /// Whether any accelerator completed all steps of `plan`. Then the epoch finished, and other
    /// accelerators had fewer steps because whole files are dealt out.
    pub fn is_complete_run(&self, plan: &TrainPlan) -> bool {
        self.steps().max().unwrap_or(0) >= plan.steps_per_epoch
    }

    /// Describes an epoch of `plan` in which not every accelerator completed all steps.
    pub fn shortfall(&self, plan: &TrainPlan) -> Option<String> {
        let fewest = self.fewest_steps();
        let of_all = plan.steps_per_epoch;
        (!self.is_whole(plan)).then(|| match self.is_complete_run(plan) {
            true => format!("{fewest} to {of_all} steps, as files are dealt out"),
            false => format!("cut short after {fewest} of {of_all} steps"),
        })
    }
}

/// The measures of the epochs that count: those that finished, or all if none did.
pub fn scored<'a>(
    plan: &TrainPlan,
    epochs: impl IntoIterator<Item = &'a EpochReport>,
) -> Vec<Measures> {
    let (whole, cut_short): (Vec<_>, Vec<_>) =
        epochs.into_iter().partition(|epoch| epoch.is_whole(plan));
    let counting = if whole.is_empty() { cut_short } else { whole };
    counting.iter().map(|epoch| epoch.measures).collect()
}

/// Whether the run that `report` is of met its threshold: it is complete, and its AU is high
/// enough.
pub fn meets_threshold(report: &TrainReport) -> bool {
    let results = &report.results;
    report.ending == Ending::Complete
        && !results.scored_epochs().is_empty()
        && results.mean.au_percent.profile >= report.plan.metric.threshold_percent
}

/// The accelerator that kept the rest waiting longest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slowest {
    /// Its rank, from 0.
    pub accelerator: u32,
    /// Seconds it kept the rest waiting at barriers.
    pub delayed_others_seconds: f64,
}

impl Slowest {
    /// The one of `all` that delayed the rest longest.
    pub fn of(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let seconds = |one: &Self| one.delayed_others_seconds;
        all.into_iter().max_by(|a, b| seconds(a).total_cmp(&seconds(b)))
    }
}

/// Distributions over accelerators and steps in microseconds; `None` without samples.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepLatency {
    /// Fetch wait of every step but the first.
    pub fetch_wait_us: Option<LatencyUs>,
    /// Wait at the barrier.
    pub barrier_wait_us: Option<LatencyUs>,
    /// Delay between the end of a computation and its handling by this host; not counted as compute
    /// time.
    pub compute_overshoot_us: Option<LatencyUs>,
    /// From the start of a read to its last byte, including loader starts.
    pub read_us: Option<LatencyUs>,
    /// Registration of a file with cuFile, which `read_us` does not contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_us: Option<LatencyUs>,
}

/// One accelerator's part of an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcceleratorEpoch {
    /// Its rank, from 0.
    pub accelerator: u32,
    /// Its blocks of steps: one, unless checkpoints split the epoch.
    pub blocks: Vec<BlockSums>,
}

/// Sums over one accelerator's block of steps: all inputs of the formulas.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockSums {
    /// When the block began, in seconds from the start of the run.
    pub started_seconds: f64,
    /// Wall time of the block by the profile's rule.
    pub seconds: f64,
    /// Steps completed.
    pub steps: u64,
    /// Steps inside AU's window.
    pub window_steps: u64,
    /// Measured compute of the window's steps.
    pub window_compute_seconds: f64,
    /// Fetch wait and compute of the steps excluded from the window.
    pub excluded_seconds: f64,
    /// Measured compute of all steps.
    pub compute_seconds: f64,
    /// Fetch wait of all steps.
    pub fetch_seconds: f64,
    /// Wait at barriers.
    pub barrier_seconds: f64,
    /// Fetch wait of the first step.
    pub first_fetch_seconds: f64,
}

/// One of several runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunReport {
    /// Its number, from 1.
    pub run: u32,
    /// Whether it is the unscored warm-up.
    pub warm_up: bool,
    /// Its epochs.
    pub epochs: Vec<EpochReport>,
    /// Means over its epochs.
    #[serde(flatten)]
    pub mean: Measures,
    /// Bytes and CPU time.
    #[serde(flatten)]
    pub cost: Cost,
    /// Whether it finished.
    #[serde(default)]
    pub complete: bool,
    /// Whether it finished and its mean AU reaches the threshold.
    pub meets_threshold: bool,
    /// Start time in seconds since 1970 (UTC).
    #[serde(default)]
    pub started_unix_seconds: f64,
    /// Wall time in seconds.
    pub duration_seconds: f64,
    /// Checkpoints written in this run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<WrittenCheckpoint>,
}

/// A checkpoint written during training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WrittenCheckpoint {
    /// The epoch, from 1.
    pub epoch: u32,
    /// Steps completed when it was written.
    pub step: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Seconds from the start of the run.
    pub started_seconds: f64,
    /// Duration in seconds.
    pub duration_seconds: f64,
}

/// If more than this share of the counted samples was read before AU's window began, AU says little
/// about storage.
const READ_AHEAD_SHARE: f64 = 0.3;

/// Samples read before the first counted step, as a share of the counted samples, from the means
/// `mean` of epochs of `plan`; `None` if they are few.
pub fn much_read_ahead(plan: &TrainPlan, mean: &Measures) -> Option<f64> {
    let steps = plan.steps_per_epoch as f64;
    let start = plan.metric.exclude_start_steps as f64;
    let counted = steps - start - plan.metric.exclude_end_steps as f64;
    // The samples of the excluded steps were also read ahead, but they do not count.
    let ahead = mean.prefetched_share * steps - start;
    let share = (ahead / counted).clamp(0.0, 1.0);
    (counted > 0.0 && share > READ_AHEAD_SHARE).then_some(share)
}

/// Times of every step of one epoch, for the files of other tools; not part of the report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepLists {
    /// The epoch, from 1.
    pub epoch: u32,
    /// Fetch wait and measured compute in seconds, by accelerator and step.
    pub steps: Vec<Vec<(f32, f32)>>,
}
