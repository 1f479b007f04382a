//! The one thing that flows back into a run: the wish to end it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says whether the user wants the run to end; clones share one answer.
#[derive(Debug, Clone, Default)]
pub struct StopToken {
    asked: Arc<AtomicBool>,
    at_once: Arc<AtomicBool>,
}

impl StopToken {
    /// A token that has not been pulled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks every holder to end as soon as it can.
    pub fn stop(&self) {
        self.asked.store(true, Ordering::Release);
    }

    /// Whether the run should end.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Whether whoever ends the run is about to kill this process: what is measured has to be saved
    /// within a second.
    pub fn is_hurried(&self) -> bool {
        self.at_once.load(Ordering::Relaxed)
    }

    /// The flag that says so, for a signal handler.
    pub fn hurry_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.at_once)
    }

    /// The flag itself, for a signal handler that can only set one.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }
}

/// The two wishes to end that every thread of a crew looks at.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// The user's.
    pub stop: &'a StopToken,
    /// Of whoever failed beside it.
    pub failed: &'a StopToken,
}

impl Ends<'_> {
    /// Whether it is time to end.
    #[inline]
    pub fn are_near(&self) -> bool {
        self.stop.is_stopped() || self.failed.is_stopped()
    }
}
