//! Summary of a report for lists: its figure and its verdict.

use crate::document::Quantity;

/// A short summary of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The name of the figure: `AU`, `saved`; empty if its unit is sufficient.
    pub what: &'static str,
    /// The headline figure; `None` without a measurement.
    pub figure: Option<Quantity>,
    /// Whether the run completed and met its target.
    pub verdict: String,
}

impl Outcome {
    /// The figure with its unit: `AU 87.6 %`.
    pub fn words(&self) -> String {
        match &self.figure {
            Some(figure) => {
                let number = match figure.unit {
                    // A count.
                    "accelerators" | "servers" => format!("{:.0}", figure.estimate.value),
                    _ => figure.text(),
                };
                format!("{} {number} {}", self.what, figure.unit).trim_start().to_string()
            }
            None => "-".to_string(),
        }
    }
}
