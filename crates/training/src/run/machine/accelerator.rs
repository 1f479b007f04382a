//! One emulated accelerator: its state within a step, and its tallies.

use super::loader::Loader;
use super::queue::Nanos;
use super::tally::{BlockTally, Waits};

/// The state of an accelerator within a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcceleratorState {
    /// Outside a phase.
    Idle,
    /// Waiting for its next batch.
    Fetching { since: Nanos },
    /// Computing until its deadline.
    Computing { since: Nanos },
    /// Waiting for the other accelerators.
    AtBarrier { since: Nanos },
    /// Done with the phase.
    Ended,
}

/// The steps of a block that count for AU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// The first step that counts, from 0.
    pub(super) first: u64,
    /// One past the last step that counts.
    pub(super) end: u64,
}

/// One emulated accelerator.
#[derive(Debug)]
pub(super) struct Accelerator {
    pub(super) loader: Loader,
    pub(super) state: AcceleratorState,
    /// Reads that I/O threads currently hold.
    pub(super) reads_in_flight: u32,
    /// The time up to which they are counted.
    counted_to: Nanos,
    /// Steps computed in this phase.
    pub(super) step: u64,
    pub(super) block: BlockTally,
    pub(super) blocks: Vec<BlockTally>,
    pub(super) waits: Waits,
    /// Samples received in this phase.
    pub(super) landed: u64,
    /// Those received before AU's window began.
    pub(super) preread: u64,
    /// How long it waited for the batch being computed.
    pub(super) fetch_ns: u64,
    /// Time up to which the current fetch wait is attributed.
    booked_to: Nanos,
    /// How long the rest waited for it at the barriers where it was the last.
    pub(super) delayed_others_ns: u64,
    /// Fetch wait and compute of each step in seconds, if they are kept.
    pub(super) times: Option<Vec<(f32, f32)>>,
}

impl Accelerator {
    pub(super) fn new(loader: Loader, keep_times: bool) -> Self {
        Self {
            loader,
            state: AcceleratorState::Idle,
            reads_in_flight: 0,
            counted_to: 0,
            step: 0,
            block: BlockTally::default(),
            blocks: Vec::new(),
            waits: Waits::default(),
            landed: 0,
            preread: 0,
            fetch_ns: 0,
            booked_to: 0,
            delayed_others_ns: 0,
            times: keep_times.then(Vec::new),
        }
    }

    pub(super) fn begin_block(&mut self, now: Nanos) {
        self.block = BlockTally { start_ns: now, ..BlockTally::default() };
    }

    pub(super) fn begin_fetch(&mut self, now: Nanos) {
        self.state = AcceleratorState::Fetching { since: now };
        self.booked_to = now;
    }

    /// Attributes the fetch wait up to now; call before the cause changes.
    pub(super) fn book(&mut self, now: Nanos) {
        // Simulated reads may last for years.
        let passed = now.saturating_sub(self.counted_to);
        let in_flight = u64::from(self.reads_in_flight).saturating_mul(passed);
        self.waits.in_flight_ns = self.waits.in_flight_ns.saturating_add(in_flight);
        self.counted_to = self.counted_to.max(now);
        if let AcceleratorState::Fetching { .. } = self.state {
            let waited = now.saturating_sub(self.booked_to);
            // A late host may handle a read before an earlier deadline.
            self.booked_to = self.booked_to.max(now);
            if self.step == 0 {
                self.waits.startup_ns += waited;
            } else if self.reads_in_flight > 0 {
                self.waits.reading_ns += waited;
            } else {
                self.waits.queued_ns += waited;
            }
        }
    }

    /// Ends a step after its compute.
    pub(super) fn end_compute(&mut self, fetch: u64, compute: u64, window: Window) {
        let block = &mut self.block;
        if block.steps == 0 {
            block.first_fetch_ns = fetch;
        }
        block.fetch_ns += fetch;
        block.compute_ns += compute;
        if (window.first..window.end).contains(&block.steps) {
            block.window_steps += 1;
            block.window_compute_ns += compute;
        } else {
            block.excluded_ns += fetch + compute;
        }
        block.steps += 1;
        self.step += 1;
        if let Some(times) = &mut self.times {
            times.push(((fetch as f64 / 1e9) as f32, (compute as f64 / 1e9) as f32));
        }
    }

    /// Ends the block, unless it has no steps.
    pub(super) fn end_block(&mut self, now: Nanos, complete: bool) {
        self.block.end_ns = now;
        self.block.complete = complete;
        if self.block.steps > 0 {
            self.blocks.push(self.block);
        }
        self.block = BlockTally::default();
    }
}
