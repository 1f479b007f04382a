//! Threads that work while the calling thread tells how far they are.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use stormlp_model::event::{Event, Observer};
use stormlp_model::panics::message;

use super::error::GenerateError;

/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);

/// Runs `work` once for each item, each on a thread of its own; the calling thread tells the
/// observer what `done` answers until all are over. A thread that panics sets `failed`, so that
/// the others need not work on for nothing: they are to look at it.
///
/// # Errors
/// When a thread panicked.
pub(super) fn work<T: Send>(
    items: impl IntoIterator<Item = T>,
    observer: &dyn Observer,
    done: impl Fn() -> u64,
    failed: &AtomicBool,
    work: impl Fn(T) + Sync,
) -> Result<(), GenerateError> {
    let items: Vec<T> = items.into_iter().collect();
    let working = AtomicUsize::new(items.len());
    let teller = thread::current();
    thread::scope(|scope| {
        let start = |item| {
            let shift = Shift {
                working: &working,
                teller: &teller,
                failed,
            };
            let work = &work;
            scope.spawn(move || {
                let _shift = shift;
                work(item);
            })
        };
        let threads: Vec<_> = items.into_iter().map(start).collect();
        while working.load(Ordering::Acquire) > 0 {
            thread::park_timeout(TICK);
            observer.event(&Event::Progress { done: done() });
        }
        // Every thread is joined: one that panicked and was not would take the caller with it.
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        let panic = ends.into_iter().find_map(Result::err);
        panic.map_or(Ok(()), |panic| {
            Err(GenerateError::Panicked(message(&*panic)))
        })
    })
}

/// One thread's time at work, which is over when this is dropped, by a panic too: the calling
/// thread would else wait for ever.
struct Shift<'a> {
    working: &'a AtomicUsize,
    teller: &'a Thread,
    failed: &'a AtomicBool,
}

impl Drop for Shift<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.failed.store(true, Ordering::Relaxed);
        }
        self.working.fetch_sub(1, Ordering::AcqRel);
        self.teller.unpark();
    }
}
