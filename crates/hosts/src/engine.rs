//! Lets the threads of this process send requests to the thread that owns the library: all calls
//! into a library come from the thread that initialised it.
//!
//! Libraries wait without a timeout, so the requester waits for the thread instead, with a timeout.
//! A thread stuck in a library is left there: the process is about to end.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use stormlp_core::stop::StopToken;

use crate::error::GroupError;
use crate::rounds::{AT_BARRIER, Ask, Backend, EXCHANGING, Health, LibraryView, Rounds};

/// Timeout for a library to shut down; a lost host must not hold up the rest.
const FAREWELL: Duration = Duration::from_secs(5);
/// Timeout for a round that is still running while this process ends.
const LAST_ROUND: Duration = Duration::from_secs(1);
/// How often this process records that it is running.
const BEAT: Duration = Duration::from_millis(250);
/// Poll interval for the liveness of the hosts being waited for.
const LOOK: Duration = Duration::from_millis(100);

/// Maximum time that other processes may keep this one waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// How long a process may be silent, or late for the barrier of a step.
    pub silence: Duration,
    /// Maximum time until all have met: launchers do not start all processes at once.
    pub start: Duration,
}

/// A running communication thread with its library.
#[derive(Debug)]
pub(crate) struct CommThread {
    seen: LibraryView,
    patience: Timeouts,
    /// The user's request to stop.
    stop: StopToken,
    asks: Mutex<Sender<Ask>>,
    health: Arc<Health>,
    /// Display name of each process, by rank, once known.
    names: OnceLock<Vec<String>>,
}

impl CommThread {
    /// Initialises a library on a separate thread, within the time that `patience` allows and
    /// unless a stop is requested.
    ///
    /// # Errors
    /// Why the library cannot be used.
    pub(crate) fn start<B: Backend + 'static>(
        patience: Timeouts,
        stop: &StopToken,
        open: impl FnOnce() -> Result<B, String> + Send + 'static,
    ) -> Result<Self, String> {
        let (asks, asked) = mpsc::channel();
        let (told, began) = mpsc::channel();
        let health = Arc::new(Health::new(patience.silence));
        let (of_thread, beating) = (Arc::clone(&health), Arc::downgrade(&health));
        let beat = move || {
            while let Some(health) = beating.upgrade() {
                health.beat();
                thread::sleep(BEAT);
            }
        };
        let beats = thread::Builder::new().name("beat".to_string()).spawn(beat);
        beats.map_err(|error| format!("no thread could be started: {error}"))?;
        thread::Builder::new()
            .name("group".to_string())
            .spawn(move || {
                // Keeps the sleeps between polls short.
                let one_nanosecond = Some(std::num::NonZeroU64::MIN);
                let _ = rustix::thread::set_current_timer_slack(one_nanosecond);
                match open() {
                    Err(why) => drop(told.send(Err(why))),
                    Ok(backend) => {
                        let _ = told.send(Ok(backend.seen()));
                        Rounds::new(Box::new(backend), of_thread).serve(&asked);
                    }
                }
            })
            .map_err(|error| format!("no thread could be started: {error}"))?;
        let begun = Instant::now();
        let seen = loop {
            match began.recv_timeout(LOOK) {
                Ok(seen) => break seen?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("it failed unexpectedly".to_string());
                }
                Err(RecvTimeoutError::Timeout) if stop.is_stopped() => {
                    return Err("the run was stopped".to_string());
                }
                Err(RecvTimeoutError::Timeout) if begun.elapsed() >= patience.start => {
                    return Err(format!("no response within {} s", patience.start.as_secs()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        let (asks, stop) = (Mutex::new(asks), stop.clone());
        Ok(Self { seen, patience, stop, asks, health, names: OnceLock::new() })
    }

    pub(crate) fn call_them(&self, names: Vec<String>) {
        // The names do not change.
        let _ = self.names.set(names);
    }

    /// The host that does not answer, if there is only one other.
    fn other(&self) -> Vec<String> {
        let names = self.names.get().filter(|names| names.len() == 2);
        let other = names.and_then(|names| names.get(1 - self.seen.rank.min(1) as usize));
        other.into_iter().cloned().collect()
    }

    pub(crate) fn seen(&self) -> &LibraryView {
        &self.seen
    }

    /// Maximum silence of other processes at present.
    pub(crate) fn patience(&self) -> Duration {
        if self.health.have_met() {
            self.patience.silence
        } else {
            self.patience.start.max(self.patience.silence)
        }
    }

    pub(crate) fn barrier(&self) -> Result<(), GroupError> {
        self.ask_and_wait(AT_BARRIER, Rounds::barrier)
    }

    pub(crate) fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, GroupError> {
        let bytes = bytes.to_vec();
        self.ask_and_wait(EXCHANGING, move |rounds| rounds.gather(&bytes))
    }

    pub(crate) fn barriers(&self, count: u32) -> Result<Vec<Duration>, GroupError> {
        self.ask_and_wait(AT_BARRIER, move |rounds| rounds.barriers(count))
    }

    /// Whether hosts currently exchange heartbeats.
    pub(crate) fn hears(&self) -> bool {
        self.health.is_in_rounds()
    }

    pub(crate) fn overdue(&self, limit: Duration) -> Option<GroupError> {
        let waited = self.health.busy_for().filter(|waited| *waited > limit)?;
        Some(self.health.explain(GroupError::Silent {
            who: self.other(),
            during: AT_BARRIER,
            waited,
        }))
    }

    pub(crate) fn broken(&self) -> Option<GroupError> {
        self.health.broken()
    }

    pub(crate) fn leave(&self) {
        let (told, over) = mpsc::channel();
        self.ask(AT_BARRIER, Rounds::leave, move |went| drop(told.send(went)));
        while over.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if self.overdue(FAREWELL).is_some() {
                return;
            }
        }
    }

    pub(crate) fn abort(&self, code: u8) {
        let limit = match (self.health.busy_for(), self.hears()) {
            (None, _) => FAREWELL,
            (Some(_), true) => LAST_ROUND,
            // The library cannot deliver it; the other processes have to notice that this process
            // ends.
            (Some(_), false) => return,
        };
        self.health.break_off(lost(AT_BARRIER, "this host ends the run"));
        let (told, over) = mpsc::channel();
        let abort = move |rounds: &mut Rounds| {
            rounds.abort(code);
            Ok(())
        };
        self.ask(AT_BARRIER, abort, move |went| drop(told.send(went)));
        let _ = over.recv_timeout(limit);
    }

    /// Has the thread do `work`, and pass the result to `then`.
    pub(crate) fn ask<T: 'static>(
        &self,
        during: &'static str,
        work: impl FnOnce(&mut Rounds) -> Result<T, GroupError> + Send + 'static,
        then: impl FnOnce(Result<T, GroupError>) + Send + 'static,
    ) {
        let ended = move || Err(lost(during, "the thread that talks to the library has ended"));
        let ask: Ask = Box::new(move |rounds| then(rounds.map_or_else(ended, work)));
        let asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(mpsc::SendError(ask)) = asks.send(ask) {
            ask(None);
        }
    }

    fn ask_and_wait<T: Send + 'static>(
        &self,
        during: &'static str,
        work: impl FnOnce(&mut Rounds) -> Result<T, GroupError> + Send + 'static,
    ) -> Result<T, GroupError> {
        let (told, answer) = mpsc::channel();
        self.ask(during, work, move |went| drop(told.send(went)));
        self.await_answer(during, &answer)
    }

    fn await_answer<T>(
        &self,
        during: &'static str,
        answer: &Receiver<Result<T, GroupError>>,
    ) -> Result<T, GroupError> {
        loop {
            match answer.recv_timeout(LOOK.min(self.patience())) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Err(lost(during, "no response")),
                Err(RecvTimeoutError::Timeout) => self.look_around(during)?,
            }
        }
    }

    /// Fails if other processes have been silent for too long, which is a short time after a stop:
    /// hosts that answer do so within one heartbeat.
    fn look_around(&self, during: &'static str) -> Result<(), GroupError> {
        let is_stopped = self.stop.is_stopped();
        let limit = match (is_stopped, self.stop.is_hurried()) {
            (false, _) => self.patience(),
            (true, false) => self.patience().min(FAREWELL),
            (true, true) => self.patience().min(LAST_ROUND),
        };
        match self.overdue(limit) {
            Some(_) if is_stopped => Err(GroupError::Stopped { during }),
            Some(silent) => Err(silent.during(during)),
            None => Ok(()),
        }
    }
}

fn lost(during: &'static str, why: &str) -> GroupError {
    let why = why.to_string();
    GroupError::Lost { during, why }
}

#[cfg(test)]
mod tests {
    use std::sync::Condvar;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::rounds::{CommonWork, Next};

    /// A meeting point for processes that are threads in this test.
    #[derive(Default)]
    struct Place {
        state: Mutex<State>,
        moved: Condvar,
    }

    #[derive(Default)]
    struct State {
        given: Vec<Option<Vec<u8>>>,
        /// The values of the last exchange, and the number of exchanges so far.
        all: Vec<Vec<u8>>,
        times: u64,
        /// The ranks that no longer take part.
        frozen: Vec<u32>,
    }

    struct Visitor {
        rank: u32,
        size: u32,
        place: Arc<Place>,
    }

    impl Backend for Visitor {
        fn seen(&self) -> LibraryView {
            LibraryView { rank: self.rank, size: self.size, library: "double".to_string() }
        }

        fn barrier(&mut self) -> Result<(), String> {
            self.all_gather(b"barrier").map(drop)
        }

        fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
            let mut state = self.place.state.lock().unwrap();
            while state.frozen.contains(&self.rank) {
                state = self.place.moved.wait(state).unwrap();
            }
            let before = state.times;
            state.given.resize(self.size as usize, None);
            state.given[self.rank as usize] = Some(bytes.to_vec());
            if state.given.iter().all(Option::is_some) {
                state.all = std::mem::take(&mut state.given).into_iter().flatten().collect();
                state.times += 1;
                self.place.moved.notify_all();
            }
            while state.times == before {
                state = self.place.moved.wait(state).unwrap();
            }
            Ok(state.all.clone())
        }

        fn abort(&mut self, _code: u8) {}

        fn leave(&mut self) {}
    }

    const LONG: Duration = Duration::from_secs(30);

    fn start(place: &Arc<Place>, size: u32, silence: Duration) -> Vec<CommThread> {
        let one = |rank| {
            let place = Arc::clone(place);
            let visitor = Visitor { rank, size, place };
            let start = LONG;
            let patience = Timeouts { silence, start };
            CommThread::start(patience, &StopToken::new(), move || Ok(visitor)).unwrap()
        };
        (0..size).map(one).collect()
    }

    /// Asks for `work` and returns a receiver for its result.
    fn asked<T: Send + 'static>(
        engine: &CommThread,
        work: impl FnOnce(&mut Rounds) -> Result<T, GroupError> + Send + 'static,
    ) -> Receiver<Result<T, GroupError>> {
        let (told, answer) = mpsc::channel();
        engine.ask(AT_BARRIER, work, move |went| drop(told.send(went)));
        answer
    }

    fn step(engine: &CommThread, next: Next) -> Receiver<Result<Option<Duration>, GroupError>> {
        let came = Instant::now();
        asked(engine, move |rounds| rounds.step(came, next))
    }

    fn begin(engine: &CommThread, work: CommonWork) {
        asked(engine, move |rounds| {
            rounds.begin(work);
            Ok(())
        });
    }

    #[test]
    fn a_long_operation_is_not_silence() {
        let silence = Duration::from_secs(3);
        let engines = start(&Arc::default(), 2, silence);
        thread::scope(|scope| {
            scope.spawn(|| {
                engines[1].barrier().unwrap();
                // It works for longer than it may be silent.
                thread::sleep(silence + LOOK * 10);
                engines[1].all_gather(b"b").unwrap();
                engines[1].leave();
            });
            engines[0].barrier().unwrap();
            let all = engines[0].all_gather(b"a").unwrap();
            assert_eq!(all, [b"a".to_vec(), b"b".to_vec()]);
            engines[0].leave();
        });
    }

    #[test]
    fn a_silent_host_ends_the_wait() {
        let place = Arc::new(Place::default());
        let engines = start(&place, 2, Duration::from_millis(1500));
        let first = asked(&engines[1], Rounds::barrier);
        engines[0].barrier().unwrap();
        first.recv().unwrap().unwrap();
        engines[0].call_them(vec!["one".to_string(), "other".to_string()]);
        place.state.lock().unwrap().frozen.push(1);
        let silent = engines[0].barrier().unwrap_err();
        assert!(silent.to_string().starts_with("other did not respond"), "{silent}");
        // It returns although the thread is stuck.
        engines[0].abort(5);
    }

    #[test]
    fn a_stop_ends_the_wait_for_a_silent_host_before_its_time_is_up() {
        let place = Arc::new(Place::default());
        let engines = start(&place, 2, LONG * 10);
        let first = asked(&engines[1], Rounds::barrier);
        engines[0].barrier().unwrap();
        first.recv().unwrap().unwrap();
        place.state.lock().unwrap().frozen.push(1);
        // The other one is silent already, and a launcher that ends a job gives it a second.
        engines[0].stop.stop();
        engines[0].stop.hurry_flag().store(true, Ordering::Relaxed);
        let stopped = engines[0].barrier().unwrap_err();
        assert_eq!(stopped, GroupError::Stopped { during: AT_BARRIER });
        engines[0].abort(130);
    }

    #[test]
    fn an_interrupted_host_ends_the_work_and_waits_of_all() {
        let engines = start(&Arc::default(), 2, LONG);
        let (told, stopped) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
        for engine in &engines {
            let (told, sender) = (Arc::clone(&told), stopped.0.clone());
            let is_first = engine.seen().rank == 0;
            let work = CommonWork {
                is_stopped: Box::new(move || is_first && told.load(Ordering::Relaxed)),
                stop: Box::new(move || sender.send(()).unwrap()),
            };
            begin(engine, work);
        }
        // One is waiting for the other in a step when it happens.
        let step = step(&engines[1], Next::Step);
        assert_eq!(step.recv_timeout(LOOK * 10).ok(), None);
        told.store(true, Ordering::Relaxed);
        assert_eq!(step.recv().unwrap(), Ok(None));
        let edges = engines.iter().map(|engine| asked(engine, Rounds::edge));
        for edge in edges {
            assert_eq!(edge.recv().unwrap(), Ok(true));
        }
        assert_eq!(stopped.1.try_iter().count(), 2);
        let edge = asked(&engines[0], Rounds::edge);
        assert_eq!(edge.recv().unwrap(), Ok(false), "it is reported once");
    }

    #[test]
    fn a_host_that_knows_of_the_end_does_not_wait_in_a_step() {
        let engines = start(&Arc::default(), 2, LONG);
        let heard = Arc::new((Mutex::new(0), Condvar::new()));
        for engine in &engines {
            let heard = Arc::clone(&heard);
            let work = CommonWork {
                is_stopped: Box::new(|| true),
                stop: Box::new(move || {
                    *heard.0.lock().unwrap() += 1;
                    heard.1.notify_all();
                }),
            };
            begin(engine, work);
        }
        let all = heard.0.lock().unwrap();
        drop(heard.1.wait_while(all, |count| *count < 2).unwrap());
        // One continues at once, the other reaches a step before it looks.
        assert_eq!(asked(&engines[0], Rounds::edge).recv().unwrap(), Ok(true));
        let gather = asked(&engines[0], |rounds| rounds.gather(&[0]));
        let step = step(&engines[1], Next::Step);
        assert_eq!(step.recv().unwrap(), Ok(None));
        assert_eq!(asked(&engines[1], Rounds::edge).recv().unwrap(), Ok(true));
        engines[1].all_gather(&[1]).unwrap();
        assert_eq!(gather.recv().unwrap().unwrap(), [[0], [1]]);
    }

    #[test]
    fn a_suspended_host_does_not_blame_the_others() {
        let health = Health::new(Duration::from_millis(40));
        let lost = || lost(AT_BARRIER, "gone");
        assert_eq!(Health::new(LONG).explain(lost()), lost());
        thread::sleep(Duration::from_millis(60));
        let told = health.explain(lost());
        assert!(matches!(told, GroupError::StoodStill { .. }), "{told}");
    }

    #[test]
    fn nothing_is_exchanged_between_steps() {
        let place = Arc::new(Place::default());
        let engines = start(&place, 2, LONG);
        let steps = |next| {
            let steps: Vec<_> = engines.iter().map(|engine| step(engine, next)).collect();
            for step in steps {
                assert!(step.recv().unwrap().unwrap().is_some());
            }
        };
        let times = || place.state.lock().unwrap().times;
        steps(Next::Step);
        let before = times();
        thread::sleep(Duration::from_millis(1200));
        assert_eq!(times(), before);
        steps(Next::Step);
        assert_eq!(times(), before + 1, "a barrier, and no round before it");
        steps(Next::Work);
        let before = times();
        while times() == before {
            thread::sleep(LOOK);
        }
        let around: Vec<_> =
            engines.iter().map(|engine| asked(engine, |rounds| rounds.barriers(3))).collect();
        for around in around {
            assert_eq!(around.recv().unwrap().unwrap().len(), 3);
        }
    }

    #[test]
    fn hosts_at_different_points_fail_instead_of_waiting_forever() {
        let engines = start(&Arc::default(), 2, LONG);
        let barrier = asked(&engines[0], Rounds::barrier);
        let gather = asked(&engines[1], |rounds| rounds.gather(&[1]));
        let (one, other) = (barrier.recv().unwrap(), gather.recv().unwrap());
        assert!(matches!(one, Err(GroupError::Lost { .. })), "{one:?}");
        assert!(matches!(other, Err(GroupError::Lost { .. })), "{other:?}");
    }

    #[test]
    fn an_unusable_library_is_reported_with_the_reason() {
        let patience = Timeouts { silence: LONG, start: LONG };
        let stop = StopToken::new();
        let refused = CommThread::start(patience, &stop, || Err::<Visitor, _>("no".to_string()));
        assert_eq!(refused.unwrap_err(), "no");
    }

    #[test]
    fn a_stop_ends_the_wait_for_a_library_that_does_not_start() {
        let patience = Timeouts { silence: LONG, start: LONG };
        let stop = StopToken::new();
        stop.stop();
        let (begin, begun) = mpsc::channel::<()>();
        let silent = move || {
            let _ = begun.recv();
            Err::<Visitor, _>("no".to_string())
        };
        let stopped = CommThread::start(patience, &stop, silent);
        assert_eq!(stopped.unwrap_err(), "the run was stopped");
        drop(begin);
    }
}
