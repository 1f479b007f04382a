//! The library's counters: operations by route.
//!
//! A vendor's structure may grow between versions, so it is read as words from a buffer larger than
//! any known layout.

use std::collections::BTreeSet;

use stormlp_core::evidence::{Mechanism, OperationsBy};
use stormlp_core::path::PathKind;

/// Buffer size for the statistics; the newest known layout has 5112 bytes.
const BUFFER_BYTES: usize = 32 << 10;
const BUFFER_WORDS: usize = BUFFER_BYTES / 8;

/// A buffer for the statistics that meets the library's requirements: zeroed, aligned, large
/// enough.
pub(super) struct RawStatistics(Box<[u64; BUFFER_WORDS]>);

impl RawStatistics {
    pub(super) fn new() -> Self {
        Self(Box::new([0; BUFFER_WORDS]))
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut std::ffi::c_void {
        self.0.as_mut_ptr().cast()
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.0[..]
    }

    #[cfg(test)]
    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.0[..]
    }
}

/// Operations by route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routes {
    /// Operations of direct routes.
    pub direct: OperationsBy,
    /// Operations of the fallback.
    pub fallback: u64,
    /// Operations that the library's documentation assigns to no route; they may be counted
    /// elsewhere as well.
    pub unassigned: u64,
}

impl Routes {
    /// Operations of all direct routes.
    pub fn all_direct(&self) -> u64 {
        self.direct.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    fn since(&self, earlier: &Self) -> Self {
        let before = |mechanism| earlier.direct.get(mechanism).copied().unwrap_or(0);
        let direct = self.direct.iter();
        Self {
            direct: direct.map(|(by, now)| (*by, now.saturating_sub(before(by)))).collect(),
            fallback: self.fallback.saturating_sub(earlier.fallback),
            unassigned: self.unassigned.saturating_sub(earlier.unassigned),
        }
    }
}

/// The counts of the library in this process so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteCounters {
    /// Successful reads, excluding batches.
    pub reads: u64,
    /// Successful writes, excluding batches.
    pub writes: u64,
    /// Reads and writes of GPU memory, excluding batches.
    pub transfers: Routes,
    /// Batch entries.
    pub batches: Routes,
}

impl RouteCounters {
    /// The counts relevant to `kind`, with buffers possibly in host memory: batches have separate
    /// counters. Transfers that no counter has used the mechanism of `offered` that has none, if it
    /// is the only one.
    pub fn of(&self, kind: PathKind, on_host: bool, offered: &BTreeSet<Mechanism>) -> Routes {
        if matches!(kind, PathKind::GdsBatch | PathKind::GdsBatchStream) {
            return self.batches.clone();
        }
        let mut routes = self.transfers.clone();
        if on_host {
            // No GPU is involved, so the per-GPU counters do not change. All of cuFile's transfers
            // used POSIX calls: the direct routes end in GPU memory.
            routes.unassigned = 0;
            routes.fallback = (self.reads + self.writes).saturating_sub(routes.all_direct());
        }
        let uncounted = Vec::from_iter(offered.iter().filter(|by| !routes.direct.contains_key(by)));
        if let ([only], 1..) = (&*uncounted, routes.unassigned) {
            routes.direct.insert(**only, std::mem::take(&mut routes.unassigned));
        }
        routes
    }

    /// The counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
            transfers: self.transfers.since(&earlier.transfers),
            batches: self.batches.since(&earlier.batches),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_since_the_start_are_counted() {
        let direct = |count| [(Mechanism::P2pdma, count)].into();
        let earlier = Routes { direct: direct(4), fallback: 5, unassigned: 0 };
        let earlier = RouteCounters { reads: 9, transfers: earlier, ..RouteCounters::default() };
        let mut later = earlier.clone();
        later.transfers.fallback += 7;
        later.transfers.direct = direct(6);
        let since = later.since(&earlier);
        assert_eq!((since.reads, since.transfers.fallback), (0, 7));
        assert_eq!(since.transfers.all_direct(), 2);
        assert_eq!(later.since(&RouteCounters::default()), later);
    }
}
