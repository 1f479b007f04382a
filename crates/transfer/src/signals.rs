//! Which thread receives a signal, and what hears of it.
//!
//! The kernel delivers to the main thread if that accepts the signal. But a thread blocked on
//! storage inside the kernel runs no handler until storage responds, so a signal could not end a
//! program with its main thread stuck on a hung file system.

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stormlp_core::stop::StopToken;

/// How long a request may go on after the user asked to stop.
const PATIENCE: Duration = Duration::from_secs(5);

/// The user's request to stop this process, and when it was first noticed.
static STOP: OnceLock<StopToken> = OnceLock::new();
static NOTICED: OnceLock<Instant> = OnceLock::new();
/// Whether a request was given up because of it.
static GAVE_UP: AtomicBool = AtomicBool::new(false);

/// Has requests to object stores hear `stop`. Call it once, at the start.
pub fn heed(stop: &StopToken) {
    STOP.get_or_init(|| stop.clone());
}

/// How long ago the user asked to stop; `None` if that has not happened.
pub(crate) fn stopped_for() -> Option<Duration> {
    let is_stopped = STOP.get().is_some_and(StopToken::is_stopped);
    is_stopped.then(|| NOTICED.get_or_init(Instant::now).elapsed())
}

/// Whether a request that `began` is to end without a result. After the first there is no patience
/// with further ones.
pub(crate) fn give_up(began: Instant) -> bool {
    let is_over = stopped_for().is_some_and(|time| time >= PATIENCE)
        && (gave_up() || began.elapsed() >= PATIENCE);
    GAVE_UP.fetch_or(is_over, Ordering::Relaxed);
    is_over
}

/// Whether requests failed because the user asked to stop.
pub fn gave_up() -> bool {
    GAVE_UP.load(Ordering::Relaxed)
}

/// Threads that only handle signals; they live until the process ends.
static PARKED: AtomicUsize = AtomicUsize::new(0);

/// The number of threads of this process that only handle signals.
pub(crate) fn parked_threads() -> usize {
    PARKED.load(Ordering::Relaxed)
}

/// Delivers `signals` to a dedicated thread; call before any other thread is started, since
/// threads inherit the signal mask.
///
/// # Errors
/// When that thread cannot be started; signals are then delivered as usual.
pub fn handle_on_thread(signals: &'static [i32]) -> io::Result<()> {
    mask(libc::SIG_BLOCK, signals)?;
    let waits = move || {
        // Signals that arrived meanwhile are delivered now. If this failed none would be, but it
        // cannot fail, since the same call with the same signals succeeded just before.
        let unblocked = mask(libc::SIG_UNBLOCK, signals);
        while unblocked.is_ok() {
            thread::park();
        }
    };
    let started = thread::Builder::new().name("signals".to_string()).spawn(waits);
    if started.is_ok() {
        PARKED.fetch_add(1, Ordering::Relaxed);
    }
    started.map(drop).or_else(|error| {
        mask(libc::SIG_UNBLOCK, signals)?;
        Err(error)
    })
}

/// Changes the signal mask of the calling thread.
pub(crate) fn mask(how: libc::c_int, signals: &[i32]) -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset writes the whole set before it is read, sigaddset rejects invalid signal
    // numbers, and the mask is the calling thread's.
    let refused = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        libc::pthread_sigmask(how, set.as_ptr(), std::ptr::null_mut())
    };
    match refused {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Whether the calling thread accepts `signal`.
    fn takes(signal: i32) -> bool {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let blocked = u64::from_str_radix(blocked.unwrap().trim(), 16).unwrap();
        blocked & (1 << (signal - 1)) == 0
    }

    #[test]
    fn threads_that_are_started_later_leave_the_signals_to_the_one() {
        let elsewhere = thread::spawn(|| {
            handle_on_thread(&[libc::SIGUSR2]).unwrap();
            let later = thread::spawn(|| takes(libc::SIGUSR2)).join().unwrap();
            (takes(libc::SIGUSR2), later, takes(libc::SIGUSR1))
        });
        assert_eq!(elsewhere.join().unwrap(), (false, false, true));
    }
}
