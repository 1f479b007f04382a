//! Durations and rates over ranks and over checkpoints, by each arithmetic in use.
//!
//! MLPerf's rules use the slowest rank's duration and the lowest rank's throughput. DLIO, whose
//! numbers are published, uses rank 0's duration, divides all bytes by it and averages the rates.
//! The two can differ by a large factor, so both are always reported by name.

use serde::{Deserialize, Serialize};

use crate::report::{CheckpointResult, DurationSeconds, GibPerSecond, Parts, RankResult};
use stormlp_core::stats::{mean, population_deviation};
use stormlp_core::units::GIB;

/// Mean and spread of a quantity over checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation with divisor n, as DLIO computes it.
    pub deviation: f64,
}

impl Spread {
    fn of(samples: &[f64]) -> Self {
        Self { mean: mean(samples), deviation: population_deviation(samples) }
    }
}

/// Duration and rate over checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DurationAndRate {
    /// Seconds.
    pub duration_seconds: Spread,
    /// GiB/s.
    pub gib_per_second: Spread,
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

/// `bytes` in `seconds` as GiB/s; 0 if no time passed.
pub fn gib_per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 / GIB as f64 / seconds } else { 0.0 }
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
        let slowest = ranks.iter().max_by(|a, b| a.duration_seconds.total_cmp(&b.duration_seconds));
        Self {
            step,
            started_at_seconds: 0.0,
            started_unix_seconds: None,
            bytes: ranks.iter().map(|rank| rank.bytes).sum(),
            gib_per_second: rates(&ranks, duration_seconds),
            duration_seconds,
            mean_parts: mean_parts(&ranks),
            slowest_parts: slowest.map(|rank| rank.parts).unwrap_or_default(),
            device: None,
            page_cache_before: None,
            overlap: None,
            cpu_user_seconds: 0.0,
            cpu_system_seconds: 0.0,
            ranks,
            hosts: Vec::new(),
            at_once_share: None,
        }
    }
}

/// Mean over the ranks with files.
fn mean_parts(ranks: &[RankResult]) -> Parts {
    let count = busy(ranks).count().max(1) as f64;
    busy(ranks).fold(Parts::default(), |sum, rank| sum + rank.parts) / count
}

/// Means of one kind of phase; `None` if nothing ran.
pub fn summarise(results: &[CheckpointResult]) -> Option<PhaseSummary> {
    if results.is_empty() {
        return None;
    }
    let spread = |pick: fn(&CheckpointResult) -> f64| {
        Spread::of(&results.iter().map(pick).collect::<Vec<_>>())
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn rank(rank: u64, duration_seconds: f64, bytes: u64) -> RankResult {
        RankResult {
            rank,
            duration_seconds,
            bytes,
            gib_per_second: gib_per_second(bytes, duration_seconds),
            parts: Parts::default(),
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
