//! How far a matrix is: what a reader is told as each cell begins.

use stormlp_model::event::Event;
use stormlp_model::matrix::{CellPlan, MatrixReport};
use stormlp_model::units::counted;

/// The cells that a run still has before it.
pub(crate) struct Ahead {
    /// How many this run measures in all.
    of: u64,
    /// How many of them have begun.
    begun: u64,
    /// Share of reads where the cells are mixes.
    read_percent: Option<u8>,
    /// How long those that have not are thought to take, in seconds.
    seconds: f64,
}

impl Ahead {
    /// Before the first cell: all that can run here and are not in the report already.
    pub(crate) fn of(report: &MatrixReport) -> Self {
        let cells = report.plan.cells.iter().enumerate();
        let left = cells.filter(|(index, cell)| {
            cell.availability.is_available() && !report.results.has(*index)
        });
        let (mut of, mut seconds) = (0, 0.0);
        for (_, cell) in left {
            of += 1;
            seconds += cell.estimated_seconds;
        }
        Self {
            of,
            begun: 0,
            read_percent: report.plan.read_percent,
            seconds,
        }
    }

    /// That `cell` begins.
    pub(crate) fn next(&mut self, cell: &CellPlan) -> Event {
        self.begun += 1;
        self.seconds -= cell.estimated_seconds;
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
            of: self.of,
            estimated_seconds: cell.estimated_seconds,
            // Sums of fractions may end a little below nothing.
            after_seconds: self.seconds.max(0.0),
        }
    }
}
