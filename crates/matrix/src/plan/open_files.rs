//! Open files of a matrix, compared with the limit of this process.

use crate::plan::matrix_plan::{CellPlan, Crew};
use stormlp_core::facts::HostFacts;
use stormlp_core::path::EngineKind;
use stormlp_core::problem::Problems;

/// File descriptors of a folder: itself and its lock.
const FILES_PER_FOLDER: u64 = 2;
/// File descriptors of everything else: the standard streams, the report, the devices' counters.
const OTHER_FILES: u64 = 6;

/// Finds a cell with more threads than there are file descriptors for: it would fail after its files
/// were laid out.
pub(super) fn check(
    cells: &[CellPlan],
    crews: &[Crew],
    folders: usize,
    facts: &HostFacts,
    problems: &mut Problems,
) {
    let of_cell = |cell: &CellPlan| {
        let threads = crews[cell.crew].workers.len() as u64;
        (threads * of_thread(cell), threads)
    };
    let runnable = cells.iter().filter(|cell| cell.availability.is_available());
    let Some((of_threads, threads)) = runnable.map(of_cell).max() else {
        return;
    };
    let files = of_threads + folders as u64 * FILES_PER_FOLDER + OTHER_FILES;
    if files > facts.open_files_limit {
        problems.machine(
            format!(
                "{threads} threads need {files} open files; this process may have {}",
                facts.open_files_limit
            ),
            format!("raise the limit with `ulimit -n {files}`, or use fewer --threads"),
        );
    }
}

/// A thread's file, the same to sync, and what its engine keeps open.
fn of_thread(cell: &CellPlan) -> u64 {
    let engine = match cell.transport.engine {
        _ if !cell.transport.path.has_engine() => 0,
        EngineKind::Psync => 0,
        EngineKind::Uring => 1,
        // The ring, and what its runtime waits with.
        EngineKind::TokioUring => 4,
    };
    1 + u64::from(cell.fsync) + engine
}
