//! What a run needs to know, with every number decided: the plan in the machine's own terms.

use std::sync::Arc;

use stormlp_model::location::Location;

use super::crew::CrewSpec;
use super::machine::{Interleave, InterleaveConfig, Loader, Pace, Share, Workers, WorkersConfig};
use super::source::Source;

/// Which loader feeds each accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoaderSpec {
    /// PyTorch's workers.
    Workers(WorkersConfig),
    /// TensorFlow's interleave over record files.
    Interleave(InterleaveConfig),
}

impl LoaderSpec {
    /// A loader set up so.
    pub fn build(&self) -> Loader {
        match self {
            Self::Workers(config) => Loader::Workers(Workers::new(*config)),
            Self::Interleave(config) => Loader::Interleave(Interleave::new(*config)),
        }
    }

    /// Reads that one such loader has in flight at most.
    pub fn concurrent_reads(&self) -> usize {
        match self {
            Self::Workers(config) => config.workers() * config.group_window.max(1) as usize,
            Self::Interleave(config) => config.read_threads.max(1) as usize,
        }
    }

    /// Files that one such loader holds open at most.
    pub fn streams(&self) -> usize {
        match self {
            Self::Workers(_) => 0,
            // The cycle, and twice its length opened ahead.
            Self::Interleave(config) => 3 * config.read_threads.max(1) as usize,
        }
    }
}

/// Durations of one kind, for any number of accelerators.
pub type PaceMaker = Arc<dyn Fn(u32) -> Pace + Send + Sync>;

/// The phases of one kind: training, or evaluation.
#[derive(Clone)]
pub struct PhaseRules {
    /// Steps of each accelerator.
    pub steps: u64,
    /// Whether a barrier ends each step.
    pub barrier: bool,
    /// Whether a block ends only after one more batch was waited for.
    pub fetch_after_last: bool,
    /// Steps at the start of each block that AU leaves out.
    pub exclude_start_steps: u64,
    /// Steps at the end that AU leaves out.
    pub exclude_end_steps: u64,
    /// Steps between checkpoints.
    pub checkpoint_steps: Option<u64>,
    /// Compute time, by epoch.
    pub compute: PaceMaker,
    /// Preprocessing time of a sample, by epoch.
    pub preprocess: PaceMaker,
}

/// Checkpoints that training writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRules {
    /// The folder.
    pub folder: Location,
    /// Bytes of one checkpoint.
    pub bytes: u64,
    /// The first epoch that is followed by one; `None` when only steps count.
    pub after_epoch: Option<u32>,
    /// Epochs from one to the next.
    pub epochs_between: u32,
}

/// Evaluation after epochs.
#[derive(Clone)]
pub struct EvaluationRules {
    /// The loader, whose batch may differ from training's.
    pub loader: LoaderSpec,
    /// The phase.
    pub phase: PhaseRules,
    /// The first epoch that is followed by one.
    pub after_epoch: u32,
    /// Epochs from one to the next.
    pub epochs_between: u32,
}

/// A dataset's order, epoch by epoch.
pub trait Order: Send + Sync {
    /// Samples and files as epoch `epoch` (from 1) goes through them.
    fn epoch(&self, epoch: u32) -> EpochOrder;
}

/// One epoch's order.
pub struct EpochOrder {
    /// Which bytes a read is.
    pub source: Arc<dyn Source>,
    /// What each accelerator has to go through.
    pub shares: Vec<Share>,
}

/// A run with every number decided.
pub struct RunSpec {
    /// Accelerators.
    pub accelerators: usize,
    /// Epochs.
    pub epochs: u32,
    /// The loader of each accelerator.
    pub loader: LoaderSpec,
    /// Training.
    pub training: PhaseRules,
    /// Evaluation, if any.
    pub evaluation: Option<EvaluationRules>,
    /// Checkpoints, if any.
    pub checkpoint: Option<CheckpointRules>,
    /// Whether a first batch is read and thrown away before each epoch (v3.0's loader start).
    pub prewarm: bool,
    /// Whether the files are dropped from the page cache before each epoch.
    pub cold: bool,
    /// Whether the times of every step are kept.
    pub keep_times: bool,
    /// How the bytes travel.
    pub crew: CrewSpec,
    /// Folder whose block device is watched; `None` when nothing is read.
    pub data_folder: Option<Location>,
}
