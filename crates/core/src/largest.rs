//! Finds the largest passing count: brackets, bisects and confirms it.
//!
//! The search chooses the next run and receives the results; it does not run them. A *probe* is
//! short and may be wrong; the answer is based on *full* runs. The current knowledge is a bracket:
//! the largest count that always passed, below the smallest that ever missed.
//!
//! Starting from an estimate, it moves up or down until the bracket has both ends, then narrows it.
//! It follows the suggestion of the last run as long as plain bisection from there would stay
//! within ceil(log₂ N) + 4 probes, and bisects otherwise: a cliff costs no more than a slope.

use serde::{Deserialize, Serialize};

use crate::units::{counted, format_duration};

/// Full runs at each end of the answer by default.
pub const CONFIRM_RUNS: u32 = 1;
/// Searches usually need no more probes.
const USUAL_PROBES: u32 = 5;

/// The last number in `first..=last` for which `holds` is true, given that it is true up to some
/// number and false beyond; `first` if it is never true.
pub fn last_that(first: u64, last: u64, mut holds: impl FnMut(u64) -> bool) -> u64 {
    let (mut low, mut high) = (first, last.max(first));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if holds(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// The kind of trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// The beginning of a run, or a short one; its verdict may be a guess.
    Probe,
    /// A whole run.
    Full,
}

impl RunKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Full => "full",
        }
    }
}

/// The result of trying a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// The count.
    pub count: u32,
    /// How it was tried.
    pub kind: RunKind,
    /// Whether it passed.
    pub passed: bool,
    /// Whether the verdict is certain, at the probe's confidence; a full run always is.
    pub certain: bool,
    /// The largest count that would pass if throughput stayed the same, if throughput was the
    /// limit.
    pub suggests: Option<u32>,
}

/// The current bracket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bracket {
    /// The largest count that always passed, below all that missed; 0 if none did.
    pub passing: u32,
    /// The smallest count that missed.
    pub missing: Option<u32>,
}

impl Bracket {
    /// The known range in words: `between 19 and 24`.
    pub fn to_text(self) -> String {
        match (self.passing, self.missing) {
            (0, None) => "no result yet".to_string(),
            (0, Some(1)) => "not even 1".to_string(),
            (0, Some(missing)) => format!("fewer than {missing}"),
            (passing, None) => format!("{passing} or more"),
            (passing, Some(missing)) if missing <= passing.saturating_add(1) => {
                format!("{passing}")
            }
            (passing, Some(missing)) => format!("between {passing} and {}", missing - 1),
        }
    }
}

/// A run at one count, as a lane reports it.
pub trait Tried {
    /// A limit of a search.
    type Limit: Copy;
    /// The noun that is counted: `accelerator`.
    const WHAT: &'static str;

    /// The count.
    fn count(&self) -> u32;

    /// Whether it was a probe or a full run.
    fn kind(&self) -> RunKind;

    /// Whether it reached the target.
    fn meets(&self) -> bool;

    /// Duration in seconds.
    fn seconds(&self) -> f64;

    /// Its limit; `None` if unknown.
    fn limited_by(&self) -> Option<Self::Limit>;

    /// Whether something other than storage is the limit, so that storage may do more.
    fn spares_storage(limit: Self::Limit) -> bool;

    /// Its figures and verdict in words.
    fn to_text(&self) -> String;
}

/// The largest count that reaches the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Largest<T, L> {
    /// The largest count that always passed, below all that missed; 0 if none did.
    pub largest: u32,
    /// The smallest count that missed; `None` if none did.
    pub smallest_failing: Option<u32>,
    /// Whether something other than storage ended the search, or it did not finish: storage may do
    /// more.
    pub is_lower_bound: bool,
    /// The limit of larger counts; `None` while unknown.
    pub limited_by: Option<L>,
    /// Why no more can be tried, with the remedy if known.
    pub limit: Option<String>,
    /// Counts that both passed and missed.
    pub inconsistent: Vec<u32>,
    /// Full runs made at the answer and at the count above it.
    pub confirm_runs: u32,
    /// Duration of the search in seconds.
    pub search_seconds: f64,
    /// Every run, in order.
    pub tried: Vec<T>,
}

impl<T: Tried<Limit = L>, L: Copy> Largest<T, L> {
    /// A search without any runs yet.
    pub fn begun(confirm_runs: u32) -> Self {
        Self {
            largest: 0,
            smallest_failing: None,
            is_lower_bound: false,
            limited_by: None,
            limit: None,
            inconsistent: Vec::new(),
            confirm_runs,
            search_seconds: 0.0,
            tried: Vec::new(),
        }
    }

    /// Updates the answer from the state of `search`.
    pub fn conclude(&mut self, search: &Search) {
        let Bracket { passing, missing } = search.bracket();
        self.largest = passing;
        // A count may miss for the search although it reached the target.
        let missed = self.tried.iter().filter(|tried| !tried.meets()).map(T::count);
        self.smallest_failing = missed.filter(|count| *count > passing).min();
        self.inconsistent = search.inconsistent();
        let mut at_missing = self.tried.iter().rev().filter(|tried| Some(tried.count()) == missing);
        // A full run is more reliable than a probe, and comes later.
        let last = at_missing.clone().find(|tried| !tried.meets()).or_else(|| at_missing.next());
        if last.is_some() || self.limit.is_none() {
            self.limited_by = last.and_then(T::limited_by);
        }
        let is_open = missing.is_none() && passing > 0;
        self.is_lower_bound = is_open || self.limited_by.is_some_and(T::spares_storage);
    }

    /// The last run at the answer, or at 1 if not even that passed.
    pub fn answer(&self) -> Option<&T> {
        self.tried.iter().rfind(|tried| tried.count() == self.largest.max(1))
    }

    /// The last run that missed with the smallest count that did.
    pub fn missed(&self) -> Option<&T> {
        let is_least = |tried: &&T| Some(tried.count()) == self.smallest_failing;
        self.tried.iter().filter(is_least).rfind(|tried| !tried.meets())
    }

    /// The runs of a kind.
    pub fn of_kind(&self, kind: RunKind) -> impl Iterator<Item = &T> {
        self.tried.iter().filter(move |tried| tried.kind() == kind)
    }

    /// The known range in words: `between 19 and 24`.
    pub fn known(&self) -> String {
        Bracket { passing: self.largest, missing: self.smallest_failing }.to_text()
    }
}

/// Expected duration of a search, before the first measurement.
pub fn outlook(confirm_runs: u32, expected: impl Fn(RunKind) -> f64) -> String {
    let (probe, full) = (expected(RunKind::Probe), expected(RunKind::Full));
    let runs = 2 * confirm_runs;
    format!(
        "about {}: {USUAL_PROBES} probes of {} or more, and {} of {} each",
        format_duration(f64::from(USUAL_PROBES) * probe + f64::from(runs) * full),
        format_duration(probe),
        counted(runs.into(), "full run"),
        format_duration(full)
    )
}

/// A search for the largest count that passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    first: u32,
    most: u32,
    confirm: u32,
    trials: Vec<Trial>,
}

impl Search {
    /// A search from 1 to `most` that starts at `first`, and runs the answer and the count above it
    /// `confirm` times in full.
    pub fn new(first: u32, most: u32, confirm: u32) -> Self {
        Self { first: first.clamp(1, most.max(1)), most: most.max(1), confirm, trials: Vec::new() }
    }

    /// Lowers the maximum count to `most`.
    pub fn limit(&mut self, most: u32) {
        self.most = self.most.min(most.max(1));
        self.first = self.first.min(self.most);
    }

    /// The maximum count.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Records the result of a trial.
    pub fn tell(&mut self, trial: Trial) {
        self.trials.push(trial);
    }

    /// All trials, in order.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// The current bracket.
    pub fn bracket(&self) -> Bracket {
        let counts = |passes: bool| {
            let of_kind = move |trial: &&Trial| self.passes(trial.count) == passes;
            self.trials.iter().filter(of_kind).map(|trial| trial.count)
        };
        let missing = counts(false).min();
        let below = |count: &u32| missing.is_none_or(|missing| *count < missing);
        Bracket { passing: counts(true).filter(below).max().unwrap_or(0), missing }
    }

    /// Counts that both passed and missed, ascending.
    pub fn inconsistent(&self) -> Vec<u32> {
        let certain = |count: u32, passed: bool| {
            let of_count = self.of(count);
            of_count.into_iter().any(|t| t.certain && t.passed == passed)
        };
        let mut counts: Vec<u32> = self.trials.iter().map(|trial| trial.count).collect();
        counts.sort_unstable();
        counts.dedup();
        counts.retain(|count| certain(*count, true) && certain(*count, false));
        counts
    }

    /// Whether the search ended at the maximum count, so that larger counts may pass too.
    pub fn is_lower_bound(&self) -> bool {
        let bracket = self.bracket();
        bracket.missing.is_none() && bracket.passing == self.most
    }

    /// Probes so far.
    pub fn probes(&self) -> u32 {
        let probes = self.trials.iter().filter(|t| t.kind == RunKind::Probe);
        probes.count() as u32
    }

    /// The count to try next, and how; `None` once the answer is known.
    pub fn next(&self) -> Option<(u32, RunKind)> {
        let Bracket { passing, missing } = self.bracket();
        if self.trials.is_empty() {
            return Some((self.first, RunKind::Probe));
        }
        match missing {
            None if passing < self.most => Some((self.upwards(passing), RunKind::Probe)),
            Some(missing) if missing - passing > 1 => {
                Some((self.between(passing, missing), RunKind::Probe))
            }
            _ => {
                let ends = [Some(passing), missing].into_iter().flatten();
                let mut unconfirmed = ends.filter(|count| self.full_runs(*count) < self.confirm);
                unconfirmed.find(|count| *count > 0).map(|count| (count, RunKind::Full))
            }
        }
    }

    fn of(&self, count: u32) -> impl IntoIterator<Item = &Trial> {
        self.trials.iter().filter(move |trial| trial.count == count)
    }

    fn full_runs(&self, count: u32) -> u32 {
        let full = self.of(count).into_iter().filter(|t| t.kind == RunKind::Full);
        full.count() as u32
    }

    /// Whether every trial of a count passed. A guess counts only without certain results.
    fn passes(&self, count: u32) -> bool {
        let is_certain = self.of(count).into_iter().any(|trial| trial.certain);
        let mut counting = self.of(count).into_iter().filter(|t| t.certain || !is_certain);
        counting.all(|trial| trial.passed)
    }

    fn suggestion(&self) -> Option<u32> {
        self.trials.iter().rev().find_map(|trial| trial.suggests)
    }

    /// The next count when all trials so far passed.
    fn upwards(&self, passing: u32) -> u32 {
        let twice = passing.saturating_mul(2);
        let suggested = self.suggestion();
        let count = match self.probes() {
            // The estimate is right more often than not.
            0 | 1 => suggested.unwrap_or(passing + 1),
            2 => suggested.unwrap_or(twice),
            _ => twice,
        };
        // At most double the count, which is untested territory; a larger suggestion is a poor
        // guess.
        count.clamp(passing + 1, twice.max(passing + 1)).min(self.most)
    }

    /// The next count between two that are not adjacent.
    fn between(&self, passing: u32, missing: u32) -> u32 {
        let middle = passing + (missing - passing) / 2;
        let Some(suggested) = self.suggestion() else {
            return middle;
        };
        let count = suggested.clamp(passing + 1, missing - 1);
        let worst = ceil_log2((count - passing).max(missing - count));
        let least = match passing {
            0 => missing.div_ceil(2),
            passing => passing,
        };
        if self.probes() + 1 + worst <= most_probes(least) { count } else { middle }
    }
}

/// Maximum probes needed to find `answer`, if results are consistent and the first estimate was
/// within a factor of two.
pub fn most_probes(answer: u32) -> u32 {
    ceil_log2(answer.max(1)) + 4
}

fn ceil_log2(count: u32) -> u32 {
    match count {
        0 | 1 => 0,
        count => u32::BITS - (count - 1).leading_zeros(),
    }
}

#[cfg(test)]
#[path = "largest_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
