//! Threads that work while the calling thread tells how far they are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stormlp_model::event::{Event, Observer};

/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);

/// Runs `work` once for each item, each on a thread of its own; the calling thread tells the
/// observer what `done` answers until all are over.
pub(super) fn work<T: Send>(
    items: impl IntoIterator<Item = T>,
    observer: &dyn Observer,
    done: impl Fn() -> u64,
    work: impl Fn(T) + Sync,
) {
    let items: Vec<T> = items.into_iter().collect();
    let working = AtomicUsize::new(items.len());
    let teller = std::thread::current();
    std::thread::scope(|scope| {
        for item in items {
            let (working, teller, work) = (&working, &teller, &work);
            scope.spawn(move || {
                work(item);
                working.fetch_sub(1, Ordering::AcqRel);
                teller.unpark();
            });
        }
        while working.load(Ordering::Acquire) > 0 {
            std::thread::park_timeout(TICK);
            observer.event(&Event::Progress { done: done() });
        }
    });
}
