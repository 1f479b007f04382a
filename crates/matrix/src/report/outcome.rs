//! How a matrix went, as the end of its command.

use super::{CellReport, CellStatus, MatrixReport};
use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::report::Ending;
use stormlp_transfer::is_full;

const EAGAIN: i32 = 11;

/// The outcome of a finished report; a stopped one is continued by `resume_with`, if known.
///
/// # Errors
/// Why the run ended early, or the first cell that failed, or could not run on a named path.
pub fn outcome(report: &MatrixReport, resume_with: Option<&str>) -> Result<(), Failure> {
    let cells = &report.results.cells;
    match &report.ending {
        Ending::Failed(note) => return Err(Failure::of_run(note, "")),
        Ending::Stopped => {
            let stopped = Failure::stopped(stopped(report));
            return Err(stopped.with_help(resume_with.unwrap_or_default()));
        }
        Ending::Complete | Ending::Unfinished => {}
    }
    let with = |status| cells.iter().filter(move |cell| cell.status == status);
    if let Some(first) = with(CellStatus::Failed).next() {
        if let (Some(EAGAIN), Some(remedy)) = (first.errno, &first.remedy) {
            return Err(Failure::saying(Cause::Machine, not_measured(first)).with_help(remedy));
        }
        // Storage that is full does as it should.
        let (cause, usual_help) = match first.errno {
            Some(errno) if is_full(errno) => {
                (Cause::Capacity, "free space, or use a smaller --file-size")
            }
            _ => (
                Cause::Storage,
                "the report has the reason for each; `stormlp doctor DIR` examines the storage",
            ),
        };
        let (failed, of) = (with(CellStatus::Failed).count(), cells.len());
        let help = first.remedy.as_deref().unwrap_or(usual_help);
        let first = not_measured(first);
        let fact = format!("{failed} of {of} cells failed; the first: {first}");
        return Err(Failure::saying(cause, fact).with_help(help));
    }
    match with(CellStatus::Unavailable).next() {
        Some(cell) if report.plan.request.names_paths() => {
            let remedy = cell.remedy.clone().unwrap_or_default();
            Err(Failure::saying(Cause::Machine, not_measured(cell)).with_help(remedy))
        }
        _ => Ok(()),
    }
}

/// How far a stopped matrix got.
fn stopped(report: &MatrixReport) -> String {
    let (plan, cells) = (&report.plan, &report.results.cells);
    let mut numbers = cells.iter().filter_map(|cell| cell.measurement.as_ref());
    let cut_short = numbers.any(|numbers| numbers.interrupted);
    // A search does not measure all cells of its plan.
    let of =
        if plan.request.find_knee { String::new() } else { format!(" of {}", plan.cells.len()) };
    format!(
        "stopped by the user; {}{of} cells are saved{}",
        cells.len(),
        if cut_short { ", the last cut short" } else { "" }
    )
}

/// Why a cell has no result.
pub(crate) fn not_measured(cell: &CellReport) -> String {
    let reason = cell.reason.as_deref().unwrap_or("no reason was recorded");
    format!("{} {}: {reason}", cell.requested_path, cell.op)
}
