//! The figures of a report for speed and cost.

use crate::comparison::judge::FigureRun;
use stormlp_core::report::Series;

use crate::document::{Better, Quantity};

/// Smaller changes are ignored: half a percent is irrelevant.
const SMALLEST_CHANGE: f64 = 0.005;
/// Percentiles are accurate to 1 % on both sides.
const SMALLEST_OF_PERCENTILES: f64 = 0.02;
/// Assumed run-to-run variation without changes.
pub(super) const RUN_TO_RUN: f64 = 0.02;
/// Likewise for percentiles and CPU time, which are more sensitive to other programs.
pub(super) const RUN_TO_RUN_OF_COSTS: f64 = 0.05;
/// Fewer intervals are too few to estimate their correlation.
const FEWEST_INTERVALS: usize = 20;
/// Fewer repetitions, epochs or checkpoints are too few to estimate their variation.
const FEWEST_PARTS: usize = 3;

/// A figure and its variation within its run.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its subject: a combination of a matrix, saves or restores; empty if a report has a single
    /// subject.
    pub subject: String,
    /// Its name, equal in all reports.
    pub name: &'static str,
    /// The number.
    pub quantity: Quantity,
    /// Smaller changes are ignored, as a share.
    pub smallest_change: f64,
    /// Assumed run-to-run variation without changes, as a share.
    pub run_to_run: f64,
    /// Its values within the run, in any unit; empty if the run only has the one number.
    pub within: Vec<f64>,
}

impl Figure {
    /// A figure with a single value per run.
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

    /// A percentile, limited in resolution by the histogram's buckets.
    pub fn percentile(subject: &str, name: &'static str, us: f64) -> Self {
        Self {
            smallest_change: SMALLEST_OF_PERCENTILES,
            run_to_run: RUN_TO_RUN_OF_COSTS,
            ..Self::new(subject, name, Quantity::lower(us, "µs"))
        }
    }

    /// CPU time per GiB.
    pub fn cpu(subject: &str, seconds_per_gib: f64) -> Self {
        Self {
            run_to_run: RUN_TO_RUN_OF_COSTS,
            ..Self::new(subject, "CPU time", Quantity::lower(seconds_per_gib, "s/GiB"))
        }
    }

    /// Adds its values for each repetition, epoch or checkpoint, if there are enough of them.
    #[must_use]
    pub fn parts(mut self, parts: impl IntoIterator<Item = f64>) -> Self {
        let parts: Vec<f64> = parts.into_iter().collect();
        if parts.len() >= FEWEST_PARTS {
            self.within = parts;
        }
        self
    }

    /// Adds throughput over time, if there are no values per part.
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

    /// Its value and variation in the run.
    pub fn run(&self) -> FigureRun {
        FigureRun { value: self.quantity.estimate.value, within: self.within.clone() }
    }

    /// Whether higher values are better.
    pub fn higher_is_better(&self) -> bool {
        self.quantity.direction == Better::Higher
    }

    /// Whether it has this subject and name.
    pub fn is(&self, subject: &str, name: &str) -> bool {
        self.subject == subject && self.name == name
    }
}

/// Throughput of each whole interval in bytes per second: the last one is usually partial.
fn rates(series: &Series) -> Vec<f64> {
    let whole = series.interval_bytes.split_last();
    let whole = whole.map_or(&[][..], |(_, whole)| whole);
    let seconds = series.interval_seconds;
    let rate = |bytes: &u64| *bytes as f64 / seconds;
    if seconds > 0.0 { whole.iter().map(rate).collect() } else { Vec::new() }
}
