//! What a run measured, in the machine's own terms; the report is made from it.

use stormlp_model::evidence::Evidence;
use stormlp_model::histogram::LatencyHistogram;
use stormlp_model::report::Ending;
use stormlp_transfer::telemetry::{CpuTimes, DeviceCounters};
use stormlp_transfer::{Backing, page_cache};

use super::crew::Layout;
use super::machine::{BlockTally, StepHistograms, StepTimes};

/// Whether a phase was training or evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseKind {
    /// An epoch's training.
    Training,
    /// The evaluation after an epoch.
    Evaluation,
}

/// Waiting by cause, in seconds, summed over accelerators.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Waiting {
    /// Reads were in flight and storage was working on them.
    pub storage_seconds: f64,
    /// Reads were being copied here or waited for a CPU.
    pub client_seconds: f64,
    /// Other accelerators were slower.
    pub barrier_seconds: f64,
    /// The first batch of an epoch: loaders start cold.
    pub startup_seconds: f64,
    /// Part of the first two: reads were in flight.
    pub reading_seconds: f64,
}

/// One phase of a run.
#[derive(Debug, Clone)]
pub struct PhaseMeasured {
    /// The epoch, from 1.
    pub epoch: u32,
    /// Training or evaluation.
    pub kind: PhaseKind,
    /// Seconds from the start of the run.
    pub started_seconds: f64,
    /// Seconds it took.
    pub elapsed_seconds: f64,
    /// Blocks of steps, by accelerator.
    pub blocks: Vec<Vec<BlockTally>>,
    /// Times of every step, by accelerator; empty unless they were asked for.
    pub step_times: Vec<Vec<StepTimes>>,
    /// Seconds that each accelerator kept the others waiting at barriers.
    pub blamed_seconds: Vec<f64>,
    /// Samples that were there when AU's window began.
    pub preread_samples: u64,
    /// Histograms over all accelerators.
    pub histograms: StepHistograms,
    /// Where the waiting went.
    pub waiting: Waiting,
    /// Bytes that reads brought.
    pub bytes_read: u64,
    /// What the block device counted; `None` where there is none behind the files.
    pub device: Option<DeviceCounters>,
    /// CPU time of this process.
    pub cpu: CpuTimes,
    /// Share of the dataset in the page cache when the phase began; `None` when nothing is read.
    pub cached_share: Option<f64>,
    /// How that share was found out.
    pub cached_method: Option<page_cache::Method>,
}

/// One checkpoint that training wrote.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckpointMeasured {
    /// The epoch, from 1.
    pub epoch: u32,
    /// Steps computed when it was written.
    pub step: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Seconds from the start of the run.
    pub started_seconds: f64,
    /// Seconds it took.
    pub elapsed_seconds: f64,
}

/// What a run measured.
#[derive(Debug)]
pub struct RunMeasured {
    /// Its phases in order; the last one may be cut short.
    pub phases: Vec<PhaseMeasured>,
    /// Checkpoints in order.
    pub checkpoints: Vec<CheckpointMeasured>,
    /// How it ended.
    pub ending: Ending,
    /// What ran, by the first I/O thread's account.
    pub evidence: Option<Evidence>,
    /// Reads made.
    pub reads: u64,
    /// Bytes they brought.
    pub bytes_read: u64,
    /// From taking a read to its last byte.
    pub read_latency: LatencyHistogram,
    /// How the threads were laid out.
    pub layout: Layout,
    /// What kind of pages the buffers lie on.
    pub backing: Backing,
    /// Block devices behind the files.
    pub devices: Vec<String>,
    /// CPU time of this process over the whole run.
    pub cpu: CpuTimes,
    /// Seconds the run took.
    pub elapsed_seconds: f64,
}
