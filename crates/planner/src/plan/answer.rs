//! The results of `stormlp plan` as plain data; all values are predictions.

use serde::{Deserialize, Serialize};

use super::checkpoint::CheckpointTimes;
use super::prediction::{LimitedBy, Prediction, StoragePart};
use super::storage::StorageModel;
use super::variants::RangeCause;
use stormlp_core::profile::Profile;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_training::plan::datasize::DataSize;

/// The result of `stormlp plan`, serialised as its JSON output.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizingAnswer {
    /// Always false: everything is simulated.
    pub measured: bool,
    /// Name of the workload.
    pub workload: String,
    /// The emulated accelerator.
    pub accelerator: String,
    /// The profile that defines read order and metrics.
    pub profile: Profile,
    /// Number of accelerators that AU and throughput refer to: the requested number, otherwise the
    /// largest that meets the threshold, or 1 if none does.
    pub accelerators: u32,
    /// Whether that number was requested.
    pub asked: bool,
    /// Number of hosts.
    pub hosts: u32,
    /// AU as defined by the profile.
    pub au_percent: f64,
    /// Required AU.
    pub threshold_percent: f64,
    /// Whether the threshold is reached.
    pub meets_threshold: bool,
    /// Samples per second of all accelerators.
    pub samples_per_second: f64,
    /// The same in MiB/s, based on the configured record length.
    pub mib_per_second: f64,
    /// MiB/s actually read: lower if a workload reads only some of the columns.
    pub read_mib_per_second: f64,
    /// Largest number of accelerators that meets the threshold; 0 if not even one does.
    pub largest_accelerators: u32,
    /// The range of possible numbers; `largest_accelerators` is the likely number.
    #[serde(flatten)]
    pub range: Range,
    /// Where the client's cost was measured, if the request names a client.
    pub client: Option<String>,
    /// Warnings about the client: that AU is an upper bound, or that the host was busy when its cost was
    /// measured.
    pub warnings: Vec<Warning>,
    /// The number that storage alone feeds, if hosts cost no time.
    pub storage_alone_accelerators: u32,
    /// Whether storage could feed more: something else limited the search first.
    pub is_lower_bound: bool,
    /// The limit of the requested number or, if none was requested, one accelerator more.
    pub limited_by: LimitedBy,
    /// The limiting part of storage, if storage is the limit.
    pub storage_part: Option<StoragePart>,
    /// The end of the search.
    pub search_limited_by: LimitedBy,
    /// The part of storage that ended it, if storage did.
    pub search_storage_part: Option<StoragePart>,
    /// The needs of the requested number of accelerators.
    #[serde(flatten)]
    pub need: Need,
    /// Storage in the syntax of `--storage`.
    pub storage: String,
    /// Source of the storage figures.
    pub storage_source: String,
    /// The storage figures as numbers.
    pub storage_model: StorageModel,
    /// The dataset required by MLPerf's rules.
    pub dataset: DataSize,
    /// Memory per host used by those rules.
    pub host_memory_bytes: u64,
    /// Whether that memory is this host's, and was not given.
    pub host_memory_assumed: bool,
    /// Maximum bytes per second that a host reads through its page cache; `None` for no limit.
    pub host_read_bytes_per_second: Option<f64>,
    /// Whether the requested hosts have room for no more than the largest number.
    pub hosts_are_full: bool,
    /// Duration of one run.
    pub run_seconds: f64,
    /// The full prediction for `accelerators`.
    pub prediction: Prediction,
    /// Checkpoint times, if the job writes checkpoints.
    pub checkpoint: Option<CheckpointTimes>,
    /// The rows that answer the question: the requested number, the largest, and the needs of
    /// the requested number.
    pub rows: Vec<AnswerRow>,
    /// Simulated numbers of accelerators, ascending.
    pub over_accelerators: Vec<AtCount>,
    /// Simulated numbers of devices, ascending, each with the maximum number of accelerators that
    /// it feeds.
    pub over_devices: Vec<AtCount>,
    /// Assumptions of the model.
    pub assumptions: Vec<String>,
    /// Known error of the model compared with measurements.
    pub model_error: String,
    /// The kinds of this plan that no published result is of.
    pub not_validated: Vec<&'static str>,
}

impl SizingAnswer {
    /// Whether the official client's cost, which AU leaves out, could turn the verdict.
    pub fn is_upper_bound(&self) -> bool {
        self.warnings.iter().any(|warning| warning.kind == WarningKind::UpperBound)
    }
}

/// How else the answer could be.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Range {
    /// The minimum and maximum number of accelerators that `range_causes` leave possible.
    #[serde(rename = "largest_accelerators_range")]
    pub accelerators: [u32; 2],
    /// The same of `au_percent`, at the answer's number of accelerators.
    #[serde(rename = "au_percent_range")]
    pub au_percent: [f64; 2],
    /// Unknown facts, and the answer with each of them changed.
    #[serde(rename = "range_causes")]
    pub causes: Vec<OtherAnswer>,
}

impl Range {
    /// The numbers of accelerators that stay possible around `likely` if hosts read as fast as
    /// assumed; `None` if their rate is no cause of the range.
    pub fn with_host_rate(&self, likely: u32) -> Option<[u32; 2]> {
        let (of_hosts, others): (Vec<&OtherAnswer>, Vec<&OtherAnswer>) =
            self.causes.iter().partition(|other| other.cause == RangeCause::Host);
        let counts = others.iter().map(|other| other.largest_accelerators);
        let left = counts.fold([likely; 2], |[low, high], count| [low.min(count), high.max(count)]);
        (!of_hosts.is_empty() && left != self.accelerators).then_some(left)
    }
}

/// The question that a row answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// The requested number of accelerators, or one if not even one meets the threshold.
    Asked,
    /// The largest number that meets the threshold on the same hosts and devices.
    Largest,
    /// The requested number on as many hosts and devices as it needs.
    Needed,
}

/// A row of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AnswerRow {
    /// Its question.
    #[serde(rename = "row")]
    pub kind: RowKind,
    /// The prediction.
    #[serde(flatten)]
    pub at: AtCount,
}

/// The hosts and devices that a number of accelerators needs; empty if none was requested.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Need {
    /// The prediction for the minimum number of hosts, and of devices for these hosts.
    #[serde(skip)]
    pub at: Option<AtCount>,
    /// Its dataset, and the duration of a run in seconds.
    #[serde(skip)]
    pub run: Option<(DataSize, f64)>,
    /// Largest number of devices tried, if it was not sufficient.
    pub tried_devices: Option<u32>,
    /// The number of hosts they were tried with.
    #[serde(skip)]
    pub tried_hosts: Option<u32>,
}

/// The answer with one assumption changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OtherAnswer {
    /// The unknown fact.
    pub cause: RangeCause,
    /// The changed assumption, to follow "if".
    pub assumption: String,
    /// Largest number of accelerators that meets the threshold.
    pub largest_accelerators: u32,
    /// AU of the accelerators that the answer's AU is of.
    pub au_percent: f64,
}

/// The prediction for one number of accelerators and devices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AtCount {
    /// Number of accelerators; over devices, the maximum that reaches the threshold, or 0.
    pub accelerators: u32,
    /// Number of hosts.
    pub hosts: u32,
    /// Number of devices, of each host if they are per host.
    pub devices: u32,
    /// AU as defined by the profile. This and the following figures are for one accelerator if
    /// there are none.
    pub au_percent: f64,
    /// Samples per second of all of them.
    pub samples_per_second: f64,
    /// The same in MiB/s, based on the configured record length.
    pub mib_per_second: f64,
    /// MiB/s actually read.
    pub read_mib_per_second: f64,
    /// The limit of this number of accelerators; over devices, one accelerator more.
    pub limited_by: LimitedBy,
    /// The limiting part of storage, if storage is the limit.
    pub storage_part: Option<StoragePart>,
    /// Whether AU reaches the threshold.
    pub meets: bool,
    /// Whether it does so only by samples prefetched before the first step.
    pub prefetch_bound: bool,
}

impl AtCount {
    /// The row for a prediction of this many accelerators, hosts and devices.
    pub fn of(
        (accelerators, hosts, devices): (u32, u32, u32),
        prediction: &Prediction,
        threshold_percent: f64,
    ) -> Self {
        Self {
            accelerators,
            hosts,
            devices,
            au_percent: prediction.au_percent,
            samples_per_second: prediction.samples_per_second,
            mib_per_second: prediction.mib_per_second,
            read_mib_per_second: prediction.read_mib_per_second,
            limited_by: prediction.limited_by,
            storage_part: prediction.storage_part(),
            meets: prediction.au_percent >= threshold_percent,
            prefetch_bound: false,
        }
    }
}
