//! Resuming a saved matrix. Only the measurements of a saved report are used, and only if it is the
//! same work as the new plan: the file is not trusted.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::compared::difference;
use crate::plan::matrix_plan::MatrixPlan;
use crate::report::{CellStatus, MatrixReport, MatrixResults};
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::report::Head;
use stormlp_core::warning::{Warning, WarningKind};

/// A saved report to resume.
pub struct Saved {
    path: PathBuf,
    report: MatrixReport,
}

/// What is reused of a saved report: its start and tags, its warnings, and its cells.
#[derive(Serialize, Deserialize)]
pub struct ResumedReport {
    /// Its head.
    pub head: Head,
    /// Its warnings.
    pub warnings: Vec<Warning>,
    /// How the machine differs from the one that started the matrix: the cells before and after are
    /// not comparable like those of one run.
    pub changed: Vec<Warning>,
    /// Its results, for the cells that are not measured again.
    pub results: MatrixResults,
}

impl Saved {
    /// The `report` at `path`, which must have as many hosts as there are now; `names` are those of
    /// several.
    ///
    /// # Errors
    /// If it belongs to other hosts.
    pub fn new(path: PathBuf, report: MatrixReport, names: &[String]) -> Result<Self, Failure> {
        check_hosts(&path, &report, names)?;
        Ok(Self { path, report })
    }

    /// The part of it that belongs to `plan`.
    ///
    /// # Errors
    /// With exit code 3 if it is from another machine or another matrix, or is damaged.
    pub fn take(self, plan: &MatrixPlan, facts: &HostFacts) -> Result<ResumedReport, Failure> {
        let Self { path, report } = self;
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
            let but =
                if command.contains("--results-dir") { ", except --results-dir," } else { "" };
            return Err(refused(
                &path,
                format!("is from a different matrix: {difference}"),
                format!("use the original options{but} with --resume: `{command}`"),
            ));
        }
        let changed = changed_since(there, facts);
        let mut results = MatrixResults::default();
        for cell in report.results.cells {
            let planned = plan.cells.get(cell.cell);
            if !planned.is_some_and(|planned| cell.is_of(planned)) {
                return Err(refused(
                    &path,
                    format!("is damaged: its cell {} is not part of its matrix", cell.cell),
                    "run without --resume, which starts a new matrix",
                ));
            }
            // Cells without results are measured again.
            if cell.status != CellStatus::Ok || cell.measurement.is_some() {
                results.push(cell);
            }
        }
        Ok(ResumedReport { head: report.head, warnings: report.warnings, changed, results })
    }
}

/// Why the report at `path` is not resumed.
fn refused(path: &Path, what: impl Into<String>, remedy: impl Into<String>) -> Failure {
    let what = what.into();
    Failure::saying(Cause::Plan, format!("{} {what}", path.display())).with_help(remedy)
}

/// Rejects a report of other hosts.
fn check_hosts(path: &Path, report: &MatrixReport, names: &[String]) -> Result<(), Failure> {
    let results = &report.results;
    let then: Vec<&str> = results.hosts.iter().map(|host| &*host.name).collect();
    let count = results.group.as_ref().map_or(then.len(), |group| group.size as usize).max(1);
    let now = names.len().max(1);
    if count != now {
        let processes = |count| match count {
            1 => "one process".to_string(),
            count => format!("{count} processes"),
        };
        return Err(refused(
            path,
            format!(
                "was measured by {}, and this run has {}: their cells do not form a matrix",
                processes(count),
                processes(now)
            ),
            "resume it the way it was started, under the same launcher if there was one; or start \
             a new matrix",
        ));
    }
    match then.iter().zip(names).find(|(then, now)| *then != *now) {
        Some((then, now)) if count > 1 => Err(refused(
            path,
            format!("was measured on {then}, but this run has {now} in its place"),
            "give the launcher the hosts in the original order, or start a new matrix",
        )),
        _ => Ok(()),
    }
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
