//! The warnings of cells, those that ask for the same action merged.

use crate::plan::{CellReport, MatrixReport};
use crate::report::HostCell;
use stormlp_core::units::GIB;
use stormlp_core::warning::{Warning, WarningKind, merge};
use stormlp_show::hosts::SlowestHost;

use super::group::key_of;

/// The warnings of all cells with the names of these cells.
pub(super) fn of_cells(report: &MatrixReport) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for cell in &report.results.cells {
        for warning in cell.warnings.iter().cloned().chain(slow_host(cell)) {
            merge(&mut warnings, warning.about(name(report, cell)));
        }
    }
    warnings
}

/// Names a host that was much slower than the rest.
fn slow_host(cell: &CellReport) -> Option<Warning> {
    let host = slowest_host(cell).filter(SlowestHost::is_slow)?;
    let fact = format!(
        "{} reached {:.3} GiB/s, the median of the other hosts {:.3} GiB/s",
        host.name, host.rate, host.median
    );
    let remedy = "run `stormlp gds` on that host alone, and check its link and limits";
    Some(Warning::new(WarningKind::Hosts, fact, remedy))
}

/// The slowest host of a cell, with rates in GiB/s.
pub(super) fn slowest_host(cell: &CellReport) -> Option<SlowestHost<'_>> {
    let rate = |host: &HostCell| host.throughput_bytes_per_second / GIB as f64;
    let rates: Vec<(&str, f64)> = cell.hosts.iter().map(|host| (&*host.name, rate(host))).collect();
    SlowestHost::of(&rates)
}

/// The name of a cell, with the settings that distinguish it within its matrix.
fn name(report: &MatrixReport, cell: &CellReport) -> String {
    let key = key_of(report, cell);
    let repeat = match report.plan.request.runs() {
        0 | 1 => String::new(),
        _ => format!(", repetition {}", cell.repeat),
    };
    format!("{} {}{repeat}", key.path, key.setting(""))
}
