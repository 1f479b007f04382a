//! Summary of a report for lists: its figure and its verdict.

use crate::plan::{CellStatus, MatrixReport};

use stormlp_show::document::Quantity;
use stormlp_show::outcome::Outcome;

/// The fastest combination, and the number of failed cells.
pub(super) fn outcome(report: &MatrixReport, status: String) -> Outcome {
    let cells = &report.results.cells;
    let failed = cells.iter().filter(|cell| cell.status == CellStatus::Failed).count();
    Outcome {
        what: "up to",
        figure: super::best(report)
            .map(|rate| Quantity::higher(rate.value, "GiB/s").spread(rate.spread)),
        verdict: match failed {
            0 => status,
            failed => format!("{status}, {failed} of {} cells failed", cells.len()),
        },
    }
}
