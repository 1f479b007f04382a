//! The time of checkpoints, and how often to write them.
//!
//! A job that fails every M seconds on average, saves in δ and restores in R, wastes the smallest
//! share of time if it saves after every
//!
//! - √(2 δ M) seconds: J. W. Young, "A first order approximation to the optimum checkpoint
//!   interval", Communications of the ACM 17 (1974);
//! - √(2 δ M) · (1 + ⅓ √(δ / 2M) + ⅑ δ / 2M) − δ for δ < 2M, else M: J. T. Daly, "A higher order
//!   estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer
//!   Systems 22 (2006), which also gives the total run time of a job.

use serde::{Deserialize, Serialize};

/// Acceptable share of the time spent on checkpoints if the failure rate of the job is unknown.
pub const AFFORDABLE_PERCENT: f64 = 5.0;

/// Checkpoint times of a job; calculated, not measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointTimes {
    /// The data saved.
    pub what: String,
    /// Whether it was requested, rather than being the workload's.
    pub asked: bool,
    /// Size of one checkpoint.
    pub bytes: u64,
    /// Seconds to write one; `None` if the write bandwidth is unknown.
    pub save_seconds: Option<f64>,
    /// Seconds to read one.
    pub restore_seconds: f64,
    /// Seconds of training between checkpoints at which they cost [`AFFORDABLE_PERCENT`] of the time.
    pub affordable_interval_seconds: Option<f64>,
    /// The optimal intervals, if the failure rate of the job is known.
    pub optimum: Option<Optimum>,
}

/// The checkpoint interval with the smallest loss of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Optimum {
    /// Seconds from one failure of the job to the next, on average.
    pub mtbf_seconds: f64,
    /// Seconds of training between checkpoints according to Young.
    pub young_interval_seconds: f64,
    /// The same according to Daly.
    pub daly_interval_seconds: f64,
    /// Share of the time spent on training at Daly's interval; the rest goes to saves, restores and
    /// repeated work.
    pub useful_percent: f64,
}

impl CheckpointTimes {
    /// The times for a checkpoint of `bytes` at these rates.
    pub fn new(
        what: String,
        bytes: u64,
        write_bytes_per_second: Option<f64>,
        read_bytes_per_second: f64,
        mtbf_seconds: Option<f64>,
    ) -> Self {
        let save_seconds = write_bytes_per_second.map(|rate| bytes as f64 / rate);
        let restore_seconds = bytes as f64 / read_bytes_per_second;
        let optimum = save_seconds
            .zip(mtbf_seconds)
            .map(|(save, mtbf)| Optimum::of(save, restore_seconds, mtbf));
        Self {
            what,
            asked: false,
            bytes,
            save_seconds,
            restore_seconds,
            affordable_interval_seconds: save_seconds
                .map(|save| save * (100.0 / AFFORDABLE_PERCENT - 1.0)),
            optimum,
        }
    }
}

impl Optimum {
    /// The optimum for these save and restore times and this time between failures.
    pub fn of(save_seconds: f64, restore_seconds: f64, mtbf_seconds: f64) -> Self {
        let daly = daly(save_seconds, mtbf_seconds);
        let one = (daly + save_seconds) / mtbf_seconds;
        let in_all = mtbf_seconds * (restore_seconds / mtbf_seconds).exp() * one.exp_m1();
        Self {
            mtbf_seconds,
            young_interval_seconds: young(save_seconds, mtbf_seconds),
            daly_interval_seconds: daly,
            useful_percent: 100.0 * daly / in_all,
        }
    }
}

fn young(save: f64, mtbf: f64) -> f64 {
    (2.0 * save * mtbf).sqrt()
}

fn daly(save: f64, mtbf: f64) -> f64 {
    if save >= 2.0 * mtbf {
        return mtbf;
    }
    let part = save / (2.0 * mtbf);
    young(save, mtbf) * (1.0 + part.sqrt() / 3.0 + part / 9.0) - save
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_match_the_papers() {
        // δ = 5 min, M = 24 h: Young 7200 s; Daly 7200 (1 + ⅓ √(1/576) + ⅑ / 576) − 300.
        let optimum = Optimum::of(300.0, 600.0, 86_400.0);
        assert!((optimum.young_interval_seconds - 7200.0).abs() < 1e-6);
        let daly = 7200.0 * (1.0 + 1.0 / 72.0 + 1.0 / 5184.0) - 300.0;
        assert!((optimum.daly_interval_seconds - daly).abs() < 1e-6);
        assert!((91.0..93.0).contains(&optimum.useful_percent), "{optimum:?}");
        assert_eq!(Optimum::of(200.0, 0.0, 100.0).daly_interval_seconds, 100.0);
    }

    #[test]
    fn no_other_interval_loses_less_than_dalys() {
        let (save, restore, mtbf) = (120.0, 240.0, 10_000.0);
        let lost = |interval: f64| {
            let one: f64 = (interval + save) / mtbf;
            mtbf * (restore / mtbf).exp() * one.exp_m1() / interval
        };
        let best = Optimum::of(save, restore, mtbf).daly_interval_seconds;
        let others = (1..400).map(|nth| lost(f64::from(nth) * 25.0));
        let least = others.fold(f64::INFINITY, f64::min);
        assert!(lost(best) < least * 1.0001);
    }

    #[test]
    fn times_are_size_divided_by_rate() {
        let times = CheckpointTimes::new("a".into(), 1_000_000, Some(1e5), 2e5, Some(1000.0));
        assert_eq!((times.save_seconds, times.restore_seconds), (Some(10.0), 5.0));
        assert_eq!(times.affordable_interval_seconds, Some(190.0));
        assert!(times.optimum.is_some());
        let unknown = CheckpointTimes::new("a".into(), 1, None, 1.0, Some(1000.0));
        assert_eq!((unknown.save_seconds, unknown.optimum), (None, None));
    }
}
