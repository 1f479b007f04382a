//! The figures of a report for speed and cost.

use crate::document::{Better, Quantity};

/// The smallest change of a rate or a time that matters, as a share.
const EFFECT: f64 = 0.05;
/// The same for percentiles and CPU time, which are more sensitive to other programs.
const EFFECT_OF_COSTS: f64 = 0.1;

/// A figure of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its subject: a combination of a matrix, saves or restores; empty if a report has a single
    /// subject.
    pub subject: String,
    /// Its name, equal in all reports.
    pub name: &'static str,
    /// The number.
    pub quantity: Quantity,
    /// The smallest change that matters, as a share.
    pub effect: f64,
    /// Whether it answers the question of its subject: mostly its throughput.
    pub headline: bool,
}

impl Figure {
    /// A rate or a time.
    pub fn new(subject: &str, name: &'static str, quantity: Quantity) -> Self {
        Self { subject: subject.to_string(), name, quantity, effect: EFFECT, headline: false }
    }

    /// The figure that answers the question of its subject.
    pub fn answer(subject: &str, name: &'static str, quantity: Quantity) -> Self {
        Self { headline: true, ..Self::new(subject, name, quantity) }
    }

    /// The throughput of a subject, which answers its question.
    pub fn throughput(subject: &str, quantity: Quantity) -> Self {
        Self::answer(subject, "throughput", quantity)
    }

    /// A percentile.
    pub fn percentile(subject: &str, name: &'static str, us: f64) -> Self {
        let quantity = Quantity::lower(us, "µs");
        Self { effect: EFFECT_OF_COSTS, ..Self::new(subject, name, quantity) }
    }

    /// CPU time per GiB.
    pub fn cpu(subject: &str, seconds_per_gib: f64) -> Self {
        let quantity = Quantity::lower(seconds_per_gib, "s/GiB");
        Self { effect: EFFECT_OF_COSTS, ..Self::new(subject, "CPU time", quantity) }
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
