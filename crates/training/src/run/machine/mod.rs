//! The training loop as one state machine, driven by completed reads and expired deadlines.
//!
//! The machine starts no threads, opens no files and reads no clock. Its driver supplies the time,
//! starts the reads ([`Machine::next_read`]) and calls it when a deadline has passed
//! ([`Machine::next_deadline`]). The same code therefore runs over io_uring, over plain threads and
//! on a virtual clock ([`drive`]).
//!
//! Accelerators follow their deadlines, not the time at which this host handles them: compute ends
//! at its deadline, and the next activity begins there, or when the data it waited for arrived. A
//! late host issues the next reads that much later, which costs utilisation; it never makes compute
//! appear longer. The lateness is recorded. A phase may ask for the contrary
//! ([`PhaseSpec::late_counts`]): then compute ends when it is handled, as a sleep does.
//!
//! A *phase* is one epoch's training. Each accelerator fetches a batch, computes until an absolute
//! deadline and waits at a barrier for all; meanwhile its loader keeps reading. A checkpoint ends a
//! block of steps for all accelerators, and blocks the one that writes it: the rest begin their
//! next block and wait for it at the barrier.

mod accelerator;
mod client;
pub mod drive;
#[cfg(test)]
mod drive_tests;
mod interleave;
mod joint;
#[cfg(test)]
mod late_tests;
mod loader;
mod phase;
mod queue;
mod readings;
mod reads;
#[cfg(test)]
mod scripted;
mod tally;
mod workers;

use std::collections::VecDeque;

use crate::plan::probe::StepMark;
use accelerator::{Accelerator, AcceleratorState, Window};
use queue::Queue;

pub use client::ClientWork;
pub use interleave::{Interleave, InterleaveConfig};
pub use joint::Joint;
pub use loader::Loader;
pub use phase::{Pace, PhaseSpec};
pub use queue::Nanos;
pub use reads::{CompletedRead, Cursor, Fetch, LaneRead, ReadResult, RowGroups, Share, Unit};
pub use tally::{BlockTally, StepHistograms, Waits};
pub use workers::{Workers, WorkersConfig};

/// A read for an I/O thread; it is returned in [`Machine::on_read_complete`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadRequest {
    /// The accelerator that requests it.
    pub accelerator: u32,
    /// The phase that requests it, counted from 1.
    pub phase: u32,
    /// Lane and content.
    pub read: LaneRead,
}

/// Why the machine, or one of its accelerators, has halted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// No phase has begun, or the last one has ended.
    PhaseOver,
    /// The first accelerator must write a checkpoint; [`Machine::resume`] continues it.
    Checkpoint,
}

/// Number of consecutive ended computations between clock readings: one reading costs about as much
/// as two of them.
const ENDED_BETWEEN_LOOKS: u64 = 8;

/// The event at a deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wake {
    Compute(u32),
    /// Preprocessing of a sample ends.
    Preprocessed(Box<(ReadRequest, ReadResult)>),
    /// The barrier opens.
    Barrier,
}

/// See the [module's description](self).
#[derive(Debug)]
pub struct Machine {
    accelerators: Vec<Accelerator>,
    spec: PhaseSpec,
    phase: u32,
    halt: Option<Halt>,
    /// Set permanently once the run was cut short.
    aborted: bool,
    /// Accelerators that have not finished the phase.
    live: u32,
    /// Accelerators at the barrier.
    arrived: u32,
    /// Time and accelerator of the last arrival.
    last_arrival: (Nanos, u32),
    next_checkpoint: u64,
    /// Reads to start, a queue for each device that accelerators are dealt over.
    ready: Vec<VecDeque<ReadRequest>>,
    deadlines: Queue<Wake>,
    /// Number of samples being preprocessed.
    preprocessing: usize,
    histograms: StepHistograms,
    /// The end of each step of this phase, if requested.
    marks: Option<Vec<StepMark>>,
    /// The barriers with other hosts, if any.
    joint: Option<Joint>,
    /// Accelerators that should try a fetch; empty between calls.
    work: Vec<u32>,
    scratch: Vec<LaneRead>,
}

impl Machine {
    /// A halted machine with one loader per accelerator. `keep_times` keeps the times of every
    /// step, at 8 bytes each.
    pub fn new(loaders: Vec<Loader>, keep_times: bool) -> Self {
        let accelerators: Vec<_> =
            loaders.into_iter().map(|loader| Accelerator::new(loader, keep_times)).collect();
        let count = accelerators.len();
        Self {
            accelerators,
            spec: PhaseSpec::nothing(),
            phase: 0,
            halt: Some(Halt::PhaseOver),
            aborted: false,
            live: 0,
            arrived: 0,
            last_arrival: (0, 0),
            next_checkpoint: u64::MAX,
            ready: vec![VecDeque::with_capacity(64 * count)],
            deadlines: Queue::with_capacity(count),
            preprocessing: 0,
            histograms: StepHistograms::default(),
            marks: None,
            joint: None,
            work: Vec::with_capacity(count),
            scratch: Vec::with_capacity(64),
        }
    }

    /// Deals the accelerators over so many devices in turn: the reads of each are taken apart.
    #[must_use]
    pub fn dealt_over(mut self, devices: usize) -> Self {
        self.ready.resize_with(devices.max(1), VecDeque::new);
        self
    }

    /// Number of devices that the accelerators are dealt over.
    pub fn devices(&self) -> usize {
        self.ready.len()
    }

    /// Begins a phase: every loader starts cold and every accelerator waits for its first batch.
    /// Returns whether it began: none does after [`Self::abort`], and the readings remain the
    /// previous phase's.
    #[must_use]
    pub fn begin(&mut self, spec: PhaseSpec, now: Nanos) -> bool {
        if self.aborted {
            return false;
        }
        self.spec = spec;
        self.phase += 1;
        self.halt = None;
        self.live = self.accelerators.len() as u32;
        self.arrived = 0;
        self.next_checkpoint = self.spec.checkpoint_steps.unwrap_or(u64::MAX);
        self.histograms = StepHistograms::default();
        if let Some(marks) = &mut self.marks {
            marks.clear();
        }
        if let Some(joint) = &mut self.joint {
            joint.begin();
        }
        for index in 0..self.accelerators.len() {
            let accelerator = &mut self.accelerators[index];
            accelerator.step = 0;
            accelerator.blocks.clear();
            (accelerator.landed, accelerator.preread) = (0, 0);
            accelerator.delayed_others_ns = 0;
            if let Some(times) = &mut accelerator.times {
                times.clear();
            }
            accelerator.begin_block(now);
            accelerator.begin_fetch(now);
            let share = &self.spec.shares[index];
            accelerator.loader.begin(share, &mut self.scratch);
            self.queue_reads(index as u32);
            self.work.push(index as u32);
        }
        self.settle(now);
        true
    }

    /// Continues the accelerator that wrote a checkpoint after [`Halt::Checkpoint`], in a new
    /// block.
    pub fn resume(&mut self, now: Nanos) {
        if self.halt != Some(Halt::Checkpoint) {
            return;
        }
        self.halt = None;
        for index in 0..self.accelerators.len() {
            if self.accelerators[index].state == AcceleratorState::Idle {
                self.accelerators[index].begin_block(now);
                self.next_step(index as u32, now);
            }
        }
        self.end_if_all_ended();
        self.settle(now);
    }

    /// Ends the run at once: closes blocks as incomplete and drops reads not yet started. Reads in
    /// flight may still complete; no further phase can begin.
    pub fn abort(&mut self, now: Nanos) {
        for accelerator in &mut self.accelerators {
            accelerator.book(now);
            if !matches!(accelerator.state, AcceleratorState::Ended) {
                accelerator.end_block(now, false);
            }
            accelerator.state = AcceleratorState::Ended;
        }
        self.deadlines.clear();
        self.preprocessing = 0;
        self.ready.iter_mut().for_each(VecDeque::clear);
        self.work.clear();
        self.halt = Some(Halt::PhaseOver);
        self.aborted = true;
    }

    /// Why the machine has halted, if it has.
    pub fn halt(&self) -> Option<Halt> {
        self.halt
    }

    /// Number of reads waiting for an I/O thread.
    pub fn reads_waiting(&self) -> usize {
        self.ready.iter().map(VecDeque::len).sum()
    }

    /// Whether reads into the memory of `device` wait for an I/O thread.
    pub fn has_reads_for(&self, device: usize) -> bool {
        !self.ready[device].is_empty()
    }

    /// The next read to start, into the only device; it counts as in flight from now on.
    pub fn next_read(&mut self, now: Nanos) -> Option<ReadRequest> {
        self.next_read_for(0, now)
    }

    /// The next read to start into the memory of `device`.
    pub fn next_read_for(&mut self, device: usize, now: Nanos) -> Option<ReadRequest> {
        let request = self.ready[device].pop_front()?;
        let accelerator = &mut self.accelerators[request.accelerator as usize];
        accelerator.book(now);
        accelerator.reads_in_flight += 1;
        Some(request)
    }

    /// The next deadline.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.deadlines.next_at()
    }

    /// Handles a completed read.
    pub fn on_read_complete(&mut self, request: ReadRequest, landed: ReadResult, now: Nanos) {
        let accelerator = &mut self.accelerators[request.accelerator as usize];
        accelerator.book(now);
        accelerator.reads_in_flight -= 1;
        if self.aborted {
            return;
        }
        if self.halt == Some(Halt::PhaseOver) && self.phase == request.phase {
            // Completed after the phase's end: the loader only learns that the lane is free.
            let came = CompletedRead { landed, fresh: false, at: now };
            let loader = &mut accelerator.loader;
            loader.landed(request.read, came, &mut self.scratch);
            return self.queue_reads(request.accelerator);
        }
        let mut ready = now;
        if self.spec.client.has_samples_to_see_to() {
            let samples = accelerator.loader.samples_of(request.read.unit, landed);
            ready = self.spec.client.sample_ready(samples, now);
        }
        if let Unit::Sample(_) = request.read.unit {
            ready += self.spec.preprocess.draw();
        }
        if ready > now {
            self.preprocessing += 1;
            return self.deadlines.push(ready, Wake::Preprocessed(Box::new((request, landed))));
        }
        self.deliver(request, landed, now);
        self.settle(now);
    }

    /// Advances to `now`: ends every computation whose deadline has passed. Calls `clock` again
    /// every few computations, so that a long series does not share one time. Returns how many
    /// ended, including preprocessing.
    pub fn on_deadline(&mut self, mut now: Nanos, mut clock: impl FnMut() -> Nanos) -> u64 {
        let mut ended = 0u64;
        while let Some((deadline, wake)) = self.deadlines.pop_due(now) {
            let mut ended_at = deadline;
            match wake {
                Wake::Compute(index) => {
                    self.histograms.overshoot.record_ns(now - deadline);
                    ended_at = if self.spec.late_counts { now } else { deadline };
                    self.end_compute(index, ended_at);
                }
                Wake::Preprocessed(read) => {
                    let (request, landed) = *read;
                    self.preprocessing -= 1;
                    self.accelerators[request.accelerator as usize].book(deadline);
                    self.deliver(request, landed, deadline);
                }
                Wake::Barrier => self.open_barrier(deadline),
            }
            self.settle(ended_at);
            ended += 1;
            if ended.is_multiple_of(ENDED_BETWEEN_LOOKS) {
                now = clock().max(now);
            }
        }
        ended
    }

    /// Passes a completed read to its loader, as of `at`; the accelerator that may benefit tries
    /// its fetch.
    fn deliver(&mut self, request: ReadRequest, landed: ReadResult, at: Nanos) {
        let over = self.halt == Some(Halt::PhaseOver);
        let fresh = request.phase == self.phase && !over;
        let index = request.accelerator;
        let came = CompletedRead { landed, fresh, at };
        let accelerator = &mut self.accelerators[index as usize];
        let loader = &mut accelerator.loader;
        accelerator.landed += loader.landed(request.read, came, &mut self.scratch);
        if matches!(accelerator.state, AcceleratorState::Fetching { .. }) && loader.may_have_batch()
        {
            self.work.push(index);
        }
        self.queue_reads(index);
    }

    fn queue_reads(&mut self, accelerator: u32) {
        let phase = self.phase;
        let device = accelerator as usize % self.ready.len();
        self.ready[device].extend(self.scratch.drain(..).map(|read| ReadRequest {
            accelerator,
            phase,
            read,
        }));
    }

    /// Lets every accelerator on the work list try its fetch, as of `at`, and ends zero-length
    /// computations at once, until the state is stable.
    fn settle(&mut self, at: Nanos) {
        while let Some(index) = self.work.pop() {
            let AcceleratorState::Fetching { since } = self.accelerators[index as usize].state
            else {
                continue;
            };
            let accelerator = &mut self.accelerators[index as usize];
            let fetch = accelerator.loader.fetch(&mut self.scratch);
            let now = match fetch {
                // It arrived after it was requested, but this host handles it only now.
                Fetch::Taken { ready } => ready.max(at).max(since),
                Fetch::NotReady | Fetch::Exhausted => at.max(since),
            };
            if fetch != Fetch::NotReady {
                accelerator.book(now);
            }
            let past_last = accelerator.step == self.spec.steps;
            self.queue_reads(index);
            match fetch {
                Fetch::NotReady => {}
                Fetch::Taken { .. } if !past_last => self.begin_compute(index, since, now),
                Fetch::Taken { .. } => self.end_phase_of(index, now, true),
                Fetch::Exhausted => self.end_phase_of(index, now, past_last),
            }
        }
    }

    fn begin_compute(&mut self, index: u32, fetch_since: Nanos, now: Nanos) {
        let compute = self.spec.compute.draw();
        // The client delivers the batch before it computes.
        let since = now + self.spec.client.step_ns;
        let accelerator = &mut self.accelerators[index as usize];
        let asleep = if compute > 0 { compute + self.spec.client.oversleep_ns } else { 0 };
        let deadline = since + asleep;
        accelerator.fetch_ns = since - fetch_since;
        accelerator.waits.client_ns += self.spec.client.step_ns;
        if accelerator.step > 0 {
            self.histograms.fetch.record_ns(now - fetch_since);
        }
        accelerator.state = AcceleratorState::Computing { since };
        if deadline == now {
            self.end_compute(index, now);
        } else {
            self.deadlines.push(deadline, Wake::Compute(index));
        }
    }

    fn end_compute(&mut self, index: u32, now: Nanos) {
        let (steps, spec) = (self.spec.steps, &self.spec);
        let window = Window {
            first: spec.exclude_start_steps,
            end: steps.saturating_sub(spec.exclude_end_steps),
        };
        let accelerator = &mut self.accelerators[index as usize];
        let AcceleratorState::Computing { since } = accelerator.state else {
            return;
        };
        let fetch = accelerator.fetch_ns;
        accelerator.end_compute(fetch, now - since, window);
        if accelerator.step == window.first {
            accelerator.preread = accelerator.landed;
        }
        if !self.spec.barrier {
            return self.next_step(index, now);
        }
        accelerator.state = AcceleratorState::AtBarrier { since: now };
        self.arrived += 1;
        self.last_arrival = self.last_arrival.max((now, index));
        if self.arrived == self.live {
            self.all_came(now);
        }
    }

    /// Everyone has arrived, at `now` or with the last arrival: opens the barrier, either at once
    /// or after its duration.
    fn release(&mut self, now: Nanos) {
        self.arrived = 0;
        let now = now.max(self.last_arrival.0);
        match self.spec.barrier_ns {
            0 => self.open_barrier(now),
            own => self.deadlines.push(now + own, Wake::Barrier),
        }
    }

    /// Opens the barrier. The rest waited for the last arrival until it came; the remaining time is
    /// the other hosts' and the barrier's.
    fn open_barrier(&mut self, now: Nanos) {
        let (arrived, last) = std::mem::take(&mut self.last_arrival);
        let (mut step, mut delayed_ns) = (0, 0);
        for accelerator in &mut self.accelerators {
            if let AcceleratorState::AtBarrier { since } = accelerator.state {
                let wait = now - since;
                accelerator.waits.barrier_ns += wait;
                accelerator.block.barrier_ns += wait;
                self.histograms.barrier.record_ns(wait);
                delayed_ns += arrived - since;
                step = accelerator.step;
            }
        }
        self.accelerators[last as usize].delayed_others_ns += delayed_ns;
        if let Some(marks) = &mut self.marks {
            let landed = self.accelerators.iter().map(|one| one.landed);
            marks.push(StepMark { nanos: now, samples: landed.sum() });
        }
        let checkpoint = step == self.next_checkpoint;
        for index in 0..self.accelerators.len() {
            let accelerator = &mut self.accelerators[index];
            if !matches!(accelerator.state, AcceleratorState::AtBarrier { .. }) {
                continue;
            }
            if checkpoint {
                accelerator.end_block(now, true);
                if index == 0 && self.spec.writes_checkpoints {
                    accelerator.state = AcceleratorState::Idle;
                    continue;
                }
                accelerator.begin_block(now);
            }
            self.next_step(index as u32, now);
        }
        if checkpoint {
            let every = self.spec.checkpoint_steps.unwrap_or(u64::MAX);
            self.next_checkpoint = self.next_checkpoint.saturating_add(every);
            let written_here = self.spec.writes_checkpoints;
            self.halt = written_here.then_some(Halt::Checkpoint).or(self.halt);
        }
    }

    /// Starts an accelerator's next fetch, or ends its phase if the profile does not fetch after
    /// the last step.
    fn next_step(&mut self, index: u32, now: Nanos) {
        let accelerator = &mut self.accelerators[index as usize];
        if accelerator.step == self.spec.steps && !self.spec.fetch_after_last {
            return self.end_phase_of(index, now, true);
        }
        accelerator.begin_fetch(now);
        self.work.push(index);
    }

    fn end_phase_of(&mut self, index: u32, now: Nanos, complete: bool) {
        let accelerator = &mut self.accelerators[index as usize];
        accelerator.end_block(now, complete);
        accelerator.state = AcceleratorState::Ended;
        self.live -= 1;
        if self.live > 0 && self.arrived == self.live {
            // The rest wait for an accelerator without further steps.
            self.all_came(now);
        }
        self.end_if_all_ended();
    }

    fn end_if_all_ended(&mut self) {
        if self.live > 0 || self.halt.is_some() {
            return;
        }
        self.halt = Some(Halt::PhaseOver);
        for accelerator in &mut self.accelerators {
            accelerator.loader.end();
        }
        for queue in &mut self.ready {
            queue.retain(|request| {
                let loader = &mut self.accelerators[request.accelerator as usize].loader;
                let finishes = loader.finishes_leftovers();
                if !finishes {
                    // Never started: the lane is free again, and no step follows.
                    let came = CompletedRead { landed: ReadResult::default(), fresh: false, at: 0 };
                    loader.landed(request.read, came, &mut self.scratch);
                }
                finishes
            });
        }
        self.scratch.clear();
    }

    /// Whether loaders have unfinished work: reads that are queued or with I/O threads, and samples
    /// being preprocessed.
    pub fn loaders_busy(&self) -> bool {
        self.reads_in_flight() > 0 || self.reads_waiting() > 0 || self.preprocessing > 0
    }

    fn reads_in_flight(&self) -> u32 {
        self.accelerators.iter().map(|a| a.reads_in_flight).sum()
    }
}
