//! MLPerf's files of a run, and the exit code that says how it went.

use std::path::Path;

use anyhow::Context;
use stormlp_model::report::Ending;
use stormlp_model::training::report::TrainReport;
use stormlp_model::training::workload::Workload;
use stormlp_report::training as render;
use stormlp_transfer::storage::{Disk, Durability, Storage as _};

use crate::commands::deliver::MLPERF_HELP;
use crate::exit::Failure;

/// Writes the files that DLIO's and mlpstorage's tools read.
///
/// # Errors
/// With exit code 4 when one cannot be written.
pub(super) fn write_mlperf(
    folder: &Path,
    report: &TrainReport,
    workload: &Workload,
) -> Result<(), Failure> {
    // The results of another run are never written over.
    Disk.hold(folder);
    let taken = |name: &str| !matches!(Disk.look(&folder.join(name)), Ok(None));
    for file in render::mlperf::files(report, workload, &report.results.steps, &taken) {
        let path = folder.join(&file.path);
        let parent = path.parent().unwrap_or(folder);
        Disk.make_folder(parent)
            .and_then(|()| Disk.write(&path, file.content.as_ref(), Durability::Whole))
            .with_context(|| format!("cannot write {}", path.display()))
            .map_err(|error| Failure::machine(error).with_help(MLPERF_HELP))?;
    }
    Ok(())
}

/// The exit code that a finished report asks for.
///
/// # Errors
/// With exit code 6 when AU was missed, 5 when storage failed, 130 when the user stopped it.
pub(super) fn ended(report: &TrainReport, path: Option<&Path>) -> Result<(), Failure> {
    let saved = match path {
        Some(path) => format!("what was measured is saved in {}", path.display()),
        None => "what was measured could not be saved".to_string(),
    };
    match &report.ending {
        Ending::Stopped | Ending::Unfinished => Err(Failure::stopped(format!(
            "stopped by the user {}; {saved}",
            reached(report)
        ))),
        Ending::Failed {
            cause,
            message,
            remedy,
        } => Err(Failure::of_run(
            *cause,
            format!("{message}; {saved}"),
            remedy,
        )),
        Ending::Complete if report.results.meets_threshold => Ok(()),
        Ending::Complete => Err(Failure::missed_target(format!(
            "AU {:.1} % is below the {:.1} % that {} asks for",
            report.results.mean.au_percent.profile,
            report.results.threshold_percent,
            report.results.workload
        ))),
    }
}

/// How far a run came that did not end.
fn reached(report: &TrainReport) -> String {
    let plan = &report.plan;
    let run = match report.results.runs.len() {
        0 => String::new(),
        number => format!(" of run {number} of {}", plan.runs),
    };
    let begun = report
        .results
        .runs
        .last()
        .map_or(&report.results.epochs, |run| &run.epochs);
    match begun.len() {
        0 => format!("before the first epoch{run}"),
        epochs => format!("in epoch {epochs} of {}{run}", plan.epochs),
    }
}
