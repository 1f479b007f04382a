//! Hosts that tell each other that they work, by a thread beside the work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use stormlp_group::GroupError;
use stormlp_model::stop::StopToken;

use super::{Hosts, LOOK, Pulse};

/// Says that the work is over, even where it panicked.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Hosts {
    /// Does `work` on this thread while all hosts tell each other that they do theirs; `stop` ends it
    /// on all of them, on whichever it is pulled. Then waits for the others, unless `has_failed` says of
    /// what came of it that there is nothing to wait for. Also whether all were told to end, or why
    /// another host has not been heard of: `stop` was pulled then.
    pub(crate) fn alongside<T>(
        &self,
        stop: &StopToken,
        work: impl FnOnce() -> T,
        has_failed: impl FnOnce(&T) -> bool,
    ) -> (T, Result<bool, GroupError>) {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let beating = scope.spawn(|| {
                let mut pulse = Pulse::new(self, stop);
                while !over.load(Ordering::Relaxed) {
                    pulse.beat().inspect_err(|_| stop.stop())?;
                    thread::sleep(LOOK);
                }
                Ok(pulse)
            });
            let done = {
                let _over = Over(&over);
                work()
            };
            let pulse = beating
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let heard = match has_failed(&done) {
                true => pulse.map(|_| false),
                false => pulse.and_then(Pulse::finish),
            };
            (done, heard)
        })
    }
}
