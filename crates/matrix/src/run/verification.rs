//! Findings of `--verify` in a cell.

use crate::plan::{CellPlan, CellVerification, FileMismatch, MatrixPlan, WorkerPlan};
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;

use super::worker::{WorkerFailure, WorkerOutcome};

/// Results of verification, if requested.
pub(super) fn verification(
    plan: &MatrixPlan,
    cell: &CellPlan,
    outcomes: &[WorkerOutcome],
) -> Option<CellVerification> {
    if !plan.request.verify
        || cell.op.direction() == Direction::Write
        || cell.transport.path == PathKind::Null
    {
        return None;
    }
    let workers = &plan.thread_groups[cell.thread_group].workers;
    let found = |(worker, outcome): (&WorkerPlan, &WorkerOutcome)| match &outcome.failure {
        Some(WorkerFailure::Mismatch { visit, mismatch }) => Some(FileMismatch {
            file: plan.files[worker.file].path.clone(),
            offset_bytes: visit.offset + mismatch.at as u64,
            expected: format!("{:02x}", mismatch.expected),
            found: format!("{:02x}", mismatch.found),
        }),
        _ => None,
    };
    Some(CellVerification {
        checked_bytes: outcomes.iter().map(|outcome| outcome.verified_bytes).sum(),
        mismatches: workers.iter().zip(outcomes).filter_map(found).collect(),
    })
}
