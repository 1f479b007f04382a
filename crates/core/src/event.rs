//! What a run tells while it runs: lanes emit, the command line draws.

use serde::{Deserialize, Serialize};

/// What the numbers of a phase count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes moved.
    Bytes,
    /// Milliseconds of a run of fixed length.
    Milliseconds,
    /// Steps of training.
    Steps,
    /// Files.
    Files,
}

/// One thing that happened. Events carry plain facts, no formatting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A stretch of work begins, with its expected amount where that is known.
    PhaseStarted {
        /// What it is, in the user's words: `laying out 8 files`, `epoch 2 of 5`.
        label: String,
        /// How much there is to do, in `unit`.
        total: Option<u64>,
        /// What `total` counts.
        unit: Unit,
    },
    /// The amount done so far in the current phase, in its unit; sent at most some ten times
    /// a second.
    Progress {
        /// Done since the phase started.
        done: u64,
    },
    /// The current phase is over.
    PhaseFinished,
    /// A cell of a matrix begins: a phase of which more is known.
    CellStarted {
        /// What it measures: `cpu read 1M, 8 threads, depth 1`.
        label: String,
        /// The how manieth it is of those that this run measures, from 1.
        number: u64,
        /// How many this run measures.
        of: u64,
        /// Whether that is an estimate: a search decides as it goes.
        about: bool,
        /// How long it is thought to take, in seconds.
        estimated_seconds: f64,
        /// How long the cells after it are thought to take, in seconds.
        after_seconds: f64,
    },
    /// What the current cell has moved so far; sent at most some ten times a second.
    Moved {
        /// Bytes since the cell started.
        bytes: u64,
        /// Transfers since the cell started.
        operations: u64,
    },
    /// Something the user should read while the run goes on.
    Note {
        /// One sentence.
        message: String,
    },
}

/// Hears the events of a run. Called from the run's control thread, never from a hot loop.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn event(&self, event: &Event);
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _event: &Event) {}
}
