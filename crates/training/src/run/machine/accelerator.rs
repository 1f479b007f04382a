//! One emulated accelerator: where it stands in its step, and its tallies.

use super::Nanos;
use super::loader::Loader;
use super::tally::{BlockTally, StepTimes, Waits};

/// Where an accelerator stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Outside a phase.
    Idle,
    /// Waiting for its next batch.
    Fetching { since: Nanos },
    /// Computing until its deadline.
    Computing { since: Nanos },
    /// Waiting for the others.
    AtBarrier { since: Nanos },
    /// Done with the phase.
    Ended,
}

/// Which steps of a block count for AU.
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
    pub(super) state: State,
    /// Reads handed to an I/O thread and not back yet.
    pub(super) reads_in_flight: u32,
    /// Steps computed in this phase.
    pub(super) step: u64,
    pub(super) block: BlockTally,
    pub(super) blocks: Vec<BlockTally>,
    pub(super) waits: Waits,
    /// Samples that came in this phase.
    pub(super) landed: u64,
    /// Those of them that were there when AU's window began.
    pub(super) preread: u64,
    /// How long the batch being computed was waited for.
    pub(super) fetch_ns: u64,
    /// Until when the current fetch wait is booked.
    booked_to: Nanos,
    /// Barrier wait of the others that this one caused by coming last.
    pub(super) blamed_ns: u64,
    pub(super) times: Option<Vec<StepTimes>>,
}

impl Accelerator {
    pub(super) fn new(loader: Loader, keep_times: bool) -> Self {
        Self {
            loader,
            state: State::Idle,
            reads_in_flight: 0,
            step: 0,
            block: BlockTally::default(),
            blocks: Vec::new(),
            waits: Waits::default(),
            landed: 0,
            preread: 0,
            fetch_ns: 0,
            booked_to: 0,
            blamed_ns: 0,
            times: keep_times.then(Vec::new),
        }
    }

    pub(super) fn begin_block(&mut self, now: Nanos) {
        self.block = BlockTally { start_ns: now, ..BlockTally::default() };
    }

    pub(super) fn begin_fetch(&mut self, now: Nanos) {
        self.state = State::Fetching { since: now };
        self.booked_to = now;
    }

    /// Books the fetch wait up to now under its cause; to be called before the cause changes.
    pub(super) fn book(&mut self, now: Nanos) {
        if let State::Fetching { .. } = self.state {
            let waited = now.saturating_sub(self.booked_to);
            // A read that a late host sees now may be followed by a deadline of before it.
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

    /// Closes a step: compute has been seen to end.
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
            times.push(StepTimes {
                fetch_seconds: (fetch as f64 / 1e9) as f32,
                compute_seconds: (compute as f64 / 1e9) as f32,
            });
        }
    }

    /// Closes the block, unless nothing happened in it.
    pub(super) fn end_block(&mut self, now: Nanos, complete: bool) {
        self.block.end_ns = now;
        self.block.complete = complete;
        if self.block.steps > 0 {
            self.blocks.push(self.block);
        }
        self.block = BlockTally::default();
    }
}
