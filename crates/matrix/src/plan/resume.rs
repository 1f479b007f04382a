//! Resuming a saved matrix. Only the measurements of a saved report are used, and only if it is the
//! same work as the new plan: the file is not trusted.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::plan::matrix_plan::{CellPlan, MatrixPlan};
use crate::report::{CellReport, CellStatus, MatrixReport, MatrixResults};
use stormlp_core::difference::fields_but;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::report::Head;
use stormlp_core::warning::{Warning, WarningKind};

/// Request fields that may differ on resume: what becomes of the files, and what the cells and the
/// files of the plan say, which are compared one by one. Older reports do not have all of these.
const REQUEST_MAY_DIFFER: [&str; 21] = [
    "name",
    "paths",
    "optional_paths",
    "ops",
    "io_sizes",
    "threads",
    "queue_depths",
    "preset",
    "jobs",
    "file_stem",
    "file_size_bytes",
    "shared_file",
    "offset_bytes",
    "remove",
    "overwrite_block_devices",
    "overwrite_signatures",
    "overwrite_files",
    "devices",
    "engine",
    "submit_batch",
    "threading",
];
/// The same for the plan: what must be done before the first cell, and estimates.
const MAY_DIFFER: [&str; 8] = [
    "request",
    "cells",
    "folders",
    "files",
    "layout_bytes",
    "region_bytes",
    "estimated_seconds",
    "warnings",
];
/// The same for a cell.
const CELL_MAY_DIFFER: [&str; 2] = ["availability", "estimated_seconds"];

/// A saved report to resume.
pub struct Saved {
    path: PathBuf,
    report: MatrixReport,
}

/// What is reused of a saved report: its start and tags, its warnings, and its cells.
#[derive(Serialize, Deserialize)]
pub struct Taken {
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
    /// With exit code 3 if it is from another machine or another matrix.
    pub fn take(self, plan: &MatrixPlan, facts: &HostFacts) -> Result<Taken, Failure> {
        let Self { path, report } = self;
        let there = &report.head.host;
        if facts.hostname != there.hostname {
            let what = format!(
                "was measured on {}, and this is {}: cells of two machines do not form a matrix",
                there.hostname, facts.hostname
            );
            return Err(refused(
                &path,
                what,
                "start a new matrix, and compare the two with --baseline",
            ));
        }
        let (head, warnings) = (report.head.clone(), report.warnings.clone());
        let changed = changed_since(there, facts);
        Ok(Taken { head, warnings, changed, results: take_measured(plan, report, &path)? })
    }
}

/// The measurements of `plan` in `saved`, which is at `path`.
///
/// # Errors
/// How its plan differs, or which of its cells is not part of its own plan.
pub fn take_measured(
    plan: &MatrixPlan,
    saved: MatrixReport,
    path: &Path,
) -> Result<MatrixResults, Failure> {
    if let Some(difference) = difference(plan, &saved.plan) {
        let command = &saved.head.command;
        let but = if command.contains("--results-dir") { ", except --results-dir," } else { "" };
        return Err(refused(
            path,
            format!("is from a different matrix: {difference}"),
            format!("use the original options{but} with --resume: `{command}`"),
        ));
    }
    let mut results = MatrixResults::default();
    for cell in saved.results.cells {
        let planned = plan.cells.get(cell.cell);
        if !planned.is_some_and(|planned| is_of(&cell, planned)) {
            return Err(refused(
                path,
                format!("is damaged: its cell {} is not part of its matrix", cell.cell),
                "run without --resume, which starts a new matrix",
            ));
        }
        // Cells without results are measured again.
        if cell.status != CellStatus::Ok || cell.measurement.is_some() {
            results.push(cell);
        }
    }
    Ok(results)
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
    let of = results.group.as_ref().map_or(then.len(), |group| group.size as usize);
    let (of, now) = (of.max(1), names.len().max(1));
    if of != now {
        let processes = |count: usize| match count {
            1 => "one process".to_string(),
            count => format!("{count} processes"),
        };
        let what = format!(
            "was measured by {}, and this run has {}: their cells do not form a matrix",
            processes(of),
            processes(now)
        );
        return Err(refused(
            path,
            what,
            "resume it the way it was started, under the same launcher if there was one; or start \
             a new matrix",
        ));
    }
    let differ = then.iter().zip(names).find(|(then, now)| *then != *now);
    if let (Some((then, now)), 2..) = (differ, of) {
        let what = format!("was measured on {then}, but this run has {now} in its place");
        return Err(refused(
            path,
            what,
            "give the launcher the hosts in the original order, or start a new matrix",
        ));
    }
    Ok(())
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

/// Whether a saved cell matches the plan's cell of that index.
fn is_of(cell: &CellReport, planned: &CellPlan) -> bool {
    let fresh = CellReport::without_numbers(cell.cell, planned, "");
    let key = |cell: &CellReport| {
        (
            (cell.repeat, cell.requested_path, cell.op),
            (cell.io_size, cell.threads, cell.queue_depth),
        )
    };
    key(cell) == key(&fresh)
}

/// How a saved plan differs from `plan`; `None` if they measure the same.
fn difference(plan: &MatrixPlan, saved: &MatrixPlan) -> Option<String> {
    if plan.cells.len() != saved.cells.len() {
        return Some(format!(
            "it has {} cells, but these options make {}",
            saved.cells.len(),
            plan.cells.len()
        ));
    }
    for (index, (cell, saved)) in plan.cells.iter().zip(&saved.cells).enumerate() {
        let (is, was) = (what(cell), what(saved));
        if is != was {
            return Some(format!("its cell {index} is {was}, but {is} with these options"));
        }
        if let Some(key) = first_other_key(cell, saved, &CELL_MAY_DIFFER) {
            return Some(format!("its cell {index} has a different `{key}`"));
        }
    }
    let paths =
        |plan: &MatrixPlan| -> Vec<_> { plan.files.iter().map(|file| file.path.clone()).collect() };
    if paths(plan) != paths(saved) {
        return Some("it used different files".to_string());
    }
    let names = |plan: &MatrixPlan| -> Vec<_> {
        plan.request.jobs.iter().map(|job| job.name.clone()).collect()
    };
    if names(plan) != names(saved) {
        return Some("its jobs have other names".to_string());
    }
    first_other_key(&plan.request, &saved.request, &REQUEST_MAY_DIFFER)
        .or_else(|| first_other_key(plan, saved, &MAY_DIFFER))
        .map(|key| format!("its `{key}` differs"))
}

fn what(cell: &CellPlan) -> String {
    format!(
        "{} {} of {} by {} threads, depth {}",
        cell.transport.path,
        cell.op,
        cell.io_size,
        cell.transport.threads,
        cell.transport.queue_depth
    )
}

/// The first key outside `apart` whose values differ.
fn first_other_key<T: Serialize>(a: &T, b: &T, apart: &[&str]) -> Option<String> {
    let (a, b) = (fields_but(a, apart), fields_but(b, apart));
    let other = |key: &&String| a.get(*key) != b.get(*key);
    a.keys().chain(b.keys()).find(other).cloned()
}
