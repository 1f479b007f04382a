//! What came out of a checkpoint run.

use derive_more::{Add, AddAssign, Div};
use serde::{Deserialize, Serialize};

use crate::plan::checkpoint_plan::CheckpointPlan;
pub use crate::plan::choice::Arithmetic;
use crate::plan::knee::FindStreams;
use crate::plan::summary::Summary;
use stormlp_core::group::GroupFacts;
use stormlp_core::report::HostShare;
use stormlp_core::report::Report;

/// The smallest, mean and largest over ranks, and rank 0's; durations in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DurationSeconds {
    /// The slowest rank's: MLPerf's rule.
    pub max: f64,
    /// The mean over ranks.
    pub mean: f64,
    /// The fastest rank's.
    pub min: f64,
    /// Rank 0's: what DLIO reports.
    pub rank0: f64,
}

/// Rates in GiB/s.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GibPerSecond {
    /// The lowest of the ranks' own rates: MLPerf's rule.
    pub min_rank: f64,
    /// The mean of the ranks' own rates.
    pub mean_rank: f64,
    /// The highest of the ranks' own rates.
    pub max_rank: f64,
    /// All bytes over the slowest rank's duration.
    pub total: f64,
    /// All bytes over rank 0's duration: what DLIO reports.
    pub rank0: f64,
}

/// Seconds one rank spent in each part of its work. They lie inside its duration; what is
/// missing from it is waiting for a thread.
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
    /// All parts together.
    pub fn total_seconds(&self) -> f64 {
        self.open_seconds
            + self.transfer_seconds
            + self.fsync_seconds
            + self.rename_seconds
            + self.close_seconds
    }
}

/// What one rank did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankResult {
    /// The rank.
    pub rank: u64,
    /// From the start of the checkpoint to the end of the rank's last file, in seconds.
    pub duration_seconds: f64,
    /// Bytes it moved.
    pub bytes: u64,
    /// Its own rate.
    pub gib_per_second: f64,
    /// Where the time went.
    pub parts: Parts,
}

/// What the block layer counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceBytes {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// What the page cache held of a checkpoint before it was restored.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheBefore {
    /// Share of its bytes in the page cache, 0 to 1.
    pub share: f64,
    /// Whether its files had been dropped from the page cache on purpose.
    pub dropped: bool,
    /// Files of which residency was asked with `cachestat`; the rest with `mincore`.
    pub by_cachestat: u64,
    /// Files in all.
    pub files: u64,
}

/// What training did while a checkpoint was saved.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverlapResult {
    /// Length of an emulated step in seconds.
    pub step_seconds: f64,
    /// Steps that ran until the next checkpoint was due.
    pub steps: u32,
    /// How long training waited after those steps for the save to end, in seconds.
    pub held_seconds: f64,
    /// By how much the steps themselves ended late, in seconds over all of them.
    pub late_seconds: f64,
    /// How long a save that is not overlapped would have held training up, in seconds.
    pub blocking_seconds: f64,
}

/// One save or restore.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckpointResult {
    /// Which checkpoint.
    pub step: u32,
    /// When it started, in seconds since the run did.
    pub started_at_seconds: f64,
    /// The same by this host's clock, in seconds since 1970; only with `--start-at`. Of several hosts
    /// that began so, when the first of them did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_unix_seconds: Option<f64>,
    /// Bytes the ranks moved.
    pub bytes: u64,
    /// Durations over the ranks.
    pub duration_seconds: DurationSeconds,
    /// Rates over the ranks.
    pub gib_per_second: GibPerSecond,
    /// Mean over the ranks of the time in each part.
    pub mean_parts: Parts,
    /// The parts of the slowest rank.
    pub slowest_parts: Parts,
    /// What the block layer counted; `None` where there is no local device.
    pub device: Option<DeviceBytes>,
    /// What the page cache held before; restores only.
    pub page_cache_before: Option<CacheBefore>,
    /// Training beside it; overlapped saves only.
    pub overlap: Option<OverlapResult>,
    /// CPU seconds in user mode.
    pub cpu_user_seconds: f64,
    /// CPU seconds in the kernel.
    pub cpu_system_seconds: f64,
    /// Every rank. Of several hosts that began by their clocks they are counted on from host to host.
    pub ranks: Vec<RankResult>,
    /// What each host did of it, where hosts that began by their clocks were put together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostPhase>,
    /// The share of the longest host's time in which all of these hosts were at it, by their clocks, 0
    /// to 1; `None` where they have no clock in common, or one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once_share: Option<f64>,
}

/// A save or restore of one host that began by its clock: of a checkpoint of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostPhase {
    /// The host, with its process where the host has several.
    pub name: String,
    /// Bytes that it moved.
    pub bytes: u64,
    /// From its own start to the end of its slowest rank, in seconds.
    pub duration_seconds: f64,
    /// When it started by its own clock, in seconds since 1970.
    pub started_unix_seconds: Option<f64>,
}

/// The report of `stormlp checkpoint`.
pub type CheckpointReport = Report<CheckpointPlan, CheckpointResults>;

/// The arithmetic of a report's headline: the profile's own, which is of one checkpoint. Of hosts with
/// checkpoints of their own it is all bytes over the longest time of all.
pub fn headline_arithmetic(report: &CheckpointReport) -> Arithmetic {
    if report.results.is_of_detached_hosts() {
        Arithmetic::AllRanks
    } else {
        report.plan.profile.headline()
    }
}

impl CheckpointResults {
    /// Whether they are put together of what hosts measured that no launcher started, each of
    /// checkpoints of its own.
    pub fn is_of_detached_hosts(&self) -> bool {
        !self.hosts.is_empty() && self.group.is_none()
    }
}

/// What a checkpoint run measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckpointResults {
    /// What was saved.
    pub saves: Vec<CheckpointResult>,
    /// What was restored.
    pub restores: Vec<CheckpointResult>,
    /// Means over checkpoints, by each arithmetic.
    pub summary: Summary,
    /// How long the run took in all, pauses included, in seconds.
    pub elapsed_seconds: f64,
    /// Bytes whose content was checked and found right; 0 without `--verify`.
    pub verified_bytes: u64,
    /// CPU seconds of the process in user mode, saves and restores together.
    pub cpu_user_seconds: f64,
    /// CPU seconds of the process in the kernel, saves and restores together.
    pub cpu_system_seconds: f64,
    /// The largest resident set of the process in bytes.
    pub peak_rss_bytes: u64,
    /// The search for the fewest streams, which all else is a run of, with `--find-knee`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find_knee: Option<FindStreams>,
    /// Each host's share in all of it, by rank, where several ran it together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostShare>,
    /// How those found each other; `None` where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupFacts>,
}
pub mod contradictions;
