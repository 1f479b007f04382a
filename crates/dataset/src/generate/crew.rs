//! Threads that work while the calling thread tells how far they are.

use std::time::Duration;

use stormlp_core::event::{Event, Observer};
use stormlp_core::stop::StopToken;
use stormlp_transfer::crew::{self, CrewError, Watch};

/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);

/// Runs `work` once for each item, each on a thread of its own; the calling thread tells the
/// observer what `done` answers until all are over. A thread that panics pulls `failed`, so that
/// the others need not work on for nothing: they are to look at it.
///
/// # Errors
/// When a thread panicked, or could not be started.
pub(super) fn work<T: Send>(
    name: &str,
    items: impl IntoIterator<Item = T>,
    observer: &dyn Observer,
    done: impl Fn() -> u64,
    failed: &StopToken,
    work: impl Fn(T) + Sync,
) -> Result<(), CrewError> {
    let tell = |watch: &Watch<'_>| {
        while !watch.is_over() {
            watch.sleep(TICK);
            observer.event(&Event::Progress { done: done() });
        }
    };
    crew::run(name, items, failed, |item, _| work(item), tell).map(drop)
}
