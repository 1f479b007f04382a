//! The figures of a report that tell how fast the work went and what it cost.

use crate::comparison::judge::Run;
use stormlp_core::report::Series;

use crate::document::{Direction, Quantity};

/// A smaller change is none: nobody would act on half a percent.
const SMALLEST_CHANGE: f64 = 0.005;
/// Percentiles are known within 1 %, on both sides.
const SMALLEST_OF_PERCENTILES: f64 = 0.02;
/// What a run differs by from the next when nothing changed.
pub(super) const RUN_TO_RUN: f64 = 0.02;
/// The same of percentiles and of CPU time, which take what other programs do to heart.
pub(super) const RUN_TO_RUN_OF_COSTS: f64 = 0.05;
/// Fewer intervals say too little of how they hang together.
const FEWEST_INTERVALS: usize = 20;
/// Fewer repetitions, epochs or checkpoints say too little of how they vary.
const FEWEST_PARTS: usize = 3;

/// A figure, and how it went within its run.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What it is of: a combination of a matrix, saves or restores; empty where a report has one
    /// subject.
    pub subject: String,
    /// What it is called in every report.
    pub name: &'static str,
    /// The number.
    pub quantity: Quantity,
    /// A smaller change, as a share, is none.
    pub smallest_change: f64,
    /// What one run differs by from the next when nothing changed, as a share.
    pub run_to_run: f64,
    /// How it went within the run, in any unit; empty where the run has the one number alone.
    pub within: Vec<f64>,
}

impl Figure {
    /// One that its run has as a single number.
    pub fn new(subject: &str, name: &'static str, quantity: Quantity) -> Self {
        Self {
            subject: subject.to_string(),
            name,
            quantity,
            smallest_change: SMALLEST_CHANGE,
            run_to_run: RUN_TO_RUN,
            within: Vec::new(),
        }
    }

    /// One that is no finer than the buckets of a histogram.
    pub fn percentile(subject: &str, name: &'static str, us: f64) -> Self {
        Self {
            smallest_change: SMALLEST_OF_PERCENTILES,
            run_to_run: RUN_TO_RUN_OF_COSTS,
            ..Self::new(subject, name, Quantity::lower(us, "µs"))
        }
    }

    /// CPU time for each GiB.
    pub fn cpu(subject: &str, seconds_per_gib: f64) -> Self {
        Self {
            run_to_run: RUN_TO_RUN_OF_COSTS,
            ..Self::new(subject, "CPU time", Quantity::lower(seconds_per_gib, "s/GiB"))
        }
    }

    /// With what it was in each repetition, epoch or checkpoint, where there are enough of them.
    #[must_use]
    pub fn parts(mut self, parts: impl IntoIterator<Item = f64>) -> Self {
        let parts: Vec<f64> = parts.into_iter().collect();
        if parts.len() >= FEWEST_PARTS {
            self.within = parts;
        }
        self
    }

    /// With how fast bytes moved over time, where no parts tell how it varies.
    #[must_use]
    pub fn or_rates<'a>(mut self, series: impl IntoIterator<Item = &'a Series>) -> Self {
        if self.within.is_empty() {
            let rates: Vec<f64> = series.into_iter().flat_map(rates).collect();
            if rates.len() >= FEWEST_INTERVALS {
                self.within = rates;
            }
        }
        self
    }

    /// What the run says of it.
    pub fn run(&self) -> Run {
        Run { value: self.quantity.estimate.value, within: self.within.clone() }
    }

    /// Whether more of it is better.
    pub fn higher_is_better(&self) -> bool {
        self.quantity.direction == Direction::Higher
    }

    /// Whether both are the same figure of two reports.
    pub fn is(&self, subject: &str, name: &str) -> bool {
        self.subject == subject && self.name == name
    }
}

/// Bytes a second in each whole interval: the last one is seldom whole.
fn rates(series: &Series) -> Vec<f64> {
    let whole = series.interval_bytes.split_last();
    let whole = whole.map_or(&[][..], |(_, whole)| whole);
    let seconds = series.interval_seconds;
    let rate = |bytes: &u64| *bytes as f64 / seconds;
    if seconds > 0.0 { whole.iter().map(rate).collect() } else { Vec::new() }
}
