//! The one thing that flows back into a run: the wish to end it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says whether the user wants the run to end; clones share one answer.
#[derive(Debug, Clone, Default)]
pub struct StopToken(Arc<AtomicBool>);

impl StopToken {
    /// A token that has not been pulled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks every holder to end as soon as it can.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the run should end.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for a signal handler that can only set one.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}
