//! A process group as seen by its members.

use std::time::{Duration, Instant};

use crate::engine::CommThread;
use crate::error::GroupError;
use crate::rounds::{AT_BARRIER, CommonWork, EXCHANGING, LibraryView, Next, Rounds};

/// The processes of a run; each stands for a host.
#[derive(Debug)]
pub struct Group {
    seen: LibraryView,
    backend: &'static str,
    /// `None` if this process is alone.
    engine: Option<CommThread>,
}

impl Group {
    /// The group of a single process. Its operations return at once.
    pub fn alone() -> Self {
        let seen = LibraryView { rank: 0, size: 1, library: String::new() };
        Self { seen, backend: "none", engine: None }
    }

    pub(crate) fn of(engine: CommThread, backend: &'static str) -> Self {
        Self { seen: engine.seen().clone(), backend, engine: Some(engine) }
    }

    /// The rank of this process, from 0.
    pub fn rank(&self) -> u32 {
        self.seen.rank
    }

    /// The number of processes.
    pub fn size(&self) -> u32 {
        self.seen.size
    }

    /// Whether this process is alone.
    pub fn is_alone(&self) -> bool {
        self.seen.size == 1
    }

    /// Whether this process acts on behalf of all.
    pub fn leads(&self) -> bool {
        self.seen.rank == 0
    }

    /// How the processes found each other: `mpi`, `pmix`, `pmi1` or `none`.
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    /// The library's description, such as `Open MPI v4.1.4`; empty without a library.
    pub fn library(&self) -> &str {
        &self.seen.library
    }

    /// Sets the display name of each process, by rank, for use in errors.
    pub fn call_them(&self, names: Vec<String>) {
        if let Some(engine) = &self.engine {
            engine.call_them(names);
        }
    }

    /// Waits for all processes.
    ///
    /// # Errors
    /// If another process does not arrive in time, or the library fails.
    pub fn barrier(&self) -> Result<(), GroupError> {
        self.engine.as_ref().map_or(Ok(()), CommThread::barrier)
    }

    /// Starts a barrier, and calls `then` on a thread of the group once all have arrived.
    /// [`Self::overdue`] shows whether a process has fallen silent; no other event ends the wait.
    pub fn barrier_then(&self, then: impl FnOnce(Result<(), GroupError>) + Send + 'static) {
        match &self.engine {
            None => then(Ok(())),
            Some(engine) => engine.ask(AT_BARRIER, Rounds::barrier, then),
        }
    }

    /// Starts the barrier at the end of a step, like [`Self::barrier_then`], and passes `then` the
    /// time for which other processes kept this one waiting, or `None` if a process was interrupted
    /// in the meantime ([`Self::works`]). All must give the same `next`.
    pub fn step_then(
        &self,
        next: Next,
        then: impl FnOnce(Result<Option<Duration>, GroupError>) + Send + 'static,
    ) {
        match &self.engine {
            None => then(Ok(Some(Duration::ZERO))),
            Some(engine) => {
                let came = Instant::now();
                engine.ask(AT_BARRIER, move |rounds| rounds.step(came, next), then);
            }
        }
    }

    /// Starts work that all processes end through `stop` once `is_stopped` holds on any of them;
    /// all learn of it in the same round. Must be called by all.
    pub fn works(
        &self,
        is_stopped: impl Fn() -> bool + Send + 'static,
        stop: impl Fn() + Send + 'static,
    ) {
        if let Some(engine) = &self.engine {
            let work = CommonWork { is_stopped: Box::new(is_stopped), stop: Box::new(stop) };
            let begin = move |rounds: &mut Rounds| {
                rounds.begin(work);
                Ok(())
            };
            engine.ask(AT_BARRIER, begin, drop);
        }
    }

    /// Starts waiting until all have finished their [work](Self::works), and passes `then` whether
    /// one was interrupted; all get the same answer. Must be called by all.
    pub fn edge_then(&self, then: impl FnOnce(Result<bool, GroupError>) + Send + 'static) {
        match &self.engine {
            None => then(Ok(false)),
            Some(engine) => engine.ask(AT_BARRIER, Rounds::edge, then),
        }
    }

    /// Whether processes exchange heartbeats at present: they do not between steps.
    pub fn hears(&self) -> bool {
        self.engine.as_ref().is_some_and(CommThread::hears)
    }

    /// Exchanges `bytes` with all processes and returns their values by rank.
    ///
    /// # Errors
    /// If another process does not arrive in time, or the library fails.
    pub fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, GroupError> {
        match &self.engine {
            None => Ok(vec![bytes.to_vec()]),
            Some(engine) => engine.all_gather(bytes),
        }
    }

    /// Starts to exchange `bytes` like [`Self::all_gather`], and calls `then` on a thread of the
    /// group. As with [`Self::barrier_then`], the wait has no timeout.
    pub fn all_gather_then(
        &self,
        bytes: Vec<u8>,
        then: impl FnOnce(Result<Vec<Vec<u8>>, GroupError>) + Send + 'static,
    ) {
        match &self.engine {
            None => then(Ok(vec![bytes])),
            Some(engine) => engine.ask(EXCHANGING, move |rounds| rounds.gather(&bytes), then),
        }
    }

    /// How long `count` uncontended barriers took: each process enters the next one as soon as it has
    /// left the last. Empty if alone.
    ///
    /// # Errors
    /// If another process does not arrive in time, or the library fails.
    pub fn barriers(&self, count: u32) -> Result<Vec<Duration>, GroupError> {
        match &self.engine {
            None => Ok(Vec::new()),
            Some(engine) => engine.barriers(count),
        }
    }

    /// The timeout error, if another process has been silent for longer than `limit`.
    pub fn overdue(&self, limit: Duration) -> Option<GroupError> {
        self.engine.as_ref().and_then(|engine| engine.overdue(limit))
    }

    /// Why communication has failed, if the library has reported it.
    pub fn broken(&self) -> Option<GroupError> {
        self.engine.as_ref().and_then(CommThread::broken)
    }

    /// Maximum silence of other processes at present.
    pub fn patience(&self) -> Duration {
        self.engine.as_ref().map_or(Duration::MAX, CommThread::patience)
    }

    /// Leaves the group after a complete run. Must be called by all.
    pub fn leave(&self) {
        if let Some(engine) = &self.engine {
            engine.leave();
        }
    }

    /// Aborts the whole run after a failure, with this exit code. If the library still responds, it
    /// ends the other processes and possibly this one too, so this must be the last call.
    pub fn abort(&self, code: u8) {
        if let Some(engine) = &self.engine {
            engine.abort(code);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_process_needs_no_group() {
        let group = Group::alone();
        assert_eq!((group.rank(), group.size(), group.backend()), (0, 1, "none"));
        assert!(group.leads() && group.is_alone());
        group.barrier().unwrap();
        assert_eq!(group.all_gather(b"x").unwrap(), [b"x".to_vec()]);
        assert!(group.barriers(10).unwrap().is_empty());
        assert_eq!(group.overdue(Duration::ZERO), None);
        let (told, came) = std::sync::mpsc::channel();
        group.barrier_then(move |went| told.send(went).unwrap());
        came.try_recv().unwrap().unwrap();
        let (told, gathered) = std::sync::mpsc::channel();
        group.all_gather_then(b"y".to_vec(), move |all| told.send(all).unwrap());
        assert_eq!(gathered.try_recv().unwrap().unwrap(), [b"y".to_vec()]);
        group.leave();
    }
}
