//! One path's share of the counting: its transfers, and that cuFile counts while it lives.

use std::sync::Arc;

use super::count::{Before, PathCounts, PathSums, Transferred};
use super::driver::Driver;
use super::kernel::NvidiaFsCounts;

#[derive(Debug)]
pub(crate) struct Tally {
    counts: Arc<PathCounts>,
    driver: Arc<Driver>,
    before: Before,
}

impl Tally {
    /// A count starting at zero.
    pub(crate) fn new(driver: Arc<Driver>) -> Self {
        let counts = Arc::default();
        let mut books = driver.tallies().lock();
        let before = match &books.before {
            Some(before) if !books.paths.is_empty() => before.clone(),
            // This process has no transfer in flight, and the lock is held until this is read.
            _ => Before {
                nvfs: NvidiaFsCounts::now(),
                counters: driver.counters().unwrap_or_default(),
                sums: books.gone,
            },
        };
        books.before = Some(before.clone());
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
    fn sums(&self) -> PathSums {
        let books = self.driver.tallies().lock();
        let now: PathSums = books.paths.iter().map(|counts| counts.read()).sum();
        books.gone + now
    }

    /// Transfers of all paths of the process since the baseline.
    pub(crate) fn moved(&self) -> Transferred {
        self.sums().moved.since(self.before.sums.moved)
    }

    /// Transfers that they have started since the baseline.
    pub(crate) fn begun(&self) -> Transferred {
        self.sums().begun.since(self.before.sums.begun)
    }

    /// Transfers that cuFile may have made by POSIX calls even if compatibility mode is forbidden.
    pub(crate) fn unbound(&self) -> Transferred {
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

/// While it lives, cuFile counts transfers by route, if it can.
#[derive(Debug)]
pub(crate) struct RouteCounting(Arc<Driver>);

impl RouteCounting {
    pub(crate) fn new(driver: Arc<Driver>) -> Self {
        driver.switch().take();
        Self(driver)
    }
}

impl Drop for RouteCounting {
    fn drop(&mut self) {
        self.0.switch().release();
    }
}
