//! A group as those see it who work in it.

use std::time::Duration;

use crate::engine::{Engine, Patience};
use crate::error::GroupError;

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
        Self {
            rank: 0,
            size: 1,
            library: String::new(),
            backend: "none",
            engine: None,
        }
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

    /// Waits for all.
    ///
    /// # Errors
    /// When the others do not come in time, or the library fails.
    pub fn barrier(&self) -> Result<(), GroupError> {
        self.engine.as_ref().map_or(Ok(()), Engine::barrier)
    }

    /// Begins to wait for all, and calls `then` on a thread of the group's own once they have come,
    /// with how long that took from when the library was told that this process has. Whether that has been going on for too long [`Self::overdue`] tells; nothing else ends it.
    pub fn barrier_then(&self, then: impl FnOnce(Result<Duration, GroupError>) + Send + 'static) {
        match &self.engine {
            None => then(Ok(Duration::ZERO)),
            Some(engine) => engine.barrier_then(Box::new(then)),
        }
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

    /// What each of `count` barriers takes at which nobody is late: all begin the next one as soon
    /// as they have left the last. Nothing alone.
    ///
    /// # Errors
    /// When the others do not come in time, or the library fails.
    pub fn empty_barriers(&self, count: u32) -> Result<Vec<Duration>, GroupError> {
        match &self.engine {
            None => Ok(Vec::new()),
            Some(engine) => engine.empty_barriers(count),
        }
    }

    /// The error that waiting has become, if it has taken longer than `limit`.
    pub fn overdue(&self, limit: Duration) -> Option<GroupError> {
        self.engine
            .as_ref()
            .and_then(|engine| engine.overdue(limit))
    }

    /// How long waiting may take.
    pub fn patience(&self) -> Patience {
        let without_end = Patience {
            step: Duration::MAX,
            edge: Duration::MAX,
        };
        self.engine.as_ref().map_or(without_end, Engine::patience)
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
        assert_eq!(
            (group.rank(), group.size(), group.backend()),
            (0, 1, "none")
        );
        assert!(group.leads() && group.is_alone());
        group.barrier().unwrap();
        assert_eq!(group.all_gather(b"x").unwrap(), [b"x".to_vec()]);
        assert_eq!(group.empty_barriers(10).unwrap(), []);
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
