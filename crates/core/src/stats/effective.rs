//! How many independent samples a series is worth.
//!
//! The seconds of a drive are not independent: a slow one follows slow ones, while the drive
//! collects garbage or a neighbour is busy. Counted one by one they would make a mean seem far more
//! certain than it is.

use super::mean;

/// In fewer values memory cannot be told from chance: they count as they are.
const FEWEST_WITH_MEMORY: usize = 8;

/// As many independent samples as `series` tells of its mean, at most as many as it has.
///
/// That is its length by its autocorrelation time, 1 + 2 Σ ρ(k). The sum ends where a pair of
/// neighbouring lags is no longer positive (Geyer's initial positive sequence): beyond that, what a
/// short series shows is noise. A series that only rises or falls is worth about four samples.
pub fn effective_samples(series: &[f64]) -> f64 {
    let count = series.len() as f64;
    if series.len() < FEWEST_WITH_MEMORY {
        return count;
    }
    let mean = mean(series);
    let distances: Vec<f64> = series.iter().map(|value| value - mean).collect();
    let covariance = |lag: usize| -> f64 {
        let later = distances.get(lag..).unwrap_or_default();
        later.iter().zip(&distances).map(|(a, b)| a * b).sum()
    };
    let variance = covariance(0);
    if variance <= 0.0 || !variance.is_finite() {
        return count;
    }
    let pairs: Vec<f64> = (0..)
        .step_by(2)
        .take(series.len() / 2)
        .map(|lag| (covariance(lag) + covariance(lag + 1)) / variance)
        .take_while(|pair| *pair > 0.0)
        .collect();
    let time = |sum: f64| (2.0 * sum - 1.0).max(1.0);
    let seen = time(pairs.iter().sum());
    // The series' own mean lies nearer to it than the true one, by which every covariance seems
    // smaller: in a short series much of the memory is missed without this.
    let missed = seen / count;
    let whole = pairs.iter().map(|pair| (pair + 2.0 * missed) / (1.0 + missed));
    (count / time(whole.sum())).max(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mt19937::Mt19937;

    /// A series in which `memory` of each value is what the last one was.
    fn series(seed: u32, memory: f64, count: usize) -> Vec<f64> {
        let mut random = Mt19937::new(seed);
        let mut last = random.next_gaussian();
        let mut next = || {
            last = memory * last + (1.0 - memory * memory).sqrt() * random.next_gaussian();
            100.0 + last
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn memory_costs_samples_as_theory_has_it() {
        for memory in [0.0, 0.5, 0.9] {
            let counted: f64 =
                (0..50).map(|seed| effective_samples(&series(seed, memory, 2000))).sum();
            let expected = 2000.0 * (1.0 - memory) / (1.0 + memory);
            let ratio = counted / 50.0 / expected;
            assert!((0.7..1.1).contains(&ratio), "{memory}: {ratio}");
        }
    }

    #[test]
    fn a_slope_is_worth_few_samples_and_what_has_no_memory_many() {
        let slope: Vec<f64> = (0..100).map(f64::from).collect();
        assert!(effective_samples(&slope) < 5.0);
        assert_eq!(effective_samples(&[7.0; 100]), 100.0);
        let swinging: Vec<f64> = (0..100).map(|n| f64::from(n % 2)).collect();
        assert!(effective_samples(&swinging) > 50.0);
        assert_eq!(effective_samples(&[3.0, 2.0, 1.0]), 3.0);
        assert_eq!(effective_samples(&[]), 0.0);
    }

    proptest! {
        #[test]
        fn no_series_is_worth_more_than_its_length(
            series in prop::collection::vec(prop::num::f64::NORMAL, 1..60)
        ) {
            let samples = effective_samples(&series);
            prop_assert!((1.0..=series.len() as f64).contains(&samples), "{}", samples);
        }
    }
}
