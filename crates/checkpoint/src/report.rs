//! Results of a checkpoint run: durations and rates over ranks and over checkpoints, by each
//! arithmetic in use.
//!
//! MLPerf's rules use the slowest rank's duration and the lowest rank's throughput. DLIO, which
//! publishes its numbers, uses rank 0's duration, divides all bytes by it and averages the rates.
//! The two can differ by a large factor, so both are always reported by name.

use derive_more::{Add, AddAssign, Div};
use serde::{Deserialize, Serialize};

use crate::plan::checkpoint_plan::CheckpointPlan;
use stormlp_core::group::GroupFacts;
pub use stormlp_core::report::DeviceBytes;
use stormlp_core::report::{HostShare, Report};
use stormlp_core::stats::{MeanAndDeviation, mean};
use stormlp_core::units::GIB;
pub use stormlp_core::units::gib_per_second;

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
pub struct PartSeconds {
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
    pub parts: PartSeconds,
}

/// Page cache residency of a checkpoint before its restore.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheBefore {
    /// Fraction of its bytes in the page cache, 0 to 1.
    pub share: f64,
    /// Whether its files had been explicitly dropped from the page cache.
    pub dropped: bool,
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
    pub stall_seconds: f64,
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
    /// Bytes the ranks moved.
    pub bytes: u64,
    /// Durations over the ranks.
    pub duration_seconds: DurationSeconds,
    /// Rates over the ranks.
    pub gib_per_second: GibPerSecond,
    /// Time in each part, averaged over the ranks.
    pub mean_parts: PartSeconds,
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
    /// All ranks.
    pub ranks: Vec<RankResult>,
}

/// The report of `stormlp checkpoint`.
pub type CheckpointReport = Report<CheckpointPlan, CheckpointResults>;

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
    /// Bytes verified as correct; 0 without `--verify`.
    pub verified_bytes: u64,
    /// CPU seconds of the process in user mode, saves and restores together.
    pub cpu_user_seconds: f64,
    /// CPU seconds of the process in the kernel, saves and restores together.
    pub cpu_system_seconds: f64,
    /// Peak resident set size of the process in bytes.
    pub peak_rss_bytes: u64,
    /// Each host's share, by rank, if several hosts ran together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostShare>,
    /// How the hosts discovered each other; `None` with a single host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupFacts>,
}

/// Duration and rate over checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DurationAndRate {
    /// Seconds.
    pub duration_seconds: MeanAndDeviation,
    /// GiB/s.
    pub gib_per_second: MeanAndDeviation,
}

/// Means of the saves or of the restores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhaseSummary {
    /// Number of checkpoints.
    pub checkpoints: u32,
    /// MLPerf's rules: the slowest rank's duration, the lowest rank's throughput.
    pub mlperf_rules: DurationAndRate,
    /// DLIO: rank 0's duration, all bytes divided by it; the mean of the rates.
    pub dlio: DurationAndRate,
    /// All bytes over the slowest rank's duration; the mean of the rates.
    pub all_ranks: DurationAndRate,
    /// All bytes of all checkpoints over the sum of the slowest ranks' durations, in GiB/s.
    pub total_over_total_gib_per_second: f64,
    /// CPU seconds of the process per GiB moved.
    pub cpu_seconds_per_gib: f64,
}

/// Means of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// Saves; `None` if there were none.
    pub save: Option<PhaseSummary>,
    /// Restores; `None` if there were none.
    pub restore: Option<PhaseSummary>,
}

/// Durations over the ranks; ranks without files are ignored.
pub fn durations(ranks: &[RankResult]) -> DurationSeconds {
    let taken: Vec<f64> = busy(ranks).map(|rank| rank.duration_seconds).collect();
    DurationSeconds {
        max: taken.iter().copied().fold(0.0, f64::max),
        mean: mean(&taken),
        min: taken.iter().copied().reduce(f64::min).unwrap_or(0.0),
        rank0: ranks.first().map_or(0.0, |rank| rank.duration_seconds),
    }
}

/// Rates over the ranks; ranks without files are ignored.
pub fn rates(ranks: &[RankResult], durations: DurationSeconds) -> GibPerSecond {
    let own: Vec<f64> = busy(ranks).map(|rank| rank.gib_per_second).collect();
    let bytes = ranks.iter().map(|rank| rank.bytes).sum();
    GibPerSecond {
        min_rank: own.iter().copied().reduce(f64::min).unwrap_or(0.0),
        mean_rank: mean(&own),
        max_rank: own.iter().copied().fold(0.0, f64::max),
        total: gib_per_second(bytes, durations.max),
        rank0: gib_per_second(bytes, durations.rank0),
    }
}

fn busy(ranks: &[RankResult]) -> impl Iterator<Item = &RankResult> {
    ranks.iter().filter(|rank| rank.bytes > 0)
}

impl CheckpointResult {
    /// The result of `ranks` for checkpoint `step`; values that are not per-rank are left unset.
    pub fn of_ranks(step: u32, ranks: Vec<RankResult>) -> Self {
        let duration_seconds = durations(&ranks);
        Self {
            step,
            started_at_seconds: 0.0,
            bytes: ranks.iter().map(|rank| rank.bytes).sum(),
            gib_per_second: rates(&ranks, duration_seconds),
            duration_seconds,
            mean_parts: mean_parts(&ranks),
            device: None,
            page_cache_before: None,
            overlap: None,
            cpu_user_seconds: 0.0,
            cpu_system_seconds: 0.0,
            ranks,
        }
    }
}

/// Mean over the ranks with files.
fn mean_parts(ranks: &[RankResult]) -> PartSeconds {
    let count = busy(ranks).count().max(1) as f64;
    busy(ranks).fold(PartSeconds::default(), |sum, rank| sum + rank.parts) / count
}

/// Means of one kind of phase; `None` if none ran.
pub fn summarise(results: &[CheckpointResult]) -> Option<PhaseSummary> {
    if results.is_empty() {
        return None;
    }
    let spread = |pick: fn(&CheckpointResult) -> f64| {
        MeanAndDeviation::of(&results.iter().map(pick).collect::<Vec<_>>())
    };
    let pair = |seconds, rate| DurationAndRate {
        duration_seconds: spread(seconds),
        gib_per_second: spread(rate),
    };
    let bytes: u64 = results.iter().map(|result| result.bytes).sum();
    let seconds: f64 = results.iter().map(|result| result.duration_seconds.max).sum();
    let cpu: f64 =
        results.iter().map(|result| result.cpu_user_seconds + result.cpu_system_seconds).sum();
    Some(PhaseSummary {
        checkpoints: results.len() as u32,
        mlperf_rules: pair(|r| r.duration_seconds.max, |r| r.gib_per_second.min_rank),
        dlio: pair(|r| r.duration_seconds.rank0, |r| r.gib_per_second.rank0),
        all_ranks: pair(|r| r.duration_seconds.max, |r| r.gib_per_second.total),
        total_over_total_gib_per_second: gib_per_second(bytes, seconds),
        cpu_seconds_per_gib: cpu / (bytes.max(1) as f64 / GIB as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(rank: u64, duration_seconds: f64, bytes: u64) -> RankResult {
        RankResult {
            rank,
            duration_seconds,
            bytes,
            gib_per_second: gib_per_second(bytes, duration_seconds),
            parts: PartSeconds::default(),
        }
    }

    #[test]
    fn the_slowest_rank_and_rank_0_tell_different_stories() {
        let ranks = [rank(0, 1.0, 2 * GIB), rank(1, 4.0, 2 * GIB), rank(2, 0.0, 0)];
        let seconds = durations(&ranks);
        assert_eq!((seconds.max, seconds.mean, seconds.min), (4.0, 2.5, 1.0));
        let rates = rates(&ranks, seconds);
        assert_eq!((rates.rank0, rates.total, rates.min_rank), (4.0, 1.0, 0.5));
    }

    #[test]
    fn the_mean_of_rates_is_not_total_over_total() {
        let result = |seconds: f64| CheckpointResult {
            cpu_user_seconds: 0.25,
            cpu_system_seconds: 0.25,
            ..CheckpointResult::of_ranks(1, vec![rank(0, seconds, GIB)])
        };
        let summary = summarise(&[result(1.0), result(4.0)]).unwrap();
        assert_eq!(summary.dlio.gib_per_second.mean, 0.625);
        assert_eq!(summary.total_over_total_gib_per_second, 0.4);
        assert_eq!(summary.cpu_seconds_per_gib, 0.5);
        assert_eq!(summarise(&[]), None);
    }
}
