//! Drives the machine on a virtual clock over a modelled device.
//!
//! Time jumps from one event to the next, so that hours of training on thousands of accelerators
//! take seconds, and no clock, file or thread has a say: the same machine, device and seed give
//! the same result.

use super::queue::Queue;
use super::{Halt, Landed, Machine, Nanos, Pace, PhaseSpec, ReadRequest};

/// Storage as it is seen from the machine.
pub trait Device {
    /// How many reads it takes at a time; the others wait in the machine.
    fn queue_depth(&self) -> usize;

    /// Takes a read at `now` and says when it will be over.
    fn start(&mut self, request: &ReadRequest, now: Nanos) -> Nanos;

    /// Asked at `now`, when a read should be over: when it will be after all, where it is made in
    /// several parts and one is left. `ended` says how many of them were made.
    fn go_on(&mut self, _request: &ReadRequest, _ended: u32, _now: Nanos) -> Option<Nanos> {
        None
    }

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
        Self { model, reads, free_at: 0 }
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

/// After so many events, look whether somebody wants the end.
const EVENTS_BETWEEN_LOOKS: u64 = 1 << 14;

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
#[derive(Debug)]
struct InFlight {
    /// Parts of it that were made.
    ended: u32,
    request: ReadRequest,
}

/// Reads that the device has taken, from one phase to the next.
#[derive(Debug)]
pub struct Flights(Queue<InFlight>);

impl Default for Flights {
    fn default() -> Self {
        Self(Queue::with_capacity(1024))
    }
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
    let mut flights = Flights::default();
    let ran = run_on(machine, device, spec, clock, &mut flights, &|| false);
    ran?;
    while let Some(flight) = flights.0.pop() {
        land(machine, device, flight, clock, &mut flights);
    }
    Ok(())
}

/// Drives `machine` through one phase; reads that are in flight when it ends stay in `flights`, as
/// those of loaders that persist do. `stopped` is asked now and then.
///
/// # Errors
/// When the phase cannot begin or cannot end.
pub fn run_on(
    machine: &mut Machine,
    device: &mut impl Device,
    spec: PhaseSpec,
    clock: &mut VirtualClock,
    flights: &mut Flights,
    stopped: &dyn Fn() -> bool,
) -> Result<(), DriveError> {
    if !machine.begin(spec, clock.now) {
        return Err(DriveError::Stopped);
    }
    let mut look_at = clock.events + EVENTS_BETWEEN_LOOKS;
    let mut written_at = None;
    loop {
        match machine.halt() {
            Some(Halt::PhaseOver) => return Ok(()),
            Some(Halt::Checkpoint) if written_at.is_none() => {
                written_at = Some(clock.now + device.checkpoint());
            }
            Some(Halt::Checkpoint) | None => {}
        }
        if clock.events >= look_at {
            look_at = clock.events + EVENTS_BETWEEN_LOOKS;
            if stopped() {
                machine.abort(clock.now);
                return Err(DriveError::Stopped);
            }
        }
        take(machine, device, clock, flights);
        if let Some(at) = written_at.filter(|at| *at <= next_event(machine, flights)) {
            written_at = None;
            clock.now = clock.now.max(at);
            clock.events += 1;
            clock.checkpoints += 1;
            machine.resume(clock.now);
            continue;
        }
        step(machine, device, clock, flights)?;
    }
}

/// When a read ends, or a deadline passes.
fn next_event(machine: &Machine, flights: &Flights) -> Nanos {
    let all = [flights.0.next_at(), machine.next_deadline()];
    let first = all.into_iter().flatten().min();
    first.unwrap_or(Nanos::MAX)
}

/// Lets all end that loaders have begun, between two phases.
///
/// # Errors
/// When it cannot end.
pub fn drain(
    machine: &mut Machine,
    device: &mut impl Device,
    clock: &mut VirtualClock,
    flights: &mut Flights,
) -> Result<(), DriveError> {
    while machine.loaders_busy() {
        take(machine, device, clock, flights);
        step(machine, device, clock, flights)?;
    }
    Ok(())
}

/// Gives the device what it takes.
fn take(
    machine: &mut Machine,
    device: &mut impl Device,
    clock: &VirtualClock,
    flights: &mut Flights,
) {
    while flights.0.len() < device.queue_depth()
        && let Some(request) = machine.next_read(clock.now)
    {
        let over_at = device.start(&request, clock.now);
        flights.0.push(over_at, InFlight { ended: 0, request });
    }
}

/// Goes on to the next event: the read that ends first, or the machine's next deadline.
fn step(
    machine: &mut Machine,
    device: &mut impl Device,
    clock: &mut VirtualClock,
    flights: &mut Flights,
) -> Result<(), DriveError> {
    let landing = flights.0.next_at().unwrap_or(Nanos::MAX);
    let deadline = machine.next_deadline().filter(|deadline| *deadline < landing);
    if let Some(deadline) = deadline {
        let now = deadline.max(clock.now);
        clock.now = now;
        clock.events += machine.on_deadline(now, || now);
        return Ok(());
    }
    let flight = flights.0.pop().ok_or(DriveError::Stalled { at_ns: clock.now })?;
    land(machine, device, flight, clock, flights);
    Ok(())
}

/// A read should be over by now.
fn land(
    machine: &mut Machine,
    device: &mut impl Device,
    (over_at, flight): (Nanos, InFlight),
    clock: &mut VirtualClock,
    flights: &mut Flights,
) {
    clock.events += 1;
    clock.now = clock.now.max(over_at);
    let InFlight { ended, request } = flight;
    let ended = ended + 1;
    if let Some(over_at) = device.go_on(&request, ended, clock.now) {
        return flights.0.push(over_at, InFlight { ended, request });
    }
    let landed = device.finish(&request);
    machine.on_read_complete(request, landed, clock.now);
}
