//! Looks after the other hosts while this one does what takes as long as it takes: files are laid out,
//! caches dropped, reports saved.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};

use stormlp_core::stop::StopToken;

use super::{Hosts, LOOK};

/// A thread beside the work that ends it once another host is lost.
#[derive(Debug)]
pub(super) struct Alive {
    done: Sender<()>,
    thread: JoinHandle<()>,
}

impl Alive {
    /// Begins; `stop` is pulled here once a host is lost.
    pub(super) fn begin(hosts: Hosts, stop: StopToken) -> io::Result<Self> {
        let (done, is_done) = mpsc::channel();
        let look = move || {
            while is_done.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if hosts.lost().is_some() {
                    return stop.stop();
                }
            }
        };
        let thread = thread::Builder::new().name("alive".to_string()).spawn(look)?;
        Ok(Self { done, thread })
    }

    /// The work is done: whoever waits then looks after the others.
    pub(super) fn end(self) {
        drop(self.done);
        // It has nothing to say.
        let _ = self.thread.join();
    }
}
