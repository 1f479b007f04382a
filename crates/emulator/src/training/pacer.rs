//! Emulated compute in real time: a thread of its own that does nothing but keep deadlines.
//!
//! It never copies a byte and never waits for storage; if it did, compute would seem to last
//! longer and utilisation would flatter itself. It sleeps until the earliest absolute deadline
//! and is woken only when an earlier one appears.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use std::sync::Arc;

use stormlp_transfer::timer;

use super::error::TrainError;
use super::machine::Nanos;
use super::shared::Shared;

/// Starts the thread.
pub(super) fn spawn(shared: &Arc<Shared>) -> Result<JoinHandle<()>, TrainError> {
    let shared = Arc::clone(shared);
    thread::Builder::new()
        .name("pacer".to_string())
        .spawn(move || run(&shared))
        .map_err(|source| TrainError::Thread { source })
}

fn run(shared: &Shared) {
    // Without it deadlines are kept to 50 µs more or less; the overshoot that is recorded shows.
    let _ = timer::use_finest_slack();
    shared.register_pacer(thread::current());
    while let Some(until) = shared.pace() {
        if until == Nanos::MAX {
            thread::park();
        } else if let Some(nanos) = until.checked_sub(shared.now()) {
            thread::park_timeout(Duration::from_nanos(nanos));
        }
    }
}
