//! Where workers wait for each other before they measure.

use std::sync::{Condvar, Mutex, PoisonError};

/// Lets a known number of workers start together; the thread that opens it decides how many it
/// waits for, so a worker that could not be started holds nobody up.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    open: bool,
}

impl Gate {
    /// Says that a worker is ready and waits until the gate opens.
    pub(crate) fn wait(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.arrived += 1;
        self.changed.notify_all();
        while !state.open {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until `workers` are ready, then lets them go.
    pub(crate) fn open(&self, workers: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.arrived < workers {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.open = true;
        self.changed.notify_all();
    }
}
