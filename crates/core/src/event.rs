//! Events of a run: lanes emit them, the command line renders them.

use serde::{Deserialize, Serialize};

/// The unit of a phase's amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes moved.
    Bytes,
    /// Elapsed milliseconds of a run of fixed length.
    Milliseconds,
    /// Training steps.
    Steps,
    /// Files.
    Files,
    /// Simulated runs.
    Runs,
}

/// A single event. Events carry plain facts, no formatting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A phase begins, with its expected amount if known.
    PhaseStarted {
        /// A label in the user's words: `laying out 8 files`, `epoch 2 of 5`.
        label: String,
        /// The total amount of work, in `unit`.
        total: Option<u64>,
        /// The unit of `total`.
        unit: Unit,
    },
    /// Progress of the current phase, in its unit; sent at most about ten times a second.
    Progress {
        /// Amount done since the phase started.
        done: u64,
    },
    /// The current phase has ended.
    PhaseFinished,
    /// A cell of a matrix begins: a phase with more details.
    CellStarted {
        /// Description of the cell: `cpu read 1M, 8 threads, depth 1`.
        label: String,
        /// The position of the cell among those this run measures, starting at 1.
        number: u64,
        /// The number of cells this run measures.
        of: u64,
        /// Whether `of` is an estimate: a search decides as it goes.
        about: bool,
        /// Estimated duration of the cell in seconds.
        estimated_seconds: f64,
        /// Estimated duration of the remaining cells in seconds.
        after_seconds: f64,
    },
    /// Bytes that the current cell has transferred so far; sent at most about ten times a second.
    Moved {
        /// Bytes since the cell started.
        bytes: u64,
        /// Transfers since the cell started.
        operations: u64,
    },
    /// A message for the user during the run.
    Note {
        /// One sentence.
        message: String,
    },
}

/// Receives the events of a run. Called from the run's control thread, never from a hot loop.
pub trait Observer: Send + Sync {
    /// Handles an event.
    fn event(&self, event: &Event);
}

impl<T: Observer + ?Sized> Observer for Box<T> {
    fn event(&self, event: &Event) {
        (**self).event(event);
    }
}

/// Ignores all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _event: &Event) {}
}
