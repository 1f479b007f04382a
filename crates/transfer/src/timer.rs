//! Accurate wake-ups, and early ones: the finest timer slack, and a descriptor that ends a path's
//! wait.

use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::TransferError;

/// Sets the finest timer slack for the calling thread: the default of 50 µs is a tenth of a
/// percent of a long step, but over one percent of a short one.
///
/// # Errors
/// When the kernel refuses; deadlines are then less accurate.
pub fn use_finest_slack() -> Result<(), TransferError> {
    let one_nanosecond = Some(NonZeroU64::MIN);
    rustix::thread::set_current_timer_slack(one_nanosecond)
        .map_err(TransferError::io("set the timer slack"))
}

/// Ends the `wait` of a path registered with it (`TransferPath::wake_on`), from any thread.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// An unused waker.
    ///
    /// # Errors
    /// When the process may not open more descriptors.
    pub fn new() -> Result<Self, TransferError> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map(Self)
            .map_err(TransferError::io("make an eventfd"))
    }

    /// Ends the current wait, or the next one.
    pub fn wake(&self) {
        // This fails only when the counter is full, and then the wait ends anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slack_is_as_requested() {
        use_finest_slack().unwrap();
        assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
    }

    #[test]
    fn a_waker_counts_how_often_it_was_used() {
        let waker = Waker::new().unwrap();
        waker.wake();
        waker.wake();
        let mut count = [0; 8];
        assert_eq!(rustix::io::read(&waker.0, &mut count).unwrap(), 8);
        assert_eq!(u64::from_ne_bytes(count), 2);
    }
}
