//! Ends a process whose cuFile call does not return.
//!
//! Blocking reads and `cuFileBatchIOSubmit` can hang inside the library, where no stop token
//! reaches: a batch waits for buffers that only its own completion would free, a file server is
//! gone. Neither the thread nor its memory can be taken back then, since a device may still write
//! there. So a handler is called from another thread, to save the results so far and end.
//!
//! A call costs two stores to a separate cache line; only the watching thread looks at a clock.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use stormlp_core::path::PathKind;

/// Counts the beginnings and ends of calls on one path, or of one that releases resources that
/// several may have used: odd while one is under way.
#[derive(Debug)]
#[repr(align(128))]
struct CallCount(AtomicU64, Option<PathKind>);

/// The calls of one path, which belongs to one thread.
#[derive(Debug)]
pub(crate) struct WatchedCalls {
    count: Arc<CallCount>,
}

impl WatchedCalls {
    /// Calls on `path` that the watchdog sees as long as this exists.
    pub(crate) fn new(path: PathKind) -> Self {
        Self::of(Some(path))
    }

    fn of(path: Option<PathKind>) -> Self {
        let count = Arc::new(CallCount(AtomicU64::new(0), path));
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

/// Announces a call that releases something, on any thread: memory, a file, a batch, the driver. It is
/// over when the result is dropped.
pub(super) fn releasing() -> CallUnderWay {
    WatchedCalls::of(None).enter()
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

/// All paths with calls to watch.
static WATCHED: Mutex<Vec<Weak<CallCount>>> = Mutex::new(Vec::new());

fn watched() -> MutexGuard<'static, Vec<Weak<CallCount>>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The handler that ends a run if a call on this path, or a release, has not returned for so long:
/// it saves this fact in the report at this place and calls [`end_process`].
pub type HangHandler = fn(report: &Path, path: Option<PathKind>, after: Duration);

/// How to end a run that hangs, and after how long.
static HANDLER: OnceLock<(Duration, HangHandler)> = OnceLock::new();
/// The report of the run in progress: a search saves one after the other.
static REPORT: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Sets how a run ends if a call has not returned for `limit`; only the first call has an effect.
pub fn on_hang(limit: Duration, handler: HangHandler) {
    let _ = HANDLER.set((limit, handler));
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
            let path = await_hang(limit);
            let report = REPORT.lock().unwrap_or_else(PoisonError::into_inner).take();
            handler(&report.unwrap_or_default(), path, limit);
        };
        started = std::thread::Builder::new().name("watchdog".to_string()).spawn(body).map(drop);
    });
    started
}

/// Returns when a call has been under way for `limit`, with its path if it has one.
fn await_hang(limit: Duration) -> Option<PathKind> {
    // The count seen of each path, and since when.
    let mut seen: Vec<(Weak<CallCount>, u64, Instant)> = Vec::new();
    loop {
        std::thread::sleep((limit / 16).clamp(Duration::from_millis(10), Duration::from_secs(1)));
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
        let (quick, stuck) =
            (WatchedCalls::new(PathKind::Gds), WatchedCalls::new(PathKind::GdsBatch));
        for _ in 0..3 {
            drop(quick.enter());
        }
        assert_eq!(quick.count.0.load(Ordering::Relaxed), 6);
        let call = stuck.enter();
        assert_eq!(await_hang(Duration::from_millis(30)), Some(PathKind::GdsBatch));
        drop(call);
        let release = releasing();
        assert_eq!(await_hang(Duration::from_millis(30)), None);
        drop(release);
        assert_eq!(stuck.count.0.load(Ordering::Relaxed) % 2, 0);
    }
}
