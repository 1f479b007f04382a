//! Continuing a matrix: the saved plan stands, and cells that are done are not run again.

use std::path::Path;

use stormlp_model::facts::HostFacts;
use stormlp_model::matrix::Target;
use stormlp_model::report::{AnyReport, Ending, ReportKind};
use stormlp_model::warning::{Warning, WarningKind};

use super::finish::Run;
use super::scan;
use crate::commands::deliver::Saver;
use crate::commands::saved;
use crate::exit::Failure;
use crate::output;
use crate::session::Session;

/// Opens a saved report to go on with it, in its own file.
///
/// # Errors
/// When it cannot be read, or another machine wrote it.
pub(crate) fn open(path: &Path, session: &Session) -> Result<Run, Failure> {
    let path = &saved::file(path);
    let AnyReport::Gds(mut report) = saved::of_kind(path, ReportKind::Gds)? else {
        return Err(Failure::usage(
            "--resume goes on with a report of `stormlp gds`",
        ));
    };
    let here = session.host_facts(None)?;
    let there = &report.head.host;
    if here.hostname != there.hostname {
        return Err(Failure::no_plan(anyhow::anyhow!(
            "{} was measured on {}, and this is {}: cells of two machines make no matrix",
            path.display(),
            there.hostname,
            here.hostname
        ))
        .with_help("start a new matrix, and compare the two with --baseline"));
    }
    for warning in changed_since(there, &here) {
        if !session.quiet {
            output::say(format!("warning: {warning}"));
        }
        report.warn(warning);
    }
    let folders = report
        .plan
        .folders
        .iter()
        .map(|folder| folder.path.folder().to_path_buf());
    let files = report
        .plan
        .files
        .iter()
        .filter(|file| file.folder.is_none());
    let targets: Vec<Target> = folders
        .map(Target::Folder)
        .chain(files.map(|file| Target::File(file.path.clone())))
        .collect();
    let inventory = scan::inventory(&targets);
    report.plan.skip_finished_files(&inventory);
    report.ending = Ending::Unfinished;
    report.head.ended_at = None;
    let saver = Saver::resume(path);
    Ok(Run { report, saver })
}

/// What differs between the machine that began a matrix and the one that goes on with it: the
/// cells of before and after do not compare as those of one run do.
fn changed_since(there: &HostFacts, here: &HostFacts) -> Vec<Warning> {
    let differences = [
        ("Linux", &there.kernel, &here.kernel),
        ("stormlp", &there.stormlp_version, &here.stormlp_version),
    ];
    (differences.into_iter())
        .filter(|(_, before, now)| before != now)
        .map(|(what, before, now)| {
            Warning::new(
                WarningKind::NotComparable,
                format!(
                    "this matrix was begun under {what} {before} and continued under {what} {now}"
                ),
                "start a new matrix to compare its cells with each other",
            )
        })
        .collect()
}
