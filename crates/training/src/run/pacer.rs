//! Emulated compute in real time: a dedicated thread that only keeps deadlines.
//!
//! It never copies data and never waits for storage; otherwise reads would be issued late, and
//! utilisation would drop for reasons unrelated to storage. It sleeps until shortly before the
//! earliest absolute deadline, spins for the rest, and is woken only when an earlier deadline
//! appears.

use std::hint;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use std::sync::Arc;

use stormlp_transfer::crew::guarded;
use stormlp_transfer::timer;

use super::error::TrainError;
use super::machine::Nanos;
use super::shared::Shared;

/// How long before a deadline the thread should wake. A plain sleep ends 40 to 90 µs late, mostly
/// because the core must leave its idle state: two percent of a step of 3.5 ms.
const LEAD: Nanos = 80_000;
/// At most one part in this many of the run's time is spent spinning, so that the host does not pay
/// for precision when deadlines are many and far apart.
const SPIN_SHARE: Nanos = 40;

/// Starts the pacer thread.
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
    // Without it deadlines are kept to about 50 µs; the recorded overshoot shows this.
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

/// Sleep state of the thread.
#[derive(Default)]
struct Doze {
    /// Time spent spinning.
    spun: Nanos,
    /// When the last sleep longer than [`LEAD`] ended.
    woke: Nanos,
}

impl Doze {
    /// Sleeps until `until` or until an earlier deadline appears, and spins through the last
    /// [`LEAD`]; a deadline that appears while spinning is noticed afterwards.
    fn sleep_until(&mut self, until: Nanos, shared: &Shared) {
        let now = shared.now();
        let far = until > now + LEAD;
        // Deadlines that are always near belong to computations too short to be noticeable.
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
