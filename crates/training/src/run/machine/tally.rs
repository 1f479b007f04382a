//! What the machine writes down: block times for AU, and where the waiting went.

use derive_more::{AddAssign, Sub};
use stormlp_core::histogram::LatencyHistogram;

use super::Nanos;

/// One accelerator's times of one block of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockTally {
    /// When the block began.
    pub start_ns: Nanos,
    /// When it ended, by the profile's rule.
    pub end_ns: Nanos,
    /// Steps computed.
    pub steps: u64,
    /// Steps inside AU's window.
    pub window_steps: u64,
    /// Compute of the window's steps, as it was drawn.
    pub window_compute_ns: u64,
    /// Fetch wait and compute of the steps left out of the window.
    pub excluded_ns: u64,
    /// Compute of all steps, as it was drawn.
    pub compute_ns: u64,
    /// Fetch wait of all steps.
    pub fetch_ns: u64,
    /// Wait at the barriers.
    pub barrier_ns: u64,
    /// Fetch wait of the block's first step.
    pub first_fetch_ns: u64,
    /// Whether the block ran to its end.
    pub complete: bool,
}

/// Where one accelerator's waiting went, in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, AddAssign, Sub)]
pub struct Waits {
    /// The first fetch of each epoch: the loader starts cold.
    pub startup_ns: u64,
    /// Later fetches, while at least one of the accelerator's reads was with the storage path.
    pub reading_ns: u64,
    /// Later fetches, while all its reads were waiting for an I/O thread.
    pub queued_ns: u64,
    /// The official client's own work of each step.
    pub client_ns: u64,
    /// At the barriers.
    pub barrier_ns: u64,
}

/// Per-step times of one accelerator, kept only when somebody wants the list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepTimes {
    /// Fetch wait in seconds.
    pub fetch_seconds: f32,
    /// Compute in seconds, as it was drawn.
    pub compute_seconds: f32,
}

/// Histograms over all accelerators of one phase.
#[derive(Debug, Clone, Default)]
pub struct StepHistograms {
    /// Fetch wait of every step but the first.
    pub fetch: LatencyHistogram,
    /// Wait at the barrier.
    pub barrier: LatencyHistogram,
    /// How much later than its deadline a computation was seen to have ended. It is no part of its
    /// time.
    pub overshoot: LatencyHistogram,
}

impl StepHistograms {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.fetch.merge(&other.fetch);
        self.barrier.merge(&other.barrier);
        self.overshoot.merge(&other.overshoot);
    }
}
