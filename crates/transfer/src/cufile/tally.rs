//! How much the cuFile paths of this process have moved: what the kernel's counts are held against.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use derive_more::{Add, AddAssign, Sum};

use super::driver::Driver;

/// Transfers that are over, and their bytes.
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

/// One path's counts, which its thread alone writes, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counts {
    operations: AtomicU64,
    bytes: AtomicU64,
}

impl Counts {
    fn read(&self) -> Moved {
        Moved {
            operations: self.operations.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// The counts of all paths of a driver.
#[derive(Debug, Default)]
pub(super) struct Tallies(Mutex<(Moved, Vec<Arc<Counts>>)>);

impl Tallies {
    fn lock(&self) -> MutexGuard<'_, (Moved, Vec<Arc<Counts>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The count of one path.
#[derive(Debug)]
pub(crate) struct Tally {
    counts: Arc<Counts>,
    driver: Arc<Driver>,
}

impl Tally {
    /// A count that starts at nothing.
    pub(crate) fn new(driver: Arc<Driver>) -> Self {
        let counts = Arc::default();
        driver.tallies().lock().1.push(Arc::clone(&counts));
        Self { counts, driver }
    }

    /// Counts a transfer that moved `bytes`.
    #[inline]
    pub(crate) fn add(&self, bytes: usize) {
        let add = |count: &AtomicU64, more| {
            count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        };
        add(&self.counts.operations, 1);
        add(&self.counts.bytes, bytes as u64);
    }

    /// How many transfers this path has counted.
    pub(crate) fn operations(&self) -> u64 {
        self.counts.read().operations
    }

    /// What all paths of the process have moved, those that are gone included.
    pub(crate) fn of_all(&self) -> Moved {
        let tallies = self.driver.tallies().lock();
        let now: Moved = tallies.1.iter().map(|counts| counts.read()).sum();
        tallies.0 + now
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let mut tallies = self.driver.tallies().lock();
        tallies.0 += self.counts.read();
        tallies
            .1
            .retain(|counts| !Arc::ptr_eq(counts, &self.counts));
    }
}
