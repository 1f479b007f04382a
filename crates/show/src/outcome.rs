//! A report in a line of a list: its figure and its verdict.

use crate::document::Quantity;

/// What a run came to, in few words.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What the figure is: `AU`, `saved`; empty where its unit says it.
    pub what: &'static str,
    /// The headline figure; `None` where nothing was measured.
    pub figure: Option<Quantity>,
    /// Whether the run came to its end and met its target.
    pub verdict: String,
}

impl Outcome {
    /// The figure with its unit: `AU 87.6 %`.
    pub fn words(&self) -> String {
        match &self.figure {
            Some(figure) => {
                format!("{} {} {}", self.what, figure.text(), figure.unit).trim_start().to_string()
            }
            None => "-".to_string(),
        }
    }
}
