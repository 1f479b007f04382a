//! Ends a process with a call that does not return, or that does not end after the user asked.
//!
//! Calls of cuFile and CUDA can hang inside the library, where no stop token reaches: a batch waits
//! for buffers that only its own completion would free, a GPU or a file server is gone. Neither the
//! thread nor its memory can be taken back then, since a device may still write there. So a handler
//! is called from another thread, to save the results so far and end.
//!
//! A call costs two stores to a separate cache line; only the watching thread looks at a clock.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use stormlp_core::path::PathKind;

use crate::signals;

/// What does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hang {
    /// A cuFile call on a path.
    CuFile(PathKind),
    /// The opening of cuFile's driver.
    Driver,
    /// A cuFile call that releases memory, a file, a batch or the driver.
    Release,
    /// A CUDA call.
    Cuda,
    /// The opening of a file.
    Open,
    /// The process, after the user asked it to stop.
    Stop,
}

/// Counts the beginnings and ends of calls: odd while one is under way.
#[derive(Debug)]
#[repr(align(128))]
struct CallCount(AtomicU64, Hang);

/// Calls of one kind by one thread.
#[derive(Debug)]
pub(crate) struct WatchedCalls {
    count: Arc<CallCount>,
}

thread_local! {
    /// The calls of a thread that belong to no path.
    static OF_THREAD: [WatchedCalls; 4] =
        [Hang::Driver, Hang::Release, Hang::Cuda, Hang::Open].map(WatchedCalls::new);
}

/// Announces a call of this thread that belongs to no path; it is over when the result is dropped.
/// One within another of its kind is a part of that one.
pub(crate) fn enter(call: Hang) -> Option<CallUnderWay> {
    let find = |all: &[WatchedCalls; 4]| {
        let calls = all.iter().find(|calls| calls.count.1 == call)?;
        calls.count.0.load(Ordering::Relaxed).is_multiple_of(2).then(|| calls.enter())
    };
    OF_THREAD.try_with(find).ok().flatten()
}

impl WatchedCalls {
    /// Calls that the watchdog sees as long as this exists.
    pub(crate) fn new(call: Hang) -> Self {
        let count = Arc::new(CallCount(AtomicU64::new(0), call));
        let mut all = watched();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&count));
        Self { count }
    }

    /// Announces a call, which is over when the result is dropped; calls do not nest.
    #[inline]
    pub(crate) fn enter(&self) -> CallUnderWay {
        self.count.step();
        CallUnderWay(Arc::clone(&self.count))
    }
}

impl CallCount {
    #[inline]
    fn step(&self) {
        // Only the thread of the path writes.
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// A call that has not returned.
#[derive(Debug)]
pub(crate) struct CallUnderWay(Arc<CallCount>);

impl Drop for CallUnderWay {
    #[inline]
    fn drop(&mut self) {
        self.0.step();
    }
}

/// All that have calls to watch.
static WATCHED: Mutex<Vec<Weak<CallCount>>> = Mutex::new(Vec::new());

fn watched() -> MutexGuard<'static, Vec<Weak<CallCount>>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The handler that ends a run if this has not ended for so long: it saves this fact in the report
/// at this place and calls [`end_process`].
pub type HangHandler = fn(report: &Path, hung: Hang, after: Duration);

/// How to end a run that hangs, and after how long.
static HANDLER: OnceLock<(Duration, HangHandler)> = OnceLock::new();
/// The report of the run in progress: a search saves one after the other.
static REPORT: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Sets how a run ends if a call has not returned, or a request to stop been met, for `limit`; only the first call has an effect.
pub fn on_hang(limit: Duration, handler: HangHandler) {
    let _ = HANDLER.set((limit, handler));
}

/// Leaves the report alone from now on: it is finished.
pub fn leave_report() {
    *REPORT.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Watches all calls from now on, on a separate thread, for the run saved at `report`; without a
/// handler it does not watch.
///
/// # Errors
/// When the thread cannot be started.
pub fn watch_calls(report: &Path) -> std::io::Result<()> {
    static ONCE: Once = Once::new();
    *REPORT.lock().unwrap_or_else(PoisonError::into_inner) = Some(report.to_path_buf());
    let Some((limit, handler)) = HANDLER.get().copied() else {
        return Ok(());
    };
    let mut started = Ok(());
    ONCE.call_once(|| {
        let body = move || {
            let hung = await_hang(limit);
            let report = REPORT.lock().unwrap_or_else(PoisonError::into_inner).take();
            handler(&report.unwrap_or_default(), hung, limit);
        };
        started = std::thread::Builder::new().name("watchdog".to_string()).spawn(body).map(drop);
    });
    started
}

/// Returns when a call has been under way for `limit`, or the user waiting for the end.
fn await_hang(limit: Duration) -> Hang {
    // The count seen of each, and since when.
    let mut seen: Vec<(Weak<CallCount>, u64, Instant)> = Vec::new();
    loop {
        std::thread::sleep((limit / 16).clamp(Duration::from_millis(10), Duration::from_secs(1)));
        if signals::stopped_for().is_some_and(|waited| waited >= limit) {
            return Hang::Stop;
        }
        let all = watched().clone();
        seen.retain(|(one, _, _)| one.strong_count() > 0);
        for one in &all {
            let Some(calls) = one.upgrade() else {
                continue;
            };
            let count = calls.0.load(Ordering::Relaxed);
            match seen.iter_mut().find(|(known, _, _)| known.ptr_eq(one)) {
                Some((_, before, since)) if *before == count => {
                    if count % 2 == 1 && since.elapsed() >= limit {
                        return calls.1;
                    }
                }
                Some(known) => *known = (one.clone(), count, Instant::now()),
                None => seen.push((one.clone(), count, Instant::now())),
            }
        }
    }
}

/// Ends the process at once with `code`: no destructor and no exit handler runs, since memory that
/// a device may write to must not be freed and the library's handlers may wait for the call.
pub fn end_process(code: u8) -> ! {
    // SAFETY: `_exit` has no preconditions and does not return.
    unsafe { libc::_exit(i32::from(code)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_that_does_not_return_is_a_hang() {
        let of = |path| WatchedCalls::new(Hang::CuFile(path));
        let (quick, stuck) = (of(PathKind::Gds), of(PathKind::GdsBatch));
        for _ in 0..3 {
            drop(quick.enter());
        }
        assert_eq!(quick.count.0.load(Ordering::Relaxed), 6);
        let call = stuck.enter();
        let limit = Duration::from_millis(30);
        assert_eq!(await_hang(limit), Hang::CuFile(PathKind::GdsBatch));
        drop(call);
        for of_no_path in [Hang::Driver, Hang::Release, Hang::Cuda, Hang::Open] {
            let call = enter(of_no_path);
            assert_eq!(await_hang(limit), of_no_path);
            drop(call);
        }
        assert_eq!(stuck.count.0.load(Ordering::Relaxed) % 2, 0);
    }
}
