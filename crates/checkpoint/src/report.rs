//! Results of a checkpoint run.

use derive_more::{Add, AddAssign, Div};
use serde::{Deserialize, Serialize};

use crate::plan::checkpoint_plan::CheckpointPlan;
pub use crate::plan::choice::Arithmetic;
use crate::plan::knee::FindStreams;
use crate::plan::summary::Summary;
use stormlp_core::group::GroupFacts;
use stormlp_core::report::HostShare;
use stormlp_core::report::Report;

/// Minimum, mean and maximum over ranks, and rank 0's value; durations in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DurationSeconds {
    /// The slowest rank, as in MLPerf's rules.
    pub max: f64,
    /// Mean over ranks.
    pub mean: f64,
    /// The fastest rank.
    pub min: f64,
    /// Rank 0, as DLIO reports.
    pub rank0: f64,
}

/// Rates in GiB/s.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GibPerSecond {
    /// The lowest rate of any rank, as in MLPerf's rules.
    pub min_rank: f64,
    /// Mean of the per-rank rates.
    pub mean_rank: f64,
    /// The highest rate of any rank.
    pub max_rank: f64,
    /// All bytes over the slowest rank's duration.
    pub total: f64,
    /// All bytes over rank 0's duration, as DLIO reports.
    pub rank0: f64,
}

/// Seconds one rank spent in each part of its work. They are within its duration; the rest of the
/// duration is waiting for a thread.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, Add, AddAssign, Div)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parts {
    /// Opening (and preallocating) files.
    pub open_seconds: f64,
    /// Writing or reading, from the first transfer to the last of each file.
    pub transfer_seconds: f64,
    /// `fsync`.
    pub fsync_seconds: f64,
    /// Renaming to the final name and syncing the folder.
    pub rename_seconds: f64,
    /// Closing.
    pub close_seconds: f64,
}

impl Parts {
    /// Sum of all parts.
    pub fn total_seconds(&self) -> f64 {
        self.open_seconds
            + self.transfer_seconds
            + self.fsync_seconds
            + self.rename_seconds
            + self.close_seconds
    }
}

/// The result of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankResult {
    /// The rank.
    pub rank: u64,
    /// From the start of the checkpoint to the end of the rank's last file, in seconds.
    pub duration_seconds: f64,
    /// Bytes it moved.
    pub bytes: u64,
    /// Its rate.
    pub gib_per_second: f64,
    /// Breakdown of its time.
    pub parts: Parts,
}

/// Block-layer counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceBytes {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// Page cache residency of a checkpoint before its restore.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheBefore {
    /// Fraction of its bytes in the page cache, 0 to 1.
    pub share: f64,
    /// Whether its files had been explicitly dropped from the page cache.
    pub dropped: bool,
    /// Number of files whose residency came from `cachestat`; for the rest it came from `mincore`.
    pub by_cachestat: u64,
    /// Total number of files.
    pub files: u64,
}

/// Training during a save.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverlapResult {
    /// Duration of an emulated step in seconds.
    pub step_seconds: f64,
    /// Steps completed before the next checkpoint was due.
    pub steps: u32,
    /// How long training then waited for the save to finish, in seconds.
    pub held_seconds: f64,
    /// Total delay of the steps themselves, in seconds.
    pub late_seconds: f64,
    /// How long a blocking save would have stalled training, in seconds.
    pub blocking_seconds: f64,
}

/// One save or restore.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckpointResult {
    /// The checkpoint's step.
    pub step: u32,
    /// Start time in seconds since the start of the run.
    pub started_at_seconds: f64,
    /// The start time by this host's clock, in seconds since 1970; only with `--start-at`. For
    /// several hosts started this way, the earliest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_unix_seconds: Option<f64>,
    /// Bytes the ranks moved.
    pub bytes: u64,
    /// Durations over the ranks.
    pub duration_seconds: DurationSeconds,
    /// Rates over the ranks.
    pub gib_per_second: GibPerSecond,
    /// Time in each part, averaged over the ranks.
    pub mean_parts: Parts,
    /// Time in each part of the slowest rank.
    pub slowest_parts: Parts,
    /// Block-layer counters; `None` without a local device.
    pub device: Option<DeviceBytes>,
    /// Page cache residency before; restores only.
    pub page_cache_before: Option<CacheBefore>,
    /// Training during the save; overlapped saves only.
    pub overlap: Option<OverlapResult>,
    /// CPU seconds in user mode.
    pub cpu_user_seconds: f64,
    /// CPU seconds in the kernel.
    pub cpu_system_seconds: f64,
    /// All ranks. For several hosts started by clock, they are numbered consecutively from host to
    /// host.
    pub ranks: Vec<RankResult>,
    /// Each host's part, if reports of hosts started by clock were merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostPhase>,
    /// Fraction of the longest host's time during which all of these hosts were active, by their
    /// clocks, 0 to 1. `None` without a common clock or with a single host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once_share: Option<f64>,
}

/// A save or restore of one host started by clock, of the host's own checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostPhase {
    /// The host name, with the process if the host has several.
    pub name: String,
    /// Bytes moved.
    pub bytes: u64,
    /// From its own start to the end of its slowest rank, in seconds.
    pub duration_seconds: f64,
    /// Start time by its own clock, in seconds since 1970.
    pub started_unix_seconds: Option<f64>,
}

/// The report of `stormlp checkpoint`.
pub type CheckpointReport = Report<CheckpointPlan, CheckpointResults>;

/// The arithmetic of a report's headline: the profile's own, which applies to a single checkpoint.
/// For hosts with their own checkpoints it is all bytes over the longest duration.
pub fn headline_arithmetic(report: &CheckpointReport) -> Arithmetic {
    if report.results.is_of_detached_hosts() {
        Arithmetic::AllRanks
    } else {
        report.plan.profile.headline()
    }
}

impl CheckpointResults {
    /// Whether the results are merged from hosts that no launcher started, each with its own
    /// checkpoints.
    pub fn is_of_detached_hosts(&self) -> bool {
        !self.hosts.is_empty() && self.group.is_none()
    }
}

/// Measurements of a checkpoint run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckpointResults {
    /// The saves.
    pub saves: Vec<CheckpointResult>,
    /// The restores.
    pub restores: Vec<CheckpointResult>,
    /// Means over checkpoints by each arithmetic.
    pub summary: Summary,
    /// Total duration of the run, pauses included, in seconds.
    pub elapsed_seconds: f64,
    /// Bytes whose content was verified as correct; 0 without `--verify`.
    pub verified_bytes: u64,
    /// CPU seconds of the process in user mode, saves and restores together.
    pub cpu_user_seconds: f64,
    /// CPU seconds of the process in the kernel, saves and restores together.
    pub cpu_system_seconds: f64,
    /// Peak resident set size of the process in bytes.
    pub peak_rss_bytes: u64,
    /// The search for the fewest streams, with `--find-knee`; the other results are of one of its
    /// runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find_knee: Option<FindStreams>,
    /// Each host's share, by rank, if several hosts ran together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostShare>,
    /// How the hosts discovered each other; `None` with a single host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupFacts>,
}
pub mod contradictions;
