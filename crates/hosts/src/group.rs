//! A group as those see it who work in it.

use std::time::Duration;

use crate::engine::Engine;
use crate::error::GroupError;
use crate::rounds::{AroundBarrier, Next, Work};

/// The processes of one run; each stands for a host.
#[derive(Debug)]
pub struct Group {
    rank: u32,
    size: u32,
    library: String,
    backend: &'static str,
    /// `None` where there is nobody else.
    engine: Option<Engine>,
}

impl Group {
    /// The group of a process that has nobody else. Nothing of it takes time.
    pub fn alone() -> Self {
        Self { rank: 0, size: 1, library: String::new(), backend: "none", engine: None }
    }

    pub(crate) fn of(engine: Engine, backend: &'static str) -> Self {
        let seen = engine.seen().clone();
        Self {
            rank: seen.rank,
            size: seen.size,
            library: seen.library,
            backend,
            engine: Some(engine),
        }
    }

    /// The number of this process, from 0.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many processes there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Whether there is nobody else.
    pub fn is_alone(&self) -> bool {
        self.size == 1
    }

    /// Whether this process speaks for all.
    pub fn leads(&self) -> bool {
        self.rank == 0
    }

    /// How the processes found each other: `mpi`, `pmix`, `pmi1` or `none`.
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    /// The library in its own words, such as `Open MPI v4.1.4`; empty without one.
    pub fn library(&self) -> &str {
        &self.library
    }

    /// Says what each process is called, by rank, so that errors can name one.
    pub fn call_them(&self, names: Vec<String>) {
        if let Some(engine) = &self.engine {
            engine.call_them(names);
        }
    }

    /// Waits for all.
    ///
    /// # Errors
    /// When the others do not come in time, or the library fails.
    pub fn barrier(&self) -> Result<(), GroupError> {
        self.engine.as_ref().map_or(Ok(()), Engine::barrier)
    }

    /// Begins to wait for all, and calls `then` on a thread of the group's own once they have come.
    /// Whether one says nothing any more [`Self::overdue`] tells; nothing else ends the wait.
    pub fn barrier_then(&self, then: impl FnOnce(Result<(), GroupError>) + Send + 'static) {
        match &self.engine {
            None => then(Ok(())),
            Some(engine) => engine.barrier_then(Box::new(then)),
        }
    }

    /// Begins to wait for all at the end of a step, as [`Self::barrier_then`] does, and tells `then` for
    /// how long the others kept this process waiting; nothing where one was told to end
    /// meanwhile ([`Self::works`]). All say alike what is `next`.
    pub fn step_then(
        &self,
        next: Next,
        then: impl FnOnce(Result<Option<Duration>, GroupError>) + Send + 'static,
    ) {
        match &self.engine {
            None => then(Ok(Some(Duration::ZERO))),
            Some(engine) => engine.step_then(next, Box::new(then)),
        }
    }

    /// Begins work that all end, by `stop`, once `is_stopped` says so on one of them; all hear of it
    /// in the same round. To be called by all.
    pub fn works(
        &self,
        is_stopped: impl Fn() -> bool + Send + 'static,
        stop: impl Fn() + Send + 'static,
    ) {
        if let Some(engine) = &self.engine {
            engine.works(Work { is_stopped: Box::new(is_stopped), stop: Box::new(stop) });
        }
    }

    /// Begins to wait until nobody [works](Self::works) any more, and tells `then` whether one was told to end,
    /// of which all hear alike. To be called by all.
    pub fn edge_then(&self, then: impl FnOnce(Result<bool, GroupError>) + Send + 'static) {
        match &self.engine {
            None => then(Ok(false)),
            Some(engine) => engine.edge_then(Box::new(then)),
        }
    }

    /// Whether processes tell each other that they are there: not from one step to the next.
    pub fn hears(&self) -> bool {
        self.engine.as_ref().is_some_and(Engine::hears)
    }

    /// Gives `bytes` to all, and returns what each of them gave, by rank.
    ///
    /// # Errors
    /// When the others do not come in time, or the library fails.
    pub fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, GroupError> {
        match &self.engine {
            None => Ok(vec![bytes.to_vec()]),
            Some(engine) => engine.all_gather(bytes),
        }
    }

    /// Begins to exchange `bytes` as [`Self::all_gather`] does, and calls `then` on a thread of the
    /// group's own. As with [`Self::barrier_then`] nothing ends the wait.
    pub fn all_gather_then(
        &self,
        bytes: Vec<u8>,
        then: impl FnOnce(Result<Vec<Vec<u8>>, GroupError>) + Send + 'static,
    ) {
        match &self.engine {
            None => then(Ok(vec![bytes])),
            Some(engine) => engine.all_gather_then(bytes, Box::new(then)),
        }
    }

    /// When each of `count` barriers began and ended at which nobody is late: all begin the next one as
    /// soon as they have left the last. Nothing alone.
    ///
    /// # Errors
    /// When the others do not come in time, or the library fails.
    pub fn barriers(&self, count: u32) -> Result<Vec<AroundBarrier>, GroupError> {
        match &self.engine {
            None => Ok(Vec::new()),
            Some(engine) => engine.barriers(count),
        }
    }

    /// The error that waiting has become, if nobody has been heard of for longer than `limit`.
    pub fn overdue(&self, limit: Duration) -> Option<GroupError> {
        self.engine.as_ref().and_then(|engine| engine.overdue(limit))
    }

    /// Why the others cannot be heard any more, where the library has said so.
    pub fn broken(&self) -> Option<GroupError> {
        self.engine.as_ref().and_then(Engine::broken)
    }

    /// For how long the others may say nothing now.
    pub fn patience(&self) -> Duration {
        self.engine.as_ref().map_or(Duration::MAX, Engine::patience)
    }

    /// Leaves: all were here to the end. To be called by all.
    pub fn leave(&self) {
        if let Some(engine) = &self.engine {
            engine.leave();
        }
    }

    /// Ends the whole run because of a failure, with this exit code. Where the library can still be
    /// asked, it ends the others and maybe this process too; so this is the last thing to do.
    pub fn abort(&self, code: u8) {
        if let Some(engine) = &self.engine {
            engine.abort(code);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn alone_needs_nobody() {
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
