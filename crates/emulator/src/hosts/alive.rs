//! A sign of life while a host does what takes as long as it takes: files are laid out, caches dropped,
//! reports saved. A thread beside it tells the others meanwhile.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};

use stormlp_group::GroupError;
use stormlp_model::stop::StopToken;

use super::{Hosts, LOOK, Pulse, garbled, unheard};

/// Tells the others that this host works, until it is done.
#[derive(Debug)]
pub(super) struct Alive {
    /// Is told that this host is done; without a word the thread ends alone.
    done: Sender<()>,
    thread: JoinHandle<Result<bool, GroupError>>,
}

impl Alive {
    /// Begins; `stop` is pulled here once it is on another host, or one is lost.
    pub(super) fn begin(hosts: Hosts, stop: StopToken) -> Result<Self, GroupError> {
        let (done, told) = mpsc::channel();
        let beat = move || {
            let mut pulse = Pulse::new(&hosts, &stop);
            loop {
                match told.recv_timeout(LOOK) {
                    Ok(()) => return pulse.finish(),
                    Err(RecvTimeoutError::Disconnected) => return Ok(true),
                    Err(RecvTimeoutError::Timeout) => {
                        pulse.beat().inspect_err(|_| stop.stop())?;
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("alive".to_string()).spawn(beat);
        let thread = thread.map_err(|error| garbled(&error))?;
        Ok(Self { done, thread })
    }

    /// Waits until all are done; whether one was told to end, of which all hear alike.
    pub(super) fn finish(self) -> Result<bool, GroupError> {
        // One that is gone has its answer already.
        let _ = self.done.send(());
        self.thread.join().unwrap_or_else(|_| Err(unheard()))
    }
}
