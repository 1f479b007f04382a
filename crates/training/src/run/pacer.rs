//! Emulated compute in real time: a thread of its own that does nothing but keep deadlines.
//!
//! It never copies a byte and never waits for storage; if it did, reads would be asked for late, and
//! utilisation would suffer for what storage has no part in. It sleeps until shortly before the
//! earliest absolute deadline, spins through the rest, and is woken only when an earlier one appears.

use std::hint;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use std::sync::Arc;

use stormlp_transfer::crew::guarded;
use stormlp_transfer::timer;

use super::error::TrainError;
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
                shared.fail(panic.into());
            }
        })
        .map_err(|source| TrainError::Thread { source })
}

fn run(shared: &Shared) {
    // Without it deadlines are kept to 50 µs more or less; the overshoot that is recorded shows.
    let _ = timer::use_finest_slack();
    shared.register_pacer(thread::current());
    let mut doze = Doze::default();
    while let Some(until) = shared.pace() {
        if until == Nanos::MAX {
            thread::park();
        } else {
            doze.sleep_until(until, shared);
        }
    }
}

/// How the thread slept until now.
#[derive(Default)]
struct Doze {
    /// Time spun away.
    spun: Nanos,
    /// When the last sleep ended that was longer than [`LEAD`].
    woke: Nanos,
}

impl Doze {
    /// Sleeps until `until` or until an earlier deadline has appeared, and spins through the last
    /// [`LEAD`]; one that appears while it spins is seen when that is over.
    fn sleep_until(&mut self, until: Nanos, shared: &Shared) {
        let now = shared.now();
        let far = until > now + LEAD;
        // Deadlines that are always near are of computations too short to be told from none.
        let worth_it = far || now < self.woke + LEAD;
        let may_spin = worth_it && self.spun <= now / SPIN_SHARE;
        let lead = if may_spin { LEAD } else { 0 };
        if let Some(nanos) = until.checked_sub(now + lead) {
            thread::park_timeout(Duration::from_nanos(nanos));
        }
        let awake = shared.now();
        if far {
            self.woke = awake;
        }
        if !may_spin || awake + lead < until {
            return;
        }
        let mut now = awake;
        while now < until {
            hint::spin_loop();
            now = shared.now();
        }
        self.spun += now - awake;
    }
}
