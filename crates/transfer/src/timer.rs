//! Waking on time, and being woken early: the finest timer slack, and a descriptor that ends a
//! path's wait.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use crate::error::TransferError;

/// Asks the kernel to wake the calling thread as soon after its deadlines as it can: the default
/// slack of 50 µs is a tenth of a percent of a long step, but over one percent of a short one.
///
/// # Errors
/// When the kernel refuses; deadlines are then kept less well.
pub fn use_finest_slack() -> Result<(), TransferError> {
    // SAFETY: PR_SET_TIMERSLACK takes one number, in nanoseconds, and touches no memory.
    let rc = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    if rc == 0 {
        Ok(())
    } else {
        Err(last_error("set the timer slack"))
    }
}

/// Ends the `wait` of a path that was told of it (`TransferPath::wake_on`), from any thread.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// A waker that has not been used.
    ///
    /// # Errors
    /// When the process may open no more descriptors.
    pub fn new() -> Result<Self, TransferError> {
        // SAFETY: eventfd takes two numbers; a negative answer is an error.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(last_error("make an eventfd"));
        }
        // SAFETY: the descriptor is new and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Ends the wait that is going on, or the next one.
    pub fn wake(&self) {
        let one = 1u64;
        // SAFETY: writes eight bytes of our own to our own descriptor. It fails only when the
        // counter is full, and then the wait is ended anyway.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn last_error(action: &'static str) -> TransferError {
    TransferError::Io {
        action,
        source: io::Error::last_os_error(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_slack_is_what_was_asked_for() {
        use_finest_slack().unwrap();
        // SAFETY: takes no argument and touches no memory.
        assert_eq!(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) }, 1);
    }

    #[test]
    fn a_waker_counts_how_often_it_was_used() {
        let waker = Waker::new().unwrap();
        waker.wake();
        waker.wake();
        let mut count = 0u64;
        // SAFETY: reads eight bytes into a number of our own.
        let read = unsafe { libc::read(waker.0.as_raw_fd(), (&raw mut count).cast(), 8) };
        assert_eq!((read, count), (8, 2));
    }
}
