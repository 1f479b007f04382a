//! Results of `stormlp train --find-max`: the answer, the limit, and every count tried.

use serde::{Deserialize, Serialize};

use super::probe::{CONFIDENCE_PERCENT, LEAST_SECONDS, LEAST_STEPS, MOST_OF_A_RUN};
use crate::plan::train_plan::TrainPlan;
use crate::report::{Bound, Measures};
use stormlp_core::largest::{Bracket, RunKind, Search, Trial};
use stormlp_core::units::{counted, format_duration};

/// Full runs at each end of the answer by default.
pub const DEFAULT_CONFIRM_RUNS: u32 = 1;
/// Duration of the initial read that estimates the storage bandwidth.
pub const READ_SECONDS: f64 = 2.0;
/// A good estimate takes this many probes, and usual searches at most that many.
const FEWEST_PROBES: f64 = 2.0;
const USUAL_PROBES: f64 = 8.0;

/// One accelerator more than those that meet the threshold takes at most this many times as long: two
/// instead of one.
const SLOWEST_MISS: f64 = 2.0;

/// Above this AU throughput is not the limit, so it gives no estimate for larger counts.
const UNLIMITED_PERCENT: f64 = 97.0;

/// The largest number of accelerators that meets the threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindMax {
    /// The largest count that met the threshold in every trial; 0 if none did.
    pub largest_accelerators: u32,
    /// The smallest count that missed it; `None` if none did.
    pub least_missing: Option<u32>,
    /// Whether the search stopped for a reason other than storage, or did not finish; storage may
    /// support more.
    pub is_lower_bound: bool,
    /// What prevents more accelerators from meeting the threshold; `None` while unknown.
    pub limited_by: Option<Limit>,
    /// The limit as a sentence, with what would raise it if known.
    pub limit: Option<String>,
    /// Counts that both met and missed the threshold.
    pub inconsistent: Vec<u32>,
    /// Full runs made at the answer and at the count above it.
    pub confirm_runs: u32,
    /// Probability in percent that a certain probe is correct.
    pub confidence_percent: f64,
    /// Storage throughput measured before the first count was tried.
    pub estimate: Option<StorageEstimate>,
    /// The highest throughput measured, or else predicted.
    pub peak: Option<Peak>,
    /// Duration of the search in seconds, excluding dataset generation.
    pub search_seconds: f64,
    /// Every run, in order.
    pub tried: Vec<Tried>,
}

/// A short read of the dataset without compute.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StorageEstimate {
    /// Number of loaders, each like that of one accelerator.
    pub loaders: u32,
    /// Samples per second they achieved.
    pub samples_per_second: f64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Accelerators this throughput would feed.
    pub accelerators: u32,
}

/// The highest throughput: of the full runs, or of the probes if there is no full run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peak {
    /// The count at which it was reached.
    pub accelerators: u32,
    /// The kind of run; throughput of a probe is predicted.
    #[serde(default = "full")]
    pub run: RunKind,
    /// Samples per second over all accelerators.
    pub samples_per_second: f64,
    /// The same in MiB/s by the configured record length.
    pub mib_per_second: f64,
}

/// What prevents more accelerators from meeting the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Storage.
    Storage,
    /// This host: its CPUs, threads or files.
    Client,
    /// This host's memory.
    Memory,
    /// Slower peers at the barrier.
    Barrier,
    /// The dataset is too small for more accelerators.
    Dataset,
    /// No limit was reached.
    Nothing,
}

/// A run at one count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tried {
    /// Accelerators.
    pub accelerators: u32,
    /// Whether it was a probe or a full run.
    #[serde(rename = "run")]
    pub kind: RunKind,
    /// AU in percent; for a probe, the predicted AU of the whole epoch.
    pub au_percent: f64,
    /// The spread of AU in points: for a full run the standard deviation over epochs, for a probe
    /// the standard error; `None` if there is too little data.
    pub au_spread: Option<f64>,
    /// Samples per second over all accelerators; for a probe predicted like AU.
    pub samples_per_second: f64,
    /// The same in MiB/s by the configured record length.
    pub mib_per_second: f64,
    /// Whether AU reaches the threshold.
    pub meets: bool,
    /// Whether the verdict is certain, for a probe at the given confidence; otherwise it is the
    /// more likely verdict.
    pub certain: bool,
    /// Whether it meets the threshold only because of data read before its steps began: in a longer
    /// epoch it may miss. Such a count is not certain, and the search does not go beyond it.
    #[serde(default)]
    pub rests_on_read_ahead: bool,
    /// Steps completed by every accelerator.
    pub steps: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// What accelerators waited for.
    pub bound: Bound,
}

impl FindMax {
    /// A search without any trials yet.
    pub fn begun(confirm_runs: u32) -> Self {
        Self {
            largest_accelerators: 0,
            least_missing: None,
            is_lower_bound: false,
            limited_by: None,
            limit: None,
            inconsistent: Vec::new(),
            confirm_runs,
            confidence_percent: CONFIDENCE_PERCENT,
            estimate: None,
            peak: None,
            search_seconds: 0.0,
            tried: Vec::new(),
        }
    }

    /// How long a search takes, before anything is measured: `one` is the plan of one accelerator,
    /// which has the most steps.
    pub fn outlook(one: &TrainPlan, confirm_runs: u32) -> String {
        let threshold = (one.metric.threshold_percent / 100.0).max(0.1);
        let step = one.compute.mean_seconds() / threshold;
        let of_steps = |steps: f64| (step * steps).max(LEAST_SECONDS);
        let steps = one.steps_per_epoch as f64;
        let short = of_steps(steps.min(LEAST_STEPS as f64));
        let of_run = steps * f64::from(one.epochs) * f64::from(one.runs);
        let long = of_steps(steps.min(of_run * MOST_OF_A_RUN));
        let full = one.compute_seconds() * f64::from(one.runs) / threshold;
        let runs = 2 * confirm_runs;
        let least = READ_SECONDS + FEWEST_PROBES * short;
        let likely = READ_SECONDS + f64::midpoint(FEWEST_PROBES, USUAL_PROBES) * short;
        let likely = likely + f64::from(runs) * full;
        // Half of the full runs are of one accelerator too many.
        let most = READ_SECONDS + USUAL_PROBES * long;
        let most = most + f64::from(confirm_runs) * (1.0 + SLOWEST_MISS) * full;
        let runs = match runs {
            0 => "no full runs (--confirm 0)".to_string(),
            runs => format!(
                "{} of {} each at the threshold, twice that where it is missed (--confirm 0 leaves \
                 them out)",
                counted(u64::from(runs), "full run"),
                format_duration(full)
            ),
        };
        format!(
            "{} if probes are short, {} to {} in all: a read of {}, probes of {} or more each, and \
             {runs}; longer if not even one accelerator meets it",
            format_duration(likely),
            format_duration(least),
            format_duration(most),
            format_duration(READ_SECONDS),
            format_duration(short),
        )
    }

    /// Updates the result from the state of `search`.
    pub fn conclude(&mut self, search: &Search) {
        let bracket = search.bracket();
        self.largest_accelerators = bracket.passing;
        // For the search, a count that relies on read-ahead did not pass.
        let missed = self.tried.iter().filter(|tried| !tried.meets);
        self.least_missing =
            missed.map(|tried| tried.accelerators).filter(|count| *count > bracket.passing).min();
        self.inconsistent = search.inconsistent();
        self.peak = self.peak_of(RunKind::Full);
        self.peak = self.peak.or_else(|| self.peak_of(RunKind::Probe));
        let of_missing = |tried: &&Tried| Some(tried.accelerators) == bracket.missing;
        // A full run is more reliable than a probe, and comes later.
        let missed = self.tried.iter().rev().filter(of_missing);
        match missed.clone().find(|tried| !tried.meets) {
            Some(missed) => self.limited_by = Limit::of(missed.bound),
            None if missed.count() > 0 => self.limited_by = Some(Limit::Dataset),
            None => {}
        }
        let is_open = bracket.missing.is_none() && bracket.passing > 0;
        self.is_lower_bound = is_open || !matches!(self.limited_by, None | Some(Limit::Storage));
    }

    fn peak_of(&self, run: RunKind) -> Option<Peak> {
        let of_kind = self.tried.iter().filter(|tried| tried.kind == run);
        let most = of_kind.max_by(|a, b| a.samples_per_second.total_cmp(&b.samples_per_second))?;
        Some(Peak {
            accelerators: most.accelerators,
            run,
            samples_per_second: most.samples_per_second,
            mib_per_second: most.mib_per_second,
        })
    }

    /// The smallest count that meets the threshold only because of read-ahead.
    pub fn least_on_read_ahead(&self) -> Option<u32> {
        let resting = self.tried.iter().filter(|tried| tried.rests_on_read_ahead);
        resting.map(|tried| tried.accelerators).min()
    }

    /// The last AU of a single accelerator, as text to append: `: AU 41.2 %`; empty if it was not
    /// tried.
    pub fn au_of_one(&self) -> String {
        let one = self.tried.iter().rev().find(|tried| tried.accelerators == 1);
        one.map_or(String::new(), |one| format!(": AU {:.1} %", one.au_percent))
    }

    /// The known range in words: `between 19 and 24`.
    pub fn known(&self) -> String {
        Bracket { passing: self.largest_accelerators, missing: self.least_missing }.in_words()
    }
}

impl Limit {
    /// The limit that held back a run that missed.
    fn of(bound: Bound) -> Option<Self> {
        match bound {
            Bound::Storage | Bound::StorageAndClient | Bound::Startup => Some(Self::Storage),
            Bound::Client => Some(Self::Client),
            Bound::Barrier => Some(Self::Barrier),
            Bound::Compute | Bound::ReadAhead | Bound::Unknown => None,
        }
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Client => "this host",
            Self::Memory => "this host's memory",
            Self::Barrier => "slower peers at the barrier",
            Self::Dataset => "the size of the dataset",
            Self::Nothing => "nothing that was met",
        }
    }
}

impl Tried {
    /// Sets AU and throughput from measurements.
    pub fn measured(&mut self, mean: &Measures) {
        self.au_percent = mean.au_percent.profile;
        self.samples_per_second = mean.samples_per_second;
        self.mib_per_second = mean.mib_per_second;
    }

    /// The same trial for the search, with the target AU `threshold_percent`.
    pub fn trial(&self, threshold_percent: f64) -> Trial {
        let suggested = f64::from(self.accelerators) * self.au_percent / threshold_percent;
        let limited = self.au_percent > 0.0 && self.au_percent < UNLIMITED_PERCENT;
        Trial {
            count: self.accelerators,
            kind: self.kind,
            // There is no count below one accelerator to try.
            passed: self.meets && (!self.rests_on_read_ahead || self.accelerators == 1),
            certain: self.certain,
            suggests: limited.then_some(suggested as u32),
        }
    }
}

/// Older reports do not have this field.
fn full() -> RunKind {
    RunKind::Full
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(accelerators: u32, au_percent: f64, bound: Bound) -> Tried {
        Tried {
            accelerators,
            kind: RunKind::Full,
            au_percent,
            au_spread: None,
            samples_per_second: au_percent * f64::from(accelerators),
            mib_per_second: 1.0,
            meets: au_percent >= 90.0,
            certain: true,
            rests_on_read_ahead: false,
            steps: 10,
            seconds: 1.0,
            bound,
        }
    }

    #[test]
    fn the_answer_names_its_limit() {
        for (bound, limit, is_lower_bound) in [
            (Bound::Storage, Limit::Storage, false),
            (Bound::Client, Limit::Client, true),
            (Bound::Barrier, Limit::Barrier, true),
        ] {
            let mut find = FindMax::begun(1);
            let mut search = Search::new(4, 100, 1);
            assert_eq!(find.known(), "nothing is known yet");
            for (count, au, bound) in [(4, 99.0, Bound::Compute), (7, 60.0, bound)] {
                let tried = tried(count, au, bound);
                search.tell(tried.trial(90.0));
                find.tried.push(tried);
            }
            find.conclude(&search);
            assert_eq!(find.known(), "between 4 and 6");
            assert_eq!(find.limited_by, Some(limit));
            assert_eq!(find.is_lower_bound, is_lower_bound);
            assert_eq!(find.peak.map(|peak| peak.accelerators), Some(7));
            assert_eq!(search.trials()[1].suggests, Some(4));
            assert_eq!(search.trials()[0].suggests, None);
        }
    }

    /// The result after the given runs, recorded in order.
    fn found(search: &mut Search, runs: Vec<Tried>) -> FindMax {
        let mut find = FindMax::begun(1);
        for tried in runs {
            search.tell(tried.trial(90.0));
            find.tried.push(tried);
        }
        find.conclude(search);
        find
    }

    #[test]
    fn a_count_that_lives_on_what_was_read_ahead_is_not_met() {
        let resting = |count| Tried {
            rests_on_read_ahead: true,
            certain: false,
            ..tried(count, 99.0, Bound::ReadAhead)
        };
        let mut search = Search::new(7, 100, 0);
        let runs = vec![
            tried(7, 99.0, Bound::Compute),
            resting(14),
            resting(8),
            tried(32, 60.0, Bound::Storage),
        ];
        let find = found(&mut search, runs);
        assert_eq!((find.largest_accelerators, find.least_missing), (7, Some(32)));
        assert_eq!(find.limited_by, Some(Limit::Dataset));
        assert!(find.is_lower_bound);
        assert_eq!(find.least_on_read_ahead(), Some(8));
        assert!(find.inconsistent.is_empty());
        // There is no count smaller than one.
        let find = found(&mut Search::new(1, 1, 0), vec![resting(1)]);
        assert_eq!(find.largest_accelerators, 1);
    }

    #[test]
    fn the_peak_is_of_full_runs_where_there_are_any() {
        let probe = Tried { kind: RunKind::Probe, ..tried(8, 99.0, Bound::Compute) };
        let full = tried(8, 92.0, Bound::Compute);
        let mut search = Search::new(8, 100, 1);
        let peak = found(&mut search, vec![probe.clone()]).peak;
        assert_eq!(peak.map(|peak| peak.run), Some(RunKind::Probe));
        let find = found(&mut search, vec![probe, full]);
        let peak = find.peak.map(|peak| (peak.run, peak.samples_per_second));
        assert_eq!(peak, Some((RunKind::Full, 8.0 * 92.0)));
        // Nothing missed yet, so more may be possible.
        assert!(find.is_lower_bound);
    }
}
