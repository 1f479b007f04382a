//! A report in a line of a list: its figure and its verdict.

use stormlp_core::checkpoint::{Arithmetic, CheckpointReport, PhaseSummary, StreamKnee};
use stormlp_core::matrix::{CellStatus, MatrixReport};
use stormlp_core::report::{AnyReport, Ending};
use stormlp_core::training::report::TrainReport;

use crate::document::Quantity;
use crate::{matrix, status};

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

/// What the run of a report came to.
pub fn outcome(report: &AnyReport) -> Outcome {
    let status = status(report).to_string();
    match report {
        AnyReport::Gds(report) => of_matrix(report, status),
        AnyReport::Train(report) => of_training(report, status),
        AnyReport::Checkpoint(report) => of_checkpoint(report, status),
    }
}

/// The fastest combination, and how many cells broke.
fn of_matrix(report: &MatrixReport, status: String) -> Outcome {
    let cells = &report.results.cells;
    let failed = cells.iter().filter(|cell| cell.status == CellStatus::Failed).count();
    Outcome {
        what: "up to",
        figure: matrix::best(report)
            .map(|rate| Quantity::higher(rate.value, "GiB/s").spread(rate.spread)),
        verdict: match failed {
            0 => status,
            failed => format!("{status}, {failed} of {} cells failed", cells.len()),
        },
    }
}

fn of_training(report: &TrainReport, status: String) -> Outcome {
    let results = &report.results;
    if let Some(find) = &results.find_max {
        let largest = f64::from(find.largest_accelerators);
        let bound = if find.is_lower_bound { "at least" } else { "at most" };
        return Outcome {
            what: "accelerators",
            figure: (!find.tried.is_empty()).then(|| Quantity::higher(largest, "accelerators")),
            verdict: match report.ending {
                Ending::Complete => {
                    format!("{bound} so many meet {:.1} %", results.threshold_percent)
                }
                _ => status,
            },
        };
    }
    let is_measured = !results.scored_epochs().is_empty();
    let verb = if results.meets_threshold { "meets" } else { "misses" };
    Outcome {
        what: "AU",
        figure: is_measured.then(|| Quantity::higher(results.mean.au_percent.profile, "%")),
        verdict: match report.ending {
            Ending::Complete => format!("{verb} {:.1} %", results.threshold_percent),
            _ => status,
        },
    }
}

/// The rate of the saves, or of the restores where there are no saves, by the profile's arithmetic.
fn of_checkpoint(report: &CheckpointReport, status: String) -> Outcome {
    let summary = &report.results.summary;
    let rate = |summary: &PhaseSummary| {
        let pair = match report.arithmetic() {
            Arithmetic::MlperfRules => summary.mlperf_rules,
            Arithmetic::Dlio => summary.dlio,
            Arithmetic::AllRanks => summary.all_ranks,
        };
        Quantity::higher(pair.gib_per_second.mean, "GiB/s")
    };
    // What a search found stands for all of its runs; the summary is of the last with so many streams.
    let find = report.results.find_knee.as_ref();
    let knee = |knee: &StreamKnee| Quantity::higher(knee.gib_per_second, "GiB/s");
    let save_knee = find.and_then(|find| find.save.as_ref());
    let restore_knee = find.and_then(|find| find.restore.as_ref());
    let (what, figure) = match (&summary.save, &summary.restore) {
        _ if save_knee.is_some() => ("saved at", save_knee.map(knee)),
        _ if restore_knee.is_some() => ("restored at", restore_knee.map(knee)),
        (Some(save), _) => ("saved at", Some(rate(save))),
        (None, Some(restore)) => ("restored at", Some(rate(restore))),
        (None, None) => ("", None),
    };
    Outcome { what, figure, verdict: status }
}
