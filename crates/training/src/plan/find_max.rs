//! Results of `stormlp train --find-max`: the answer, the limit, and every count tried.

use serde::{Deserialize, Serialize};

use super::probe::{LEAST_SECONDS, LEAST_STEPS};
use crate::plan::train_plan::TrainPlan;
use crate::report::verdict::Bound;
use stormlp_core::largest::{self, Largest, RunKind, Trial};
use stormlp_core::units::counted;

/// Duration of the initial read that estimates the storage bandwidth.
pub const READ_SECONDS: f64 = 2.0;

/// Above this AU throughput is not the limit, so it gives no estimate for larger counts.
const UNLIMITED_PERCENT: f64 = 97.0;

/// The largest number of accelerators that meets the threshold.
pub type FindMax = Largest<Tried, Limit>;

/// The limit that keeps more accelerators from meeting the threshold.
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
    pub prefetch_bound: bool,
    /// Steps completed by every accelerator.
    pub steps: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// The cause of the accelerators' waits.
    pub limited_by: Bound,
}

impl Limit {
    /// The limit that held back a run that missed.
    fn of(limited_by: Bound) -> Option<Self> {
        match limited_by {
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
            Self::Nothing => "none",
        }
    }
}

impl Tried {
    /// Whether it meets the threshold, in words.
    pub fn verdict(&self) -> &'static str {
        match (self.meets, self.certain) {
            _ if self.prefetch_bound => "meets by prefetched samples only",
            (true, true) => "meets",
            (false, true) => "misses",
            (true, false) => "probably meets",
            (false, false) => "probably misses",
        }
    }

    /// The same trial for the search, with the target AU `threshold_percent`.
    pub fn trial(&self, threshold_percent: f64) -> Trial {
        let suggested = f64::from(self.accelerators) * self.au_percent / threshold_percent;
        let limited = self.au_percent > 0.0 && self.au_percent < UNLIMITED_PERCENT;
        Trial {
            count: self.accelerators,
            kind: self.kind,
            // There is no count below one accelerator to try.
            passed: self.meets && (!self.prefetch_bound || self.accelerators == 1),
            certain: self.certain,
            suggests: limited.then_some(suggested as u32),
        }
    }
}

impl largest::Tried for Tried {
    type Limit = Limit;
    const WHAT: &'static str = "accelerator";

    fn count(&self) -> u32 {
        self.accelerators
    }

    fn kind(&self) -> RunKind {
        self.kind
    }

    fn meets(&self) -> bool {
        self.meets
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }

    fn limited_by(&self) -> Option<Limit> {
        // The epoch of one that meets by read-ahead is too short.
        if self.meets { Some(Limit::Dataset) } else { Limit::of(self.limited_by) }
    }

    fn spares_storage(limit: Limit) -> bool {
        limit != Limit::Storage
    }

    fn to_text(&self) -> String {
        let spread = self.au_spread.map_or(String::new(), |spread| format!(" ± {spread:.1}"));
        let steps = counted(self.steps, "step");
        format!("AU {:.1}{spread} % in {steps}, {}", self.au_percent, self.verdict())
    }
}

/// The duration of a run at the threshold, by the plan of one accelerator; longer where it is
/// missed.
pub fn expected_seconds(one: &TrainPlan, kind: RunKind) -> f64 {
    let threshold = (one.metric.threshold_percent / 100.0).max(0.1);
    match kind {
        RunKind::Full => one.compute_seconds() * f64::from(one.runs) / threshold,
        RunKind::Probe => {
            let steps = one.steps_per_epoch.min(LEAST_STEPS as u64);
            (one.compute.mean_seconds() * steps as f64 / threshold).max(LEAST_SECONDS)
        }
    }
}

/// The smallest count that meets the threshold only because of read-ahead.
pub fn least_on_read_ahead(find: &FindMax) -> Option<u32> {
    let resting = find.tried.iter().filter(|tried| tried.prefetch_bound);
    resting.map(|tried| tried.accelerators).min()
}

#[cfg(test)]
mod tests {
    use stormlp_core::largest::Search;

    use super::*;

    fn tried(accelerators: u32, au_percent: f64, limited_by: Bound) -> Tried {
        Tried {
            accelerators,
            kind: RunKind::Full,
            au_percent,
            au_spread: None,
            samples_per_second: au_percent * f64::from(accelerators),
            mib_per_second: 1.0,
            meets: au_percent >= 90.0,
            certain: true,
            prefetch_bound: false,
            steps: 10,
            seconds: 1.0,
            limited_by,
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
            assert_eq!(find.known(), "no result yet");
            for (count, au, bound) in [(4, 99.0, Bound::Compute), (7, 60.0, bound)] {
                let tried = tried(count, au, bound);
                search.tell(tried.trial(90.0));
                find.tried.push(tried);
            }
            find.conclude(&search);
            assert_eq!(find.known(), "between 4 and 6");
            assert_eq!(find.limited_by, Some(limit));
            assert_eq!(find.is_lower_bound, is_lower_bound);
            assert_eq!(find.answer().map(|one| one.accelerators), Some(4));
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
            prefetch_bound: true,
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
        assert_eq!((find.largest, find.smallest_failing), (7, Some(32)));
        assert_eq!(find.limited_by, Some(Limit::Dataset));
        assert!(find.is_lower_bound);
        assert_eq!(least_on_read_ahead(&find), Some(8));
        assert!(find.inconsistent.is_empty());
        // There is no count smaller than one.
        let find = found(&mut Search::new(1, 1, 0), vec![resting(1)]);
        assert_eq!(find.largest, 1);
    }

    #[test]
    fn without_a_miss_more_may_be_possible() {
        let full = tried(8, 92.0, Bound::Compute);
        assert!(found(&mut Search::new(8, 100, 1), vec![full]).is_lower_bound);
    }
}
