//! What one epoch's training or one evaluation is made of.

use super::{ClientWork, Nanos, Share};

/// Draws of a duration: constant, or anew at each step.
pub enum Pace {
    /// The same every time.
    Constant(Nanos),
    /// Whatever the closure says.
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

/// One epoch's training, or one evaluation.
#[derive(Debug)]
pub struct PhaseSpec {
    /// Steps of each accelerator.
    pub steps: u64,
    /// Whether a barrier ends each step (training) or not (evaluation).
    pub barrier: bool,
    /// What the barrier itself takes, after the last accelerator has come.
    pub barrier_ns: Nanos,
    /// Whether a block ends only after one more batch was waited for.
    pub fetch_after_last: bool,
    /// Steps at the start of each block that AU leaves out.
    pub exclude_start_steps: u64,
    /// Steps at the end of the phase that AU leaves out.
    pub exclude_end_steps: u64,
    /// Steps between checkpoints; each splits the block.
    pub checkpoint_steps: Option<u64>,
    /// Whether the first accelerator of this host writes them.
    pub writes_checkpoints: bool,
    /// Compute time of each step.
    pub compute: Pace,
    /// Preprocessing of each sample in the reading worker.
    pub preprocess: Pace,
    /// What the official client does with samples and steps.
    pub client: ClientWork,
    /// What each accelerator's loader has to go through.
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
            preprocess: Pace::Constant(0),
            client: ClientWork::default(),
            shares: Vec::new(),
        }
    }
}
