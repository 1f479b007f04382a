//! Small statistics over samples: means, deviations and the median.

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
}
