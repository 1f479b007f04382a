//! Checks the open files of a matrix against the limit of this process.

use crate::plan::matrix_plan::{CellPlan, Crew};
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Problems;
use stormlp_core::path::EngineKind;

/// File descriptors of a folder: the folder and its lock.
const FILES_PER_FOLDER: u64 = 2;
/// Other file descriptors: standard streams, report, device counters.
const OTHER_FILES: u64 = 6;

/// Rejects cells with too many threads for the file descriptor limit: they would fail after their
/// files were laid out.
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

/// A thread's file, its duplicate for syncing, and its engine's descriptors.
fn of_thread(cell: &CellPlan) -> u64 {
    let engine = match cell.transport.engine {
        _ if !cell.transport.path.has_engine() => 0,
        EngineKind::Psync => 0,
        EngineKind::Uring => 1,
        // The ring, and the descriptors its runtime waits with.
        EngineKind::TokioUring => 4,
    };
    1 + u64::from(cell.fsync) + engine
}
