//! The thread that owns a library, and the protocol between hosts.
//!
//! A library waits for all without a timeout and does not report whether other processes are alive.
//! Hosts therefore meet in rounds: twice a second each states what it is doing, and a collective
//! operation takes place in the round after which all request the same one. A host that stays
//! silent has died or hangs.
//!
//! Barriers that end steps are too frequent and too short for that. From one to the next, hosts do
//! not exchange heartbeats ([`Next::Step`]), unless one of them may have more to do in between
//! ([`Next::Work`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::GroupError;

/// Heartbeat interval of working hosts: short enough for all to learn that a launcher is ending one
/// of them before it is killed.
const INTERVAL: Duration = Duration::from_millis(500);

/// Time after a suspension of this process within which the loss of other processes is attributed
/// to it.
const AFTERMATH: Duration = Duration::from_secs(30);

pub(crate) const AT_BARRIER: &str = "at a barrier";
pub(crate) const EXCHANGING: &str = "while results were exchanged";
const AT_WORK: &str = "while the hosts were working";

/// A library by which processes find each other. Errors are reported in words.
pub(crate) trait Backend {
    /// The library's view of the group.
    fn seen(&self) -> LibraryView;
    /// Waits for all processes.
    fn barrier(&mut self) -> Result<(), String>;
    /// Exchanges `bytes` and returns the values of all, by rank.
    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String>;
    /// Aborts all processes.
    fn abort(&mut self, code: u8);
    /// Shuts down cleanly.
    fn leave(&mut self);
}

/// A library's view of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LibraryView {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// The library's description.
    pub(crate) library: String,
}

/// The step after a barrier, equal on all hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The barrier of another step: no heartbeats until then.
    Step,
    /// Work with a very different duration on each host: all send heartbeats meanwhile.
    Work,
}

/// Work that ends on all hosts once one of them is interrupted.
pub(crate) struct CommonWork {
    /// Whether this host was interrupted.
    pub(crate) is_stopped: Box<dyn Fn() -> bool + Send>,
    /// Called once all know, in the same round, that one was interrupted.
    pub(crate) stop: Box<dyn Fn() + Send>,
}

/// A request to the thread; gets `None` once that has ended.
pub(crate) type Ask = Box<dyn FnOnce(Option<&mut Rounds>) + Send>;

/// A host's message in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Works = 0,
    Barrier = 1,
    Gather = 2,
    Barriers = 3,
    Step = 4,
    Edge = 5,
    Leaves = 6,
}

/// Flag added to any word: this host was interrupted.
const STOPPED: u8 = 0x80;

/// The health of the thread, readable by other threads.
#[derive(Debug)]
pub(crate) struct Health {
    epoch: Instant,
    /// When the current library call began: nanoseconds after the epoch, 0 outside of calls.
    since: AtomicU64,
    /// Whether all processes have met.
    met: AtomicBool,
    /// Whether hosts exchange heartbeats.
    in_rounds: AtomicBool,
    /// Why communication has failed.
    broken: Mutex<Option<GroupError>>,
    pulse: Mutex<Pulse>,
    /// A process that does not run for this long counts as suspended.
    standstill: Duration,
}

/// When this process was last known to run, and the time and length of its last suspension.
#[derive(Debug)]
struct Pulse {
    last: Instant,
    stood_still: Option<(Instant, Duration)>,
}

impl Health {
    /// For a process that is missed by the rest after `silence`.
    pub(crate) fn new(silence: Duration) -> Self {
        Self {
            pulse: Mutex::new(Pulse { last: Instant::now(), stood_still: None }),
            standstill: silence / 2,
            epoch: Instant::now(),
            since: AtomicU64::new(0),
            met: AtomicBool::new(false),
            in_rounds: AtomicBool::new(true),
            broken: Mutex::default(),
        }
    }

    fn begin(&self) {
        let now = self.epoch.elapsed().as_nanos() as u64;
        self.since.store(now.max(1), Ordering::Relaxed);
    }

    fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// How long the current library call has taken.
    pub(crate) fn busy_for(&self) -> Option<Duration> {
        let since = self.since.load(Ordering::Relaxed);
        let now = self.epoch.elapsed().as_nanos() as u64;
        (since > 0).then(|| Duration::from_nanos(now.saturating_sub(since)))
    }

    /// Records that this process is running; to be called often.
    pub(crate) fn beat(&self) {
        let mut pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, gap) = (Instant::now(), pulse.last.elapsed());
        if gap > self.standstill {
            pulse.stood_still = Some((now, gap));
        }
        pulse.last = now;
    }

    /// Replaces `error` if this process itself was suspended just before: then the other processes
    /// are not at fault.
    pub(crate) fn explain(&self, error: GroupError) -> GroupError {
        self.beat();
        let pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        match pulse.stood_still {
            Some((since, for_time)) if since.elapsed() < AFTERMATH => {
                GroupError::StoodStill { for_time }
            }
            _ => error,
        }
    }

    pub(crate) fn have_met(&self) -> bool {
        self.met.load(Ordering::Relaxed)
    }

    pub(crate) fn is_in_rounds(&self) -> bool {
        self.in_rounds.load(Ordering::Relaxed)
    }

    pub(crate) fn broken(&self) -> Option<GroupError> {
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.clone()
    }

    /// Records that communication has failed.
    pub(crate) fn break_off(&self, error: GroupError) {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.get_or_insert(error);
    }
}

/// The thread's state, with its library.
pub(crate) struct Rounds {
    backend: Box<dyn Backend>,
    health: Arc<Health>,
    work: Option<CommonWork>,
    /// Whether all have learned of a stop that has not yet been reported on this host.
    told: bool,
    /// Whether this host has left, or has aborted all.
    is_over: bool,
}

impl Rounds {
    pub(crate) fn new(backend: Box<dyn Backend>, health: Arc<Health>) -> Self {
        Self { backend, health, work: None, told: false, is_over: false }
    }

    /// Serves requests until asked to leave.
    pub(crate) fn serve(mut self, asked: &Receiver<Ask>) {
        while !self.is_over
            && let Some(ask) = self.next(asked)
        {
            ask(Some(&mut self));
        }
    }

    /// The next request; sends heartbeats until there is one.
    fn next(&mut self, asked: &Receiver<Ask>) -> Option<Ask> {
        loop {
            if !self.health.is_in_rounds() || self.health.broken().is_some() {
                return asked.recv().ok();
            }
            match asked.recv_timeout(INTERVAL) {
                Ok(ask) => return Some(ask),
                Err(RecvTimeoutError::Disconnected) => return None,
                // The error is kept for the next request.
                Err(RecvTimeoutError::Timeout) => drop(self.round(Word::Works)),
            }
        }
    }

    pub(crate) fn leave(&mut self) -> Result<(), GroupError> {
        self.is_over = true;
        self.agree(Word::Leaves)?;
        self.health.begin();
        self.backend.leave();
        Ok(())
    }

    pub(crate) fn abort(&mut self, code: u8) {
        self.is_over = true;
        self.backend.abort(code);
    }

    pub(crate) fn barrier(&mut self) -> Result<(), GroupError> {
        self.agree(Word::Barrier)?;
        self.call(AT_BARRIER, |backend| backend.barrier())
    }

    pub(crate) fn gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, GroupError> {
        self.agree(Word::Gather).map_err(|error| error.during(EXCHANGING))?;
        self.call(EXCHANGING, |backend| backend.all_gather(bytes))
    }

    /// How long this many consecutive barriers took.
    pub(crate) fn barriers(&mut self, count: u32) -> Result<Vec<Duration>, GroupError> {
        self.agree(Word::Barriers)?;
        self.call(AT_BARRIER, |backend| {
            // Lines the processes up for a common start.
            backend.barrier()?;
            let took = (0..count).map(|_| {
                let came = Instant::now();
                backend.barrier()?;
                Ok(came.elapsed())
            });
            took.collect()
        })
    }

    /// How long the step's barrier kept this host waiting; `None` if a host was interrupted in the
    /// meantime.
    pub(crate) fn step(
        &mut self,
        came: Instant,
        next: Next,
    ) -> Result<Option<Duration>, GroupError> {
        let came = match self.health.is_in_rounds() {
            true if self.agree(Word::Step)? => return Ok(None),
            true => came,
            false => Instant::now(),
        };
        self.call(AT_BARRIER, |backend| backend.barrier())?;
        let waited = came.elapsed();
        let in_rounds = next == Next::Work;
        self.health.in_rounds.store(in_rounds, Ordering::Relaxed);
        Ok(Some(waited))
    }

    pub(crate) fn begin(&mut self, work: CommonWork) {
        match self.told {
            // The other hosts were faster.
            true => (work.stop)(),
            false => self.work = Some(work),
        }
    }

    /// The end of the work; returns whether a host was interrupted.
    pub(crate) fn edge(&mut self) -> Result<bool, GroupError> {
        let stopped = match (self.told, &self.work) {
            (true, _) => true,
            // No heartbeats between steps.
            (false, Some(_)) if self.health.is_in_rounds() => self.agree(Word::Edge)?,
            (false, _) => false,
        };
        (self.told, self.work) = (false, None);
        Ok(stopped)
    }

    /// Repeats `word` until all send the same. Returns whether a host was interrupted, which ends
    /// steps and work.
    fn agree(&mut self, word: Word) -> Result<bool, GroupError> {
        self.health.in_rounds.store(true, Ordering::Relaxed);
        let ends_at_stop = matches!(word, Word::Step | Word::Edge);
        // Hosts that know of the stop skip the steps.
        while !(self.told && ends_at_stop) {
            let words = self.round(word)?;
            if self.told && ends_at_stop {
                break;
            }
            if words.iter().all(|said| *said == word as u8) {
                return Ok(false);
            }
            if !words.contains(&(Word::Works as u8)) {
                let why = "the hosts are not at the same point of the run".to_string();
                return Err(self.broken(GroupError::Lost { during: AT_BARRIER, why }));
            }
        }
        Ok(true)
    }

    /// Performs a round and returns each host's message, by rank.
    fn round(&mut self, word: Word) -> Result<Vec<u8>, GroupError> {
        if let Some(error) = self.health.broken() {
            return Err(error);
        }
        let stopped = self.work.as_ref().is_some_and(|work| (work.is_stopped)());
        let own = word as u8 | if stopped { STOPPED } else { 0 };
        let all = self.call(AT_WORK, |backend| backend.all_gather(&[own]))?;
        let said = |bytes: &Vec<u8>| bytes.first().copied().unwrap_or(STOPPED);
        let words: Vec<u8> = all.iter().map(said).collect();
        if words.iter().any(|said| said & STOPPED != 0) {
            self.told = true;
            if let Some(work) = self.work.take() {
                (work.stop)();
            }
        }
        Ok(words.iter().map(|said| said & !STOPPED).collect())
    }

    fn call<T>(
        &mut self,
        during: &'static str,
        call: impl FnOnce(&mut dyn Backend) -> Result<T, String>,
    ) -> Result<T, GroupError> {
        if let Some(error) = self.health.broken() {
            return Err(error);
        }
        self.health.begin();
        let went = call(&mut *self.backend);
        self.health.end();
        match went {
            Ok(value) => {
                self.health.met.store(true, Ordering::Relaxed);
                Ok(value)
            }
            Err(why) => {
                let error = self.health.explain(GroupError::Lost { during, why });
                Err(self.broken(error))
            }
        }
    }

    /// Marks communication as failed with `error`.
    fn broken(&self, error: GroupError) -> GroupError {
        self.health.break_off(error.clone());
        error
    }
}
