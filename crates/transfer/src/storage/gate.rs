//! A gate decides on each operation: whether it is admitted, delayed, cut short or rejected.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stormlp_core::evidence::Evidence;
use stormlp_core::impairment::StorageOperation;
use stormlp_core::operation::Direction;
use stormlp_core::warning::Warning;

use crate::error::TransferError;
use crate::transfer::{Completion, FileId, FileRange, Rejected, Slot, Transfer, TransferPath};

/// An operation about to be executed.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The operation.
    pub operation: StorageOperation,
    /// The file or folder; `None` for a transfer: its path knows files only by number.
    pub path: Option<&'a Path>,
    /// Bytes to be read or written.
    pub bytes: u64,
}

/// How an operation may proceed.
#[derive(Debug, Clone, Copy)]
pub struct Grant {
    /// The number of bytes allowed.
    pub bytes: u64,
    /// The earliest completion time.
    pub not_before: Duration,
}

/// Decides on operations, for all threads of a run.
pub trait Gate: Send + Sync {
    /// Called before each operation, at the time `now`.
    ///
    /// # Errors
    /// The error that the operation fails with instead of being executed.
    fn admit(&self, request: &Request<'_>, now: Duration) -> io::Result<Grant>;

    /// The warnings that results behind this gate must carry.
    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }
}

/// The time source of gates.
pub trait Clock: Send + Sync {
    /// The time since an arbitrary origin.
    fn now(&self) -> Duration;

    /// Sleeps until `until`, or until the eventfd `wake` is written to: then it is read, and the
    /// result is `true`.
    ///
    /// # Errors
    /// When the kernel rejects the descriptor.
    fn sleep(&self, until: Duration, wake: Option<BorrowedFd<'_>>) -> io::Result<bool>;
}

/// The kernel's clock, from when it was made.
pub(super) struct Monotonic(pub(super) Instant);

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, until: Duration, wake: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        let left = until.saturating_sub(self.now());
        let Some(wake) = wake else {
            thread::sleep(left);
            return Ok(false);
        };
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let woken = match poll(&mut [PollFd::from_borrowed_fd(wake, PollFlags::IN)], Some(&timeout))
        {
            // Interrupted by a signal; the caller retries.
            Err(rustix::io::Errno::INTR) => false,
            ready => ready? > 0,
        };
        if woken {
            // Another thread may have read it first; the counter is zero either way.
            let _ = rustix::io::read(wake, &mut [0u8; 8]);
        }
        Ok(woken)
    }
}

/// The action for error messages.
pub(super) fn verb(operation: StorageOperation) -> &'static str {
    match operation {
        StorageOperation::Open | StorageOperation::Create => "open",
        StorageOperation::Read => "read",
        StorageOperation::Write => "write",
        StorageOperation::Sync => "sync",
        StorageOperation::Rename => "rename",
        StorageOperation::Remove => "remove",
        StorageOperation::Build => "set up a transfer path to",
        StorageOperation::Stat => "inspect",
        StorageOperation::List => "read the folder",
        StorageOperation::Statfs => "query the free space of",
        StorageOperation::Mkdir => "make the folder",
        StorageOperation::Allocate => "preallocate",
        StorageOperation::Lock => "lock",
        StorageOperation::Holes => "find holes in",
        StorageOperation::Residency => "query the page cache of",
        StorageOperation::Evict => "drop from the page cache",
    }
}

/// A path behind a gate: a transfer that completes earlier than the gate allows is held back.
pub(super) struct GatedPath {
    inner: Box<dyn TransferPath>,
    gate: Arc<dyn Gate>,
    clock: Arc<dyn Clock>,
    /// The earliest completion time of each transfer in the inner path, by slot number.
    not_before: Vec<Duration>,
    /// Transfers in flight on the inner path.
    flying: usize,
    /// Completed transfers being held back, earliest first.
    held: VecDeque<(Duration, Completion)>,
    over: Vec<Completion>,
    wake: Option<OwnedFd>,
}

impl GatedPath {
    pub(super) fn new(
        inner: Box<dyn TransferPath>,
        gate: Arc<dyn Gate>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            inner,
            gate,
            clock,
            not_before: Vec::new(),
            flying: 0,
            held: VecDeque::new(),
            over: Vec::new(),
            wake: None,
        }
    }

    fn hold(&mut self, until: Duration, completion: Completion) {
        let place = self.held.partition_point(|(other, _)| *other <= until);
        self.held.insert(place, (until, completion));
    }

    /// Collects completions from the inner path, waiting for `min`; returns how many.
    fn collect(&mut self, min: usize) -> Result<usize, TransferError> {
        let mut over = std::mem::take(&mut self.over);
        let waited = self.inner.wait(min, &mut over);
        let count = over.len();
        for completion in over.drain(..) {
            self.flying -= 1;
            self.hold(self.not_before[completion.slot.index()], completion);
        }
        self.over = over;
        waited.map(|()| count)
    }

    /// Releases the completions that are due.
    fn release(&mut self, done: &mut Vec<Completion>) {
        let now = self.clock.now();
        while (self.held.front()).is_some_and(|(until, _)| *until <= now) {
            done.extend(self.held.pop_front().map(|(_, completion)| completion));
        }
    }
}

impl TransferPath for GatedPath {
    fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
        self.inner.attach(file)
    }

    fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        self.inner.detach(file)
    }

    fn take_slots(&mut self) -> Vec<Slot> {
        let slots = self.inner.take_slots();
        // A transfer has a slot, so there are never more of them, and no allocation happens later.
        self.not_before = vec![Duration::ZERO; slots.len()];
        self.held.reserve(slots.len());
        self.over.reserve(slots.len());
        slots
    }

    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        let Transfer { place, slot } = transfer;
        let (operation, action) = match place.direction {
            Direction::Read => (StorageOperation::Read, "the read"),
            Direction::Write => (StorageOperation::Write, "the write"),
        };
        let request = Request { operation, path: None, bytes: place.len as u64 };
        let now = self.clock.now();
        let grant = match self.gate.admit(&request, now) {
            Ok(grant) => grant,
            Err(source) => {
                let result = Err(TransferError::Io { action, source });
                self.hold(now, Completion { slot, result });
                return Ok(());
            }
        };
        self.not_before[slot.index()] = grant.not_before;
        let place = FileRange { len: place.len.min(grant.bytes as usize), ..place };
        self.inner.submit(Transfer { place, slot })?;
        self.flying += 1;
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        let before = done.len();
        let min = min.min(self.flying + self.held.len());
        loop {
            self.collect(0)?;
            self.release(done);
            if done.len() - before >= min {
                return Ok(());
            }
            let woken = match self.held.front() {
                Some((until, _)) => {
                    let wake = self.wake.as_ref().map(OwnedFd::as_fd);
                    let slept = self.clock.sleep(*until, wake);
                    slept.map_err(TransferError::io("waiting for throttled transfers"))?
                }
                None => self.collect(1)? == 0,
            };
            if woken {
                return Ok(());
            }
        }
    }

    fn wake_on(&mut self, eventfd: BorrowedFd<'_>) -> Result<bool, TransferError> {
        let own = eventfd.try_clone_to_owned();
        self.wake = Some(own.map_err(TransferError::io("waiting on an eventfd"))?);
        self.inner.wake_on(eventfd)?;
        Ok(true)
    }

    fn stop_counting(&mut self) {
        self.inner.stop_counting();
    }

    fn measure_from(&mut self, start: Instant) {
        self.inner.measure_from(start);
    }

    fn compare_whole(&mut self) -> Result<(), TransferError> {
        self.inner.compare_whole()
    }

    fn evidence(&self) -> Evidence {
        self.inner.evidence()
    }
}
