//! Worker threads, with progress reported from the calling thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stormlp_core::event::{Event, Observer};
use stormlp_core::stop::StopToken;
use stormlp_transfer::thread_group::{self, ThreadGroupError, Watch};

use super::plan::GeneratePlan;

/// How often progress is reported.
const TICK: Duration = Duration::from_millis(100);

/// Runs `work` once per item, each on a new thread. The calling thread reports the value of `done`
/// to the observer until all have finished. A thread that panics sets `failed`, which the other
/// threads should check so that they do not continue in vain.
///
/// # Errors
/// If a thread panicked or could not be started.
pub(super) fn work<T: Send>(
    name: &str,
    items: impl IntoIterator<Item = T>,
    observer: &dyn Observer,
    done: impl Fn() -> u64,
    failed: &StopToken,
    work: impl Fn(T) + Sync,
) -> Result<(), ThreadGroupError> {
    let tell = |watch: &Watch<'_>| {
        while !watch.is_over() {
            watch.sleep(TICK);
            observer.event(&Event::Progress { done: done() });
        }
    };
    thread_group::run(name, items, failed, |item, _| work(item), tell).map(drop)
}

/// Calls `each` with the index of every file of the dataset on the plan's threads, until `stop`, and
/// returns how many were begun.
///
/// # Errors
/// If a thread panicked or could not be started.
pub(super) fn each_file(
    plan: &GeneratePlan,
    observer: &dyn Observer,
    stop: &StopToken,
    each: impl Fn(u64) + Sync,
) -> Result<u64, ThreadGroupError> {
    let (next, files) = (AtomicU64::new(0), plan.dataset.files());
    let failed = StopToken::new();
    let begun = || next.load(Ordering::Relaxed).min(files);
    let take = |()| {
        while !stop.is_stopped() && !failed.is_stopped() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= files {
                break;
            }
            each(index);
        }
    };
    work("checker", vec![(); plan.thread_count()], observer, begun, &failed, take)?;
    Ok(begun())
}
