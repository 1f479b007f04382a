//! Resuming a saved matrix. Only the measurements of a saved report are used, and only if it is the
//! same work as the new plan: the file is not trusted.

use crate::plan::matrix_plan::{CellPlan, MatrixPlan};
use crate::report::{CellReport, CellStatus, MatrixReport, MatrixResults};
use stormlp_core::difference::fields_but;

/// Request fields that may differ on resume: what becomes of the files, and what the cells and the
/// files of the plan say, which are compared one by one. Older reports do not have all of these.
const REQUEST_MAY_DIFFER: [&str; 20] = [
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
    "devices",
    "engine",
    "submit_batch",
    "threading",
];
/// Likewise for the plan: what must be done before the first cell, and estimates.
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
/// Likewise for a cell.
const CELL_MAY_DIFFER: [&str; 2] = ["availability", "estimated_seconds"];

/// Why a saved report is rejected.
#[derive(Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// How it differs from the requested matrix.
    Another(String),
    /// How it contradicts itself.
    Damaged(String),
}

/// The measurements of `plan` in `saved`.
///
/// # Errors
/// How its plan differs, or which of its cells is not part of its own plan.
pub fn take_measured(plan: &MatrixPlan, saved: MatrixReport) -> Result<MatrixResults, NotTaken> {
    if let Some(difference) = difference(plan, &saved.plan) {
        return Err(NotTaken::Another(difference));
    }
    let mut results = MatrixResults::default();
    for cell in saved.results.cells {
        let planned = plan.cells.get(cell.cell);
        if !planned.is_some_and(|planned| is_of(&cell, planned)) {
            let what = format!("its cell {} is not part of its matrix", cell.cell);
            return Err(NotTaken::Damaged(what));
        }
        // Cells without results are measured again.
        if cell.status != CellStatus::Ok || cell.measurement.is_some() {
            results.push(cell);
        }
    }
    Ok(results)
}

/// Whether a saved cell matches the plan's cell of that index.
fn is_of(cell: &CellReport, planned: &CellPlan) -> bool {
    let fresh = CellReport::without_numbers(cell.cell, planned, "");
    let key = |cell: &CellReport| {
        (
            (cell.repeat, cell.requested_path, cell.op),
            (cell.io_size_bytes, cell.io_size_mix),
            (cell.threads, cell.queue_depth),
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
fn first_other_key<T: serde::Serialize>(a: &T, b: &T, apart: &[&str]) -> Option<String> {
    let (a, b) = (fields_but(a, apart), fields_but(b, apart));
    let other = |key: &&String| a.get(*key) != b.get(*key);
    a.keys().chain(b.keys()).find(other).cloned()
}
