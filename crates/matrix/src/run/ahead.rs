//! How far a matrix is: what a reader is told as each cell begins.

use crate::plan::{CellPlan, MatrixPlan, MatrixResults, likely_left};
use stormlp_core::event::Event;
use stormlp_core::units::counted;

/// The cells that a run still has before it.
pub(crate) struct Ahead {
    /// How many have begun.
    begun: u64,
    /// How many are left, those that a search is likely to take, and how long they are thought to
    /// take in seconds.
    left: (u64, f64),
    /// Whether how many there are is an estimate: a search decides as it goes.
    about: bool,
    /// Share of reads where the cells are mixes.
    read_percent: Option<u8>,
}

impl Ahead {
    /// Before the first cell.
    pub(crate) fn of(plan: &MatrixPlan) -> Self {
        Self { begun: 0, left: (0, 0.0), about: plan.find_knee, read_percent: plan.read_percent }
    }

    /// Looks at what is left before the next cell begins.
    pub(crate) fn look(&mut self, plan: &MatrixPlan, results: &MatrixResults, tried: &[bool]) {
        self.left = likely_left(plan, results, tried);
    }

    /// That `cell` begins.
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
            // Sums of fractions may end a little below nothing.
            after_seconds: (seconds - cell.estimated_seconds).max(0.0),
        }
    }
}
