//! Resuming a saved matrix. Only the measurements of a saved report are used, and only if it is the
//! same work as the new plan: the file is not trusted.

use std::path::{Path, PathBuf};

use super::compared::difference;
use crate::plan::matrix_plan::MatrixPlan;
use crate::report::{CellReport, CellStatus, MatrixReport};
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::warning::{Warning, WarningKind};

/// The part of the saved `report` at `path` that belongs to `plan`, and how the machine differs
/// from the one that started the matrix: the cells before and after are not comparable like cells
/// of one run.
///
/// # Errors
/// With exit code 3 if it is from another machine or another matrix, or is damaged.
pub fn resumed(
    (path, mut report): (PathBuf, MatrixReport),
    plan: &MatrixPlan,
    facts: &HostFacts,
) -> Result<(MatrixReport, Vec<Warning>), Failure> {
    let there = &report.head.host;
    if facts.hostname != there.hostname {
        let what = format!(
            "was measured on {}, and this is {}: cells of two machines do not form a matrix",
            there.hostname, facts.hostname
        );
        let remedy = "start a new matrix, and compare the two with --baseline";
        return Err(refused(&path, what, remedy));
    }
    if let Some(difference) = difference(plan, &report.plan) {
        let command = &report.head.command;
        let but = if command.contains("--results-dir") { ", except --results-dir," } else { "" };
        return Err(refused(
            &path,
            format!("is from a different matrix: {difference}"),
            format!("use the original options{but} with --resume: `{command}`"),
        ));
    }
    let changed = changed_since(there, facts);
    for cell in &report.results.cells {
        let planned = plan.cells.get(cell.cell);
        if !planned.is_some_and(|planned| cell.is_of(planned)) {
            return Err(refused(
                &path,
                format!("is damaged: its cell {} is not part of its matrix", cell.cell),
                "run without --resume, which starts a new matrix",
            ));
        }
    }
    // Cells without results are measured again.
    let is_done = |cell: &CellReport| cell.status != CellStatus::Ok || cell.measurement.is_some();
    report.results.cells.retain(is_done);
    report.results.find_knee = None;
    Ok((report, changed))
}

/// Why the report at `path` is not resumed.
fn refused(path: &Path, what: impl Into<String>, remedy: impl Into<String>) -> Failure {
    let what = what.into();
    Failure::saying(Cause::Plan, format!("{} {what}", path.display())).with_help(remedy)
}

/// Rejects a report of other hosts; `names` are set for several hosts.
///
/// # Errors
/// With exit code 3.
pub fn check_hosts(path: &Path, report: &MatrixReport, names: &[String]) -> Result<(), Failure> {
    let of_one = |names: Vec<&str>| match names.as_slice() {
        [] | [_] => "one process".to_string(),
        several => several.join(", "),
    };
    let then = of_one(report.results.hosts.iter().map(|host| &*host.name).collect());
    let now = of_one(names.iter().map(|name| &**name).collect());
    if then == now {
        return Ok(());
    }
    Err(refused(
        path,
        format!("was measured by {then}, and this run has {now}: their cells do not form a matrix"),
        "resume it the way it was started, under the same launcher and with its hosts in the same \
         order; or start a new matrix",
    ))
}

/// How the machine that resumes a matrix differs from the one that started it.
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
                    "this matrix was started under {what} {before} and continued under {what} {now}"
                ),
                "start a new matrix to compare its cells with each other",
            )
        })
        .collect()
}
