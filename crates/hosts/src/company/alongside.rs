//! Hosts that work alongside each other, and wait for each other when they are done.

use crate::GroupError;
use stormlp_core::stop::StopToken;

use super::Hosts;

impl Hosts {
    /// Does `work` while all hosts tell each other that they do theirs; `stop` ends it on all of them,
    /// on whichever it is pulled. Then waits for the others, unless `has_failed` says of what came of it
    /// that there is nothing to wait for. Also whether all were told to end, or why another host has not
    /// been heard of: `stop` was pulled then.
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

    /// Does `work` in the same way, whatever comes of it.
    ///
    /// # Errors
    /// When another host has not been heard of for too long: `stop` is pulled then.
    pub fn work<T>(&self, stop: &StopToken, work: impl FnOnce() -> T) -> Result<T, GroupError> {
        let (done, heard) = self.alongside(stop, work, |_| false);
        heard.map(|_| done)
    }
    /// Does `work` while a thread beside it looks whether a host is lost: `stop` is pulled then. For those
    /// who look themselves otherwise.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn watched<T>(&self, stop: &StopToken, work: impl FnOnce() -> T) -> Result<T, GroupError> {
        let alive = self.watch(stop)?;
        let done = work();
        alive.end();
        Ok(done)
    }
}
