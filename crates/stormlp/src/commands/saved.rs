//! Reads saved reports.

use std::path::{Path, PathBuf};

use crate::any_report::AnyReport;
use anyhow::Context;
use serde_json::Value;
use stormlp_core::note::Cause;
use stormlp_core::report::{Ending, ReportKind};
use stormlp_matrix::plan::MatrixReport;
use stormlp_matrix::run as matrix;
use stormlp_mlperf::dlio;
use stormlp_mlperf::dlio::DlioRun;
use stormlp_mlperf::python_json;
use stormlp_training::report::TrainReport;
use stormlp_training::run as training;
use stormlp_transfer::storage::{Disk, Kind, Storage as _};

use super::workloads::read_bounded;
use stormlp_core::failure::Failure;
use stormlp_hosts::journal;

/// A report and its file.
pub(super) type Saved = (String, AnyReport);

/// No report is larger; a device or a dataset named by mistake may be.
const MOST_REPORT_BYTES: u64 = 1 << 30;
const LISTING: &str = "`stormlp report DIR` lists the reports of a folder";
const READ: &str = "stormlp reads its own report.json, and `stormlp report show` also one summary.json of DLIO's \
                    training or checkpoint runs; `stormlp submission check` reads trees of results";

/// Whether there is a regular file at `path`.
fn is_file(path: &Path) -> Result<bool, Failure> {
    Ok(Disk.look(path)?.is_some_and(|found| found.kind == Kind::File))
}

/// The report file for `place`, which may be the folder of a report.
///
/// # Errors
/// With exit code 4 or 5 if it cannot be looked at.
pub(crate) fn file(place: &Path) -> Result<PathBuf, Failure> {
    let inside = place.join("report.json");
    Ok(if is_file(&inside)? { inside } else { place.to_path_buf() })
}

/// The reports in `place`: one, or the reports of all its subfolders, by name.
///
/// # Errors
/// With exit code 4 if it is a folder without reports, or cannot be listed.
pub(crate) fn files(place: &Path) -> Result<Vec<PathBuf>, Failure> {
    let file = file(place)?;
    if !Disk.is_folder(&file)? {
        return Ok(vec![file]);
    }
    let files = in_subfolders(&file)?;
    if files.is_empty() {
        let error = anyhow::anyhow!("{} contains no reports", file.display());
        let help = format!("run `stormlp gds` first, or name another folder; {READ}");
        Err(Failure::machine(error).with_help(help))
    } else {
        Ok(files)
    }
}

/// The reports of the subfolders of `folder`, by name.
///
/// # Errors
/// With exit code 4 or 5 if they cannot be listed.
pub(crate) fn in_subfolders(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for entry in Disk.list(folder)? {
        let inside = folder.join(entry.name).join("report.json");
        if is_file(&inside)? {
            files.push(inside);
        }
    }
    Ok(files)
}

/// The file of the only report in `place`, which may be a parent of its folder.
///
/// # Errors
/// With exit code 4 if the folder contains several.
pub(crate) fn only(place: &Path) -> Result<PathBuf, Failure> {
    let file = file(place)?;
    if !Disk.is_folder(&file)? {
        return Ok(file);
    }
    match files(&file)?.as_slice() {
        [one] => Ok(one.clone()),
        several => {
            let (place, count) = (file.display(), several.len());
            let error = anyhow::anyhow!("{place} contains {count} reports, but one is needed");
            let help = "name the folder of one; `stormlp compare` accepts several per side";
            Err(Failure::machine(error).with_help(help))
        }
    }
}

/// The files of a DLIO run, if `place` is its `summary.json` or the folder of one.
///
/// # Errors
/// With exit code 4 if a file cannot be read, and 3 if its content does not match its name.
pub(crate) fn dlio(place: &Path) -> Result<Option<DlioRun>, Failure> {
    let inside = place.join("summary.json");
    let summary = if is_file(&inside)? { &inside } else { place };
    if summary.file_name() != Some("summary.json".as_ref()) || !is_file(summary)? {
        return Ok(None);
    }
    let mut run = DlioRun { summary: python_json(summary)?, ..DlioRun::default() };
    if !dlio::is_summary(&run.summary) {
        let error = anyhow::anyhow!("{} is not a DLIO summary", summary.display());
        return Err(Failure::no_plan(error).with_help(READ));
    }
    for rank in 0u32.. {
        let of_rank = |name: &str| summary.with_file_name(format!("{rank}_{name}.json"));
        let (stats, output) = (of_rank("per_epoch_stats"), of_rank("output"));
        let before = run.stats.len() + run.outputs.len();
        for (file, into) in [(stats, &mut run.stats), (output, &mut run.outputs)] {
            if is_file(&file)? {
                into.push(python_json(&file)?);
            }
        }
        if run.stats.len() + run.outputs.len() == before {
            break;
        }
    }
    Ok(Some(run))
}

/// Parses JSON as written by Python.
fn python_json(path: &Path) -> Result<Value, Failure> {
    let text = read_bounded(path, "DLIO file", MOST_REPORT_BYTES)?;
    python_json::parse(&text)
        .with_context(|| format!("{} cannot be used", path.display()))
        .map_err(Failure::no_plan)
}

/// Reads a saved report of any kind; an unfinished one with the cells or epochs in its journal.
///
/// # Errors
/// With exit code 4 if the file cannot be read, and 3 if it is not a report or a newer one.
pub(crate) fn any(path: &Path) -> Result<AnyReport, Failure> {
    let path = &file(path)?;
    if Disk.is_folder(path)? {
        let error = anyhow::anyhow!("{} is a folder without a report.json", path.display());
        let help = format!("`stormlp report {}` lists its reports; {READ}", path.display());
        return Err(Failure::machine(error).with_help(help));
    }
    // Read before the report: a run that ends now writes the report first, then removes its
    // journal.
    let lines = journal::lines(path);
    let text = read_bounded(path, "report", MOST_REPORT_BYTES).map_err(|failure| {
        match failure.cause() {
            // A failing device has a different remedy.
            Cause::Device => failure,
            _ => failure.with_help(LISTING),
        }
    })?;
    let report = AnyReport::from_json(&text)
        .with_context(|| format!("{} cannot be used", path.display()))
        .map_err(Failure::no_plan)?;
    match report {
        AnyReport::Gds(mut report) if report.ending == Ending::Unfinished => {
            for cell in journal::units(path, &lines?)? {
                report.results.push(cell);
            }
            // The journal contains only cells.
            report.results.hosts = matrix::shares(&report.results.cells);
            Ok(AnyReport::Gds(report))
        }
        AnyReport::Train(report) if report.ending == Ending::Unfinished => {
            Ok(AnyReport::Train(training::with_epochs(report, journal::units(path, &lines?)?)))
        }
        finished => Ok(finished),
    }
}

/// Reads a saved report of a given command.
///
/// # Errors
/// As [`any`], and if it is the report of another command.
pub(crate) fn of_kind(path: &Path, kind: ReportKind) -> Result<AnyReport, Failure> {
    let report = any(path)?;
    match report.head().kind {
        found if found == kind => Ok(report),
        found => Err(of_another(path, found, kind)),
    }
}

/// Reads a saved report of `stormlp gds`.
///
/// # Errors
/// As [`of_kind`].
pub(crate) fn gds(path: &Path) -> Result<MatrixReport, Failure> {
    match any(path)? {
        AnyReport::Gds(report) => Ok(report),
        other => Err(of_another(path, other.head().kind, ReportKind::Gds)),
    }
}

/// Reads a saved report of `stormlp train`.
///
/// # Errors
/// As [`of_kind`].
pub(crate) fn train(path: &Path) -> Result<TrainReport, Failure> {
    match any(path)? {
        AnyReport::Train(report) => Ok(report),
        other => Err(of_another(path, other.head().kind, ReportKind::Train)),
    }
}

/// The failure for the report of another command than the needed one.
fn of_another(path: &Path, found: ReportKind, needed: ReportKind) -> Failure {
    let (path, found, needed) = (path.display(), found.name(), needed.name());
    Failure::no_plan(anyhow::anyhow!(
        "{path} is the report of `stormlp {found}`, and one of `stormlp {needed}` is needed"
    ))
}
