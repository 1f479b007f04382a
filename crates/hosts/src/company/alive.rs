//! Monitors the other hosts during local work of unbounded duration: laying out files, dropping
//! caches, saving reports.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};

use stormlp_core::stop::StopToken;

use super::{Hosts, LOOK};

/// A thread that ends the concurrent work once another host is lost.
#[derive(Debug)]
pub(super) struct Alive {
    done: Sender<()>,
    thread: JoinHandle<()>,
}

impl Alive {
    /// Starts monitoring; `stop` is triggered on this host once another one is lost.
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

    /// Ends monitoring when the work is done: from then on, whoever waits monitors the others.
    pub(super) fn end(self) {
        drop(self.done);
        // The thread has no result.
        let _ = self.thread.join();
    }
}
