//! Small statistics over samples: means, how many independent samples a series is worth, and how
//! uncertain a difference of means is.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
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

/// Mean and spread of samples.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeanAndDeviation {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation with divisor n, as DLIO computes it.
    pub deviation: f64,
}

impl MeanAndDeviation {
    /// The statistics of `samples`.
    pub fn of(samples: &[f64]) -> Self {
        Self { mean: mean(samples), deviation: population_deviation(samples) }
    }
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

/// A spread of this share of a difference comes from rounded sums.
const ROUNDING: f64 = 1e-9;
/// So many equal values show that there is no spread.
const FEWEST_WITHOUT_SPREAD: f64 = 8.0;

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
    /// Only the relative variation of `series` around its mean counts, so it may have another unit.
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

    /// The mean of samples in the order of measurement, with similar neighbours: the variance
    /// follows the moving-block bootstrap (Künsch 1989) in closed form, with blocks of ∛n samples.
    /// `None` for fewer than two blocks.
    pub fn of_blocks(samples: &[f64]) -> Option<Self> {
        let length = (samples.len() as f64).cbrt().ceil() as usize;
        let blocks = samples.len().checked_div(length).unwrap_or(0);
        if blocks < 2 {
            return None;
        }
        let means: Vec<f64> = samples.windows(length).map(mean).collect();
        Some(Self {
            value: mean(samples),
            variance: population_deviation(&means).powi(2) / (blocks - 1) as f64,
            degrees_of_freedom: (blocks - 1) as f64,
        })
    }
}

/// The correlation of neighbouring samples; 0 if they do not vary.
pub fn correlation_of_neighbours(samples: &[f64]) -> f64 {
    let mean = mean(samples);
    let together: f64 = samples.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum();
    let squares = squares(samples);
    if squares > 0.0 { together / squares } else { 0.0 }
}

/// A difference with its uncertainty, which follows Student's t distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// The difference.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
    /// Degrees of freedom of the error.
    pub degrees_of_freedom: f64,
}

impl Shift {
    /// The mean of the differences within pairs; `None` for fewer than two.
    pub fn of_pairs(differences: &[f64]) -> Option<Self> {
        let mean = UncertainMean::of_independent(differences)?;
        Some(Self {
            value: mean.value,
            error: mean.variance.sqrt(),
            degrees_of_freedom: mean.degrees_of_freedom,
        })
    }

    /// How much `b` exceeds `a` (Welch).
    pub fn between(a: UncertainMean, b: UncertainMean) -> Self {
        let variance = a.variance + b.variance;
        let share = |one: UncertainMean| {
            if one.variance > 0.0 {
                (one.variance / variance).powi(2) / one.degrees_of_freedom
            } else {
                0.0
            }
        };
        let degrees_of_freedom = if variance > 0.0 {
            (share(a) + share(b)).recip().min(NORMAL)
        } else {
            a.degrees_of_freedom.min(b.degrees_of_freedom)
        };
        Self { value: b.value - a.value, error: variance.sqrt(), degrees_of_freedom }
    }

    /// The interval that misses the true difference with probability `level`. It is everything
    /// where the numbers do not determine one.
    pub fn interval(&self, level: f64) -> [f64; 2] {
        let everything = [f64::NEG_INFINITY, f64::INFINITY];
        if !(self.value.is_finite() && self.error.is_finite()) || self.is_without_spread() {
            return everything;
        }
        let width = match self.error {
            0.0 => 0.0,
            error => error * beyond(level, self.degrees_of_freedom),
        };
        if width.is_finite() { [self.value - width, self.value + width] } else { everything }
    }

    /// Whether sides differ that have few values without spread: rounded ones are equal by chance,
    /// so how they vary is unknown.
    fn is_without_spread(&self) -> bool {
        let values = self.degrees_of_freedom + 1.0;
        let is_spread = self.error > ROUNDING * self.value.abs();
        self.value != 0.0 && !is_spread && values < FEWEST_WITHOUT_SPREAD
    }

    /// The probability of such a difference by chance, two-sided.
    pub fn probability(&self) -> f64 {
        // Infinite values are not evidence of a difference.
        if self.value == 0.0
            || !(self.value.is_finite() && self.error.is_finite())
            || self.is_without_spread()
        {
            return 1.0;
        }
        if self.error <= 0.0 {
            return 0.0;
        }
        two_sided((self.value / self.error).powi(2), self.degrees_of_freedom)
    }
}

/// The value that the size of a Student's t exceeds with probability `level`.
pub fn beyond(level: f64, degrees_of_freedom: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, degrees_of_freedom.min(NORMAL));
    // Outside the distribution's domain the quantile is unknown.
    student.map_or(f64::INFINITY, |student| -student.inverse_cdf(level / 2.0))
}

/// The two-sided tail probability of a squared Student's t beyond `squared`.
fn two_sided(squared: f64, degrees_of_freedom: f64) -> f64 {
    if degrees_of_freedom > NORMAL {
        return erfc((squared / 2.0).sqrt());
    }
    let place = degrees_of_freedom / (degrees_of_freedom + squared);
    // Outside the function's domain the probability is unknown: that is not evidence of a
    // difference.
    checked_beta_reg(degrees_of_freedom / 2.0, 0.5, place).unwrap_or(1.0)
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

    fn shift(a: &[f64], b: &[f64]) -> Shift {
        let mean = |samples| UncertainMean::of_independent(samples).unwrap();
        Shift::between(mean(a), mean(b))
    }

    /// The lengths that ten people slept longer with one of two drugs: Student (1908), R's `sleep`.
    const SLEEP: [[f64; 10]; 2] = [
        [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
        [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
    ];

    fn assert_close(found: [f64; 2], expected: [f64; 2]) {
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn intervals_and_probabilities_are_those_of_students_paper() {
        // R: t.test(extra ~ group, data = sleep), and with paired = TRUE; signs are turned.
        let welch = shift(&SLEEP[0], &SLEEP[1]);
        assert!((welch.degrees_of_freedom - 17.776_474).abs() < 1e-5);
        assert!((welch.probability() - 0.079_394_14).abs() < 1e-7);
        assert_close(welch.interval(0.05), [-0.205_483_2, 3.365_483_2]);
        let within: Vec<f64> = SLEEP[0].iter().zip(SLEEP[1]).map(|(a, b)| b - a).collect();
        let paired = Shift::of_pairs(&within).unwrap();
        assert!((paired.probability() - 0.002_832_89).abs() < 1e-7);
        assert_close(paired.interval(0.05), [0.700_114_2, 2.459_885_8]);
    }

    #[test]
    fn the_probabilities_match_other_programs() {
        let a = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6];
        let b = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2];
        assert!((shift(&a, &b).probability() - 0.059_253_737_007_7).abs() < 1e-9);
        // The normal distribution: 1.959964 standard errors.
        assert!((two_sided(1.959_963_985f64.powi(2), 1e9) - 0.05).abs() < 1e-8);
        // Student's t with 4 degrees of freedom: 2.776445.
        assert!((two_sided(2.776_445_105f64.powi(2), 4.0) - 0.05).abs() < 1e-8);
        for (level, degrees, t) in
            [(0.05, 4.0, 2.776_445), (0.001, 4.0, 8.610_302), (0.01, 14.0, 2.976_843)]
        {
            assert!((beyond(level, degrees) - t).abs() < 1e-5, "{degrees}");
        }
    }

    #[test]
    fn constant_samples_are_equal_or_unknown() {
        assert_eq!(shift(&[1.0, 1.0], &[1.0, 1.0]).probability(), 1.0);
        let other = shift(&[1.0, 1.0], &[2.0, 2.0]);
        let everything = [f64::NEG_INFINITY, f64::INFINITY];
        assert_eq!((other.probability(), other.interval(0.05)), (1.0, everything));
        let many = shift(&[1.0; 8], &[2.0; 8]);
        assert_eq!((many.probability(), many.interval(0.05)), (0.0, [1.0, 1.0]));
        assert_eq!(UncertainMean::of_independent(&[1.0]), None);
        assert_eq!(UncertainMean::of_blocks(&[1.0]), None);
        assert_eq!(UncertainMean::of_series(1.0, &[1.0, 2.0], 3.0), None);
    }

    #[test]
    fn blocks_show_the_variance_that_memory_adds() {
        let variance = |memory: f64| {
            let of = |seed| UncertainMean::of_blocks(&series(seed, memory, 1000)).unwrap();
            (0..50).map(|seed| of(seed).variance).sum::<f64>() / 50.0 * 1000.0
        };
        assert!((0.8..1.2).contains(&variance(0.0)), "{}", variance(0.0));
        // In theory 3 times as much; blocks of ten miss a part.
        assert!((2.2..3.2).contains(&variance(0.5)), "{}", variance(0.5));
        let alike = correlation_of_neighbours(&series(1, 0.9, 2000));
        assert!((0.85..0.95).contains(&alike), "{alike}");
    }

    proptest! {
        #[test]
        fn an_interval_excludes_zero_where_the_probability_is_below_its_level(
            a in prop::collection::vec(prop::num::f64::NORMAL, 2..10),
            b in prop::collection::vec(prop::num::f64::NORMAL, 2..10),
            level in 0.0001..0.2,
        ) {
            let shift = shift(&a, &b);
            let p = shift.probability();
            prop_assert!((0.0..=1.0).contains(&p), "{}", p);
            let [low, high] = shift.interval(level);
            prop_assert!(low <= high);
            let excludes = low > 0.0 || high < 0.0;
            // At the very edge both may round.
            prop_assert!((p - level).abs() < 1e-6 || excludes == (p < level), "{} {} {}", p, low, high);
        }
    }
}
