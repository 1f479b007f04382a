//! When cuFile counts transfers by their routes: for a while beforehand, so that it costs nothing
//! in what is measured, or all the time at a level that was asked for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::driver::Driver;
use super::loader::{Api, StatsApi};
use super::stats::{Counters, RawStatistics};

/// The level that counts each route for each GPU; it costs the most.
const ROUTES: u8 = 3;

/// When cuFile counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Statistics {
    /// By routes while a path asks for it, else not at all.
    #[default]
    WhileAsked,
    /// At this level as long as the driver is open; 0 never counts, and only 3 tells routes.
    Throughout(u8),
}

/// Turns the library's counting on and off, and keeps what it had counted.
#[derive(Debug)]
pub(super) struct Switch {
    /// `None` in a library without statistics, and where they are never to be on.
    stats: Option<StatsApi>,
    statistics: Statistics,
    api: &'static Api,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    on: bool,
    /// How many want it on.
    holders: usize,
    /// What was counted before it was last turned off, which the library forgets then.
    before: Option<Counters>,
}

impl Switch {
    /// Sets the level; the driver is about to be opened.
    pub(super) fn before_opening(api: &'static Api, statistics: Statistics) -> Self {
        let stats = api.stats.filter(|_| statistics != Statistics::Throughout(0));
        let level = match statistics {
            Statistics::WhileAsked => ROUTES,
            Statistics::Throughout(level) => level,
        };
        // SAFETY: a call with a plain value; the driver is closed.
        let on = stats.is_some_and(|stats| unsafe { (stats.set_level)(level.into()) }.err == 0);
        let state = State { on, ..State::default() };
        Self { stats, statistics, api, state: Mutex::new(state) }
    }

    /// The driver is open now.
    pub(super) fn opened(&self) {
        let mut state = self.lock();
        state.on = state.on && self.start();
    }

    /// Somebody wants it on.
    fn take(&self) {
        let mut state = self.lock();
        state.holders += 1;
        if !state.on
            && self.statistics == Statistics::WhileAsked
            && let Some(stats) = self.stats
        {
            // SAFETY: a call with a plain value. Turning it off has set the level to 0; libraries
            // take the level while they are open (tried with 1.16 and 1.20, under load).
            let set = unsafe { (stats.set_level)(ROUTES.into()) }.err == 0;
            state.on = set && self.start();
        }
    }

    /// One wants it on no more; when that was the last, it is turned off.
    fn release(&self) {
        let mut state = self.lock();
        state.holders -= 1;
        if state.holders == 0 && state.on && self.statistics == Statistics::WhileAsked {
            state.before = self.sum(&state);
            state.on = false;
            self.turn_off();
        }
    }

    /// Turns it off for good.
    pub(super) fn stop(&self) {
        if std::mem::take(&mut self.lock().on) {
            self.turn_off();
        }
    }

    /// What has been counted since the driver was opened; `None` where nothing was.
    pub(super) fn counters(&self) -> Option<Counters> {
        let state = self.lock();
        self.sum(&state)
    }

    fn sum(&self, state: &State) -> Option<Counters> {
        let now = self.read().filter(|_| state.on);
        match (state.before, now) {
            (Some(before), Some(now)) => Some(before + now),
            (before, now) => before.or(now),
        }
    }

    fn read(&self) -> Option<Counters> {
        let mut raw = RawStatistics::new();
        // SAFETY: the buffer is zeroed, aligned for words and six times the newest layout.
        let status = unsafe { (self.stats?.level_3)(raw.as_mut_ptr()) };
        (status.err == 0).then(|| Counters::read(&raw, self.api.version()))?
    }

    fn start(&self) -> bool {
        // SAFETY: no arguments; the driver is open.
        self.stats.is_some_and(|stats| unsafe { (stats.start)() }.err == 0)
    }

    fn turn_off(&self) {
        if let Some(stats) = self.stats {
            // SAFETY: no arguments; counting has been started.
            unsafe { (stats.stop)() };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While it lives, cuFile counts transfers by their routes, where it can.
#[derive(Debug)]
pub(crate) struct Count(Arc<Driver>);

impl Count {
    pub(super) fn new(driver: Arc<Driver>) -> Self {
        driver.switch().take();
        Self(driver)
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.switch().release();
    }
}
