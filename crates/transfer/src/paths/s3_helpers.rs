//! The threads of the path to objects where a thread has several connections.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use stormlp_core::evidence::ObjectStore;

use super::s3::{Connection, Job};
use crate::error::TransferError;
use crate::thread_group::{Panicked, guarded};
use crate::transfer::Completion;

/// Threads with one connection each, which take transfers in turn.
pub(super) struct Helpers {
    connections: Vec<Arc<Mutex<Connection>>>,
    /// Closed at the end, which ends the threads.
    jobs: Option<Sender<Job>>,
    done: Receiver<Result<Completion, Panicked>>,
    in_flight: usize,
    /// Why a transfer never comes back, if one does not.
    lost: Option<String>,
    threads: Vec<JoinHandle<()>>,
}

impl Helpers {
    /// Starts `count` threads. They run where the calling thread may run.
    pub(super) fn start(count: usize) -> Result<Self, TransferError> {
        let (jobs, queue) = channel::<Job>();
        let (sender, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut helpers = Self {
            connections: Vec::with_capacity(count),
            jobs: Some(jobs),
            done,
            in_flight: 0,
            lost: None,
            threads: Vec::with_capacity(count),
        };
        for _ in 0..count {
            let connection = Arc::<Mutex<Connection>>::default();
            helpers.connections.push(Arc::clone(&connection));
            let (queue, sender) = (Arc::clone(&queue), sender.clone());
            let serve = move || serve(&connection, &queue, &sender);
            let thread = thread::Builder::new().name("connection".to_string()).spawn(serve);
            let action = "starting a thread for each connection";
            helpers.threads.push(thread.map_err(|source| TransferError::Io { action, source })?);
        }
        Ok(helpers)
    }

    /// Gives a transfer to the next idle thread.
    pub(super) fn hand_over(&mut self, job: Job) {
        let jobs = self.jobs.as_ref().expect("it is closed at the end");
        jobs.send(job).expect("threads serve as long as jobs may come");
        self.in_flight += 1;
    }

    /// Waits for `min` transfers, or all if fewer are in flight.
    pub(super) fn wait(
        &mut self,
        min: usize,
        done: &mut Vec<Completion>,
    ) -> Result<(), TransferError> {
        self.complain()?;
        for _ in 0..min.min(self.in_flight) {
            let landed = self.done.recv().expect("threads serve until the end");
            self.take(landed, done)?;
        }
        while let Ok(landed) = self.done.try_recv() {
            self.take(landed, done)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        landed: Result<Completion, Panicked>,
        done: &mut Vec<Completion>,
    ) -> Result<(), TransferError> {
        self.in_flight -= 1;
        match landed {
            Ok(completion) => done.push(completion),
            Err(panic) => self.lost = Some(panic.to_string()),
        }
        self.complain()
    }

    /// The transfer of a thread that panicked is lost: whoever waits for it would wait forever.
    fn complain(&self) -> Result<(), TransferError> {
        match &self.lost {
            None => Ok(()),
            Some(panic) => Err(TransferError::Io {
                action: "a connection",
                source: std::io::Error::other(panic.clone()),
            }),
        }
    }

    /// Does something with each connection; nothing is in flight.
    pub(super) fn each(&mut self, act: impl Fn(&mut Connection)) {
        for connection in &self.connections {
            act(&mut connection.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// What passed over all connections.
    pub(super) fn evidence(&self) -> Option<ObjectStore> {
        let of = |connection: &Arc<Mutex<Connection>>| {
            connection.lock().unwrap_or_else(PoisonError::into_inner).evidence()
        };
        self.connections.iter().filter_map(of).reduce(|sum, one| sum.plus(&one))
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        drop(self.jobs.take());
        for thread in self.threads.drain(..) {
            // Whatever it panicked with was told.
            let _ = thread.join();
        }
    }
}

/// Performs transfers until no more can come.
fn serve(
    connection: &Mutex<Connection>,
    queue: &Mutex<Receiver<Job>>,
    done: &Sender<Result<Completion, Panicked>>,
) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        let perform = || connection.lock().unwrap_or_else(PoisonError::into_inner).perform(job);
        // The path may be gone by now.
        let _ = done.send(guarded("connection", perform));
    }
}
