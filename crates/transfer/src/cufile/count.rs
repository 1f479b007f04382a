//! Counts of cuFile and of this process: when the library counts transfers by route, so that it
//! does not affect the measurement, and the bytes that the paths have moved, the reference for the
//! kernel's counts.

use derive_more::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::kernel::NvidiaFsCounts;
use super::loader::{Api, StatsApi};
use super::nvidia;
use super::stats::{RawStatistics, RouteCounters};

/// The level with per-GPU route counts; the most expensive.
const ROUTES: u8 = 3;

/// When cuFile counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Statistics {
    /// By route while a path requests it, otherwise off.
    #[default]
    WhileAsked,
    /// At this level while the driver is open; 0 never counts, and only 3 shows routes.
    Throughout(u8),
}

/// Turns the library's counting on and off, and keeps its previous counts.
///
/// Off is level 0, where the library neither counts nor reports. `cuFileStatsStop` is never called:
/// in 1.15.1 and 1.16 it frees memory that a thread of the library writes to every fraction of a
/// millisecond, and a few percent of calls crash.
#[derive(Debug)]
pub(super) struct Switch {
    /// `None` if the library has no statistics, or if they are never to be enabled.
    stats: Option<StatsApi>,
    statistics: Statistics,
    api: &'static Api,
    state: Mutex<SwitchState>,
}

#[derive(Debug, Default)]
struct SwitchState {
    on: bool,
    /// The number of users that need it on.
    holders: usize,
    /// The counts when it was last turned off; the library continues from there.
    before: Option<RouteCounters>,
}

impl Switch {
    /// Sets the level before the driver is opened.
    pub(super) fn before_opening(api: &'static Api, statistics: Statistics) -> Self {
        let stats = api.stats.filter(|_| statistics != Statistics::Throughout(0));
        let level = match statistics {
            Statistics::WhileAsked => ROUTES,
            Statistics::Throughout(level) => level,
        };
        let on = stats.is_some_and(|stats| set_level(stats, level));
        let state = SwitchState { on, ..SwitchState::default() };
        Self { stats, statistics, api, state: Mutex::new(state) }
    }

    /// Starts counting after the driver has been opened.
    pub(super) fn opened(&self) {
        let mut state = self.lock();
        state.on = state.on && self.start();
    }

    /// Adds a user.
    pub(super) fn take(&self) {
        let mut state = self.lock();
        state.holders += 1;
        if !state.on
            && self.statistics == Statistics::WhileAsked
            && let Some(stats) = self.stats
        {
            state.on = set_level(stats, ROUTES) && self.start();
            if !state.on {
                // Without a reader, stop counting.
                set_level(stats, 0);
            }
        }
    }

    /// Removes a user; the last one turns it off.
    pub(super) fn release(&self) {
        let mut state = self.lock();
        state.holders -= 1;
        if state.holders == 0 && state.on && self.statistics == Statistics::WhileAsked {
            state.before = self.sum(&state);
            state.on = false;
            if let Some(stats) = self.stats {
                set_level(stats, 0);
            }
        }
    }

    /// Prepares closing of the driver: at level 0 it would leave its shared memory behind.
    pub(super) fn before_closing(&self) {
        if let Some(stats) = self.stats
            && self.statistics == Statistics::WhileAsked
            && !self.lock().on
        {
            set_level(stats, ROUTES);
        }
    }

    /// The counts since the driver was opened; `None` if there are no counts.
    pub(super) fn counters(&self) -> Option<RouteCounters> {
        let state = self.lock();
        self.sum(&state)
    }

    fn sum(&self, state: &SwitchState) -> Option<RouteCounters> {
        if state.on { self.read() } else { state.before.clone() }
    }

    fn read(&self) -> Option<RouteCounters> {
        let mut raw = RawStatistics::new();
        // SAFETY: the buffer is zeroed, aligned for words and six times the newest layout.
        let status = unsafe { (self.stats?.level_3)(raw.as_mut_ptr()) };
        (status.err == 0).then(|| nvidia::statistics(&raw, self.api.version()))?
    }

    fn start(&self) -> bool {
        // SAFETY: no arguments; the driver is open.
        self.stats.is_some_and(|stats| unsafe { (stats.start)() }.err == 0)
    }

    fn lock(&self) -> MutexGuard<'_, SwitchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set_level(stats: StatsApi, level: u8) -> bool {
    // SAFETY: a call with a plain value, which libraries accept whether the driver is closed or
    // open (tested with all from 1.15 to 1.20, under load).
    unsafe { (stats.set_level)(level.into()) }.err == 0
}

/// A number of transfers and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, AddAssign)]
pub(crate) struct Transferred {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
}

impl Transferred {
    /// The transfers since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            operations: self.operations.saturating_sub(earlier.operations),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

/// Transfers that the paths count.
#[derive(Debug, Clone, Copy)]
pub(super) enum PathCount {
    /// Submitted ones, whatever the result.
    Begun,
    /// Successful ones.
    Moved,
    /// Those that cuFile may move by POSIX calls even if compatibility mode is forbidden.
    Unbound,
    /// Those of streams and batches that moved less than asked, and what was left of them.
    Continued,
}

/// One path's numbers of transfers and bytes, on separate cache lines; a single thread writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct PathCounts([[AtomicU64; 2]; 4]);

impl PathCounts {
    #[inline]
    pub(super) fn add(&self, count: PathCount, bytes: usize) {
        for (number, more) in self.0[count as usize].iter().zip([1, bytes as u64]) {
            number.store(number.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> PathSums {
        self.0.each_ref().map(|[operations, bytes]| Transferred {
            operations: operations.load(Ordering::Relaxed),
            bytes: bytes.load(Ordering::Relaxed),
        })
    }
}

/// The summed counts of several paths.
pub(super) type PathSums = [Transferred; 4];

/// The counts before the first of a group of concurrent paths. Shared by all of them: individual
/// baselines might or might not include the transfers of the other paths by then.
#[derive(Debug, Clone)]
pub(crate) struct Before {
    pub(crate) nvfs: NvidiaFsCounts,
    pub(crate) counters: RouteCounters,
    pub(super) sums: PathSums,
}

/// The counts of all paths of a driver.
#[derive(Debug, Default)]
pub(super) struct Tallies(Mutex<Books>);

#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) paths: Vec<Arc<PathCounts>>,
    /// The counts of dropped paths.
    pub(super) gone: PathSums,
    /// The baseline of the current paths.
    pub(super) before: Option<Before>,
}

impl Books {
    /// Keeps the counts of a path that is dropped, or sums those of all.
    pub(super) fn add_to(sums: &mut PathSums, counts: &PathCounts) {
        sums.iter_mut().zip(counts.read()).for_each(|(sum, more)| *sum += more);
    }
}

impl Tallies {
    pub(super) fn lock(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
