//! The thread that talks to a library, and what the hosts tell each other by it.
//!
//! A library waits for all without an end in sight, and does not tell whether the others still live.
//! So hosts go there in rounds: twice a second each says what it is at, and what they are asked for
//! together is done in the round after which all want the same. Who says nothing has died or hangs.
//!
//! Barriers that end steps are too many and too short for that. From one to the next hosts say nothing
//! ([`Next::Step`]), unless one of them may have more to do in between ([`Next::Work`]).

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::error::GroupError;

/// How often hosts that work say so: so often that all hear of a launcher that ends one of them before
/// it is killed.
const INTERVAL: Duration = Duration::from_millis(500);

/// For how long after a standstill it is why the others are gone.
const AFTERMATH: Duration = Duration::from_secs(30);

pub(crate) const AT_BARRIER: &str = "at a barrier";
pub(crate) const EXCHANGING: &str = "while results were exchanged";
const AT_WORK: &str = "while all were at work";

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

/// What follows the barrier of a step, on all hosts alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The barrier of another step: until then nobody says anything.
    Step,
    /// What may take one host much longer than another: all say meanwhile that they are there.
    Work,
}

/// When something was, by the clock that never goes back and by the one that tells the time.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// By the clock that never goes back.
    pub instant: Instant,
    /// The time of day.
    pub system: SystemTime,
}

impl Moment {
    fn now() -> Self {
        Self { instant: Instant::now(), system: SystemTime::now() }
    }
}

/// Right before a barrier, and right after it.
pub type AroundBarrier = [Moment; 2];

/// Work that ends on all hosts once one of them is told to end it.
pub(crate) struct Work {
    /// Whether this host was told.
    pub(crate) is_stopped: Box<dyn Fn() -> bool + Send>,
    /// All have heard in the same round that one was told.
    pub(crate) stop: Box<dyn Fn() + Send>,
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

pub(crate) type Then<T> = Box<dyn FnOnce(Result<T, GroupError>) + Send>;

/// What the thread is asked for.
pub(crate) enum Ask {
    Barrier(Then<()>),
    Gather(Vec<u8>, Then<Vec<Vec<u8>>>),
    /// So many barriers on end.
    Barriers(u32, Then<Vec<AroundBarrier>>),
    /// The barrier of a step; nothing comes of it where one was told to end meanwhile.
    Step {
        came: Instant,
        next: Next,
        then: Then<Option<Duration>>,
    },
    Work(Work),
    /// The end of the work; whether one was told to end it.
    Edge(Then<bool>),
    Leave(Sender<()>),
    Abort(u8, Sender<()>),
}

/// What a host says in a round.
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

/// Beside any word: this host was told to end.
const STOPPED: u8 = 0x80;

/// How the thread is doing, to be looked at by others.
#[derive(Debug)]
pub(crate) struct Health {
    epoch: Instant,
    /// Since when it has been in the library: nanoseconds after the epoch, 0 while it is not.
    since: AtomicU64,
    /// Whether all have met.
    met: AtomicBool,
    /// Whether hosts say how they are.
    in_rounds: AtomicBool,
    /// Why nothing more comes of it.
    broken: Mutex<Option<GroupError>>,
    pulse: Mutex<Pulse>,
    /// Who does not run for so long has stood still.
    standstill: Duration,
}

/// When this process was last known to run, and since when after a standstill of how long.
#[derive(Debug)]
struct Pulse {
    last: Instant,
    stood_still: Option<(Instant, Duration)>,
}

impl Health {
    /// Of a process that the others miss after `silence`.
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

    /// How long the library has been at what it was asked for last.
    pub(crate) fn busy_for(&self) -> Option<Duration> {
        let since = self.since.load(Ordering::Relaxed);
        let now = self.epoch.elapsed().as_nanos() as u64;
        (since > 0).then(|| Duration::from_nanos(now.saturating_sub(since)))
    }

    /// This process runs; to be called often.
    pub(crate) fn beat(&self) {
        let mut pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, gap) = (Instant::now(), pulse.last.elapsed());
        if gap > self.standstill {
            pulse.stood_still = Some((now, gap));
        }
        pulse.last = now;
    }

    /// The error that `error` is where this process stood still right before it: the others have not.
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

    /// Nothing more is to come of it.
    pub(crate) fn break_off(&self, error: GroupError) {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.get_or_insert(error);
    }
}

/// The thread with its library.
pub(crate) struct Rounds<B> {
    backend: B,
    health: Arc<Health>,
    work: Option<Work>,
    /// Whether all have heard that one was told to end, which this host has not asked for yet.
    told: bool,
}

impl<B: Backend> Rounds<B> {
    pub(crate) fn new(backend: B, health: Arc<Health>) -> Self {
        Self { backend, health, work: None, told: false }
    }

    /// Does what it is asked for, until it is to leave.
    pub(crate) fn serve(mut self, asked: &Receiver<Ask>) {
        while let Some(ask) = self.next(asked) {
            if self.answer(ask).is_break() {
                return;
            }
        }
    }

    /// What is asked for next; until then the others hear that this host works.
    fn next(&mut self, asked: &Receiver<Ask>) -> Option<Ask> {
        loop {
            if !self.health.is_in_rounds() || self.health.broken().is_some() {
                return asked.recv().ok();
            }
            match asked.recv_timeout(INTERVAL) {
                Ok(ask) => return Some(ask),
                Err(RecvTimeoutError::Disconnected) => return None,
                // What went wrong is kept for whoever asks next.
                Err(RecvTimeoutError::Timeout) => drop(self.round(Word::Works)),
            }
        }
    }

    fn answer(&mut self, ask: Ask) -> ControlFlow<()> {
        match ask {
            Ask::Barrier(then) => then(self.barrier()),
            Ask::Gather(bytes, then) => then(self.gather(&bytes)),
            Ask::Barriers(count, then) => then(self.barriers(count)),
            Ask::Step { came, next, then } => then(self.step(came, next)),
            Ask::Work(work) => self.begin(work),
            Ask::Edge(then) => then(self.edge()),
            Ask::Leave(told) => {
                if self.agree(Word::Leaves).is_ok() {
                    self.health.begin();
                    self.backend.leave();
                }
                let _ = told.send(());
                return ControlFlow::Break(());
            }
            Ask::Abort(code, told) => {
                self.backend.abort(code);
                let _ = told.send(());
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn barrier(&mut self) -> Result<(), GroupError> {
        self.agree(Word::Barrier)?;
        self.call(AT_BARRIER, B::barrier)
    }

    fn gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, GroupError> {
        self.agree(Word::Gather).map_err(|error| error.during(EXCHANGING))?;
        self.call(EXCHANGING, |backend| backend.all_gather(bytes))
    }

    fn barriers(&mut self, count: u32) -> Result<Vec<AroundBarrier>, GroupError> {
        self.agree(Word::Barriers)?;
        self.call(AT_BARRIER, |backend| {
            // They begin together.
            backend.barrier()?;
            let around = (0..count).map(|_| {
                let came = Moment::now();
                backend.barrier()?;
                Ok([came, Moment::now()])
            });
            around.collect()
        })
    }

    /// How long the step's barrier kept this host waiting; nothing where one was told to end.
    fn step(&mut self, came: Instant, next: Next) -> Result<Option<Duration>, GroupError> {
        let came = match self.health.is_in_rounds() {
            true if self.agree(Word::Step)? => return Ok(None),
            true => came,
            false => Instant::now(),
        };
        self.call(AT_BARRIER, B::barrier)?;
        let waited = came.elapsed();
        let in_rounds = next == Next::Work;
        self.health.in_rounds.store(in_rounds, Ordering::Relaxed);
        Ok(Some(waited))
    }

    fn begin(&mut self, work: Work) {
        match self.told {
            // The others were faster.
            true => (work.stop)(),
            false => self.work = Some(work),
        }
    }

    fn edge(&mut self) -> Result<bool, GroupError> {
        let stopped = match (self.told, &self.work) {
            (true, _) => true,
            // From step to step nobody hears anything.
            (false, Some(_)) if self.health.is_in_rounds() => self.agree(Word::Edge)?,
            (false, _) => false,
        };
        (self.told, self.work) = (false, None);
        Ok(stopped)
    }

    /// Says `word` until all do; whether one was told to end, which ends steps and work.
    fn agree(&mut self, word: Word) -> Result<bool, GroupError> {
        self.health.in_rounds.store(true, Ordering::Relaxed);
        let ends_at_stop = matches!(word, Word::Step | Word::Edge);
        // Those who have heard do not come to a step any more.
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

    /// What each says, by rank.
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
        call: impl FnOnce(&mut B) -> Result<T, String>,
    ) -> Result<T, GroupError> {
        if let Some(error) = self.health.broken() {
            return Err(error);
        }
        self.health.begin();
        let went = call(&mut self.backend);
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

    /// Breaks off for `error`.
    fn broken(&self, error: GroupError) -> GroupError {
        self.health.break_off(error.clone());
        error
    }
}
