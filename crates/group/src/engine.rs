//! The thread that talks to a library: all calls of a library come from the thread that set it up.
//!
//! Libraries wait without an end in sight, so who asked waits for the thread instead, with a limit.
//! A thread that is stuck in a library is left there: the process is about to end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::GroupError;

/// How long a library may take to say farewell; a host that is gone must not hold up the others.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long the others may keep this process waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// In a step, where all do the same.
    pub step: Duration,
    /// At the edges of a run, where one host may have much more to do than another.
    pub edge: Duration,
}

/// A library that processes find each other by. What goes wrong it says in words.
pub(crate) trait Backend {
    /// What it sees.
    fn seen(&self) -> Seen;
    /// Waits for all.
    fn barrier(&mut self) -> Result<(), String>;
    /// What each gave, by rank.
    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String>;
    /// Ends all.
    fn abort(&mut self, code: u8);
    /// Leaves in good order.
    fn leave(&mut self);
}

/// What a library sees of the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// The library in its own words.
    pub(crate) library: String,
}

type Then = Box<dyn FnOnce(Result<Duration, GroupError>) + Send>;
type ThenGathered = Box<dyn FnOnce(Result<Vec<Vec<u8>>, GroupError>) + Send>;

enum Ask {
    Barrier(Then),
    Gather(Vec<u8>, ThenGathered),
    Empty(u32, Sender<Result<Vec<Duration>, GroupError>>),
    Leave(Sender<()>),
    Abort(u8, Sender<()>),
}

/// A running thread with its library.
#[derive(Debug)]
pub(crate) struct Engine {
    seen: Seen,
    patience: Patience,
    asks: Mutex<Sender<Ask>>,
    busy: Arc<Busy>,
}

/// Since when the thread has been in the library.
#[derive(Debug)]
struct Busy {
    epoch: Instant,
    /// Nanoseconds after the epoch, 0 while it is not.
    since: AtomicU64,
}

impl Busy {
    fn begin(&self) {
        let now = self.epoch.elapsed().as_nanos() as u64;
        self.since.store(now.max(1), Ordering::Relaxed);
    }

    fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    fn elapsed(&self) -> Option<Duration> {
        let since = self.since.load(Ordering::Relaxed);
        let now = self.epoch.elapsed().as_nanos() as u64;
        (since > 0).then(|| Duration::from_nanos(now.saturating_sub(since)))
    }
}

impl Engine {
    /// Sets a library up on a thread of its own. Every later call may take as long as `patience`.
    ///
    /// # Errors
    /// Why the library cannot be used.
    pub(crate) fn start<B: Backend>(
        patience: Patience,
        open: impl FnOnce() -> Result<B, String> + Send + 'static,
    ) -> Result<Self, String> {
        let (asks, asked) = mpsc::channel();
        let (told, began) = mpsc::channel();
        let busy = Arc::new(Busy {
            epoch: Instant::now(),
            since: AtomicU64::new(0),
        });
        let of_thread = Arc::clone(&busy);
        thread::Builder::new()
            .name("group".to_string())
            .spawn(move || {
                // Sleeps between looks are to be short.
                let one_nanosecond = Some(std::num::NonZeroU64::MIN);
                let _ = rustix::thread::set_current_timer_slack(one_nanosecond);
                match open() {
                    Err(why) => drop(told.send(Err(why))),
                    Ok(backend) => {
                        let _ = told.send(Ok(backend.seen()));
                        serve(backend, &asked, &of_thread);
                    }
                }
            })
            .map_err(|error| format!("no thread could be started: {error}"))?;
        // Hosts of a large job may be started one after the other.
        let limit = patience.edge.max(Duration::from_secs(60));
        let seen = match began.recv_timeout(limit) {
            Ok(seen) => seen?,
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("no answer in {} s", limit.as_secs()));
            }
            Err(RecvTimeoutError::Disconnected) => return Err("it broke down".to_string()),
        };
        Ok(Self {
            seen,
            patience,
            asks: Mutex::new(asks),
            busy,
        })
    }

    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    pub(crate) fn barrier(&self) -> Result<(), GroupError> {
        let (told, answer) = mpsc::channel();
        let then: Then = Box::new(move |went| drop(told.send(went.map(drop))));
        self.await_answer(Ask::Barrier(then), &answer, AT_BARRIER)
    }

    pub(crate) fn barrier_then(&self, then: Then) {
        if let Err(mpsc::SendError(Ask::Barrier(then))) = self.ask(Ask::Barrier(then)) {
            then(Err(lost(AT_BARRIER, BROKEN)));
        }
    }

    pub(crate) fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, GroupError> {
        let (told, answer) = mpsc::channel();
        let then: ThenGathered = Box::new(move |went| drop(told.send(went)));
        self.await_answer(Ask::Gather(bytes.to_vec(), then), &answer, EXCHANGING)
    }

    pub(crate) fn all_gather_then(&self, bytes: Vec<u8>, then: ThenGathered) {
        if let Err(mpsc::SendError(Ask::Gather(_, then))) = self.ask(Ask::Gather(bytes, then)) {
            then(Err(lost(EXCHANGING, BROKEN)));
        }
    }

    pub(crate) fn empty_barriers(&self, count: u32) -> Result<Vec<Duration>, GroupError> {
        let (told, answer) = mpsc::channel();
        self.await_answer(Ask::Empty(count, told), &answer, AT_BARRIER)
    }

    pub(crate) fn overdue(&self, limit: Duration) -> Option<GroupError> {
        let waited = self.busy.elapsed()?;
        (waited > limit).then_some(GroupError::Silent {
            who: Vec::new(),
            during: AT_BARRIER,
            waited,
        })
    }

    pub(crate) fn leave(&self) {
        let (told, over) = mpsc::channel();
        if self.ask(Ask::Leave(told)).is_ok() {
            let _ = over.recv_timeout(FAREWELL);
        }
    }

    pub(crate) fn abort(&self, code: u8) {
        let (told, over) = mpsc::channel();
        // A thread that is in the library does not hear it; that this process ends must do then.
        if self.busy.elapsed().is_none() && self.ask(Ask::Abort(code, told)).is_ok() {
            let _ = over.recv_timeout(FAREWELL);
        }
    }

    fn ask(&self, ask: Ask) -> Result<(), mpsc::SendError<Ask>> {
        let asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
        asks.send(ask)
    }

    fn await_answer<T>(
        &self,
        ask: Ask,
        answer: &Receiver<Result<T, GroupError>>,
        during: &'static str,
    ) -> Result<T, GroupError> {
        self.ask(ask).map_err(|_| lost(during, BROKEN))?;
        match answer.recv_timeout(self.patience.edge) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err(GroupError::Silent {
                who: Vec::new(),
                during,
                waited: self.patience.edge,
            }),
            Err(RecvTimeoutError::Disconnected) => Err(lost(during, BROKEN)),
        }
    }
}

const AT_BARRIER: &str = "at a barrier";
const EXCHANGING: &str = "while results were exchanged";
const BROKEN: &str = "the thread that talks to the library has ended";

fn lost(during: &'static str, why: &str) -> GroupError {
    let why = why.to_string();
    GroupError::Lost { during, why }
}

fn serve(mut backend: impl Backend, asked: &Receiver<Ask>, busy: &Busy) {
    while let Ok(ask) = asked.recv() {
        busy.begin();
        match ask {
            Ask::Barrier(then) => {
                let came = Instant::now();
                let went = backend.barrier();
                let waited = came.elapsed();
                busy.end();
                let went = went.map(|()| waited);
                then(went.map_err(|why| lost(AT_BARRIER, &why)));
            }
            Ask::Gather(bytes, then) => {
                let gathered = backend.all_gather(&bytes);
                busy.end();
                then(gathered.map_err(|why| lost(EXCHANGING, &why)));
            }
            Ask::Empty(count, told) => {
                let took = empty_barriers(&mut backend, count);
                busy.end();
                let _ = told.send(took.map_err(|why| lost(AT_BARRIER, &why)));
            }
            Ask::Leave(told) => {
                backend.leave();
                let _ = told.send(());
                return;
            }
            Ask::Abort(code, told) => {
                backend.abort(code);
                let _ = told.send(());
                return;
            }
        }
    }
}

fn empty_barriers(backend: &mut impl Backend, count: u32) -> Result<Vec<Duration>, String> {
    // They begin together.
    backend.barrier()?;
    let mut took = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let begun = Instant::now();
        backend.barrier()?;
        took.push(begun.elapsed());
    }
    Ok(took)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Two processes of which the other one never comes.
    struct Hung;

    impl Backend for Hung {
        fn seen(&self) -> Seen {
            Seen {
                rank: 0,
                size: 2,
                library: "hung".to_string(),
            }
        }

        fn barrier(&mut self) -> Result<(), String> {
            loop {
                thread::park();
            }
        }

        fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
            Ok(vec![bytes.to_vec(), Vec::new()])
        }

        fn abort(&mut self, _code: u8) {}

        fn leave(&mut self) {}
    }

    #[test]
    fn who_does_not_come_ends_the_wait() {
        let limit = Duration::from_millis(50);
        let patience = Patience {
            step: limit,
            edge: limit,
        };
        let engine = Engine::start(patience, || Ok(Hung)).unwrap();
        assert_eq!(
            engine.all_gather(b"a").unwrap(),
            [b"a".to_vec(), Vec::new()]
        );
        assert_eq!(engine.overdue(limit), None);
        let silent = engine.barrier().unwrap_err();
        assert!(matches!(silent, GroupError::Silent { .. }), "{silent}");
        while engine.overdue(limit).is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        // It returns, although the thread is stuck.
        engine.abort(5);
    }

    #[test]
    fn a_library_that_cannot_be_used_says_why() {
        let second = Duration::from_secs(1);
        let patience = Patience {
            step: second,
            edge: second,
        };
        let refused = Engine::start(patience, || Err::<Hung, _>("no".to_string()));
        assert_eq!(refused.unwrap_err(), "no");
    }
}
