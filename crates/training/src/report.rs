//! What a training run measured. The keys are the ones scripts rely on.

use derive_more::{Add, AddAssign, Div, Mul};
use serde::{Deserialize, Serialize};

use crate::plan::find_max::FindMax;
use crate::plan::train_plan::TrainPlan;
use stormlp_core::group::{GroupFacts, HostReport};
use stormlp_core::histogram::LatencyUs;
use stormlp_core::profile::Profile;
use stormlp_core::report::Report;

/// The report of `stormlp train`.
pub type TrainReport = Report<TrainPlan, TrainResults>;

/// What a training run measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrainResults {
    /// The workload's name.
    pub workload: String,
    /// The emulated accelerator.
    pub accelerator: String,
    /// Emulated accelerators in all.
    pub accelerators: u32,
    /// The edition whose formulas `au_percent.profile` and the throughput follow.
    pub profile: Profile,
    /// Steps of each accelerator in an epoch.
    pub steps_per_epoch: u64,
    /// Epochs of the scored run; with several, of the last one.
    pub epochs: Vec<EpochReport>,
    /// Means over the epochs (of all scored runs).
    #[serde(flatten)]
    pub mean: Measures,
    /// Population standard deviations over the same.
    pub stdev: Spread,
    /// AU to reach, in percent.
    pub threshold_percent: f64,
    /// Whether every epoch ran and the mean AU by the profile's formula reaches it.
    pub meets_threshold: bool,
    /// Bytes and processor time of the epochs of a scored run, at the mean over those runs;
    /// evaluations and what lies between epochs are not in it.
    #[serde(flatten)]
    pub cost: Cost,
    /// Peak resident memory of the process in bytes.
    pub peak_rss_bytes: u64,
    /// Wall time of a scored run in seconds, at the mean.
    pub duration_seconds: f64,
    /// Each run when there were several, the warm-up first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunReport>,
    /// Distributions over all accelerators and steps of the scored runs.
    pub latency: StepLatency,
    /// Checkpoints that training wrote; with several runs, those of the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<WrittenCheckpoint>,
    /// Block devices behind the dataset; empty when there is none.
    pub devices: Vec<String>,
    /// How the host's threads were laid out, in words.
    pub layout: String,
    /// Why AU is what it is.
    pub verdict: Verdict,
    /// The same workload on storage that takes no time, when that was measured too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// The search for the largest number of accelerators, which all else is of, with `--find-max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find_max: Option<FindMax>,
    /// Each process, by rank, where several ran it together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostReport>,
    /// How they found each other, and what their barriers cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupFacts>,
    /// When the run started, in seconds since 1970, for the files of other tools.
    pub started_unix_seconds: f64,
    /// Times of every step, run by run, when they were asked for; not saved.
    #[serde(skip)]
    pub steps: Vec<Vec<StepLists>>,
}

impl TrainResults {
    /// The epochs of every scored run.
    pub fn scored_epochs(&self) -> Vec<&EpochReport> {
        let scored = self.runs.iter().filter(|run| !run.warm_up);
        match scored.clone().next() {
            Some(_) => scored.flat_map(|run| &run.epochs).collect(),
            // One run, or one that ended in its warm-up: it has nothing better to show.
            None => self.epochs.iter().collect(),
        }
    }
}

/// AU in percent by each definition.
#[derive(
    Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, Add, AddAssign, Mul, Div,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuPercent {
    /// By the profile's formula; this is what the threshold is held against.
    pub profile: f64,
    /// Nominal compute over the window without the excluded steps.
    pub nominal: f64,
    /// The compute that the steps had over the same window, as it was drawn.
    pub measured: f64,
    /// Nominal compute of all steps over the whole time, the first fetch included.
    pub including_startup: f64,
}

/// Seconds that accelerators waited, summed over them, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, Add, AddAssign, Div)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitingSeconds {
    /// Reads were in flight and storage was working on them.
    pub storage: f64,
    /// Reads were being copied or waited for a CPU while storage was idle, and the official
    /// client's own work of each step, where a run stands for one.
    pub cpu: f64,
    /// Other accelerators were slower.
    pub barrier: f64,
    /// The first batch of each epoch: loaders start cold.
    pub startup: f64,
}

impl WaitingSeconds {
    /// All waiting.
    pub fn total(&self) -> f64 {
        self.storage + self.cpu + self.barrier + self.startup
    }
}

/// What an epoch, or the mean of several, comes down to.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measures {
    /// AU in percent.
    pub au_percent: AuPercent,
    /// Samples per second of all accelerators by the profile's formula.
    pub samples_per_second: f64,
    /// The same in MiB/s by the configured record length.
    pub mib_per_second: f64,
    /// Samples per second over the window of `au_percent.measured`, whatever the profile.
    pub window_samples_per_second: f64,
    /// MiB/s that reads really brought, over the whole epoch.
    pub read_mib_per_second: f64,
    /// Samples read before AU's window began, as a share of the epoch's samples, 0 to 1; `None`
    /// when that was not measured.
    pub preread_share: Option<f64>,
    /// Where the waiting went.
    pub waiting_seconds: WaitingSeconds,
}

/// Population standard deviations over epochs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// Of `au_percent.profile`, in points.
    pub au_percent: f64,
    /// Of samples per second.
    pub samples_per_second: f64,
    /// Of MiB/s.
    pub mib_per_second: f64,
}

/// What a run or an epoch took from storage and host.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Bytes that reads brought.
    pub bytes_read: u64,
    /// Bytes that the block devices read meanwhile; `None` where none is behind the dataset.
    pub device_bytes_read: Option<u64>,
    /// Processor time of the process in user mode.
    pub cpu_user_seconds: f64,
    /// Processor time of the process in the kernel.
    pub cpu_system_seconds: f64,
}

impl Cost {
    /// What all of `costs` took together.
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

    /// The mean of what `count` took together.
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
    /// Bytes and processor time.
    #[serde(flatten)]
    pub cost: Cost,
    /// Seconds from the start of its run.
    pub started_seconds: f64,
    /// Wall time in seconds.
    pub duration_seconds: f64,
    /// Share of the files in the page cache when it began, 0 to 1; `None` when nothing is read.
    pub cached_share: Option<f64>,
    /// How that share was found out.
    pub cached_method: Option<String>,
    /// What the block devices did.
    pub device: Option<DeviceUse>,
    /// The accelerator that the others waited for longest.
    pub slowest: Option<Slowest>,
    /// Distributions over all accelerators and steps.
    pub latency: StepLatency,
    /// Each accelerator, with its blocks of steps.
    pub accelerators: Vec<AcceleratorEpoch>,
    /// The evaluation that followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<EvaluationReport>,
}

impl EpochReport {
    /// Whether every accelerator made all its steps; the last epoch of a run that was stopped or
    /// failed may have been cut short.
    pub fn is_whole(&self, plan: &TrainPlan) -> bool {
        self.accelerators.len() == plan.accelerators as usize
            && self.accelerators.iter().all(|accelerator| {
                let blocks = accelerator.blocks.iter();
                blocks.map(|block| block.steps).sum::<u64>() >= plan.steps_per_epoch
            })
    }
}

impl EpochReport {
    /// Steps of each accelerator.
    fn steps(&self) -> impl Iterator<Item = u64> {
        let blocks = self.accelerators.iter().map(|one| one.blocks.iter());
        blocks.map(|blocks| blocks.map(|block| block.steps).sum())
    }

    /// Steps that every accelerator made.
    pub fn fewest_steps(&self) -> u64 {
        self.steps().min().unwrap_or(0)
    }

    /// Whether an accelerator made all steps of `plan`: then the epoch came to its end, and others
    /// had fewer where files are dealt out whole. Of one in which another host was lost that is not known.
    pub fn came_to_its_end(&self, plan: &TrainPlan) -> bool {
        !self.lacks_hosts(plan) && self.steps().max().unwrap_or(0) >= plan.steps_per_epoch
    }

    /// Whether nothing is known of all accelerators of a host of `plan`.
    fn lacks_hosts(&self, plan: &TrainPlan) -> bool {
        let of_all = plan.hosts.iter().sum::<u32>() == plan.accelerators;
        let is_silent = |rank: u32| {
            let own = plan.accelerators_of(rank);
            !(self.accelerators.iter()).any(|one| own.contains(&one.accelerator))
        };
        of_all && (0..plan.hosts.len() as u32).any(is_silent)
    }

    /// What is to be said of an epoch of `plan` in which not every accelerator made all steps.
    pub fn shortfall(&self, plan: &TrainPlan) -> Option<String> {
        let fewest = self.fewest_steps();
        let of_all = plan.steps_per_epoch;
        (!self.is_whole(plan)).then(|| match self.came_to_its_end(plan) {
            true => format!("{fewest} to {of_all} steps, as files are dealt out"),
            false if self.lacks_hosts(plan) => {
                let (own, all) = (self.accelerators.len(), plan.accelerators);
                format!(
                    "cut short, and of {own} of {all} accelerators: the other hosts did not tell"
                )
            }
            false => format!("cut short after {fewest} of {of_all} steps"),
        })
    }
}

/// The measures of the epochs that count: those that ran to their end, or, where none of all did,
/// what there is.
pub fn scored<'a>(
    plan: &TrainPlan,
    epochs: impl IntoIterator<Item = &'a EpochReport>,
) -> Vec<Measures> {
    let (whole, cut_short): (Vec<_>, Vec<_>) =
        epochs.into_iter().partition(|epoch| epoch.is_whole(plan));
    let counting = if whole.is_empty() { cut_short } else { whole };
    counting.iter().map(|epoch| epoch.measures).collect()
}

/// What the block devices did over a period.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceUse {
    /// Share of the time with requests in flight, in percent.
    pub busy_percent: f64,
    /// Mean requests in flight.
    pub queue_depth: f64,
    /// Mean bytes of a read request.
    pub request_bytes: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
}

/// The accelerator that the others waited for longest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slowest {
    /// Its rank, from 0.
    pub accelerator: u32,
    /// Seconds it kept the others waiting at barriers.
    pub kept_others_seconds: f64,
}

/// Distributions over accelerators and steps, in microseconds; `None` when nothing was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepLatency {
    /// Fetch wait of every step but the first.
    pub fetch_wait_us: Option<LatencyUs>,
    /// Wait at the barrier.
    pub barrier_wait_us: Option<LatencyUs>,
    /// How much later than its end this host came to a computation; no part of its time.
    pub compute_overshoot_us: Option<LatencyUs>,
    /// From starting a read to its last byte; those of evaluations and loader starts too.
    pub read_us: Option<LatencyUs>,
}

/// One accelerator's epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcceleratorEpoch {
    /// Its rank, from 0.
    pub accelerator: u32,
    /// Its blocks of steps: one, unless checkpoints split the epoch.
    pub blocks: Vec<BlockSums>,
}

/// Sums over one block of steps of one accelerator: all that the formulas need.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockSums {
    /// When the block began, in seconds from the start of the run.
    pub started_seconds: f64,
    /// Wall time of the block by the profile's rule.
    pub seconds: f64,
    /// Steps computed.
    pub steps: u64,
    /// Steps inside AU's window.
    pub window_steps: u64,
    /// Measured compute of the window's steps.
    pub window_compute_seconds: f64,
    /// Fetch wait and compute of the steps left out of the window.
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

/// An evaluation after an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EvaluationReport {
    /// Steps of each accelerator.
    pub steps: u64,
    /// AU in percent, by measured compute.
    pub au_percent: f64,
    /// Samples per second of all accelerators, over the whole evaluation.
    pub samples_per_second: f64,
    /// Seconds from the start of the run.
    pub started_seconds: f64,
    /// Wall time in seconds.
    pub duration_seconds: f64,
    /// Bytes that reads brought.
    pub bytes_read: u64,
    /// Each accelerator; an evaluation is one block of steps.
    #[serde(default)]
    pub accelerators: Vec<AcceleratorEpoch>,
}

impl EvaluationReport {
    /// Whether every accelerator made all its steps.
    pub fn is_whole(&self, plan: &TrainPlan) -> bool {
        let planned = plan.evaluation.as_ref().map_or(0, |plan| plan.steps);
        self.accelerators.len() == plan.accelerators as usize && self.steps >= planned
    }
}

/// One of several runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunReport {
    /// Its number, from 1.
    pub run: u32,
    /// Whether it is the warm-up, which is not scored.
    pub warm_up: bool,
    /// Its epochs.
    pub epochs: Vec<EpochReport>,
    /// Means over its epochs.
    #[serde(flatten)]
    pub mean: Measures,
    /// Bytes and processor time.
    #[serde(flatten)]
    pub cost: Cost,
    /// Whether it ran to its end.
    #[serde(default)]
    pub complete: bool,
    /// Whether it did, and its mean AU reaches the threshold.
    pub meets_threshold: bool,
    /// When it started, in seconds since 1970 in UTC.
    #[serde(default)]
    pub started_unix_seconds: f64,
    /// Wall time in seconds.
    pub duration_seconds: f64,
    /// Checkpoints that it wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<WrittenCheckpoint>,
}

/// A checkpoint that training wrote.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WrittenCheckpoint {
    /// The epoch, from 1.
    pub epoch: u32,
    /// Steps computed when it was written.
    pub step: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Seconds from the start of the run.
    pub started_seconds: f64,
    /// Seconds it took.
    pub duration_seconds: f64,
}

/// What the accelerators waited for most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Nothing: the accelerators computed nearly all the time.
    Compute,
    /// Nothing either, but only because much of what they computed on had been read before AU's
    /// window began: storage was not asked to sustain the rate.
    ReadAhead,
    /// Storage.
    Storage,
    /// This host: copying, parsing, too few CPUs.
    Client,
    /// Storage and this host, about as much the one as the other.
    StorageAndClient,
    /// A slower peer.
    Barrier,
    /// The cold start of each epoch.
    Startup,
    /// Nothing was measured.
    Unknown,
}

/// Why AU is what it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// What it was mostly waiting for.
    pub bound: Bound,
    /// One sentence with the figures it rests on.
    pub sentence: String,
}

/// The same workload on storage that takes no time: the ceiling of this host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Calibration {
    /// Its AU.
    pub au_percent: AuPercent,
    /// Its samples per second.
    pub samples_per_second: f64,
}

/// The times of every step of one epoch, for the files of other tools; not part of the report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepLists {
    /// The epoch, from 1.
    pub epoch: u32,
    /// By accelerator and step: fetch wait and measured compute in seconds.
    pub steps: Vec<Vec<(f32, f32)>>,
    /// The same of the evaluation that followed; empty where there was none.
    pub evaluation: Vec<Vec<(f32, f32)>>,
}
pub mod contradictions;
