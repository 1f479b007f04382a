//! The effective sample size of a series.
//!
//! The per-second values of a drive are not independent: slow seconds follow slow seconds, while
//! the drive collects garbage or a neighbour is busy. Treating them as independent would make a
//! mean seem far more certain than it is.

use super::mean;

/// With fewer values, autocorrelation cannot be distinguished from chance; all of them count.
const FEWEST_WITH_MEMORY: usize = 8;

/// The number of independent samples that `series` is worth for its mean, at most its length.
///
/// That is its length divided by its autocorrelation time, 1 + 2 Σ ρ(k). The sum ends at the first
/// pair of neighbouring lags that is not positive (Geyer's initial positive sequence): beyond that,
/// a short series shows only noise. A series that only rises or falls is worth about four samples.
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
    // The sample mean fits the series better than the true mean does, which biases every covariance
    // downwards: without this correction, a short series misses much of the autocorrelation.
    let missed = seen / count;
    let whole = pairs.iter().map(|pair| (pair + 2.0 * missed) / (1.0 + missed));
    (count / time(whole.sum())).max(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mt19937::Mt19937;

    /// An autoregressive series in which each value depends on the previous one by `memory`.
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
    fn a_slope_counts_as_few_samples_and_uncorrelated_values_as_many() {
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
