//! The main loop around a transfer path: idle slots, transfers in flight and their start times.
//!
//! A [`Driver`] owns a path and its slots. For each transfer in flight it keeps a tag of the lane's
//! type and the submission time, and returns both on completion. Places and contents are up to the
//! lane.

pub(crate) mod load;

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use derive_more::{Add, Sum};
use stormlp_core::evidence::Evidence;
use stormlp_core::operation::Direction;
use stormlp_core::telemetry as model;

pub use self::load::InFlightStats;
use self::load::{Counting, Together};
use crate::error::TransferError;
use crate::paths::null::NullPath;
use crate::stamp::{Stamp, StampClock};
use crate::storage::Handle;
use crate::transfer::Slot;
use crate::transfer::{Completion, FileId, FileRange, Transfer, TransferPath};

/// Progress counters of one driver. Only its thread writes, so plain loads and stores suffice. They
/// have separate cache lines (two, which the CPU fetches as one) to avoid false sharing.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Bytes transferred.
    pub bytes: AtomicU64,
    operations: AtomicU64,
    /// Transfers in flight now.
    pub in_flight: AtomicU64,
    in_flight_sum: AtomicU64,
}

/// A snapshot of the counters of one or more drivers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Add, Sum)]
pub struct Counted {
    /// Bytes transferred.
    pub bytes: u64,
    /// Completed transfers, failed ones included.
    pub operations: u64,
    /// Transfers in flight.
    pub in_flight: u64,
    /// For each completed transfer, the number in flight when it ended, itself included; divided
    /// by `operations` it is the mean queue depth.
    pub in_flight_sum: u64,
}

impl Counters {
    /// The counters as of the driver's last wait.
    pub fn read(&self) -> Counted {
        Counted {
            bytes: self.bytes.load(Ordering::Relaxed),
            operations: self.operations.load(Ordering::Relaxed),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            in_flight_sum: self.in_flight_sum.load(Ordering::Relaxed),
        }
    }

    #[inline]
    fn write(&self, counted: &Counted) {
        self.bytes.store(counted.bytes, Ordering::Relaxed);
        self.operations.store(counted.operations, Ordering::Relaxed);
        self.in_flight.store(counted.in_flight, Ordering::Relaxed);
        self.in_flight_sum.store(counted.in_flight_sum, Ordering::Relaxed);
    }
}

/// State shared by the drivers of one thread_group: the counters of each, and retired slots. Slots are
/// kept until this is dropped, after all threads have ended: freeing and unregistering memory
/// would stall the threads that still measure.
#[derive(Default)]
pub struct DriverSet {
    counters: Vec<Counters>,
    parked: Mutex<Vec<Slot>>,
    /// The queue depth statistics.
    together: Option<Together>,
}

impl DriverSet {
    /// A set for the given number of drivers.
    pub fn new(drivers: usize) -> Self {
        Self {
            counters: (0..drivers).map(|_| Counters::default()).collect(),
            parked: Mutex::default(),
            together: None,
        }
    }

    /// A set that also records queue depth across all drivers and transfer sizes, at the cost of
    /// one counter that all of them update: for lanes with threads that make thousands of transfers
    /// per second, not millions.
    pub fn counting_loads(drivers: usize) -> Self {
        Self { together: Some(Together::new(drivers)), ..Self::new(drivers) }
    }

    /// The queue depth and transfer sizes of finished drivers; `None` if the set does not record
    /// them.
    pub fn load(&self) -> Option<model::Load> {
        self.together.as_ref().map(Together::load)
    }

    /// The accumulated time in flight of all transfers, and the peak concurrency since the last
    /// call; `None` if the set does not record them.
    pub fn flown(&self) -> Option<InFlightStats> {
        let now = StampClock::of_process().now();
        self.together.as_ref().map(|together| together.flown(now))
    }

    /// The counters of each driver.
    pub fn counters(&self) -> &[Counters] {
        &self.counters
    }

    /// The sum over all drivers.
    pub fn total(&self) -> Counted {
        self.counters.iter().map(Counters::read).sum()
    }
}

/// A completed transfer.
pub struct CompletedTransfer<T> {
    /// The lane's tag.
    pub tag: T,
    /// The slot, to be submitted again or put back.
    pub slot: Slot,
    /// The submission time.
    pub submitted: Stamp,
    /// Bytes transferred, or the error. A read may be shorter than requested; a write is not.
    pub result: Result<usize, TransferError>,
}

/// A path with its slots, on the thread that uses it.
pub struct Driver<'a, T> {
    path: Box<dyn TransferPath>,
    clock: StampClock,
    idle: Vec<Slot>,
    /// By slot number: tag, submission time and place of the transfer in flight.
    flying: Vec<Option<(T, Stamp, FileRange)>>,
    done: Vec<Completion>,
    counted: Counted,
    /// The counters before rehearsal; rehearsal transfers are not shown.
    before: Option<Counted>,
    counters: &'a Counters,
    /// This driver's share of the statistics across drivers.
    counting: Option<Counting<'a>>,
    parked: &'a Mutex<Vec<Slot>>,
}

impl<'a, T> Driver<'a, T> {
    /// A driver of `path` with this `index` in `set`. Later calls do not allocate.
    ///
    /// # Panics
    /// When the set was created for fewer drivers.
    pub fn new(mut path: Box<dyn TransferPath>, set: &'a DriverSet, index: usize) -> Self {
        let idle = path.take_slots();
        let numbers = idle.iter().map(Slot::index).max().map_or(0, |max| max + 1);
        Self {
            path,
            clock: StampClock::of_process(),
            flying: (0..numbers).map(|_| None).collect(),
            done: Vec::with_capacity(idle.len()),
            idle,
            // A thread may have several drivers in succession.
            counted: set.counters[index].read(),
            before: None,
            counters: &set.counters[index],
            counting: (set.together.as_ref()).map(|together| Counting::new(together, index)),
            parked: &set.parked,
        }
    }

    /// Registers a file or object with the path; see [`TransferPath::attach`].
    ///
    /// # Errors
    /// When the kernel or cuFile rejects the file, or the path cannot move its kind.
    pub fn attach(&mut self, handle: impl Into<Handle>) -> Result<FileId, TransferError> {
        match handle.into() {
            Handle::File(file) => self.path.attach(file),
            Handle::Object(object) => self.path.attach_object(object),
        }
    }

    /// Removes and closes a file that has no transfers in flight.
    ///
    /// # Errors
    /// When closing fails.
    pub fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        self.path.detach(file)
    }

    /// Lets a write to `eventfd` end a wait early; see [`TransferPath::wake_on`].
    ///
    /// # Errors
    /// When the kernel rejects the descriptor.
    pub fn wake_on(&mut self, eventfd: BorrowedFd<'_>) -> Result<bool, TransferError> {
        self.path.wake_on(eventfd)
    }

    /// From here on transfers are preparation only and are not counted.
    pub fn rehearse(&mut self) {
        self.before = Some(self.counted);
    }

    /// Ends preparation: no transfer is in flight, and subsequent transfers are measured; see
    /// [`TransferPath::stop_counting`].
    pub fn rehearsed(&mut self) {
        self.counted = self.before.take().unwrap_or(self.counted);
        self.path.stop_counting();
    }

    /// Transfers that end before `start` only warm up; see [`TransferPath::measure_from`].
    pub fn measure_from(&mut self, start: Instant) {
        self.path.measure_from(start);
    }

    /// Compares data that was read in parts, with no transfer in flight; see
    /// [`TransferPath::compare_whole`].
    ///
    /// # Errors
    /// When other bytes were read than storage has.
    pub fn compare_whole(&mut self) -> Result<(), TransferError> {
        self.path.compare_whole()
    }

    /// Publishes the counters to the monitoring thread.
    #[inline]
    fn show(&self) {
        if self.before.is_none() {
            self.counters.write(&self.counted);
        }
    }

    /// The evidence of the path that ran.
    pub fn evidence(&self) -> Evidence {
        self.path.evidence()
    }

    /// The current time, on the clock of the submission stamps.
    #[inline]
    pub fn now(&self) -> Stamp {
        self.clock.now()
    }

    /// Whether a slot is idle.
    #[inline]
    pub fn has_room(&self) -> bool {
        !self.idle.is_empty()
    }

    /// The idle slots: all of them before the first transfer.
    pub fn idle(&mut self) -> &mut [Slot] {
        &mut self.idle
    }

    /// Takes an idle slot.
    #[inline]
    pub fn take_slot(&mut self) -> Option<Slot> {
        self.idle.pop()
    }

    /// Returns an unused slot.
    #[inline]
    pub fn put_back(&mut self, slot: Slot) {
        self.idle.push(slot);
    }

    /// Transfers in flight, plus completed ones that have not been returned yet.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.counted.in_flight as usize
    }

    /// Starts a transfer between `slot` and `place`. Should the kernel write less than it is given,
    /// the rest is written too: it fails with the kernel's error, if there is one.
    ///
    /// # Errors
    /// When it could not be started; the slot is idle again.
    #[inline]
    pub fn submit(&mut self, slot: Slot, place: FileRange, tag: T) -> Result<(), TransferError> {
        let index = slot.index();
        let now = self.clock.now();
        self.flying[index] = Some((tag, now, place));
        let bytes = place.len;
        match self.path.submit(Transfer { place, slot }) {
            Ok(()) => {
                self.counted.in_flight += 1;
                if let Some(counting) = &mut self.counting {
                    counting.submitted(now, bytes);
                }
                Ok(())
            }
            Err(rejected) => {
                self.flying[index] = None;
                self.idle.push(rejected.slot);
                Err(rejected.error)
            }
        }
    }

    /// Submits the path's batch and waits until `min` transfers are complete, or all if fewer are
    /// in flight; a path with a waker may return earlier. Completions are returned by
    /// [`next_landed`](Self::next_landed).
    ///
    /// # Errors
    /// When the path itself failed: transfers in flight may never complete.
    #[inline]
    pub fn wait(&mut self, min: usize) -> Result<(), TransferError> {
        self.show();
        self.path.wait(min, &mut self.done)
    }

    /// The next completed transfer, in no particular order.
    // Inlined: otherwise the result goes through memory, which took a third of a transfer's time
    // on the null path.
    #[inline(always)]
    #[expect(clippy::inline_always)]
    pub fn next_landed(&mut self) -> Option<CompletedTransfer<T>> {
        let (slot, result) = loop {
            let Some(Completion { slot, result }) = self.done.pop() else {
                self.show();
                return None;
            };
            let flying = self.flying[slot.index()].as_ref();
            let place = flying.expect("a path returns the same slot").2;
            match result {
                Ok(moved) if moved == place.len => break (slot, Ok(moved)),
                result => {
                    if let Some(over) = self.go_on(Completion { slot, result }, place) {
                        break (over.slot, over.result);
                    }
                }
            }
        };
        let (tag, submitted, _) = self.flying[slot.index()].take().expect("looked up above");
        self.counted.in_flight_sum += self.counted.in_flight;
        self.counted.in_flight -= 1;
        if self.counting.is_some() {
            self.count_landed();
        }
        self.counted.operations += 1;
        self.counted.bytes += *result.as_ref().unwrap_or(&0) as u64;
        Some(CompletedTransfer { tag, slot, submitted, result })
    }

    /// A transfer that failed or ended early; `None` if the rest of a short write is on its way.
    #[cold]
    fn go_on(&mut self, over: Completion, place: FileRange) -> Option<Completion> {
        let Completion { mut slot, result } = over;
        let before = slot.written();
        slot.set_written(0);
        let failed = |error: TransferError, at: usize| Err(error.at(place.offset + at as u64));
        let result = match result {
            Err(error) => failed(error, before),
            Ok(moved) if place.direction == Direction::Read => Ok(moved),
            Ok(moved) if before + moved >= place.len => Ok(place.len),
            Ok(0) => failed(no_progress(place.len - before), before),
            Ok(moved) => {
                let written = before + moved;
                slot.set_written(written);
                let (offset, len) = (place.offset + written as u64, place.len - written);
                match self.path.submit(Transfer { place: FileRange { offset, len, ..place }, slot })
                {
                    Ok(()) => return None,
                    Err(rejected) => {
                        slot = rejected.slot;
                        slot.set_written(0);
                        failed(rejected.error, written)
                    }
                }
            }
        };
        Some(Completion { slot, result })
    }

    /// Records a completion across all drivers. Not inlined into the loop of drivers that do not
    /// record.
    #[cold]
    fn count_landed(&mut self) {
        if let Some(counting) = &mut self.counting {
            counting.landed(self.clock.now());
        }
    }

    /// Waits for everything in flight and retires the slots, whatever the results.
    ///
    /// # Errors
    /// When the path itself failed.
    pub fn drain(&mut self) -> Result<(), TransferError> {
        loop {
            while let Some(landed) = self.next_landed() {
                self.idle.push(landed.slot);
            }
            match self.in_flight() {
                0 => return Ok(()),
                left => self.wait(left)?,
            }
        }
    }
}

impl<T> Drop for Driver<'_, T> {
    fn drop(&mut self) {
        // After a panic the path's state is unknown: using or dropping it could panic again or
        // block forever.
        let over = !std::thread::panicking() && self.drain().is_ok();
        if !over && self.in_flight() > 0 {
            // The kernel or a device may still write to these slots, so they are never freed.
            let nothing = Box::new(NullPath::new(Vec::new()));
            std::mem::forget(std::mem::replace(&mut self.path, nothing));
        }
        let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        parked.append(&mut self.idle);
        parked.extend(self.done.drain(..).map(|completion| completion.slot));
        self.show();
    }
}

/// The error for a write of which the kernel wrote no byte, without a reason.
fn no_progress(bytes: usize) -> TransferError {
    let reason = format!("the kernel wrote 0 of {bytes} bytes and gave no reason");
    let source = std::io::Error::new(std::io::ErrorKind::WriteZero, reason);
    TransferError::Io { action: "the write", source }
}

#[cfg(test)]
#[path = "drive_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
