//! Small statistics over samples: means, how many independent samples a series is worth, and
//! Welch's test, whether two means differ by more than chance explains.

use statrs::function::beta::checked_beta_reg;
use statrs::function::erf::erfc;

/// The arithmetic mean; 0 for no samples.
pub fn mean(samples: &[f64]) -> f64 {
    if samples.is_empty() { 0.0 } else { samples.iter().sum::<f64>() / samples.len() as f64 }
}

/// The population standard deviation (divisor n); 0 for no samples.
pub fn population_deviation(samples: &[f64]) -> f64 {
    if samples.is_empty() { 0.0 } else { (squares(samples) / samples.len() as f64).sqrt() }
}

/// The sample standard deviation (divisor n − 1); 0 for fewer than two samples.
pub fn sample_deviation(samples: &[f64]) -> f64 {
    if samples.len() < 2 { 0.0 } else { (squares(samples) / (samples.len() - 1) as f64).sqrt() }
}

/// The median; 0 for no samples.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// The sum of squared deviations from the mean.
fn squares(samples: &[f64]) -> f64 {
    let mean = mean(samples);
    samples.iter().map(|x| (x - mean).powi(2)).sum()
}

/// With fewer values, autocorrelation cannot be distinguished from chance; all of them count.
const FEWEST_WITH_MEMORY: usize = 8;

/// The number of independent samples that `series` is worth for its mean, at most its length.
///
/// The per-second values of a drive are not independent: slow seconds follow slow seconds, while
/// the drive collects garbage or a neighbour is busy. Treating them as independent would make a
/// mean seem far more certain than it is.
///
/// The number is the length divided by the autocorrelation time, 1 + 2 Σ ρ(k). The sum ends at the first
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

/// Above this many degrees of freedom, Student's t distribution equals the normal distribution.
const NORMAL: f64 = 1e5;

/// A mean and its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UncertainMean {
    /// The mean.
    pub value: f64,
    /// The variance of the mean, not of the samples.
    pub variance: f64,
    /// Degrees of freedom of the variance.
    pub degrees_of_freedom: f64,
}

impl UncertainMean {
    /// The mean of independent samples; `None` for fewer than two.
    pub fn of_independent(samples: &[f64]) -> Option<Self> {
        let count = samples.len() as f64;
        (samples.len() >= 2).then(|| Self {
            value: mean(samples),
            variance: sample_deviation(samples).powi(2) / count,
            degrees_of_freedom: count - 1.0,
        })
    }

    /// `value` with the variability of `series` over its run; `None` if the series is worth fewer
    /// than `fewest` independent samples.
    ///
    /// Only the relative variation of `series` around its own mean counts, so it may have another
    /// unit.
    pub fn of_series(value: f64, series: &[f64], fewest: f64) -> Option<Self> {
        let (samples, level) = (effective_samples(series), mean(series));
        if samples < fewest.max(1.5) {
            return None;
        }
        // A series of zeros does not vary.
        let relative = if level == 0.0 { 0.0 } else { population_deviation(series) / level };
        Some(Self {
            value,
            variance: (relative * value).powi(2) / (samples - 1.0),
            degrees_of_freedom: samples - 1.0,
        })
    }
}

/// The p-value of the difference between `a` and `b` (Welch's test, two-sided). `known_variance` is
/// an additional known variance of the difference.
pub fn welch(a: UncertainMean, b: UncertainMean, known_variance: f64) -> f64 {
    let difference = b.value - a.value;
    let variance = a.variance + b.variance + known_variance;
    // Infinite values are not evidence of a difference.
    if difference == 0.0 || !(difference.is_finite() && variance.is_finite()) {
        return 1.0;
    }
    if variance <= 0.0 {
        return 0.0;
    }
    let share = |one: UncertainMean| {
        if one.variance > 0.0 {
            (one.variance / variance).powi(2) / one.degrees_of_freedom
        } else {
            0.0
        }
    };
    let degrees_of_freedom = (share(a) + share(b)).recip();
    two_sided(difference.powi(2) / variance, degrees_of_freedom)
}

/// The two-sided tail probability of a squared Student's t beyond `squared`.
fn two_sided(squared: f64, degrees_of_freedom: f64) -> f64 {
    if degrees_of_freedom > NORMAL {
        return erfc((squared / 2.0).sqrt());
    }
    let place = degrees_of_freedom / (degrees_of_freedom + squared);
    // Outside the function's domain nothing is known: that is not evidence of a difference.
    checked_beta_reg(degrees_of_freedom / 2.0, 0.5, place).unwrap_or(1.0)
}

/// Adjusts the p-values of several tests by Holm's method: the family-wise error rate stays below
/// the level, however the tests are correlated.
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut adjusted = vec![1.0; probabilities.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        let left = (probabilities.len() - rank) as f64;
        largest = largest.max((probabilities[index] * left).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mt19937::Mt19937;

    #[test]
    fn deviations_differ_in_their_divisor() {
        let samples = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&samples), 5.0);
        assert_eq!(population_deviation(&samples), 2.0);
        assert!((sample_deviation(&samples) - 2.138_089_935).abs() < 1e-9);
        assert_eq!(median(&samples), 4.5);
    }

    proptest! {
        #[test]
        fn the_median_is_between_the_extremes(samples in prop::collection::vec(-1e9..1e9, 1..50)) {
            let low = samples.iter().copied().fold(f64::INFINITY, f64::min);
            let high = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert!((low..=high).contains(&median(&samples)));
        }
    }

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

    fn p(a: &[f64], b: &[f64]) -> f64 {
        let mean = |samples| UncertainMean::of_independent(samples).unwrap();
        welch(mean(a), mean(b), 0.0)
    }

    #[test]
    fn the_probabilities_match_other_programs() {
        let a = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6];
        let b = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2];
        assert!((p(&a, &b) - 0.059_253_737_007_7).abs() < 1e-9);
        // The normal distribution: 1.959964 standard errors.
        assert!((two_sided(1.959_963_985f64.powi(2), 1e9) - 0.05).abs() < 1e-8);
        // Student's t with 4 degrees of freedom: 2.776445.
        assert!((two_sided(2.776_445_105f64.powi(2), 4.0) - 0.05).abs() < 1e-8);
    }

    #[test]
    fn constant_samples_are_equal_or_different() {
        assert_eq!(p(&[1.0, 1.0], &[1.0, 1.0]), 1.0);
        assert_eq!(p(&[1.0, 1.0], &[2.0, 2.0]), 0.0);
        assert_eq!(UncertainMean::of_independent(&[1.0]), None);
        assert_eq!(UncertainMean::of_series(1.0, &[1.0, 2.0], 3.0), None);
    }

    #[test]
    fn holms_method_is_that_of_its_paper() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[]), Vec::<f64>::new());
    }

    proptest! {
        #[test]
        fn a_probability_is_one_whatever_the_samples(
            a in prop::collection::vec(prop::num::f64::NORMAL, 2..10),
            b in prop::collection::vec(prop::num::f64::NORMAL, 2..10),
        ) {
            let p = p(&a, &b);
            prop_assert!((0.0..=1.0).contains(&p), "{}", p);
        }

        #[test]
        fn adjusting_never_makes_a_difference_likelier(
            probabilities in prop::collection::vec(0.0..=1.0, 1..20)
        ) {
            for (alone, together) in probabilities.iter().zip(holm(&probabilities)) {
                prop_assert!((*alone..=1.0).contains(&together));
            }
        }
    }
}
