//! Which thread the kernel hands a signal to.
//!
//! It is the main thread, wherever that takes the signal. But a thread that waits for storage
//! inside the kernel runs no handler before storage answers, so a signal could not end a program
//! whose main thread looks at a file system that hangs.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Threads that do nothing but take signals; they are there until the process ends.
static PARKED: AtomicUsize = AtomicUsize::new(0);

/// How many threads of this process do nothing but take signals.
pub(crate) fn parked_threads() -> usize {
    PARKED.load(Ordering::Relaxed)
}

/// Has `signals` delivered to a thread that does nothing else; to be called before any other
/// thread is started, since those inherit what the calling one takes.
///
/// # Errors
/// When there is no thread for them; then they are delivered as ever.
pub fn deliver_to_a_thread_of_their_own(signals: &'static [i32]) -> io::Result<()> {
    mask(libc::SIG_BLOCK, signals)?;
    let waits = move || {
        // What came meanwhile is delivered now. Where this fails nothing would be: that cannot be,
        // since the same call with the same signals went through just before.
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

/// Changes which signals the calling thread takes.
pub(crate) fn mask(how: libc::c_int, signals: &[i32]) -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset writes the whole set before anyone reads it, sigaddset refuses numbers
    // that are no signals, and the mask is the calling thread's own.
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
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    /// Whether the calling thread takes `signal`.
    fn takes(signal: i32) -> bool {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let blocked = u64::from_str_radix(blocked.unwrap().trim(), 16).unwrap();
        blocked & (1 << (signal - 1)) == 0
    }

    #[test]
    fn threads_that_are_started_later_leave_the_signals_to_the_one() {
        let elsewhere = thread::spawn(|| {
            deliver_to_a_thread_of_their_own(&[libc::SIGUSR2]).unwrap();
            let later = thread::spawn(|| takes(libc::SIGUSR2)).join().unwrap();
            (takes(libc::SIGUSR2), later, takes(libc::SIGUSR1))
        });
        assert_eq!(elsewhere.join().unwrap(), (false, false, true));
    }
}
