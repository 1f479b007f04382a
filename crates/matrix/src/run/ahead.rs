//! Progress of a matrix, reported at the start of each cell.

use crate::plan::{CellPlan, MatrixPlan, MatrixResults, likely_left};
use stormlp_core::event::Event;
use stormlp_core::units::counted;

/// The remaining cells of a run.
pub(crate) struct Ahead {
    /// Number of cells started.
    begun: u64,
    /// The number of remaining cells, for a search the expected one, and their estimated duration
    /// in seconds.
    left: (u64, f64),
    /// Whether the number is an estimate: a search decides as it goes.
    about: bool,
    /// Share of reads if the cells are mixes.
    read_percent: Option<u8>,
}

impl Ahead {
    /// The state before the first cell.
    pub(crate) fn of(plan: &MatrixPlan) -> Self {
        Self {
            begun: 0,
            left: (0, 0.0),
            about: plan.request.find_knee,
            read_percent: plan.request.read_percent,
        }
    }

    /// Updates the remaining work before the next cell begins.
    pub(crate) fn look(&mut self, plan: &MatrixPlan, results: &MatrixResults, tried: &[bool]) {
        self.left = likely_left(plan, results, tried);
    }

    /// The event for the start of `cell`.
    pub(crate) fn next(&mut self, cell: &CellPlan) -> Event {
        let (left, seconds) = self.left;
        let of = self.begun + left.max(1);
        self.begun += 1;
        Event::CellStarted {
            label: format!(
                "{} {} {}, {}, depth {}",
                cell.transport.path,
                cell.op.of_mix(self.read_percent),
                cell.io_size,
                counted(cell.transport.threads as u64, "thread"),
                cell.transport.queue_depth
            ),
            number: self.begun,
            of,
            about: self.about,
            estimated_seconds: cell.estimated_seconds,
            // Rounding may make the difference slightly negative.
            after_seconds: (seconds - cell.estimated_seconds).max(0.0),
        }
    }
}
