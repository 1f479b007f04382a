//! Says what happened: a lane builds a [`document::Document`] from its report, and the renderers
//! draw documents.

#![forbid(unsafe_code)]

mod around;
pub mod chart;
pub mod checkpoint;
pub mod comparison;
pub mod csv;
pub mod dataset;
pub mod doctor;
pub mod document;
mod hosts;
pub mod html;
pub mod markdown;
pub mod matrix;
pub mod numbers;
pub mod openmetrics;
mod outcome;
pub mod records;
pub mod series;
pub mod settings;
pub mod stamp;
mod storage;
pub mod text;
pub mod training;

use stormlp_core::report::{AnyReport, Ending, ReportKind};

use self::document::Document;
use self::matrix::Columns;

pub use self::outcome::{Outcome, outcome};

/// A report of any command as a document; `columns` are those of a matrix.
pub fn document(report: &AnyReport, columns: Columns) -> Document {
    let mut document = match report {
        AnyReport::Gds(report) => matrix::document(report, columns),
        AnyReport::Train(report) => training::document(report),
        AnyReport::Checkpoint(report) => checkpoint::document(report),
    };
    document.warnings.extend(contradictions(report));
    document
}

/// More contradictions of a report are counted.
const MOST_CONTRADICTIONS: usize = 4;

/// Where the figures of a report contradict each other, as a reader is warned of it.
pub fn contradictions(report: &AnyReport) -> Vec<String> {
    let mut found = report.contradictions();
    let left = found.len().saturating_sub(MOST_CONTRADICTIONS);
    found.truncate(MOST_CONTRADICTIONS);
    let mut told: Vec<String> = found
        .iter()
        .map(|one| format!("the report contradicts itself, so it was damaged or changed: {one}"))
        .collect();
    if left > 0 {
        told.push(format!("the report contradicts itself in {left} more places"));
    }
    told
}

/// The columns of the records of a command.
pub fn record_columns(kind: ReportKind) -> Vec<&'static str> {
    let places = match kind {
        ReportKind::Gds => &matrix::RECORDS[..],
        ReportKind::Train => &training::RECORDS[..],
        ReportKind::Checkpoint => &checkpoint::RECORDS[..],
    };
    places.iter().map(|(name, _)| *name).collect()
}

/// How the run of a report ended, in one word.
pub fn status(report: &AnyReport) -> &'static str {
    match report.ending() {
        Ending::Unfinished => "unfinished",
        Ending::Complete => "complete",
        Ending::Stopped => "stopped",
        Ending::Failed { .. } => "failed",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
