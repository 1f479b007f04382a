//! The one loop around a transfer path: which slots are idle, what is in flight, since when.
//!
//! A [`Driver`] owns a path and its slots. It remembers for each transfer in flight a tag of its
//! lane's own type and when it was submitted, and hands both back when the transfer is over. What
//! is read and written where, and what the bytes must be, is the lane's business.

mod load;

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use derive_more::{Add, Sum};
use stormlp_core::evidence::Evidence;
use stormlp_core::telemetry as model;

pub use self::load::Flown;
use self::load::{Counting, Together};
use crate::error::TransferError;
use crate::paths::{Completion, FileId, NullPath, Place, Transfer, TransferPath};
use crate::slot::Slot;
use crate::stamp::{Stamp, StampClock};

/// What one driver has moved. Its thread alone writes, so plain loads and stores do; it has cache
/// lines of its own (two, which the CPU fetches as one), so that nobody else's writes slow it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Bytes that landed.
    pub bytes: AtomicU64,
    operations: AtomicU64,
    /// Transfers in flight now.
    pub in_flight: AtomicU64,
    in_flight_sum: AtomicU64,
}

/// The counters of a driver, or of several, at one moment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Add, Sum)]
pub struct Counted {
    /// Bytes moved.
    pub bytes: u64,
    /// Transfers that are over, failed ones included.
    pub operations: u64,
    /// Transfers in flight.
    pub in_flight: u64,
    /// For each transfer that is over, how many were in flight as it ended, itself included:
    /// divided by `operations` it is the mean depth.
    pub in_flight_sum: u64,
}

impl Counters {
    /// The counters as the driver left them before it last waited.
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

/// What the drivers of one crew share: a place for each one's counters, and the slots that are
/// no longer used. Slots are kept until this is dropped, after all threads have ended: to free
/// and unregister memory would hold up those that still measure.
#[derive(Default)]
pub struct DriverSet {
    counters: Vec<Counters>,
    parked: Mutex<Vec<Slot>>,
    /// Where queue depths are counted.
    together: Option<Together>,
}

impl DriverSet {
    /// A set for as many drivers.
    pub fn new(drivers: usize) -> Self {
        Self {
            counters: (0..drivers).map(|_| Counters::default()).collect(),
            parked: Mutex::default(),
            together: None,
        }
    }

    /// A set that counts how deep the queue of all drivers together is and how large transfers are,
    /// at the price of one number that all of them change: for lanes whose threads make thousands
    /// of transfers a second, not millions.
    pub fn counting_loads(drivers: usize) -> Self {
        Self { together: Some(Together::new(drivers)), ..Self::new(drivers) }
    }

    /// How deep the queue was and how large the transfers were, of the drivers that are over;
    /// `None` of a set that does not count that.
    pub fn load(&self) -> Option<model::Load> {
        self.together.as_ref().map(Together::load)
    }

    /// How long transfers of all drivers were in flight until now, and how many at once since this
    /// was asked last; `None` of a set that does not count that.
    pub fn flown(&self) -> Option<Flown> {
        let now = StampClock::of_process().now();
        self.together.as_ref().map(|together| together.flown(now))
    }

    /// The counters of each driver.
    pub fn counters(&self) -> &[Counters] {
        &self.counters
    }

    /// What all drivers together have moved until now.
    pub fn total(&self) -> Counted {
        self.counters.iter().map(Counters::read).sum()
    }
}

/// A transfer that is over.
pub struct Landed<T> {
    /// What the lane called it.
    pub tag: T,
    /// The slot; to be submitted again, or put back.
    pub slot: Slot,
    /// When it was submitted.
    pub submitted: Stamp,
    /// Bytes moved, possibly fewer than asked for, or what failed.
    pub result: Result<usize, TransferError>,
}

/// A path with its slots, on the thread that uses it.
pub struct Driver<'a, T> {
    path: Box<dyn TransferPath>,
    clock: StampClock,
    idle: Vec<Slot>,
    /// By slot number: what is in flight, since when, and from which byte of its file.
    flying: Vec<Option<(T, Stamp, u64)>>,
    done: Vec<Completion>,
    counted: Counted,
    /// What was counted before the transfers that only prepare; nobody sees those.
    before: Option<Counted>,
    counters: &'a Counters,
    /// This one's part of what is counted together with other drivers.
    counting: Option<Counting<'a>>,
    parked: &'a Mutex<Vec<Slot>>,
}

impl<'a, T> Driver<'a, T> {
    /// A driver of `path`, the one with this `index` of `set`. Nothing it does later allocates.
    ///
    /// # Panics
    /// When the set was made for fewer drivers.
    pub fn new(mut path: Box<dyn TransferPath>, set: &'a DriverSet, index: usize) -> Self {
        let idle = path.take_slots();
        let numbers = idle.iter().map(Slot::index).max().map_or(0, |max| max + 1);
        Self {
            path,
            clock: StampClock::of_process(),
            flying: (0..numbers).map(|_| None).collect(),
            done: Vec::with_capacity(idle.len()),
            idle,
            // A thread may have one driver after the other.
            counted: set.counters[index].read(),
            before: None,
            counters: &set.counters[index],
            counting: (set.together.as_ref()).map(|together| Counting::new(together, index)),
            parked: &set.parked,
        }
    }

    /// Makes a file known to the path; see [`TransferPath::attach`].
    ///
    /// # Errors
    /// When the kernel or cuFile does not take the file.
    pub fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
        self.path.attach(file)
    }

    /// Forgets a file that has nothing in flight, and closes it.
    ///
    /// # Errors
    /// When closing fails.
    pub fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        self.path.detach(file)
    }

    /// Lets a write to `eventfd` end a wait early; see [`TransferPath::wake_on`].
    ///
    /// # Errors
    /// When the kernel does not take the descriptor.
    pub fn wake_on(&mut self, eventfd: BorrowedFd<'_>) -> Result<bool, TransferError> {
        self.path.wake_on(eventfd)
    }

    /// From here on transfers only prepare what is measured: they are in no counter.
    pub fn rehearse(&mut self) {
        self.before = Some(self.counted);
    }

    /// Nothing is in flight, and what comes now is measured; see
    /// [`TransferPath::stop_counting`].
    pub fn rehearsed(&mut self) {
        self.counted = self.before.take().unwrap_or(self.counted);
        self.path.stop_counting();
    }

    /// Shows the counters to those who watch.
    #[inline]
    fn show(&self) {
        if self.before.is_none() {
            self.counters.write(&self.counted);
        }
    }

    /// What ran, with its evidence.
    pub fn evidence(&self) -> Evidence {
        self.path.evidence()
    }

    /// Now, on the clock that says when transfers were submitted.
    #[inline]
    pub fn now(&self) -> Stamp {
        self.clock.now()
    }

    /// Whether a slot is idle.
    #[inline]
    pub fn has_room(&self) -> bool {
        !self.idle.is_empty()
    }

    /// The slots that are idle: all of them before the first transfer.
    pub fn idle(&mut self) -> &mut [Slot] {
        &mut self.idle
    }

    /// Takes an idle slot.
    #[inline]
    pub fn take_slot(&mut self) -> Option<Slot> {
        self.idle.pop()
    }

    /// Puts a slot back that is not needed now.
    #[inline]
    pub fn put_back(&mut self, slot: Slot) {
        self.idle.push(slot);
    }

    /// Transfers in flight, and those that are over but were not handed out yet.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.counted.in_flight as usize
    }

    /// Starts a transfer between `slot` and `place`.
    ///
    /// # Errors
    /// When it could not be started; the slot is idle again.
    #[inline]
    pub fn submit(&mut self, slot: Slot, place: Place, tag: T) -> Result<(), TransferError> {
        let index = slot.index();
        let now = self.clock.now();
        self.flying[index] = Some((tag, now, place.offset));
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

    /// Starts what the path kept back and waits until `min` transfers are over, or all, where
    /// fewer are in flight; a path with a waker may return before. What is over is handed out by
    /// [`next_landed`](Self::next_landed).
    ///
    /// # Errors
    /// When the path itself broke: what is in flight may never come back.
    #[inline]
    pub fn wait(&mut self, min: usize) -> Result<(), TransferError> {
        self.show();
        self.path.wait(min, &mut self.done)
    }

    /// The next transfer that is over, in no particular order.
    // Not inlined, what it hands out goes through memory, which took a third of a transfer's time
    // on the null path.
    #[inline(always)]
    #[expect(clippy::inline_always)]
    pub fn next_landed(&mut self) -> Option<Landed<T>> {
        let Some(Completion { slot, result }) = self.done.pop() else {
            self.show();
            return None;
        };
        let (tag, submitted, offset) =
            self.flying[slot.index()].take().expect("a path hands back what it was given");
        self.counted.in_flight_sum += self.counted.in_flight;
        self.counted.in_flight -= 1;
        if self.counting.is_some() {
            self.count_landed();
        }
        self.counted.operations += 1;
        self.counted.bytes += *result.as_ref().unwrap_or(&0) as u64;
        Some(Landed { tag, slot, submitted, result: result.map_err(|error| error.at(offset)) })
    }

    /// Counts among all drivers that one is over. Not a part of the loop of those that do not count.
    #[cold]
    fn count_landed(&mut self) {
        if let Some(counting) = &mut self.counting {
            counting.landed(self.clock.now());
        }
    }

    /// Waits for everything in flight and lets the slots rest, whatever came of the transfers.
    ///
    /// # Errors
    /// When the path itself broke.
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
        // After a panic nobody knows what state the path is in: to use it or to take it down
        // could panic again, or wait for ever.
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

#[cfg(test)]
#[path = "drive_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
