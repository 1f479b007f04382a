//! The state that all threads share: the stored objects, and how many are being written.

use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use stormlp_core::stop::Ends;

use super::mover::{Cut, TICK};
use crate::plan::{Cache, Claim, Step, Tier, Victim};

/// See the [module's description](self).
pub(super) struct Store {
    state: Mutex<State>,
    changed: Condvar,
}

pub(super) struct State {
    pub(super) cache: Cache,
    /// Objects that may still be written at a time.
    slots: u32,
    /// Writes of a trace that threads have taken: how many of each object.
    expected: HashMap<String, u32>,
    /// Those that are under way.
    begun: HashSet<String>,
}

impl State {
    /// Reserves an object that no write is to replace.
    fn claim(&mut self, key: &str) -> Claim {
        if self.expected.contains_key(key) { Claim::Busy } else { self.cache.claim(key) }
    }

    /// Reserves the name of an object to write it: with the older one, if there is one.
    fn begin(&mut self, key: &str) -> Option<Option<Victim>> {
        if self.begun.contains(key) {
            return None;
        }
        let older = match self.cache.claim(key) {
            Claim::Busy => return None,
            Claim::Absent => None,
            Claim::Held(..) => self.cache.held(key),
        };
        self.begun.insert(key.to_string());
        Some(older)
    }
}

impl Store {
    pub(super) fn new(cache: Cache, slots: u32) -> Self {
        Self {
            state: Mutex::new(State {
                cache,
                slots,
                expected: HashMap::new(),
                begun: HashSet::new(),
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere ends the run; this state is as it was between two calls.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, for which other threads may wait.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changed.notify_all();
        changed
    }

    /// Tries until there is an answer, or `ends`.
    fn wait_for<T>(
        &self,
        ends: Ends<'_>,
        mut attempt: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, Cut> {
        let mut state = self.lock();
        loop {
            if ends.are_near() {
                return Err(Cut::Ends);
            }
            if let Some(answer) = attempt(&mut state) {
                return Ok(answer);
            }
            let waited = self.changed.wait_timeout(state, TICK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until an object more may be written.
    pub(super) fn take_slot(&self, ends: Ends<'_>) -> Result<(), Cut> {
        self.wait_for(ends, |state| {
            state.slots = state.slots.checked_sub(1)?;
            Some(())
        })
    }

    pub(super) fn give_slot(&self) {
        self.change(|state| state.slots += 1);
    }

    /// Reserves an object, once no other thread uses it: where it is, and its tokens; `None` if
    /// there is none.
    pub(super) fn claim(&self, key: &str, ends: Ends<'_>) -> Result<Option<(Tier, u32)>, Cut> {
        self.wait_for(ends, |state| match state.claim(key) {
            Claim::Absent => Some(None),
            Claim::Busy => None,
            Claim::Held(tier, tokens) => Some(Some((tier, tokens))),
        })
    }

    /// A thread has taken a write of a trace: reads that come after it wait for it.
    pub(super) fn expect(&self, key: &str) {
        *self.lock().expected.entry(key.to_string()).or_default() += 1;
    }

    /// Begins a write that was expected, once no other thread uses the object: the one that it
    /// replaces, which the caller removes.
    pub(super) fn begin(&self, key: &str, ends: Ends<'_>) -> Result<Option<Victim>, Cut> {
        self.wait_for(ends, |state| state.begin(key))
    }

    /// Such a write is done.
    pub(super) fn done(&self, key: &str) {
        self.change(|state| {
            state.begun.remove(key);
            if let Some(left) = state.expected.get_mut(key) {
                *left -= 1;
                if *left == 0 {
                    state.expected.remove(key);
                }
            }
        });
    }

    /// The next step to have room, once there is one.
    pub(super) fn make_room(&self, tier: Tier, bytes: u64, ends: Ends<'_>) -> Result<Step, Cut> {
        self.wait_for(ends, |state| match state.cache.make_room(tier, bytes) {
            Step::Wait => None,
            step => Some(step),
        })
    }

    /// Adds an object that other threads may use from now on.
    pub(super) fn add(&self, key: &str, tokens: u32, bytes: u64, tier: Tier) {
        self.change(|state| {
            state.cache.add(key, tokens, bytes, tier);
            state.cache.release(key);
        });
    }

    /// The objects in files, once all threads are done.
    pub(super) fn into_stored(self) -> Vec<String> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.cache.stored().map(str::to_string).collect()
    }
}
