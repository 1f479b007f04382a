//! Whether two measurements of the same work differ: tests each figure with the runs of both sides.

#[cfg(test)]
mod simulation_tests;

use serde::{Deserialize, Serialize};

use stormlp_core::stats::{UncertainMean, effective_samples, holm, mean, sample_deviation, welch};

/// Significance level for all figures of a comparison together.
pub const SIGNIFICANCE: f64 = 0.05;
/// A series with fewer effective samples does not show the uncertainty of its mean.
pub const FEWEST_SAMPLES: f64 = 3.0;
/// Minimum number of runs compared with a single one: two do not show how runs vary.
const FEWEST_RUNS: usize = 3;

/// One run's data of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureRun {
    /// The value of the figure.
    pub value: f64,
    /// Its values within the run, in any unit: repetitions, epochs, intervals. Empty if the run
    /// only has the one number.
    pub within: Vec<f64>,
}

/// A figure on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Whether higher values are better.
    pub higher_is_better: bool,
    /// Smaller changes as a share of the baseline are ignored: they are below the resolution of the
    /// figure, or irrelevant in practice.
    pub smallest_change: f64,
    /// Assumed run-to-run variation without changes, as a share of the figure. A single run cannot
    /// show it, so this is assumed if there is one run per side.
    pub run_to_run: f64,
    /// The baseline runs.
    pub baseline: Vec<FigureRun>,
    /// The current runs.
    pub now: Vec<FigureRun>,
}

/// The verdict on a figure, or on all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Significantly better.
    Improved,
    /// Significantly worse.
    Regressed,
    /// No significant difference.
    WithinNoise,
    /// The noise is unknown.
    TooFewSamples,
}

impl Verdict {
    /// The verdict as text.
    pub fn words(self) -> &'static str {
        match self {
            Self::Improved => "improved",
            Self::Regressed => "regressed",
            Self::WithinNoise => "within noise",
            Self::TooFewSamples => "too few samples to tell",
        }
    }

    /// The overall verdict: a regression outweighs improvements, and a single testable figure is
    /// enough for a verdict.
    pub fn of_all(verdicts: impl IntoIterator<Item = Self>) -> Self {
        let weight = |verdict: &Self| match verdict {
            Self::Regressed => 3,
            Self::Improved => 2,
            Self::WithinNoise => 1,
            Self::TooFewSamples => 0,
        };
        let heaviest = verdicts.into_iter().max_by_key(weight);
        heaviest.unwrap_or(Self::TooFewSamples)
    }
}

/// The source of the uncertainty estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Several independent runs on both sides.
    Runs,
    /// A single run, compared with the variation of the other side's runs.
    RunAgainstRuns,
    /// One run on both sides, with the variation within each.
    WithinRuns,
}

/// A figure of one side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// The mean over the runs.
    pub value: f64,
    /// Standard deviation of the runs; with one run per side, of the values within it.
    pub deviation: Option<f64>,
    /// Independent samples: runs, or with one run per side the effective samples within it.
    pub samples: f64,
}

/// The result for a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The baseline.
    pub baseline: Level,
    /// The current value.
    pub now: Level,
    /// Change as a share of the baseline; `None` if that is zero.
    pub change: Option<f64>,
    /// The basis of the test; `None` without a test.
    pub basis: Option<Basis>,
    /// The probability of such a difference by chance, for this figure alone.
    pub probability: Option<f64>,
    /// Likewise, adjusted for all tested figures of the comparison.
    pub adjusted: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

/// Judges the figures of a comparison. They form one family: in at most [`SIGNIFICANCE`] of all
/// comparisons, any of them is called different although nothing changed.
pub fn judge(pairs: &[Pair]) -> Vec<Judged> {
    let tested: Vec<Option<(Basis, f64)>> = pairs.iter().map(test).collect();
    let alone: Vec<f64> = tested.iter().flatten().map(|(_, p)| *p).collect();
    let mut adjusted = holm(&alone).into_iter();
    let outcomes = pairs.iter().zip(tested).map(|(pair, tested)| {
        let (baseline, now) = match (&pair.baseline[..], &pair.now[..]) {
            ([before], [now]) => (level_within(before), level_within(now)),
            (before, now) => (level(before), level(now)),
        };
        let adjusted = tested.and_then(|_| adjusted.next());
        let change = (now.value - baseline.value) / baseline.value.abs();
        let change = change.is_finite().then_some(change);
        Judged {
            baseline,
            now,
            change,
            basis: tested.map(|(basis, _)| basis),
            probability: tested.map(|(_, probability)| probability),
            adjusted,
            verdict: match adjusted {
                None => Verdict::TooFewSamples,
                Some(p) if p >= SIGNIFICANCE => Verdict::WithinNoise,
                _ if change.is_some_and(|share| share.abs() < pair.smallest_change) => {
                    Verdict::WithinNoise
                }
                _ if (now.value > baseline.value) == pair.higher_is_better => Verdict::Improved,
                _ => Verdict::Regressed,
            },
        }
    });
    outcomes.collect()
}

/// The probability of the difference between both sides, and its basis.
fn test(pair: &Pair) -> Option<(Basis, f64)> {
    let (before, now) = (&pair.baseline[..], &pair.now[..]);
    match (before, now) {
        ([], _) | (_, []) => None,
        ([before], [now]) => {
            let of =
                |run: &FigureRun| UncertainMean::of_series(run.value, &run.within, FEWEST_SAMPLES);
            let (before, now) = (of(before)?, of(now)?);
            let runs = before.value.powi(2) + now.value.powi(2);
            let probability = welch(before, now, pair.run_to_run.powi(2) * runs);
            Some((Basis::WithinRuns, probability))
        }
        ([one], many) | (many, [one]) => {
            let values = values(many);
            let runs = UncertainMean::of_independent(&values)?;
            let one = UncertainMean {
                value: one.value,
                variance: 0.0,
                degrees_of_freedom: runs.degrees_of_freedom,
            };
            // The single run is assumed to vary as the others do, so there is one variance with its
            // degrees of freedom, not two.
            let several =
                UncertainMean { variance: runs.variance * (values.len() + 1) as f64, ..runs };
            let enough = values.len() >= FEWEST_RUNS;
            enough.then(|| (Basis::RunAgainstRuns, welch(several, one, 0.0)))
        }
        (before, now) => {
            let of = |runs| UncertainMean::of_independent(&values(runs));
            Some((Basis::Runs, welch(of(before)?, of(now)?, 0.0)))
        }
    }
}

fn values(runs: &[FigureRun]) -> Vec<f64> {
    runs.iter().map(|run| run.value).collect()
}

/// The mean level of several runs.
fn level(runs: &[FigureRun]) -> Level {
    let values = values(runs);
    Level {
        value: mean(&values),
        deviation: (values.len() > 1).then(|| sample_deviation(&values)),
        samples: values.len() as f64,
    }
}

/// The level of a single run compared with a single run.
fn level_within(run: &FigureRun) -> Level {
    if run.within.len() < 2 {
        return level(std::slice::from_ref(run));
    }
    // Converted to the unit of the figure, whatever that of the series is.
    let scale = run.value / mean(&run.within);
    let deviation = sample_deviation(&run.within) * scale.abs();
    Level {
        value: run.value,
        deviation: deviation.is_finite().then_some(deviation),
        samples: effective_samples(&run.within),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn runs(values: &[f64]) -> Vec<FigureRun> {
        let run = |value: &f64| FigureRun { value: *value, within: Vec::new() };
        values.iter().map(run).collect()
    }

    fn pair(baseline: &[f64], now: &[f64]) -> Pair {
        Pair {
            higher_is_better: true,
            smallest_change: 0.005,
            run_to_run: 0.02,
            baseline: runs(baseline),
            now: runs(now),
        }
    }

    fn only(pair: Pair) -> Judged {
        judge(&[pair])[0]
    }

    #[test]
    fn the_direction_decides_the_name_of_a_difference() {
        let (before, now) = ([10.0, 10.1, 9.9], [9.0, 9.1, 8.9]);
        let slower = only(pair(&before, &now));
        assert_eq!(slower.verdict, Verdict::Regressed);
        assert_eq!(slower.basis, Some(Basis::Runs));
        assert!((slower.change.unwrap_or_default() + 0.1).abs() < 1e-9);
        assert_eq!(only(pair(&now, &before)).verdict, Verdict::Improved);
        let mut latency = pair(&before, &now);
        latency.higher_is_better = false;
        assert_eq!(only(latency).verdict, Verdict::Improved);
    }

    #[test]
    fn unknown_noise_is_left_open() {
        for (before, now) in [(&[10.0][..], &[5.0][..]), (&[10.0, 10.1], &[5.0]), (&[], &[5.0])] {
            let outcome = only(pair(before, now));
            assert_eq!(outcome.verdict, Verdict::TooFewSamples, "{outcome:?}");
            assert_eq!((outcome.basis, outcome.adjusted), (None, None));
        }
        let one = only(pair(&[10.0, 10.1, 9.9], &[5.0]));
        assert_eq!(one.basis, Some(Basis::RunAgainstRuns));
        assert_eq!(one.verdict, Verdict::Regressed);
    }

    #[test]
    fn a_negligible_change_is_ignored_however_certain() {
        let certain = pair(&[10.0, 10.0, 10.0], &[10.01, 10.01, 10.01]);
        let outcome = only(certain);
        assert_eq!(outcome.adjusted, Some(0.0));
        assert_eq!(outcome.verdict, Verdict::WithinNoise);
    }

    #[test]
    fn figures_are_judged_together() {
        let doubtful = pair(&[10.0, 10.2, 9.8], &[9.5, 9.7, 9.3]);
        assert_eq!(only(doubtful.clone()).verdict, Verdict::Regressed);
        let alike = pair(&[10.0, 10.2, 9.8], &[10.0, 10.2, 9.8]);
        let family = [doubtful, alike.clone(), alike.clone(), alike];
        let outcomes = judge(&family);
        assert_eq!(outcomes[0].verdict, Verdict::WithinNoise);
        assert!(outcomes[0].adjusted > outcomes[0].probability);
    }

    #[test]
    fn within_one_run_the_series_decides_in_any_unit() {
        let course = |value: f64, unit: f64| FigureRun {
            value,
            within: (0..60).map(|n| unit * (1.0 + 0.02 * f64::from(n % 3))).collect(),
        };
        let mut pair = pair(&[], &[]);
        (pair.baseline, pair.now) = (vec![course(10.0, 1.0)], vec![course(9.0, 1e9)]);
        let outcome = only(pair);
        assert_eq!(outcome.basis, Some(Basis::WithinRuns));
        assert_eq!(outcome.verdict, Verdict::Regressed);
        let deviation = outcome.now.deviation.unwrap_or_default();
        assert!((0.1..0.2).contains(&deviation), "{deviation}");
    }

    #[test]
    fn a_regression_outweighs_improvements() {
        use Verdict::{Improved, Regressed, TooFewSamples, WithinNoise};
        for (verdicts, expected) in [
            (&[][..], TooFewSamples),
            (&[TooFewSamples, WithinNoise], WithinNoise),
            (&[Improved, WithinNoise], Improved),
            (&[Improved, Regressed, WithinNoise], Regressed),
        ] {
            assert_eq!(Verdict::of_all(verdicts.iter().copied()), expected);
        }
    }

    proptest! {
        #[test]
        fn no_numbers_break_a_comparison(
            before in prop::collection::vec(prop_oneof![Just(0.0), -1e20..1e20], 0..5),
            now in prop::collection::vec(prop_oneof![Just(0.0), -1e20..1e20], 0..5),
            within in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e20], 0..30),
        ) {
            let mut pair = pair(&before, &now);
            for run in pair.baseline.iter_mut().chain(&mut pair.now) {
                run.within.clone_from(&within);
            }
            let outcome = only(pair);
            let told = [outcome.probability, outcome.adjusted];
            prop_assert!(told.iter().flatten().all(|p| (0.0..=1.0).contains(p)));
            prop_assert!(outcome.change.is_none_or(f64::is_finite));
        }
    }
}
