//! A thread_group: threads that start together, are monitored by the calling thread, and are all joined. A
//! panic in any of them, or in the monitoring thread, becomes an error of the thread group.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use stormlp_core::panics::message;
use stormlp_core::stop::StopToken;

use crate::error::{THREADS_HELP, TransferError};

/// A thread panicked: a bug in stormlp.
#[derive(Debug, thiserror::Error)]
#[error("thread {thread} panicked: {message}; this is a fault of stormlp")]
pub struct Panicked {
    /// The name of the thread.
    pub thread: String,
    /// The panic message.
    pub message: String,
}

/// Why a thread group failed.
#[derive(Debug, thiserror::Error)]
pub enum ThreadGroupError {
    /// One of its threads, or the monitoring thread, panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Start(#[source] io::Error),
}

impl From<ThreadGroupError> for TransferError {
    fn from(error: ThreadGroupError) -> Self {
        Self::Unavailable {
            what: "another thread".to_string(),
            reason: error.to_string(),
            remedy: THREADS_HELP.to_string(),
        }
    }
}

/// Runs `work`; turns a panic into an error that names `thread`.
///
/// State that `work` shares between threads may be inconsistent afterwards: the caller ends the
/// run.
///
/// # Errors
/// When `work` panicked.
pub fn guarded<T>(thread: &str, work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|panic| Panicked { thread: thread.to_string(), message: message(&*panic) })
}

/// Runs `work` once per item, each on a thread called `name`, while `watch` runs on the calling
/// thread; joins all of them. When one panics, `failed` is set; the other threads should check it
/// and stop early.
///
/// # Errors
/// When a thread could not be started, or one panicked.
pub fn run<T: Send, R: Send, W>(
    name: &str,
    items: impl IntoIterator<Item = T>,
    failed: &StopToken,
    work: impl Fn(T, &mut Start<'_>) -> R + Sync,
    watch: impl FnOnce(&Watch<'_>) -> W,
) -> Result<(Vec<R>, W), ThreadGroupError> {
    let gate = StartGate::default();
    let watcher = thread::current();
    let (work, gate) = (&work, &gate);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut refused = Ok(());
        for (index, item) in items.into_iter().enumerate() {
            let (name, watcher) = (format!("{name}-{index}"), watcher.clone());
            let body = move || {
                let mut start = Start { gate, here: false, measured: false };
                let name = thread::current().name().unwrap_or_default().to_string();
                let result = guarded(&name, || work(item, &mut start));
                if result.is_err() {
                    failed.stop();
                }
                start.leave(&watcher);
                result
            };
            match thread::Builder::new().name(name).spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    refused = Err(ThreadGroupError::Start(source));
                    break;
                }
            }
        }
        let thread_group = threads.len();
        let watched =
            refused.and_then(|()| Ok(guarded("main", || watch(&Watch { gate, thread_group }))?));
        if watched.is_err() {
            failed.stop();
        }
        // However `watch` ended, no thread may stay blocked on it.
        gate.open();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<R, Panicked>>| {
            thread.join().expect("a panic in a thread was caught there")
        };
        // Join all threads before reporting the first failure.
        let joined: Vec<Result<R, Panicked>> = threads.into_iter().map(join).collect();
        let results: Vec<R> = joined.into_iter().collect::<Result<_, _>>()?;
        Ok((results, watched?))
    })
}

/// The start gate: threads wait here for each other before they measure. A thread that ends for any
/// reason never blocks the rest.
#[derive(Default)]
struct StartGate {
    state: Mutex<ThreadGroupState>,
    changed: Condvar,
}

#[derive(Default)]
struct ThreadGroupState {
    /// Threads that are ready or finished.
    here: usize,
    over: usize,
    /// Threads that have measured, or finished without measuring.
    measured: usize,
    opened: Option<Instant>,
}

impl StartGate {
    fn lock(&self) -> MutexGuard<'_, ThreadGroupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(
        &self,
        not_yet: impl FnMut(&mut ThreadGroupState) -> bool,
    ) -> MutexGuard<'_, ThreadGroupState> {
        let waited = self.changed.wait_while(self.lock(), not_yet);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Instant {
        let opened = *self.lock().opened.get_or_insert_with(Instant::now);
        self.changed.notify_all();
        opened
    }
}

/// A thread's view of the start.
pub struct Start<'a> {
    gate: &'a StartGate,
    here: bool,
    measured: bool,
}

impl Start<'_> {
    /// Reports that the thread is ready and waits until all are.
    ///
    /// # Returns
    /// The common start time.
    pub fn wait(&mut self) -> Instant {
        self.arrive(false);
        let state = self.gate.wait_while(|state| state.opened.is_none());
        state.opened.unwrap_or_else(Instant::now)
    }

    /// Reports that the thread has measured and waits until all have, so that recording its results
    /// does not disturb the rest.
    pub fn wait_for_the_others(&mut self) {
        let mut state = self.gate.lock();
        state.measured += usize::from(!self.measured);
        self.measured = true;
        drop(state);
        self.gate.changed.notify_all();
        drop(self.gate.wait_while(|state| state.measured < state.here));
    }

    fn arrive(&mut self, over: bool) {
        let mut state = self.gate.lock();
        state.here += usize::from(!self.here);
        state.over += usize::from(over);
        state.measured += usize::from(over && !self.measured);
        self.here = true;
        self.gate.changed.notify_all();
    }

    fn leave(&mut self, watcher: &Thread) {
        self.arrive(true);
        watcher.unpark();
    }
}

/// The monitoring thread's view of the thread group.
pub struct Watch<'a> {
    gate: &'a StartGate,
    thread_group: usize,
}

impl Watch<'_> {
    /// Waits until every thread is ready or finished, then releases them.
    ///
    /// # Returns
    /// The start time.
    pub fn open(&self) -> Instant {
        self.gather();
        self.gate.open()
    }

    /// Waits until every thread is ready or finished.
    pub fn gather(&self) {
        drop(self.gate.wait_while(|state| state.here < self.thread_group));
    }

    /// Waits for that, but no longer than `patience`.
    ///
    /// # Returns
    /// Whether they are.
    pub fn gather_for(&self, patience: Duration) -> bool {
        let is_missing = |state: &mut ThreadGroupState| state.here < self.thread_group;
        let waited = self.gate.changed.wait_timeout_while(self.gate.lock(), patience, is_missing);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Whether every thread has finished.
    pub fn is_over(&self) -> bool {
        self.gate.lock().over == self.thread_group
    }

    /// Sleeps; may wake early when a thread ends.
    pub fn sleep(&self, time: Duration) {
        thread::park_timeout(time);
    }
}

#[cfg(test)]
#[path = "thread_group_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
