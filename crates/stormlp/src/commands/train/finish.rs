//! Saves the report, prints the result and says with the exit code how it went.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;
use stormlp_model::report::{Ending, FailureCause};
use stormlp_model::training::report::TrainReport;
use stormlp_model::training::workload::Workload;
use stormlp_report::training as render;
use stormlp_transfer::storage;

use super::{Format, OutputArgs};
use crate::exit::Failure;
use crate::output;
use crate::session::Session;

const RESULTS_HELP: &str = "name a folder that you may write to: --results-dir DIR";
const MLPERF_HELP: &str = "name a folder that you may write to: --mlperf-output DIR";

/// Saves and prints, then fails with the code that the run's ending asks for.
///
/// # Errors
/// With exit code 6 when AU was missed, 5 when storage failed, 130 when the user stopped it, 4
/// when the report cannot be saved.
pub(super) fn finish(
    report: &TrainReport,
    workload: &Workload,
    output: &OutputArgs,
    session: &Session,
) -> Result<(), Failure> {
    // What was measured is printed even where it can no longer be saved.
    let saved = save(report, &output.results_dir, session);
    let for_mlperf = match &output.mlperf_output {
        Some(folder) => write_mlperf(folder, report, workload),
        None => Ok(()),
    };
    match output.format {
        Format::Json => output::print(&json(report)?)?,
        Format::Text => output::show(&render::document(report))?,
    }
    if let (Ok(path), false) = (&saved, session.quiet) {
        eprintln!("report: {}", path.display());
    }
    let outcome = ended(report, saved.as_deref().ok());
    match (outcome, saved.map(drop).and(for_mlperf)) {
        (outcome, Ok(())) => outcome,
        // Why the run did not end tells more than that its report has no place.
        (Err(outcome), Err(unsaved)) if report.ending != Ending::Complete => {
            unsaved.report();
            Err(outcome)
        }
        (_, Err(unsaved)) => Err(unsaved),
    }
}

/// Fails now where the result could not be saved after the run. Leaves nothing behind.
///
/// # Errors
/// With exit code 4 and the option that names another folder.
pub(super) fn check_folders(output: &OutputArgs) -> Result<(), Failure> {
    check_folder(&output.results_dir, RESULTS_HELP)?;
    match &output.mlperf_output {
        Some(folder) => check_folder(folder, MLPERF_HELP),
        None => Ok(()),
    }
}

fn check_folder(folder: &Path, help: &str) -> Result<(), Failure> {
    let new: Vec<&Path> = folder
        .ancestors()
        .take_while(|part| !part.exists())
        .collect();
    let made = fs::create_dir_all(folder)
        .with_context(|| format!("cannot make {}", folder.display()))
        .and_then(|()| {
            let probe = folder.join(format!(".stormlp-{}", std::process::id()));
            let written = fs::write(&probe, "x");
            let _ = fs::remove_file(&probe);
            written.with_context(|| format!("cannot write to {}", folder.display()))
        });
    for part in new {
        // Another process may have begun to use it.
        let _ = fs::remove_dir(part);
    }
    made.map_err(|error| Failure::machine(error).with_help(help))
}

/// `value` as JSON.
///
/// # Errors
/// Never, for plain data.
pub(super) fn json<T: Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .context("a report is plain data")
        .map_err(Failure::bug)
}

/// The report in a folder of its own.
fn save(report: &TrainReport, results: &Path, session: &Session) -> Result<PathBuf, Failure> {
    let cannot = |error: anyhow::Error| Failure::machine(error).with_help(RESULTS_HELP);
    let stem = format!("train-{}-{}", report.results.workload, session.file_stamp());
    fs::create_dir_all(results)
        .with_context(|| format!("cannot make {}", results.display()))
        .map_err(cannot)?;
    for attempt in 1..1000 {
        let folder = match attempt {
            1 => results.join(&stem),
            again => results.join(format!("{stem}-{again}")),
        };
        match fs::create_dir(&folder) {
            Ok(()) => {
                let path = folder.join("report.json");
                storage::write_atomically(&path, json(report)?.as_bytes())
                    .map_err(|error| cannot(error.into()))?;
                return Ok(path);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                let error = anyhow::Error::new(error);
                return Err(cannot(
                    error.context(format!("cannot make {}", folder.display())),
                ));
            }
        }
    }
    Err(Failure::machine(anyhow::anyhow!(
        "{} is full of reports of this second",
        results.display()
    )))
}

/// The files that DLIO's and mlpstorage's tools read.
fn write_mlperf(folder: &Path, report: &TrainReport, workload: &Workload) -> Result<(), Failure> {
    // The results of another run are never written over.
    let taken = |name: &str| folder.join(name).exists();
    for file in render::mlperf::files(report, workload, &report.results.steps, &taken) {
        let path = folder.join(&file.path);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, &file.content))
            .with_context(|| format!("cannot write {}", path.display()))
            .map_err(|error| Failure::machine(error).with_help(MLPERF_HELP))?;
    }
    Ok(())
}

fn ended(report: &TrainReport, path: Option<&Path>) -> Result<(), Failure> {
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
        } => {
            let error = anyhow::anyhow!("{message}; {saved}");
            let failure = match cause {
                FailureCause::Internal => Failure::bug(error),
                _ => Failure::storage(error),
            };
            Err(failure.with_help(remedy.clone()))
        }
        Ending::Complete if report.results.meets_threshold => Ok(()),
        Ending::Complete => Err(Failure::missed_target(format!(
            "AU {:.1} % is below the {:.1} % that {} asks for: {}",
            report.results.mean.au_percent.profile,
            report.results.threshold_percent,
            report.results.workload,
            report.results.verdict.sentence
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
