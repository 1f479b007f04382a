//! Warnings before a matrix runs.

mod cufile;

use super::choice::{CacheState, CellSpan, Fill};
use super::files::PlannedFiles;
use super::request::MatrixRequest;
use crate::plan::matrix_plan::{CellPlan, FilePlan};
use stormlp_core::facts::HostFacts;
use stormlp_core::operation::{Direction, Operation};
use stormlp_core::transport;
use stormlp_core::units::{ByteSize, counted};
use stormlp_core::warning::{Warning, WarningKind};

/// All warnings that follow from the plan alone.
pub(super) fn all(
    request: &MatrixRequest,
    facts: &HostFacts,
    table: &PlannedFiles,
    cells: &[CellPlan],
) -> Vec<Warning> {
    let runnable: Vec<&CellPlan> =
        (cells.iter()).filter(|cell| cell.availability.is_available()).collect();
    let mut warnings = Vec::new();
    if !facts.release_build {
        warnings.push(Warning::new(
            WarningKind::DebugBuild,
            "this is not a release build",
            "measure with `cargo build --release`",
        ));
    }
    if runnable.iter().any(|cell| cell.transport.emulated) {
        warnings.push(transport::emulated_warning());
    }
    warnings.extend(transport::engine_warning(request.engine, facts));
    let waits = runnable.iter().any(|cell| cell.transport.waits_for_gpu());
    warnings.extend(transport::wait_warning(&request.threading, waits));
    let refused = |c: &&&CellPlan| c.transport.path.wants_direct() && !c.direct;
    if let Some(cell) = runnable.iter().find(refused).filter(|_| request.open_direct) {
        warnings.push(Warning::new(
            WarningKind::NotDirect,
            format!(
                "the file system does not support O_DIRECT, which path {} requests",
                cell.transport.path
            ),
            "its results include the page cache; --require-direct makes this an error",
        ));
    }
    warnings.extend(queue_depth(&runnable));
    warnings.extend(cufile::all(request, facts, &runnable));
    warnings.extend(pattern_work(request, &runnable));
    warnings.extend(holes(table, &runnable));
    match lives_in_memory(table) {
        Some(warning) => warnings.push(warning),
        None => warnings.extend(fits_in_memory(request, facts, table, &runnable)),
    }
    warnings
}

/// Generating or checking transfer contents within the measured time.
fn pattern_work(request: &MatrixRequest, runnable: &[&CellPlan]) -> Option<Warning> {
    let any = |direction| runnable.iter().any(|c| c.op.direction() == direction);
    let mixed = request.read_percent.is_some();
    let reads = mixed || any(Direction::Read);
    let writes = mixed || any(Direction::Write);
    let (what, advice) = match (request.verify, request.fill) {
        (true, _) if reads && writes => (
            "checking the pattern and generating the content",
            "measure without --verify; use it only to check data integrity",
        ),
        (true, _) if reads => (
            "checking the pattern",
            "measure without --verify; use it only to check data integrity",
        ),
        (true, _) => (
            "generating the content",
            "measure without --verify; use it only to check data integrity",
        ),
        (false, Fill::Every) if writes => (
            "generating the content",
            "measure with --fill once, which generates the data before the cell",
        ),
        _ => return None,
    };
    Some(Warning::new(WarningKind::HarnessBound, format!("throughput includes {what}"), advice))
}

/// Sparse files that are read unchanged.
fn holes(table: &PlannedFiles, runnable: &[&CellPlan]) -> Option<Warning> {
    let sparse: Vec<&FilePlan> = table.files.iter().filter(|f| f.hole_bytes > 0).collect();
    let file = sparse.iter().max_by_key(|file| file.hole_bytes)?;
    let reads = runnable.first().is_some_and(|cell| cell.op != Operation::Write);
    let share = 100.0 * file.hole_bytes as f64 / file.bytes.max(1) as f64;
    let others = match sparse.len() {
        1 => String::new(),
        count => format!(" (and of {})", counted(count as u64 - 1, "other file")),
    };
    (reads && share >= 1.0).then(|| {
        Warning::new(
            WarningKind::Holes,
            format!(
                "{share:.0} % of {}{others} are holes or unwritten: these are not read from any \
                 device, so reads appear faster than storage",
                file.path.display()
            ),
            match file.folder {
                Some(_) => "remove it, so that it is created again",
                None => "name a file that was written from end to end",
            },
        )
    })
}

/// Files on a file system without storage behind it: no cache can be cold.
fn lives_in_memory(table: &PlannedFiles) -> Option<Warning> {
    let (file, kind) =
        (table.files.iter()).find_map(|file| Some((file, file.file_system_in_memory()?)))?;
    let place = match file.folder {
        Some(folder) => table.folders[folder].path.folder(),
        None => &file.path,
    };
    Some(Warning::new(
        WarningKind::FitsInMemory,
        format!(
            "these files live in memory ({kind}, {}): no cell reaches storage, and --cache cold \
             has nothing to drop",
            place.display()
        ),
        "use a --dir or --file on the storage to measure",
    ))
}

/// A queue depth that some paths cannot use.
fn queue_depth(runnable: &[&CellPlan]) -> Option<Warning> {
    let blocking = (runnable.iter()).filter(|cell| cell.blocks());
    let deepest = blocking.max_by_key(|cell| cell.transport.queue_depth)?;
    (deepest.transport.queue_depth > 1).then(|| {
        Warning::new(
            WarningKind::NoEffect,
            format!(
                "path {} makes blocking calls, so a queue depth of {} has one transfer in \
                 flight and the others waiting",
                deepest.transport.path, deepest.transport.queue_depth
            ),
            "use more --threads instead; its latencies include the wait",
        )
    })
}

/// Timed reads through the page cache of files that stay in it.
fn fits_in_memory(
    request: &MatrixRequest,
    facts: &HostFacts,
    table: &PlannedFiles,
    runnable: &[&CellPlan],
) -> Option<Warning> {
    let through_cache = |cell: &&&CellPlan| {
        cell.transport.path.uses_page_cache() && cell.op.direction() == Direction::Read
    };
    let cell = runnable.iter().find(through_cache)?;
    let bytes: u64 = table.files.iter().map(|file| file.bytes).sum();
    let memory = facts.usable_memory_bytes();
    let timed = matches!(request.span(), CellSpan::Seconds(_));
    (timed && request.cache == CacheState::Cold && bytes < memory).then(|| {
        Warning::new(
            WarningKind::FitsInMemory,
            format!(
                "the files ({}) fit in memory ({}): after the first pass, path {} reads from \
                 memory",
                ByteSize(bytes),
                ByteSize(memory),
                cell.transport.path
            ),
            "use --passes 1, or a larger --file-size",
        )
    })
}
