//! Drives the machine on a virtual clock over a modelled device.
//!
//! Time jumps from one event to the next, so that hours of training on thousands of accelerators
//! take seconds, and no clock, file or thread has a say: the same machine, device and seed give
//! the same result.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Halt, Landed, Machine, Nanos, Pace, PhaseSpec, ReadRequest};

/// Storage as it is seen from the machine.
pub trait Device {
    /// How many reads it takes at a time; the others wait in the machine.
    fn queue_depth(&self) -> usize;

    /// Takes a read at `now` and says when it will be over.
    fn start(&mut self, request: &ReadRequest, now: Nanos) -> Nanos;

    /// Ends a read and says what it brings.
    fn finish(&mut self, request: &ReadRequest) -> Landed;

    /// How long a checkpoint takes.
    fn checkpoint(&mut self) -> Nanos;
}

/// What a device can do.
#[derive(Debug)]
pub struct DeviceModel {
    /// Bytes that it reads in a second, of all reads together.
    pub bytes_per_second: f64,
    /// What a read takes besides its bytes; draws are reproducible by their seed.
    pub latency: Pace,
    /// Reads that it takes at a time.
    pub queue_depth: usize,
    /// How long a checkpoint takes.
    pub checkpoint: Nanos,
}

/// A device of fixed bandwidth. Reads share it one after the other and have a latency each.
#[derive(Debug)]
pub struct ModelledDevice<R> {
    model: DeviceModel,
    reads: R,
    /// When the bytes of all reads so far are through.
    free_at: Nanos,
}

impl<R: FnMut(&ReadRequest) -> (u64, Landed)> ModelledDevice<R> {
    /// An idle device; `reads` says how many bytes a read has and what it brings.
    pub fn new(model: DeviceModel, reads: R) -> Self {
        Self {
            model,
            reads,
            free_at: 0,
        }
    }
}

impl<R: FnMut(&ReadRequest) -> (u64, Landed)> Device for ModelledDevice<R> {
    fn queue_depth(&self) -> usize {
        self.model.queue_depth
    }

    fn start(&mut self, request: &ReadRequest, now: Nanos) -> Nanos {
        let (bytes, _) = (self.reads)(request);
        let transfer = (bytes as f64 / self.model.bytes_per_second * 1e9).round() as Nanos;
        self.free_at = self.free_at.max(now) + transfer;
        self.free_at + self.model.latency.draw()
    }

    fn finish(&mut self, request: &ReadRequest) -> Landed {
        (self.reads)(request).1
    }

    fn checkpoint(&mut self) -> Nanos {
        self.model.checkpoint
    }
}

/// Why a phase could not be driven to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DriveError {
    /// [`Machine::abort`] came before.
    #[error("the machine was stopped and begins no further phase")]
    Stopped,
    /// Nothing is in flight and nobody computes, but the phase is not over.
    #[error("after {at_ns} ns nothing can happen any more: does the device take reads?")]
    Stalled {
        /// When that was.
        at_ns: Nanos,
    },
}

/// A clock that stands still but for the events that it is driven to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VirtualClock {
    /// What time it is.
    pub now: Nanos,
    /// Events so far: reads that ended, deadlines and checkpoints.
    pub events: u64,
    /// Checkpoints so far.
    pub checkpoints: u64,
}

/// A read that the device has taken.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    over_at: Nanos,
    /// Of two that end at the same time the one that began first ends first.
    serial: u64,
    request: ReadRequest,
}

/// Drives `machine` through one phase, until the last read that was begun in it is back.
///
/// # Errors
/// When the phase cannot begin or cannot end.
pub fn run(
    machine: &mut Machine,
    device: &mut impl Device,
    spec: PhaseSpec,
    clock: &mut VirtualClock,
) -> Result<(), DriveError> {
    if !machine.begin(spec, clock.now) {
        return Err(DriveError::Stopped);
    }
    let mut in_flight = BinaryHeap::new();
    let mut serial = 0;
    loop {
        match machine.halt() {
            Some(Halt::PhaseOver) => break,
            Some(Halt::Checkpoint) => {
                clock.events += 1;
                clock.checkpoints += 1;
                clock.now += device.checkpoint();
                machine.resume(clock.now);
                continue;
            }
            None => {}
        }
        while in_flight.len() < device.queue_depth()
            && let Some(request) = machine.next_read(clock.now)
        {
            serial += 1;
            let over_at = device.start(&request, clock.now);
            in_flight.push(Reverse(InFlight {
                over_at,
                serial,
                request,
            }));
        }
        step(machine, device, &mut in_flight, clock)?;
    }
    while let Some(Reverse(read)) = in_flight.pop() {
        land(machine, device, read, clock);
    }
    Ok(())
}

/// Goes on to the next event: the read that ends first, or the machine's next deadline.
fn step(
    machine: &mut Machine,
    device: &mut impl Device,
    in_flight: &mut BinaryHeap<Reverse<InFlight>>,
    clock: &mut VirtualClock,
) -> Result<(), DriveError> {
    let landing = in_flight
        .peek()
        .map_or(Nanos::MAX, |Reverse(read)| read.over_at);
    let deadline = machine
        .next_deadline()
        .filter(|deadline| *deadline < landing);
    if let Some(deadline) = deadline {
        let now = deadline.max(clock.now);
        clock.now = now;
        clock.events += machine.on_deadline(now, || now);
        return Ok(());
    }
    let Reverse(read) = in_flight
        .pop()
        .ok_or(DriveError::Stalled { at_ns: clock.now })?;
    land(machine, device, read, clock);
    Ok(())
}

fn land(machine: &mut Machine, device: &mut impl Device, read: InFlight, clock: &mut VirtualClock) {
    clock.events += 1;
    clock.now = clock.now.max(read.over_at);
    let landed = device.finish(&read.request);
    machine.on_read_complete(read.request, landed, clock.now);
}
