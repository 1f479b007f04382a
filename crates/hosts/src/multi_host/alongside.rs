//! Hosts that work in parallel and wait for each other at the end.

use crate::error::GroupError;
use stormlp_core::stop::StopToken;

use super::Hosts;

impl Hosts {
    /// Does `work` while all hosts exchange heartbeats; `stop` ends it on all hosts, whichever host
    /// it is triggered on. Then waits for the others, unless `has_failed` says of the result that
    /// there is nothing to wait for. Also returns whether all were interrupted, or why another
    /// host was given up, in which case `stop` was triggered.
    pub fn alongside<T>(
        &self,
        stop: &StopToken,
        work: impl FnOnce() -> T,
        has_failed: impl FnOnce(&T) -> bool,
    ) -> (T, Result<bool, GroupError>) {
        let begun = self.works(stop);
        let done = work();
        let heard = begun.and_then(|()| if has_failed(&done) { Ok(false) } else { self.edge() });
        (done, heard)
    }

    /// Does `work` in the same way, whatever its result.
    ///
    /// # Errors
    /// If another host has been silent for too long; `stop` is then triggered.
    pub fn work<T>(&self, stop: &StopToken, work: impl FnOnce() -> T) -> Result<T, GroupError> {
        let (done, heard) = self.alongside(stop, work, |_| false);
        heard.map(|_| done)
    }
    /// Does `work` while a thread monitors whether a host is lost, in which case `stop` is
    /// triggered. For callers whose own check does not run during this work.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn watched<T>(&self, stop: &StopToken, work: impl FnOnce() -> T) -> Result<T, GroupError> {
        let alive = self.watch(stop)?;
        let done = work();
        alive.end();
        Ok(done)
    }
}
