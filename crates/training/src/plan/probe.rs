//! Predicts a whole epoch from its beginning.
//!
//! A probe is the beginning of a full run. It records when each step of all accelerators ended and
//! how many samples had arrived by then, and predicts the epoch's duration: the remaining steps at
//! the pace of the steps so far, or the remaining samples at the rate at which samples arrived,
//! whichever is later. The second detects storage that falls behind while accelerators still
//! consume data that was read ahead.
//!
//! The verdict is a sequential test. Paces are means over batches of steps, which are not quite
//! independent; they are weighted by [`effective_samples`](stormlp_core::stats::effective_samples).
//! The test is repeated whenever the number of steps has grown by half, and the i-th test may err
//! with probability α / (i (i + 1)), so that all tests together err with probability at most α.

use crate::plan::train_plan::TrainPlan;
use stormlp_core::stats::{Shift, UncertainMean, mean, population_deviation};

/// Probability in percent that a certain verdict is correct.
pub const CONFIDENCE_PERCENT: f64 = 99.0;
/// Fewer steps do not show how much steps vary.
pub(super) const LEAST_STEPS: usize = 8;
/// Minimum duration: disturbances on a host last longer than a few short steps.
pub(super) const LEAST_SECONDS: f64 = 1.0;
/// Approximate number of batches that the steps are divided into.
const BATCHES: usize = 32;
/// Minimum independent samples for a verdict.
const LEAST_SAMPLES: f64 = 4.0;
/// A series that varies by less than this share of its mean is treated as constant.
const GRAIN: f64 = 1e-6;
/// If more than this share of the counted samples was read in advance, AU reflects read-ahead as
/// much as storage.
const MUCH_AHEAD: f64 = 0.1;
/// Maximum length of a probe as a share of the steps of a full run.
pub(super) const MOST_OF_A_RUN: f64 = 0.25;

/// The end of one step across all accelerators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepMark {
    /// When it ended, in nanoseconds of the run's clock.
    pub nanos: u64,
    /// Samples read by then, over all accelerators.
    pub samples: u64,
}

/// The stopping condition of a probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StopCondition {
    /// When it is certain whether AU reaches the threshold.
    Verdict {
        /// Target AU, 0 to 1.
        threshold: f64,
    },
    /// After this many seconds; only the pace is needed.
    Seconds(f64),
}

/// The predicted result of an epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// Predicted AU of the epoch, in percent.
    pub au_percent: f64,
    /// Standard error in points; `None` if there is too little data.
    pub au_error: Option<f64>,
    /// Samples per second over all accelerators, for the steps that AU counts.
    pub samples_per_second: f64,
    /// Whether AU reaches the threshold.
    pub passes: bool,
    /// Whether the verdict is certain: by the test, or because the epoch finished.
    pub certain: bool,
    /// Steps observed.
    pub steps: u64,
}

/// Observes steps and decides when the probe can stop.
#[derive(Debug, Clone)]
pub struct Judge {
    enough: StopCondition,
    /// Steps of the epoch that AU covers.
    steps: u64,
    /// Steps at its start that AU excludes; timing starts at the end of the first.
    left_out: u64,
    /// Maximum steps that a probe may run.
    most_steps: u64,
    samples_per_step: f64,
    compute_seconds: f64,
    marks: Vec<StepMark>,
    looks: u32,
    looked_at: usize,
    decided: bool,
}

/// One observed pace: time per step or samples per second, with its limit.
struct ObservedPace {
    seen: UncertainMean,
    /// The value at which AU is just reached.
    limit: f64,
    /// Whether values below the limit pass.
    less_passes: bool,
}

impl ObservedPace {
    fn passes(&self) -> bool {
        (self.seen.value <= self.limit) == self.less_passes || self.seen.value == self.limit
    }

    /// Probability of the observation if the true value were on the other side of the limit.
    fn doubt(&self) -> f64 {
        let limit =
            UncertainMean { value: self.limit, variance: 0.0, degrees_of_freedom: f64::INFINITY };
        Shift::between(self.seen, limit).probability() / 2.0
    }
}

impl Judge {
    /// A judge for the first epoch of `plan`.
    pub fn of(plan: &TrainPlan, enough: StopCondition) -> Self {
        let steps = plan.steps_per_epoch - plan.metric.exclude_end_steps.min(plan.steps_per_epoch);
        let of_run = plan.steps_per_epoch as f64 * f64::from(plan.epochs) * f64::from(plan.runs);
        Self {
            enough,
            steps,
            left_out: plan.metric.exclude_start_steps.max(1),
            most_steps: (of_run * MOST_OF_A_RUN).ceil() as u64,
            samples_per_step: plan.global_batch() as f64,
            compute_seconds: plan.compute.mean_seconds(),
            marks: Vec::new(),
            looks: 0,
            looked_at: 0,
            decided: false,
        }
    }

    /// Number of steps observed.
    pub fn heard(&self) -> usize {
        self.marks.len()
    }

    /// Adds the steps that ended since the last call; returns whether the probe can stop.
    pub fn hear(&mut self, marks: &[StepMark]) -> bool {
        self.marks.extend_from_slice(marks);
        let seen = self.marks.len().saturating_sub(self.left_out as usize);
        let Some(seconds) = self.elapsed_seconds() else {
            return false;
        };
        match self.enough {
            StopCondition::Seconds(enough) => seen >= 2 && seconds >= enough,
            StopCondition::Verdict { threshold } => {
                let due = self.looked_at + (self.looked_at / 2).max(LEAST_STEPS);
                if !self.decided && seen >= due && seconds >= LEAST_SECONDS {
                    self.looks += 1;
                    self.looked_at = seen;
                    self.decided = self.verdict(threshold).is_some();
                }
                let patience = self.most_steps.max(3 * LEAST_STEPS as u64);
                self.decided || seen as u64 >= patience && seconds >= 3.0 * LEAST_SECONDS
            }
        }
    }

    /// The predicted result of the epoch; `None` before the end of its second step.
    pub fn forecast(&self) -> Option<Forecast> {
        let seconds = self.elapsed_seconds().filter(|seconds| *seconds > 0.0)?;
        let counted = self.steps.saturating_sub(self.left_out) as f64;
        let (by_steps, by_samples) = (self.left_by_steps(), self.left_by_samples());
        let left = by_steps.max(by_samples);
        let whole = seconds + left;
        let au = counted * self.compute_seconds / whole;
        let series = if by_steps >= by_samples { self.step_seconds() } else { self.sample_rates() };
        let error = uncertain(1.0, &series);
        let threshold = match self.enough {
            StopCondition::Verdict { threshold } => threshold,
            StopCondition::Seconds(_) => 0.0,
        };
        let verdict = self.decided.then(|| self.verdict(threshold)).flatten();
        Some(Forecast {
            au_percent: 100.0 * au,
            au_error: error.map(|error| 100.0 * au * error.variance.sqrt() * left / whole),
            samples_per_second: counted * self.samples_per_step / whole,
            passes: verdict.unwrap_or(au >= threshold),
            certain: verdict.is_some() || self.is_whole(),
            steps: self.marks.len() as u64,
        })
    }

    /// Rate of samples read, in samples per second, regardless of consumption.
    pub fn samples_per_second(&self) -> Option<f64> {
        let seconds = self.elapsed_seconds().filter(|seconds| *seconds > 0.0)?;
        let came = self.marks.last()?.samples - self.base()?.samples;
        Some(came as f64 / seconds)
    }

    /// Whether an AU of at least `threshold` may rely on samples read before the counted steps: a
    /// large share was read ahead, and either samples arrived more slowly than such an AU consumes
    /// them, or too few steps had anything left to read.
    pub fn may_live_on_read_ahead(&self, threshold: f64) -> bool {
        let Some(base) = self.base() else {
            return true;
        };
        let all = self.steps as f64 * self.samples_per_step;
        let counted = self.steps.saturating_sub(self.left_out) as f64 * self.samples_per_step;
        let ahead = base.samples as f64 - self.left_out as f64 * self.samples_per_step;
        if ahead <= MUCH_AHEAD * counted {
            return false;
        }
        let reading = self.marks.iter().skip(self.left_out as usize);
        let reading: Vec<&StepMark> =
            reading.take_while(|mark| (mark.samples as f64) < all).collect();
        let Some(last) = reading.last().filter(|_| reading.len() >= LEAST_STEPS) else {
            return true;
        };
        let rate = (last.samples - base.samples) as f64 / seconds(base, last).max(1e-9);
        rate * self.compute_seconds < threshold * self.samples_per_step
    }

    fn is_whole(&self) -> bool {
        self.marks.len() as u64 >= self.steps
    }

    fn base(&self) -> Option<&StepMark> {
        self.marks.get(self.left_out as usize - 1)
    }

    /// Time since AU began to count; `None` before its first counted step.
    fn elapsed_seconds(&self) -> Option<f64> {
        let counted = self.marks.len() > self.left_out as usize;
        let (base, last) = (self.base()?, self.marks.last()?);
        counted.then(|| seconds(base, last))
    }

    fn steps_left(&self) -> f64 {
        self.steps.saturating_sub(self.marks.len() as u64) as f64
    }

    fn samples_left(&self) -> f64 {
        let came = self.marks.last().map_or(0, |mark| mark.samples);
        if self.is_whole() {
            0.0
        } else {
            (self.steps as f64 * self.samples_per_step - came as f64).max(0.0)
        }
    }

    fn left_by_steps(&self) -> f64 {
        let seen = self.marks.len().saturating_sub(self.left_out as usize);
        self.steps_left() * self.elapsed_seconds().unwrap_or(0.0) / seen.max(1) as f64
    }

    fn left_by_samples(&self) -> f64 {
        match (self.samples_left(), self.samples_per_second()) {
            (left, Some(rate)) if left > 0.0 => left / rate.max(f64::MIN_POSITIVE),
            _ => 0.0,
        }
    }

    /// The counted steps in batches of equal length; bursts of arriving samples average out over
    /// several steps.
    fn batches(&self) -> impl Iterator<Item = (&StepMark, &StepMark, f64)> {
        let counted = self.marks.get(self.left_out as usize - 1..).unwrap_or_default();
        let steps = (counted.len().saturating_sub(1) / BATCHES).max(1);
        // The remainder is dropped at the start, where loaders are cold.
        let skipped = counted.len().saturating_sub(1) % steps;
        let ends = counted.iter().skip(skipped).step_by(steps);
        let pairs = ends.clone().zip(ends.skip(1));
        pairs.map(move |(a, b)| (a, b, steps as f64))
    }

    /// Seconds per step, by batch.
    fn step_seconds(&self) -> Vec<f64> {
        let batches = self.batches();
        batches.map(|(a, b, steps)| seconds(a, b) / steps).collect()
    }

    /// Samples per second, by batch.
    fn sample_rates(&self) -> Vec<f64> {
        let rate = |(a, b, _): (&StepMark, &StepMark, f64)| {
            (b.samples - a.samples) as f64 / seconds(a, b).max(1e-9)
        };
        self.batches().map(rate).collect()
    }

    /// Whether AU reaches the threshold, if that is already certain.
    fn verdict(&self, threshold: f64) -> Option<bool> {
        let counted = self.steps.saturating_sub(self.left_out) as f64;
        let allowed = counted * self.compute_seconds / threshold - self.elapsed_seconds()?;
        if self.is_whole() || allowed <= 0.0 {
            return Some(self.is_whole() && allowed >= 0.0);
        }
        let look = f64::from(self.looks.max(1));
        let alpha = (1.0 - CONFIDENCE_PERCENT / 100.0) / (look * (look + 1.0));
        let steps = self.step_seconds();
        let of_steps = uncertain(mean(&steps), &steps).map(|seen| ObservedPace {
            seen,
            limit: allowed / self.steps_left(),
            less_passes: true,
        });
        let rates = self.sample_rates();
        let of_samples = uncertain(self.samples_per_second()?, &rates).map(|seen| ObservedPace {
            seen,
            limit: self.samples_left() / allowed,
            less_passes: false,
        });
        // Either of them is enough to miss, so each gets half of the error probability.
        let missed = |pace: &ObservedPace| !pace.passes() && pace.doubt() < alpha / 2.0;
        let passed = |pace: &ObservedPace| pace.passes() && pace.doubt() < alpha;
        if of_steps.iter().chain(&of_samples).any(missed) {
            return Some(false);
        }
        let (of_steps, of_samples) = of_steps.zip(of_samples)?;
        (passed(&of_steps) && passed(&of_samples)).then_some(true)
    }
}

fn seconds(from: &StepMark, to: &StepMark) -> f64 {
    to.nanos.saturating_sub(from.nanos) as f64 / 1e9
}

/// `value` with the uncertainty of `series`; `None` if the data are insufficient.
fn uncertain(value: f64, series: &[f64]) -> Option<UncertainMean> {
    // Clock noise in a constant series has no meaningful autocorrelation.
    if population_deviation(series) <= GRAIN * mean(series) {
        return Some(UncertainMean {
            value,
            variance: 0.0,
            degrees_of_freedom: series.len() as f64 - 1.0,
        });
    }
    UncertainMean::of_series(value, series, LEAST_SAMPLES)
}

#[cfg(test)]
#[path = "probe_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
