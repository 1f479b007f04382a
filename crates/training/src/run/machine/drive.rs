//! Drives the machine on a virtual clock over a simulated device.
//!
//! Time jumps from event to event, so that hours of training on thousands of accelerators pass in
//! seconds. No clock, file or thread is involved: the same machine, device and seed give the same
//! result.

use super::phase::PhaseSpec;
use super::queue::Nanos;
use super::queue::Queue;
use super::reads::ReadResult;
use super::{Halt, Machine, ReadRequest};

/// Storage as seen by the machine.
pub trait Device {
    /// Maximum reads in flight; further reads wait in the machine.
    fn queue_depth(&self) -> usize;

    /// Starts a read at `now` and returns when it will complete.
    fn start(&mut self, request: &ReadRequest, now: Nanos) -> Nanos;

    /// Called at `now`, when a read is due to complete: returns a new completion time if the read
    /// has several parts and some remain. `ended` is the number of completed parts.
    fn go_on(&mut self, _request: &ReadRequest, _ended: u32, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// Completes a read and returns its result.
    fn finish(&mut self, request: &ReadRequest) -> ReadResult;

    /// Duration of a checkpoint.
    fn checkpoint(&mut self) -> Nanos;
}

/// Number of events between checks for a stop request.
const EVENTS_BETWEEN_LOOKS: u64 = 1 << 14;

/// Why a phase could not be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DriveError {
    /// [`Machine::abort`] was called.
    #[error("the machine was stopped and starts no further phase")]
    Stopped,
    /// No read is in flight and no accelerator computes, but the phase has not ended.
    #[error("after {at_ns} ns no event is pending: does the device accept reads?")]
    Stalled {
        /// When it stalled.
        at_ns: Nanos,
    },
}

/// A virtual clock that only advances to events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VirtualClock {
    /// The current time.
    pub now: Nanos,
    /// Events so far: completed reads, deadlines and checkpoints.
    pub events: u64,
    /// Checkpoints so far.
    pub checkpoints: u64,
}

#[derive(Debug)]
struct InFlight {
    /// Completed parts.
    ended: u32,
    request: ReadRequest,
}

/// Reads in flight at the device, kept across phases.
#[derive(Debug)]
pub struct InFlightReads(Queue<InFlight>);

impl Default for InFlightReads {
    fn default() -> Self {
        Self(Queue::with_capacity(1024))
    }
}

/// Drives `machine` through one phase, until its last read has completed.
///
/// # Errors
/// When the phase cannot begin or complete.
#[cfg(test)]
pub fn run(
    machine: &mut Machine,
    device: &mut impl Device,
    spec: PhaseSpec,
    clock: &mut VirtualClock,
) -> Result<(), DriveError> {
    let mut flights = InFlightReads::default();
    let ran = run_on(machine, device, spec, clock, &mut flights, &|| false);
    ran?;
    while let Some(flight) = flights.0.pop() {
        land(machine, device, flight, clock, &mut flights);
    }
    Ok(())
}

/// Drives `machine` through one phase; reads in flight at its end stay in `flights`, like reads of
/// persistent loaders. `stopped` is polled occasionally.
///
/// # Errors
/// When the phase cannot begin or complete.
pub fn run_on(
    machine: &mut Machine,
    device: &mut impl Device,
    spec: PhaseSpec,
    clock: &mut VirtualClock,
    flights: &mut InFlightReads,
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

fn next_event(machine: &Machine, flights: &InFlightReads) -> Nanos {
    let all = [flights.0.next_at(), machine.next_deadline()];
    let first = all.into_iter().flatten().min();
    first.unwrap_or(Nanos::MAX)
}

/// Completes everything that loaders started, between two phases.
///
/// # Errors
/// When it cannot complete.
pub fn drain(
    machine: &mut Machine,
    device: &mut impl Device,
    clock: &mut VirtualClock,
    flights: &mut InFlightReads,
) -> Result<(), DriveError> {
    while machine.loaders_busy() {
        take(machine, device, clock, flights);
        step(machine, device, clock, flights)?;
    }
    Ok(())
}

/// Submits reads up to the device's queue depth.
fn take(
    machine: &mut Machine,
    device: &mut impl Device,
    clock: &VirtualClock,
    flights: &mut InFlightReads,
) {
    while flights.0.len() < device.queue_depth()
        && let Some(request) = machine.next_read(clock.now)
    {
        let over_at = device.start(&request, clock.now);
        flights.0.push(over_at, InFlight { ended: 0, request });
    }
}

/// Advances to the next event: the earliest read completion or machine deadline.
fn step(
    machine: &mut Machine,
    device: &mut impl Device,
    clock: &mut VirtualClock,
    flights: &mut InFlightReads,
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

/// Handles a read that is due.
fn land(
    machine: &mut Machine,
    device: &mut impl Device,
    (over_at, flight): (Nanos, InFlight),
    clock: &mut VirtualClock,
    flights: &mut InFlightReads,
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
