//! Whether two sides of the same work differ: an interval for the change of each figure.
//!
//! The unit is the process. Repetitions, epochs and intervals within one vary far less than runs
//! do, so they do not predict the next run.

#[cfg(test)]
mod simulation_tests;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use stormlp_core::sequential;
use stormlp_core::stats::{
    Shift, UncertainMean, beyond, correlation_of_neighbours, effective_samples, mean,
    population_deviation,
};

/// Probability that any figure of a comparison is called different without a change.
pub const ERROR: f64 = 0.05;
/// Runs of a side that was measured in one go show how the machine drifts from this many on.
const FEWEST_IN_BLOCKS: usize = 10;
/// Neighbours are called alike beyond this many standard errors: false alarms only cost an answer.
const ALIKE: f64 = 0.5;
/// Earlier reports show the noise from this many on: fewer do not show whether neighbours are alike.
const FEWEST_EARLIER: usize = 20;
/// As many of them have to be independent.
const FEWEST_INDEPENDENT: f64 = 3.0;

/// The order in which the runs of both sides were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Design {
    /// In pairs of neighbours; run *n* of one side belongs to run *n* of the other.
    Pairs,
    /// Both sides in turns.
    Turns,
    /// One side after the other, or too few turns: a drift of the machine looks like a difference.
    Blocks,
    /// A side has a single run.
    OneRun,
}

/// A figure on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Sides {
    /// Whether higher values are better.
    pub higher_is_better: bool,
    /// Whether it answers the question of its subject. These figures share one half of the
    /// permitted error, all remaining figures the other half.
    pub headline: bool,
    /// The smallest change that matters, as a share.
    pub effect: f64,
    /// Its value in each baseline run, in the order of measurement.
    pub baseline: Vec<f64>,
    /// Its value in each current run, in the same way.
    pub now: Vec<f64>,
    /// Its value in earlier runs of the same work on the same host, in the same way.
    pub earlier: Vec<f64>,
}

/// The verdict on a figure, or on all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The change is certainly smaller than the smallest that matters.
    Same,
    /// Certainly better.
    #[serde(rename = "better")]
    Improved,
    /// Certainly worse.
    #[serde(rename = "worse")]
    Regressed,
    /// There may be no change, or one that matters.
    CannotTell,
}

impl Verdict {
    /// The verdict as text.
    pub fn words(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Improved => "better",
            Self::Regressed => "worse",
            Self::CannotTell => "cannot tell",
        }
    }

    /// The verdict for an `interval` of the change, as shares, where `effect` is the smallest that
    /// matters.
    pub fn of(interval: [f64; 2], effect: f64, higher_is_better: bool) -> Self {
        let [low, high] = interval;
        if low >= -effect && high <= effect {
            Self::Same
        } else if low <= 0.0 && high >= 0.0 {
            Self::CannotTell
        } else if (low > 0.0) == higher_is_better {
            Self::Improved
        } else {
            Self::Regressed
        }
    }
}

/// The source of the uncertainty of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The differences within pairs.
    Pairs,
    /// The spread of the runs of each side.
    Runs,
    /// The spread of blocks of neighbouring runs of each side.
    Blocks,
    /// The spread of earlier reports.
    Earlier,
}

/// The result for a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The means of the baseline and of the current runs: geometric, or arithmetic if a value is 0.
    pub means: [f64; 2],
    /// Change from one mean to the other as a share of the first; `None` if that is zero.
    pub change: Option<f64>,
    /// The interval of the change, which is right for all figures of a comparison together with
    /// probability 1 − [`ERROR`]; `None` if the runs do not show how they vary.
    pub interval: Option<[f64; 2]>,
    /// The basis of the interval.
    pub basis: Option<Basis>,
    /// The probability of such a difference by chance, for this figure alone.
    pub probability: Option<f64>,
    /// The same, adjusted for all figures and looks: below [`ERROR`] where the interval excludes 0.
    pub adjusted: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Judged {
    /// Whether more runs would not change much: the interval is narrower than the `effect`, or all
    /// of it is within or beyond the effect.
    pub fn is_settled(interval: [f64; 2], effect: f64) -> bool {
        let [low, high] = interval;
        let within = low >= -effect && high <= effect;
        within || high < -effect || low > effect || high - low < effect
    }
}

/// Judges the figures of a comparison.
pub fn judge(figures: &[Sides], design: Design) -> Vec<Judged> {
    let headlines: Vec<bool> = figures.iter().map(|one| one.headline).collect();
    let levels = levels(&headlines);
    figures.iter().zip(levels).map(|(sides, level)| sides.judge(design, level)).collect()
}

/// The permitted error of each figure: headline figures share one half, all remaining figures the
/// other.
pub(super) fn levels(headlines: &[bool]) -> Vec<f64> {
    let share = |headline: &bool| {
        let alike = headlines.iter().filter(|one| *one == headline).count();
        let halves = if alike == headlines.len() { 1.0 } else { 2.0 };
        ERROR / (halves * alike as f64)
    };
    headlines.iter().map(share).collect()
}

/// How values become shares: a change of 1 % is 0.01 in both.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scale {
    /// Their logarithm, so that halving and doubling are alike.
    Log,
    /// Their share of this level, where some are 0.
    Of(f64),
}

impl Scale {
    /// The scale for `values`, where a change is a share of `level` unless all are positive; `None`
    /// if that is zero.
    pub(super) fn of<'a>(mut values: impl Iterator<Item = &'a f64>, level: f64) -> Option<Self> {
        if values.all(|value| *value > 0.0 && value.is_finite()) {
            return Some(Self::Log);
        }
        let level = level.abs();
        (level > 0.0 && level.is_finite()).then_some(Self::Of(level))
    }

    pub(super) fn shares(self, values: &[f64]) -> Vec<f64> {
        values
            .iter()
            .map(|value| match self {
                Self::Log => value.ln(),
                Self::Of(level) => value / level,
            })
            .collect()
    }

    /// The mean of `values` on this scale: the mean of their shares is its share.
    pub(super) fn mean(self, values: &[f64]) -> f64 {
        match (self, values) {
            (_, [only]) => *only,
            (Self::Log, _) => mean(&self.shares(values)).exp(),
            (Self::Of(_), _) => mean(values),
        }
    }

    pub(super) fn change(self, share: f64) -> f64 {
        match self {
            Self::Log => share.exp_m1(),
            Self::Of(_) => share,
        }
    }
}

impl Sides {
    fn judge(&self, design: Design, level: f64) -> Judged {
        let level = match design {
            Design::Pairs => level * sequential::spent(self.baseline.len()),
            Design::Turns | Design::Blocks | Design::OneRun => level,
        };
        let scale = self.scale();
        let found = scale.and_then(|scale| self.shift(scale, design, level));
        let interval = scale
            .zip(found)
            .map(|(scale, (_, shift))| shift.interval(level).map(|share| scale.change(share)));
        let interval = interval.filter(|ends| ends.iter().all(|end| end.is_finite()));
        let found = found.filter(|_| interval.is_some());
        let probability = found.map(|(_, shift)| shift.probability());
        let means = [&self.baseline, &self.now].map(|values| match scale {
            Some(scale) => scale.mean(values),
            None => mean(values),
        });
        let change = (means[1] - means[0]) / means[0].abs();
        Judged {
            means,
            change: Some(change).filter(|change| change.is_finite()),
            interval,
            basis: found.map(|(basis, _)| basis),
            probability,
            adjusted: probability.map(|p| (p * ERROR / level).min(1.0)),
            verdict: interval.map_or(Verdict::CannotTell, |interval| {
                Verdict::of(interval, self.effect, self.higher_is_better)
            }),
        }
    }

    fn scale(&self) -> Option<Scale> {
        let all = self.baseline.iter().chain(&self.now).chain(&self.earlier);
        Scale::of(all, mean(&self.baseline))
    }

    /// How far the current side is from the baseline, and the basis of this shift; `None` if the
    /// runs do not show how they vary.
    fn shift(&self, scale: Scale, design: Design, level: f64) -> Option<(Basis, Shift)> {
        let (before, now) = (scale.shares(&self.baseline), scale.shares(&self.now));
        match design {
            Design::Pairs => {
                let differences: Vec<f64> =
                    before.iter().zip(&now).map(|(before, now)| now - before).collect();
                Some((Basis::Pairs, Shift::of_pairs(&differences)?))
            }
            Design::Turns => {
                let of = UncertainMean::of_independent;
                Some((Basis::Runs, Shift::between(of(&before)?, of(&now)?)))
            }
            Design::Blocks => {
                let earlier =
                    self.against_earlier(scale, level).map(|shift| (Basis::Earlier, shift));
                earlier.or_else(|| Some((Basis::Blocks, of_blocks(&before, &now)?)))
            }
            Design::OneRun => Some((Basis::Earlier, self.against_earlier(scale, level)?)),
        }
    }

    /// The difference with the noise of earlier reports. A side measured at once counts as one draw
    /// from them, however many runs it has: its runs share the state of the machine. No difference
    /// between earlier reports is beyond the noise, however rare it was.
    fn against_earlier(&self, scale: Scale, level: f64) -> Option<Shift> {
        let earlier = scale.shares(&self.earlier);
        let samples = effective_samples(&earlier);
        if earlier.len() < FEWEST_EARLIER || samples < FEWEST_INDEPENDENT {
            return None;
        }
        let variance = population_deviation(&earlier).powi(2) * samples / (samples - 1.0);
        let most = earlier.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = earlier.iter().copied().fold(f64::INFINITY, f64::min);
        let degrees_of_freedom = samples - 1.0;
        Some(Shift {
            value: mean(&scale.shares(&self.now)) - mean(&scale.shares(&self.baseline)),
            error: (2.0 * variance).sqrt().max((most - least) / beyond(level, degrees_of_freedom)),
            degrees_of_freedom,
        })
    }
}

/// The difference of two sides that were measured one after the other; `None` if they are too short
/// to show a drift, or if neighbours are alike: the machine drifted then, and may have between the
/// sides.
fn of_blocks(before: &[f64], now: &[f64]) -> Option<Shift> {
    let fewest = before.len().min(now.len());
    if fewest < FEWEST_IN_BLOCKS {
        return None;
    }
    // The mean of a series is closer to it than the true one, which hides this much.
    let hidden = (fewest as f64).recip();
    let alike = f64::midpoint(correlation_of_neighbours(before), correlation_of_neighbours(now));
    if alike + hidden > ALIKE / ((before.len() + now.len()) as f64).sqrt() {
        return None;
    }
    Some(Shift::between(UncertainMean::of_blocks(before)?, UncertainMean::of_blocks(now)?))
}
