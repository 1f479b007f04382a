//! The warnings of cells: each names its cells, and similar ones are merged.

use crate::plan::{CellReport, MatrixReport};
use stormlp_core::warning::{Warning, WarningKind};

use super::group::key_of;
use stormlp_show::document::rank;

/// Maximum number of cells listed by name; more are counted.
const NAMED: usize = 3;

/// Warnings that differ only in their numbers.
struct Alike<'a> {
    shape: (WarningKind, String, &'a str),
    found: Vec<(&'a CellReport, &'a Warning)>,
}

/// The warnings of all cells, the most important first, similar ones merged. The cell comes first,
/// since a screen may cut the rest: `10 of 12 cells: other programs used 1.6 CPUs (the first, cpu
/// read of 1 MiB, 8 threads); …`.
pub(super) fn of_cells(report: &MatrixReport) -> Vec<(WarningKind, String)> {
    let mut alike: Vec<Alike<'_>> = Vec::new();
    for cell in &report.results.cells {
        for warning in &cell.warnings {
            let shape = warning.shape();
            match alike.iter_mut().find(|other| other.shape == shape) {
                Some(other) if other.found.contains(&(cell, warning)) => {}
                Some(other) => other.found.push((cell, warning)),
                None => alike.push(Alike { shape, found: vec![(cell, warning)] }),
            }
        }
    }
    alike.sort_by_key(|one| rank(one.shape.0));
    let told = |cell: &&CellReport| cell.measurement.is_some() || !cell.warnings.is_empty();
    let ran = report.results.cells.iter().filter(told).count();
    alike.iter().map(|one| (one.shape.0, one.text(report, ran))).collect()
}

impl Alike<'_> {
    fn text(&self, report: &MatrixReport, ran: usize) -> String {
        let names: Vec<String> = self.found.iter().map(|(cell, _)| name(report, cell)).collect();
        let [(_, first), ..] = self.found.as_slice() else {
            return String::new();
        };
        let count = self.found.len();
        let same = self.found.iter().all(|(_, warning)| warning == first);
        let facts = match (count, same) {
            (..=NAMED, true) => format!("{}: {}", names.join(" and "), first.fact),
            (..=NAMED, false) => {
                let each = names.iter().zip(&self.found);
                let each = each.map(|(name, (_, warning))| format!("{name}: {}", warning.fact));
                each.collect::<Vec<_>>().join("; ")
            }
            (_, true) => format!("{count} of {ran} cells: {}", first.fact),
            (_, false) => {
                format!("{count} of {ran} cells: {} (the first, {})", first.fact, names[0])
            }
        };
        match first.remedy.as_str() {
            "" => facts,
            remedy => format!("{facts}; {remedy}"),
        }
    }
}

/// The name of a cell, with what distinguishes it within its matrix.
fn name(report: &MatrixReport, cell: &CellReport) -> String {
    let key = key_of(report, cell);
    let depth = if report.results.cells.iter().all(|c| c.queue_depth == 1) {
        String::new()
    } else {
        format!(", depth {}", cell.queue_depth)
    };
    let repeat = match report.plan.request.repeat() {
        0 | 1 => String::new(),
        _ => format!(", repetition {}", cell.repeat),
    };
    format!("{} {}{depth}{repeat}", key.path, key.combination.words())
}
