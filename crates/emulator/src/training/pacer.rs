//! Emulated compute in real time: a thread of its own that does nothing but keep deadlines.
//!
//! It never copies a byte and never waits for storage; if it did, compute would seem to last
//! longer and utilisation would flatter itself. It sleeps until shortly before the earliest
//! absolute deadline, spins through the rest, and is woken only when an earlier one appears.

use std::hint;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use std::sync::Arc;

use stormlp_transfer::timer;

use super::error::TrainError;
use super::guard::guarded;
use super::machine::Nanos;
use super::shared::Shared;

/// How long before a deadline the thread wants to be awake. A sleep alone ends 40 to 90 µs after
/// its time, most of it the way of a core out of idle: two percent of a step of 3.5 ms.
const LEAD: Nanos = 80_000;
/// One part in so many of the run's time may be spun away, so that the host does not pay for
/// punctuality when deadlines are many and far from each other.
const SPIN_SHARE: Nanos = 40;

/// Starts the thread.
pub(super) fn spawn(shared: &Arc<Shared>) -> Result<JoinHandle<()>, TrainError> {
    let shared = Arc::clone(shared);
    thread::Builder::new()
        .name("pacer".to_string())
        .spawn(move || {
            if let Err(panic) = guarded("pacer", || run(&shared)) {
                shared.fail(panic);
            }
        })
        .map_err(|source| TrainError::Thread { source })
}

fn run(shared: &Shared) {
    // Without it deadlines are kept to 50 µs more or less; the overshoot that is recorded shows.
    let _ = timer::use_finest_slack();
    shared.register_pacer(thread::current());
    let mut spun = 0;
    while let Some(until) = shared.pace() {
        if until == Nanos::MAX {
            thread::park();
        } else {
            spun += sleep_until(until, shared, spun);
        }
    }
}

/// Sleeps, then spins, until `until` or until an earlier deadline has appeared; the time that it
/// spun, which is none when `spun` is already more than its share.
fn sleep_until(until: Nanos, shared: &Shared, spun: Nanos) -> Nanos {
    let now = shared.now();
    let lead = if spun <= now / SPIN_SHARE { LEAD } else { 0 };
    if let Some(nanos) = until.checked_sub(now + lead) {
        thread::park_timeout(Duration::from_nanos(nanos));
    }
    let awake = shared.now();
    if awake + lead < until {
        return 0;
    }
    let mut now = awake;
    while now < until && lead > 0 {
        hint::spin_loop();
        now = shared.now();
    }
    now - awake
}
