//! Welch's test: whether two means differ by more than chance explains.

use statrs::function::beta::checked_beta_reg;
use statrs::function::erf::erfc;

use super::{effective_samples, mean, population_deviation, sample_deviation};

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
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
