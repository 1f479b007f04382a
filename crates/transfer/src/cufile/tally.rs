//! How much the cuFile paths of this process have moved: what the kernel's counts are held against.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use derive_more::{Add, AddAssign, Sum};

use super::driver::Driver;
use super::kernel::NvidiaFs;
use super::stats::Counters;

/// Transfers, and their bytes.
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

/// A running total, which one thread alone writes.
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

/// One path's counts, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counts {
    /// What was handed in, whatever came of it.
    begun: Total,
    /// What went well.
    moved: Total,
    /// What cuFile may move by POSIX calls even where its compatibility mode is forbidden.
    unbound: Total,
}

impl Counts {
    fn read(&self) -> Sums {
        Sums { begun: self.begun.read(), moved: self.moved.read(), unbound: self.unbound.read() }
    }
}

/// The counts of several paths together.
#[derive(Debug, Clone, Copy, Default, Add, AddAssign, Sum)]
struct Sums {
    begun: Moved,
    moved: Moved,
    unbound: Moved,
}

/// Where the counts stood before the first of some paths that are there at one time. One for all
/// of them: each path's own would hold what the others had moved by then, or not.
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
    /// The counts of the paths that are gone.
    gone: Sums,
    /// Before the first of those that are there.
    before: Option<Before>,
}

impl Tallies {
    fn lock(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The count of one path.
#[derive(Debug)]
pub(crate) struct Tally {
    counts: Arc<Counts>,
    driver: Arc<Driver>,
    before: Before,
}

impl Tally {
    /// A count that starts at nothing.
    pub(crate) fn new(driver: Arc<Driver>) -> Self {
        let counts = Arc::default();
        let mut books = driver.tallies().lock();
        let before = match books.before {
            Some(before) if !books.paths.is_empty() => before,
            // Nothing of this process is in flight, and nobody else gets here until this is read.
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

    /// Counts a transfer of `bytes` that is handed in.
    #[inline]
    pub(crate) fn begin(&self, bytes: usize) {
        self.counts.begun.add(bytes);
    }

    /// Counts a transfer of `bytes` that forbidding compatibility mode says nothing of.
    #[inline]
    pub(crate) fn note_unbound(&self, bytes: usize) {
        self.counts.unbound.add(bytes);
    }

    /// Counts a transfer that moved `bytes`; one that moved none did not happen.
    #[inline]
    pub(crate) fn end(&self, bytes: usize) {
        if bytes > 0 {
            self.counts.moved.add(bytes);
        }
    }

    /// How many transfers of this path have gone well.
    pub(crate) fn operations(&self) -> u64 {
        self.counts.moved.read().operations
    }

    /// Where the counts stood before this path and those beside it.
    pub(crate) fn before(&self) -> &Before {
        &self.before
    }

    /// The counts of all paths of the process, those that are gone included.
    fn sums(&self) -> Sums {
        let books = self.driver.tallies().lock();
        let now: Sums = books.paths.iter().map(|counts| counts.read()).sum();
        books.gone + now
    }

    /// What all paths of the process have moved since then.
    pub(crate) fn moved(&self) -> Moved {
        self.sums().moved.since(self.before.sums.moved)
    }

    /// What they have begun since then.
    pub(crate) fn begun(&self) -> Moved {
        self.sums().begun.since(self.before.sums.begun)
    }

    /// What of it cuFile may move by POSIX calls even where its compatibility mode is forbidden.
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
