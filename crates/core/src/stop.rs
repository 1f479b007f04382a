//! The only signal that flows back into a run: the request to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells whether the run should stop; clones share their state.
#[derive(Debug, Clone, Default)]
pub struct StopToken {
    asked: Arc<AtomicBool>,
    at_once: Arc<AtomicBool>,
}

impl StopToken {
    /// A token that has not been triggered.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks all holders to stop as soon as they can.
    pub fn stop(&self) {
        self.asked.store(true, Ordering::Release);
    }

    /// Whether the run should stop.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Whether this process is about to be killed: results must be saved within a second.
    pub fn is_hurried(&self) -> bool {
        self.at_once.load(Ordering::Relaxed)
    }

    /// The flag behind [`Self::is_hurried`], for a signal handler.
    pub fn hurry_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.at_once)
    }

    /// The stop flag itself, for a signal handler that can only set a flag.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }
}

/// The two stop signals that every thread of a thread group checks.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// The user's request.
    pub stop: &'a StopToken,
    /// Set when another thread failed.
    pub failed: &'a StopToken,
}

impl Ends<'_> {
    /// Whether it is time to stop.
    #[inline]
    pub fn are_near(&self) -> bool {
        self.stop.is_stopped() || self.failed.is_stopped()
    }
}
