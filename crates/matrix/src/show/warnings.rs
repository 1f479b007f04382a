//! The warnings of cells, those that ask for the same action merged.

use crate::plan::{CellReport, MatrixReport};
use stormlp_core::warning::{Warning, merge};

use super::group::key_of;

/// The warnings of all cells with the names of these cells.
pub(super) fn of_cells(report: &MatrixReport) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for cell in &report.results.cells {
        for warning in &cell.warnings {
            merge(&mut warnings, warning.clone().about(name(report, cell)));
        }
    }
    warnings
}

/// The name of a cell, with the settings that distinguish it within its matrix.
fn name(report: &MatrixReport, cell: &CellReport) -> String {
    let key = key_of(report, cell);
    let repeat = match report.plan.request.runs() {
        0 | 1 => String::new(),
        _ => format!(", repetition {}", cell.repeat),
    };
    format!("{} {}{repeat}", key.path, key.setting(1))
}
