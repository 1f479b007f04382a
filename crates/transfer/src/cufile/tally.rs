//! How much the cuFile paths of this process have moved: the reference for the kernel's counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use derive_more::{Add, AddAssign, Sum};

use super::driver::Driver;
use super::kernel::NvidiaFs;
use super::stats::Counters;

/// A number of transfers and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Add, AddAssign, Sum)]
pub(crate) struct Moved {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
}

impl Moved {
    /// What was moved since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            operations: self.operations.saturating_sub(earlier.operations),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

/// A running total, written by a single thread.
#[derive(Debug, Default)]
struct Total {
    operations: AtomicU64,
    bytes: AtomicU64,
}

impl Total {
    #[inline]
    fn add(&self, bytes: usize) {
        let add = |count: &AtomicU64, more| {
            count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        };
        add(&self.operations, 1);
        add(&self.bytes, bytes as u64);
    }

    fn read(&self) -> Moved {
        Moved {
            operations: self.operations.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// One path's counts, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counts {
    /// Submitted transfers, whatever the result.
    begun: Total,
    /// Successful transfers.
    moved: Total,
    /// Transfers that cuFile may move by POSIX calls even if compatibility mode is forbidden.
    unbound: Total,
}

impl Counts {
    fn read(&self) -> Sums {
        Sums { begun: self.begun.read(), moved: self.moved.read(), unbound: self.unbound.read() }
    }
}

/// The summed counts of several paths.
#[derive(Debug, Clone, Copy, Default, Add, AddAssign, Sum)]
struct Sums {
    begun: Moved,
    moved: Moved,
    unbound: Moved,
}

/// The counts before the first of a group of concurrent paths. Shared by all of them: individual
/// baselines might or might not include what the others had moved by then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    pub(crate) nvfs: NvidiaFs,
    pub(crate) counters: Counters,
    sums: Sums,
}

/// The counts of all paths of a driver.
#[derive(Debug, Default)]
pub(super) struct Tallies(Mutex<Books>);

#[derive(Debug, Default)]
struct Books {
    paths: Vec<Arc<Counts>>,
    /// The counts of dropped paths.
    gone: Sums,
    /// The baseline of the current paths.
    before: Option<Before>,
}

impl Tallies {
    fn lock(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct Tally {
    counts: Arc<Counts>,
    driver: Arc<Driver>,
    before: Before,
}

impl Tally {
    /// A count starting at zero.
    pub(crate) fn new(driver: Arc<Driver>) -> Self {
        let counts = Arc::default();
        let mut books = driver.tallies().lock();
        let before = match books.before {
            Some(before) if !books.paths.is_empty() => before,
            // Nothing of this process is in flight, and the lock is held until this is read.
            _ => Before {
                nvfs: NvidiaFs::now(),
                counters: driver.counters().unwrap_or_default(),
                sums: books.gone,
            },
        };
        books.before = Some(before);
        books.paths.push(Arc::clone(&counts));
        drop(books);
        Self { counts, driver, before }
    }

    /// Counts a submitted transfer of `bytes`.
    #[inline]
    pub(crate) fn begin(&self, bytes: usize) {
        self.counts.begun.add(bytes);
    }

    /// Counts a transfer of `bytes` that is unaffected by forbidding compatibility mode.
    #[inline]
    pub(crate) fn note_unbound(&self, bytes: usize) {
        self.counts.unbound.add(bytes);
    }

    /// Counts a transfer that moved `bytes`; one that moved none is ignored.
    #[inline]
    pub(crate) fn end(&self, bytes: usize) {
        if bytes > 0 {
            self.counts.moved.add(bytes);
        }
    }

    /// The number of successful transfers of this path.
    pub(crate) fn operations(&self) -> u64 {
        self.counts.moved.read().operations
    }

    /// The baseline of this path and its concurrent paths.
    pub(crate) fn before(&self) -> &Before {
        &self.before
    }

    /// The counts of all paths of the process, including dropped ones.
    fn sums(&self) -> Sums {
        let books = self.driver.tallies().lock();
        let now: Sums = books.paths.iter().map(|counts| counts.read()).sum();
        books.gone + now
    }

    /// What all paths of the process have moved since the baseline.
    pub(crate) fn moved(&self) -> Moved {
        self.sums().moved.since(self.before.sums.moved)
    }

    /// What they have started since the baseline.
    pub(crate) fn begun(&self) -> Moved {
        self.sums().begun.since(self.before.sums.begun)
    }

    /// What cuFile may have moved by POSIX calls even if compatibility mode is forbidden.
    pub(crate) fn unbound(&self) -> Moved {
        self.sums().unbound.since(self.before.sums.unbound)
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let mut books = self.driver.tallies().lock();
        books.gone += self.counts.read();
        books.paths.retain(|counts| !Arc::ptr_eq(counts, &self.counts));
    }
}
