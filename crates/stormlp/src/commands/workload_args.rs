//! The workload options shared by a run and its plan.

use clap::Args;
use stormlp_core::numbers::whole;
use stormlp_training::plan::request::{MAX_EPOCHS, MAX_PREFETCH, MAX_READ_THREADS};

/// The length of a run.
#[derive(Debug, Args)]
pub(crate) struct StepArgs {
    /// Samples per step and accelerator
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..))]
    pub(crate) batch_size: Option<u32>,

    /// Number of epochs
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u64::from(MAX_EPOCHS)))]
    pub(crate) epochs: Option<u32>,

    /// Steps per epoch [default: as many as the dataset has]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..))]
    pub(crate) steps: Option<u64>,
}

/// Readers and prefetching.
#[derive(Debug, Args)]
pub(crate) struct ReaderArgs {
    /// Reader workers per accelerator; 0 reads inline, like PyTorch
    #[arg(long, value_name = "N", value_parser = whole::<u32>(..=u64::from(MAX_READ_THREADS)))]
    pub(crate) read_threads: Option<u32>,

    /// Batches to prefetch
    #[arg(long, value_name = "N", value_parser = whole::<u32>(..=u64::from(MAX_PREFETCH)))]
    pub(crate) prefetch: Option<u32>,
}
