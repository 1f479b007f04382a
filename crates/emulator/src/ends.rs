//! What ends the threads of a run before their time.

use stormlp_core::stop::StopToken;

/// The two wishes to end that every thread of a crew looks at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends<'a> {
    /// The user's.
    pub(crate) stop: &'a StopToken,
    /// Of whoever failed beside it.
    pub(crate) failed: &'a StopToken,
}

impl Ends<'_> {
    /// Whether it is time to end.
    #[inline]
    pub(crate) fn are_near(&self) -> bool {
        self.stop.is_stopped() || self.failed.is_stopped()
    }
}
