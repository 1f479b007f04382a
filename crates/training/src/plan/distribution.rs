//! Fixed or random times per step: compute, evaluation and preprocessing.
//!
//! The forms are DLIO's: a number, a number with a standard deviation, or a map with a `type`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use stormlp_core::mt19937::Mt19937;
use stormlp_core::units::parse_seconds;

/// Maximum length of a step: one day.
const MAX_SECONDS: f64 = 86_400.0;

/// A time in seconds: constant, or drawn at every step.
///
/// Like DLIO, uses the absolute value of each draw.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum Distribution {
    /// The same time at every step.
    Constant {
        /// Seconds; DLIO calls it the mean.
        #[serde(alias = "mean")]
        seconds: f64,
    },
    /// Gaussian.
    Normal {
        /// Seconds.
        mean: f64,
        /// Standard deviation in seconds.
        stdev: f64,
    },
    /// Uniform in `[min, max)`.
    Uniform {
        /// Seconds.
        min: f64,
        /// Seconds.
        max: f64,
    },
    /// Gamma with `shape` k and `scale` θ; its mean is kθ.
    Gamma {
        /// k, dimensionless.
        shape: f64,
        /// θ in seconds.
        scale: f64,
    },
    /// Exponential with mean `scale`.
    Exponential {
        /// Seconds.
        scale: f64,
    },
    /// Poisson with mean `lam`, in whole seconds.
    Poisson {
        /// Seconds.
        lam: f64,
    },
}

impl Distribution {
    /// Zero time.
    pub const ZERO: Self = Self::Constant { seconds: 0.0 };

    /// The same time at every step.
    pub fn constant(seconds: f64) -> Self {
        Self::Constant { seconds }
    }

    /// The mean in seconds.
    pub fn mean_seconds(&self) -> f64 {
        match *self {
            Self::Constant { seconds } => seconds,
            Self::Normal { mean, .. } => mean,
            Self::Uniform { min, max } => f64::midpoint(min, max),
            Self::Gamma { shape, scale } => shape * scale,
            Self::Exponential { scale } => scale,
            Self::Poisson { lam } => lam,
        }
    }

    /// The standard deviation in seconds.
    pub fn stdev_seconds(&self) -> f64 {
        match *self {
            Self::Constant { .. } => 0.0,
            Self::Normal { stdev, .. } => stdev,
            Self::Uniform { min, max } => (max - min) / 12f64.sqrt(),
            Self::Gamma { shape, scale } => shape.sqrt() * scale,
            Self::Exponential { scale } => scale,
            Self::Poisson { lam } => lam.sqrt(),
        }
    }

    /// Whether every draw is zero, so that no sleep is needed.
    pub fn is_zero(&self) -> bool {
        self.mean_seconds() == 0.0 && self.stdev_seconds() == 0.0
    }

    /// The error in the parameters, if any: they must be finite and non-negative, and a range must
    /// not end before it starts.
    pub fn fault(&self) -> Option<String> {
        let parts: &[(&str, f64)] = match self {
            Self::Constant { seconds } => &[("value", *seconds)],
            Self::Normal { mean, stdev } => &[("mean", *mean), ("stdev", *stdev)],
            Self::Uniform { min, max } => &[("min", *min), ("max", *max)],
            Self::Gamma { shape, scale } => &[("shape", *shape), ("scale", *scale)],
            Self::Exponential { scale } => &[("scale", *scale)],
            Self::Poisson { lam } => &[("lam", *lam)],
        };
        if let Some((name, value)) = parts.iter().find(|(_, v)| !v.is_finite() || *v < 0.0) {
            return Some(format!("{name} is {value}, it must be 0 or more"));
        }
        if let Some((name, value)) = parts.iter().find(|(_, v)| *v > MAX_SECONDS) {
            return Some(format!(
                "{name} is {value}, it may be {MAX_SECONDS} at most (a day, in seconds)"
            ));
        }
        match *self {
            Self::Uniform { min, max } if min > max => {
                Some(format!("min {min} is above max {max}"))
            }
            _ => None,
        }
    }

    /// Draws a time in seconds from the legacy generator that DLIO uses.
    pub fn draw(self, generator: &mut Mt19937) -> f64 {
        match self {
            Self::Constant { seconds } => seconds,
            Self::Normal { mean, stdev } => generator.next_normal(mean, stdev),
            Self::Uniform { min, max } => min + (max - min) * generator.next_f64(),
            Self::Exponential { scale } => -scale * (1.0 - generator.next_f64()).ln(),
            Self::Gamma { shape, scale } => scale * gamma(shape, generator),
            Self::Poisson { lam } => poisson(lam, generator),
        }
    }
}

/// Read from the command line as a duration, or in DLIO's format.
impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim_start().starts_with('{') {
            let value = stormlp_core::yaml::read(text).map_err(|error| error.to_string())?;
            return Self::from_yaml(&value);
        }
        let seconds = parse_seconds(text).map_err(|error| error.to_string())?;
        Self::from_yaml(&seconds.into())
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Constant { seconds } => write!(f, "{seconds} s"),
            Self::Normal { mean, stdev } => write!(f, "normal({mean} s, stdev {stdev} s)"),
            Self::Uniform { min, max } => write!(f, "uniform({min} s to {max} s)"),
            Self::Gamma { shape, scale } => write!(f, "gamma(shape {shape}, scale {scale} s)"),
            Self::Exponential { scale } => write!(f, "exponential({scale} s)"),
            Self::Poisson { lam } => write!(f, "poisson({lam} s)"),
        }
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
    fn compute_times_are_durations_or_dlios_distributions() {
        let parse = |text: &str| text.parse::<Distribution>();
        let ms = parse("162ms").unwrap();
        assert_eq!(ms, Distribution::constant(0.162));
        assert_eq!(parse("0.162").unwrap(), ms);
        assert_eq!(
            parse("{type: normal, mean: 0.3, stdev: 0.02}").unwrap(),
            Distribution::Normal { mean: 0.3, stdev: 0.02 }
        );
        assert!(parse("{type: normal, mean: -1, stdev: 0}").is_err());
        assert!(parse("fast").is_err());
        let error = parse("{type: zipf, mean: 1}").unwrap_err();
        assert!(error.contains("`normal`, `uniform`, `gamma`"), "{error}");
    }

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
            let sum: f64 = (0..draws).map(|_| distribution.draw(&mut generator)).sum();
            let (mean, wanted) = (sum / f64::from(draws), distribution.mean_seconds());
            // Five standard errors.
            let slack = 5.0 * distribution.stdev_seconds() / f64::from(draws).sqrt() + 1e-12;
            assert!((mean - wanted).abs() <= slack, "{distribution}: {mean}");
        }
    }
}
