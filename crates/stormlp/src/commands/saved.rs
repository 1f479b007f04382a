//! Saved reports, read back.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use stormlp_model::report::{AnyReport, Ending, ReportKind};

use super::deliver;
use super::workloads::read_bounded;
use crate::exit::Failure;

/// No report is longer; a device or a dataset may be.
const MOST_REPORT_BYTES: u64 = 1 << 30;
const LISTING: &str = "`stormlp report DIR` lists the reports of a folder";

/// The report that is meant by `place`, which may be the folder it was saved in.
pub(crate) fn file(place: &Path) -> PathBuf {
    let inside = place.join("report.json");
    match inside.is_file() {
        true => inside,
        false => place.to_path_buf(),
    }
}

/// Reads a saved report of any kind; that of an unfinished matrix with the cells in its journal.
///
/// # Errors
/// With exit code 4 when the file cannot be read, and 3 when it is no report or a newer one.
pub(crate) fn any(path: &Path) -> Result<AnyReport, Failure> {
    let path = &file(path);
    if path.is_dir() {
        let error = anyhow::anyhow!("{} is a folder without a report.json", path.display());
        let help = format!("`stormlp report {}` lists its reports", path.display());
        return Err(Failure::machine(error).with_help(help));
    }
    // Before the report: a run that ends now writes the report first, then removes its journal.
    let journal = deliver::journal_cells(path);
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        let error = anyhow::anyhow!("{} is no regular file, so no report", path.display());
        return Err(Failure::machine(error).with_help(LISTING));
    }
    let text = read_bounded(path, "report", MOST_REPORT_BYTES)
        .map_err(|failure| failure.with_help(LISTING))?;
    let mut report = AnyReport::from_json(&text)
        .with_context(|| format!("{} cannot be used", path.display()))
        .map_err(Failure::no_plan)?;
    if let AnyReport::Gds(report) = &mut report
        && report.ending == Ending::Unfinished
    {
        for cell in journal? {
            report.results.push(cell);
        }
    }
    Ok(report)
}

/// Reads a saved report of one command.
///
/// # Errors
/// As [`any`], and when it is the report of another command.
pub(crate) fn of_kind(path: &Path, kind: ReportKind) -> Result<AnyReport, Failure> {
    let report = any(path)?;
    match report.head().kind {
        found if found == kind => Ok(report),
        found => Err(Failure::no_plan(anyhow::anyhow!(
            "{} is the report of `stormlp {}`, and one of `stormlp {}` is needed",
            path.display(),
            found.name(),
            kind.name()
        ))),
    }
}
