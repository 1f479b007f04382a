//! One path's share of the counting: its transfers, and that cuFile counts while it lives.

use std::sync::Arc;

use super::count::{Before, Books, PathCount, PathCounts, Transferred};
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
        self.counts.add(PathCount::Begun, bytes);
    }

    /// Counts a transfer of `bytes` that is unaffected by forbidding compatibility mode.
    #[inline]
    pub(crate) fn note_unbound(&self, bytes: usize) {
        self.counts.add(PathCount::Unbound, bytes);
    }

    /// Counts a transfer of which blocking calls move the last `bytes`.
    pub(crate) fn note_continued(&self, bytes: usize) {
        self.counts.add(PathCount::Continued, bytes);
    }

    /// Counts a transfer that moved `bytes`; one that moved none is ignored.
    #[inline]
    pub(crate) fn end(&self, bytes: usize) {
        if bytes > 0 {
            self.counts.add(PathCount::Moved, bytes);
        }
    }

    /// The number of successful transfers of this path.
    pub(crate) fn operations(&self) -> u64 {
        self.counts.read()[PathCount::Moved as usize].operations
    }

    /// The baseline of this path and its concurrent paths.
    pub(crate) fn before(&self) -> &Before {
        &self.before
    }

    /// The count of all paths of the process, including dropped ones, since the baseline.
    fn since(&self, count: PathCount) -> Transferred {
        let books = self.driver.tallies().lock();
        let mut sums = books.gone;
        books.paths.iter().for_each(|counts| Books::add_to(&mut sums, counts));
        sums[count as usize].since(self.before.sums[count as usize])
    }

    /// Transfers of all paths of the process since the baseline.
    pub(crate) fn moved(&self) -> Transferred {
        self.since(PathCount::Moved)
    }

    /// Transfers that they have started since the baseline.
    pub(crate) fn begun(&self) -> Transferred {
        self.since(PathCount::Begun)
    }

    /// How many of them blocking calls had to finish.
    pub(crate) fn continued(&self) -> u64 {
        self.since(PathCount::Continued).operations
    }

    /// Transfers that cuFile may have made by POSIX calls even if compatibility mode is forbidden.
    pub(crate) fn unbound(&self) -> Transferred {
        self.since(PathCount::Unbound)
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let mut books = self.driver.tallies().lock();
        Books::add_to(&mut books.gone, &self.counts);
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
