//! Durations drawn at every step, from the legacy generator that DLIO uses.

use crate::plan::distribution::Distribution;
use stormlp_core::mt19937::Mt19937;

use super::machine::{Nanos, Pace};

/// Durations from `distribution`; like DLIO, uses the absolute value of each draw.
pub fn pace(distribution: Distribution, seed: u64) -> Pace {
    match distribution {
        Distribution::Constant { seconds } => Pace::Constant(nanos(seconds)),
        other => {
            let mut generator = Mt19937::new(seed as u32);
            Pace::Drawn(Box::new(move || nanos(draw(other, &mut generator))))
        }
    }
}

fn nanos(seconds: f64) -> Nanos {
    (seconds.abs() * 1e9).round() as Nanos
}

fn draw(distribution: Distribution, generator: &mut Mt19937) -> f64 {
    match distribution {
        Distribution::Constant { seconds } => seconds,
        Distribution::Normal { mean, stdev } => generator.next_normal(mean, stdev),
        Distribution::Uniform { min, max } => min + (max - min) * generator.next_f64(),
        Distribution::Exponential { scale } => -scale * (1.0 - generator.next_f64()).ln(),
        Distribution::Gamma { shape, scale } => scale * gamma(shape, generator),
        Distribution::Poisson { lam } => poisson(lam, generator),
    }
}

/// A gamma variate of scale 1 (Marsaglia and Tsang 2000; below shape 1 with their boost).
fn gamma(shape: f64, generator: &mut Mt19937) -> f64 {
    if shape <= 0.0 {
        return 0.0;
    }
    if shape < 1.0 {
        let boost = (1.0 - generator.next_f64()).powf(1.0 / shape);
        return gamma(shape + 1.0, generator) * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = generator.next_gaussian();
        let v = (1.0 + c * x).powi(3);
        let u = 1.0 - generator.next_f64();
        if v > 0.0 && u.ln() < 0.5 * x * x + d * (1.0 - v + v.ln()) {
            return d * v;
        }
    }
}

/// A Poisson variate: products of uniforms (Knuth), in parts small enough that products do not
/// underflow.
fn poisson(lam: f64, generator: &mut Mt19937) -> f64 {
    let (mut left, mut count) = (lam, 0.0);
    while left > 0.0 {
        let part = left.min(500.0);
        left -= part;
        let limit = (-part).exp();
        let mut product = generator.next_f64();
        while product > limit {
            count += 1.0;
            product *= generator.next_f64();
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_match_the_distributions() {
        let all = [
            Distribution::Constant { seconds: 0.25 },
            Distribution::Normal { mean: 0.3, stdev: 0.02 },
            Distribution::Uniform { min: 0.1, max: 0.5 },
            Distribution::Exponential { scale: 0.2 },
            Distribution::Gamma { shape: 2.0, scale: 0.1 },
            Distribution::Gamma { shape: 0.5, scale: 0.4 },
            Distribution::Poisson { lam: 3.0 },
        ];
        for distribution in all {
            let mut generator = Mt19937::new(7);
            let draws = 20_000;
            let sum: f64 = (0..draws).map(|_| draw(distribution, &mut generator)).sum();
            let (mean, wanted) = (sum / f64::from(draws), distribution.mean_seconds());
            // Five standard errors.
            let slack = 5.0 * distribution.stdev_seconds() / f64::from(draws).sqrt() + 1e-12;
            assert!((mean - wanted).abs() <= slack, "{distribution}: {mean}");
        }
    }
}
