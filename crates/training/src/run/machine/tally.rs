//! Tallies of the machine: block times for AU, and waiting time by cause.

use derive_more::{AddAssign, Sub};
use serde::{Deserialize, Serialize};
use stormlp_core::histogram::LatencyHistogram;

use super::queue::Nanos;

/// One accelerator's times for one block of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockTally {
    /// When the block began.
    pub start_ns: Nanos,
    /// When it ended, by the profile's rule.
    pub end_ns: Nanos,
    /// Steps completed.
    pub steps: u64,
    /// Steps inside AU's window.
    pub window_steps: u64,
    /// Compute time of the window's steps, as drawn.
    pub window_compute_ns: u64,
    /// Fetch wait and compute of the steps excluded from the window.
    pub excluded_ns: u64,
    /// Compute time of all steps, as drawn.
    pub compute_ns: u64,
    /// Fetch wait of all steps.
    pub fetch_ns: u64,
    /// Wait at the barriers.
    pub barrier_ns: u64,
    /// Fetch wait of the block's first step.
    pub first_fetch_ns: u64,
    /// Whether the block finished.
    pub complete: bool,
}

/// One accelerator's total waiting time, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, AddAssign, Sub)]
pub struct Waits {
    /// The first fetch of each epoch, while the loader starts cold.
    pub startup_ns: u64,
    /// Later fetches, while at least one of the accelerator's reads was in the storage path.
    pub reading_ns: u64,
    /// Later fetches, while all its reads were waiting for an I/O thread.
    pub queued_ns: u64,
    /// Client overhead of each step.
    pub client_ns: u64,
    /// At the barriers.
    pub barrier_ns: u64,
    /// No waiting: how long its reads were in the storage path, one after the other.
    pub in_flight_ns: u64,
}

impl Waits {
    /// The sum. Simulated accelerators may wait for years, so it stays at the end of its type.
    pub fn plus(&self, other: &Self) -> Self {
        let sum = |of: fn(&Self) -> u64| of(self).saturating_add(of(other));
        Self {
            startup_ns: sum(|waits| waits.startup_ns),
            reading_ns: sum(|waits| waits.reading_ns),
            queued_ns: sum(|waits| waits.queued_ns),
            client_ns: sum(|waits| waits.client_ns),
            barrier_ns: sum(|waits| waits.barrier_ns),
            in_flight_ns: sum(|waits| waits.in_flight_ns),
        }
    }
}

/// Histograms over all accelerators of one phase.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StepHistograms {
    /// Fetch wait of every step but the first.
    pub fetch: LatencyHistogram,
    /// Wait at the barrier.
    pub barrier: LatencyHistogram,
    /// Wait of the last host at a barrier between hosts: the cost of the barrier itself.
    pub between_hosts: LatencyHistogram,
    /// Delay between the deadline of a computation and its handling; not counted as compute time.
    pub overshoot: LatencyHistogram,
}

impl StepHistograms {
    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.fetch.merge(&other.fetch);
        self.barrier.merge(&other.barrier);
        self.between_hosts.merge(&other.between_hosts);
        self.overshoot.merge(&other.overshoot);
    }
}
