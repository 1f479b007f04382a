//! Draws the events of a run on stderr.

mod cell;
mod phase;

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use stormlp_core::event::{Event, Observer};
use stormlp_matrix::plan::CellReport;

use self::cell::{Cell, Pace};
use self::phase::Phase;
use crate::output;

/// Shorter phases are not worth a line.
const QUIET_FOR: Duration = Duration::from_secs(1);
/// Interval of log lines for a long phase.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// An observer that shows progress to the user.
#[derive(Debug)]
pub(crate) struct Progress {
    quiet: bool,
    terminal: bool,
    state: Mutex<State>,
}

/// The current phase or cell, and the pace of completed cells.
#[derive(Debug, Default)]
struct State {
    phase: Option<Phase>,
    cell: Option<Cell>,
    pace: Pace,
}

impl Progress {
    /// Draws on stderr, or not at all when `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet, terminal: std::io::stderr().is_terminal(), state: Mutex::default() }
    }
}

impl Progress {
    /// Reports that the current matrix cell ended, with this entry of the report.
    pub(crate) fn cell_finished(&self, entry: &CellReport) {
        // A panic elsewhere must not suppress further messages of the run.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = state.cell.take() {
            cell.finish(entry, &mut state.pace);
        }
    }
}

impl State {
    /// The bar currently drawn.
    fn bar(&self) -> Option<&ProgressBar> {
        let cell = self.cell.as_ref().map(Cell::bar);
        let bar = cell.or_else(|| self.phase.as_ref().map(Phase::bar));
        bar.filter(|bar| !bar.is_hidden())
    }
}

impl Observer for Progress {
    fn event(&self, event: &Event) {
        if self.quiet {
            return;
        }
        // A panic elsewhere must not suppress further messages of the run.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        match event {
            Event::PhaseStarted { label, total, unit } => {
                if let Some(left) = state.phase.replace(Phase::new(label, *total, *unit)) {
                    left.finish(self.terminal);
                }
            }
            Event::Progress { done } => {
                if let Some(phase) = state.phase.as_mut() {
                    phase.advance(*done, self.terminal);
                }
            }
            Event::PhaseFinished => {
                if let Some(phase) = state.phase.take() {
                    phase.finish(self.terminal);
                }
            }
            Event::CellStarted { .. } => state.cell = Cell::begin(event, Instant::now()),
            Event::Moved { bytes, operations } => {
                if let Some(cell) = state.cell.as_mut() {
                    let moved = (*bytes, *operations);
                    cell.advance(moved, Instant::now(), &state.pace, self.terminal);
                }
            }
            Event::Note { message } => match state.bar() {
                Some(bar) => bar.suspend(|| output::say(message)),
                None => output::say(message),
            },
        }
    }
}
