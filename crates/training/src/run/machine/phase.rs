//! The specification of one epoch's training.

use super::client::ClientWork;
use super::queue::Nanos;
use super::reads::Share;

/// A duration: constant, or drawn at each step.
pub enum Pace {
    /// The same every time.
    Constant(Nanos),
    /// Returned by the closure.
    Drawn(Box<dyn FnMut() -> Nanos + Send>),
}

impl Pace {
    pub(super) fn draw(&mut self) -> Nanos {
        match self {
            Self::Constant(nanos) => *nanos,
            Self::Drawn(draw) => draw(),
        }
    }
}

impl std::fmt::Debug for Pace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Constant(nanos) => write!(f, "Constant({nanos} ns)"),
            Self::Drawn(_) => f.write_str("Drawn"),
        }
    }
}

/// One epoch's training.
#[derive(Debug)]
pub struct PhaseSpec {
    /// Steps per accelerator.
    pub steps: u64,
    /// Whether a barrier ends each step.
    pub barrier: bool,
    /// Duration of the barrier itself, after the last accelerator has arrived.
    pub barrier_ns: Nanos,
    /// Whether a block ends only after waiting for one more batch.
    pub fetch_after_last: bool,
    /// Steps at the start of each block that AU excludes.
    pub exclude_start_steps: u64,
    /// Steps at the end of the phase that AU excludes.
    pub exclude_end_steps: u64,
    /// Steps between checkpoints; each checkpoint splits the block.
    pub checkpoint_steps: Option<u64>,
    /// Whether the first accelerator of this host writes them.
    pub writes_checkpoints: bool,
    /// Compute time per step.
    pub compute: Pace,
    /// Whether compute that this host ends late took that much longer, as a client's sleep does,
    /// instead of ending at its deadline.
    pub late_counts: bool,
    /// Preprocessing time per sample in the reading worker.
    pub preprocess: Pace,
    /// The client's work on samples and steps.
    pub client: ClientWork,
    /// Each accelerator's loader share.
    pub shares: Vec<Share>,
}

impl PhaseSpec {
    /// A phase without steps, barriers or compute.
    pub fn nothing() -> Self {
        Self {
            steps: 0,
            barrier: false,
            barrier_ns: 0,
            fetch_after_last: false,
            exclude_start_steps: 0,
            exclude_end_steps: 0,
            checkpoint_steps: None,
            writes_checkpoints: false,
            compute: Pace::Constant(0),
            late_counts: false,
            preprocess: Pace::Constant(0),
            client: ClientWork::default(),
            shares: Vec::new(),
        }
    }
}
