//! The machine in real time: one lock around it, and who is to be woken when it moved.
//!
//! I/O threads hand in what they finished and take the next read in one turn of the lock; the
//! pacer ends computations, and so does whoever has the lock when they are due. Nobody wakes a
//! thread while holding the lock, and nobody looks at the clock before having it: the machine's
//! time would run backwards.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Thread;
use std::time::Duration;

use stormlp_hosts::{Group, Next};
use stormlp_transfer::timer::Waker;
use stormlp_transfer::{DriverSet, Stamp, StampClock};

use super::error::TrainError;
use super::machine::{Halt, Landed, Machine, Nanos, PhaseSpec, ReadRequest};
use super::source::Source;

/// A read that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Finished {
    pub(super) request: ReadRequest,
    pub(super) landed: Landed,
    pub(super) bytes: u64,
}

/// What an I/O thread hands in and takes on.
pub(super) struct Hands {
    /// Reads that are over.
    pub(super) finished: Vec<Finished>,
    /// Reads to make.
    pub(super) taken: Vec<ReadRequest>,
}

/// What an I/O thread is to do next.
pub(super) enum Turn {
    /// Make the reads that were taken.
    Read(Arc<dyn Source>),
    /// Nothing was taken. A thread that wanted something is on the list of those to be woken.
    Nothing,
    /// The run is over.
    Quit,
}

/// Where an I/O thread that finds nothing to do will sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sleep {
    /// Parked: it has nothing in flight.
    Parked,
    /// In its path's wait, which its waker ends.
    InPath,
    /// Not at all: it has no room for another read, or its wait cannot be ended.
    Busy,
}

/// How a sleeping I/O thread is woken.
pub(super) struct Sleeper {
    pub(super) thread: Thread,
    pub(super) waker: Arc<Waker>,
}

struct State {
    machine: Machine,
    source: Option<Arc<dyn Source>>,
    /// The I/O threads that sleep, and where.
    asleep: Vec<(usize, Sleep)>,
    sleepers: Vec<Option<Sleeper>>,
    pacer: Option<Thread>,
    /// What the pacer's timer is armed for; 0 while it is awake.
    armed: Nanos,
    failure: Option<TrainError>,
}

/// Everything the threads of a run share.
pub(super) struct Shared {
    /// What the I/O threads count, and their slots when they are done.
    pub(super) drivers: DriverSet,
    state: Mutex<State>,
    moved: Condvar,
    clock: StampClock,
    epoch: Stamp,
    bytes: AtomicU64,
    /// The other hosts, and how their thread finds back here; `None` alone.
    others: Option<(Arc<Group>, Weak<Self>)>,
    /// Whether every thread is to end; outside `State` for those that have no time for its lock.
    over: AtomicBool,
}

/// Who is to be woken once the lock is free.
#[derive(Default)]
struct Wakes {
    parked: Option<Thread>,
    in_path: Option<Arc<Waker>>,
    pacer: Option<Thread>,
    main: bool,
    /// Whether other hosts are to be waited for.
    others: Option<Next>,
}

impl Shared {
    pub(super) fn new(
        machine: Machine,
        drivers: DriverSet,
        group: Option<Arc<Group>>,
    ) -> Arc<Self> {
        let io_threads = drivers.counters().len();
        let clock = StampClock::of_process();
        let machine = match group {
            None => machine,
            Some(_) => machine.with_other_hosts(),
        };
        Arc::new_cyclic(|this| Self {
            others: group.map(|group| (group, Weak::clone(this))),
            drivers,
            state: Mutex::new(State {
                machine,
                source: None,
                asleep: Vec::with_capacity(io_threads),
                sleepers: (0..io_threads).map(|_| None).collect(),
                pacer: None,
                armed: 0,
                failure: None,
            }),
            moved: Condvar::new(),
            epoch: clock.now(),
            clock,
            bytes: AtomicU64::new(0),
            over: AtomicBool::new(false),
        })
    }

    /// Bytes that reads brought until now.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Nanoseconds since the run was set up.
    pub(super) fn now(&self) -> Nanos {
        self.clock.now().nanos_since(self.epoch)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked ends the run with an error; the tallies are still good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how I/O thread `index` is woken.
    pub(super) fn register_io(&self, index: usize, sleeper: Sleeper) {
        self.lock().sleepers[index] = Some(sleeper);
    }

    /// Hands in finished reads and takes up to `want` of those that are waiting; where there are
    /// none, the thread will sleep as `sleep` says.
    pub(super) fn turn(&self, index: usize, hands: &mut Hands, want: usize, sleep: Sleep) -> Turn {
        let bytes = hands.finished.iter().map(|read| read.bytes).sum();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut state = self.lock();
        let now = self.now();
        for finished in hands.finished.drain(..) {
            let Finished { request, landed, .. } = finished;
            state.machine.on_read_complete(request, landed, now);
        }
        // Where all CPUs read, the pacer may have to wait for one.
        state.machine.on_deadline(now, || self.now());
        state.asleep.retain(|(sleeper, _)| *sleeper != index);
        let turn = if self.is_over() {
            Turn::Quit
        } else if let Some(source) = state.take(&mut hands.taken, want, now) {
            Turn::Read(source)
        } else {
            if sleep != Sleep::Busy {
                state.asleep.push((index, sleep));
            }
            Turn::Nothing
        };
        let wakes = state.wakes();
        drop(state);
        self.wake(wakes);
        turn
    }

    /// Ends the run because of `error`; what was measured stays.
    pub(super) fn fail(&self, error: TrainError) {
        let mut state = self.lock();
        let now = self.now();
        if state.failure.is_none() {
            state.failure = Some(error);
        }
        state.machine.abort(now);
        let wakes = state.wakes();
        drop(state);
        self.wake(wakes);
    }

    /// One turn of the pacer: ends what is due and says until when it may sleep.
    pub(super) fn pace(&self) -> Option<Nanos> {
        let mut state = self.lock();
        if self.is_over() {
            return None;
        }
        state.armed = 0;
        let now = self.now();
        state.machine.on_deadline(now, || self.now());
        state.armed = state.machine.next_deadline().unwrap_or(Nanos::MAX);
        let until = state.armed;
        let wakes = state.wakes();
        drop(state);
        self.wake(wakes);
        Some(until)
    }

    /// Says which thread paces.
    pub(super) fn register_pacer(&self, thread: Thread) {
        self.lock().pacer = Some(thread);
    }

    /// Does something to the machine, then wakes whom that concerns.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Machine, Nanos) -> T) -> T {
        let mut state = self.lock();
        let now = self.now();
        let answer = act(&mut state.machine, now);
        let wakes = state.wakes();
        drop(state);
        self.wake(wakes);
        answer
    }

    /// Begins a phase over `source`, unless the run has failed meanwhile.
    #[must_use]
    pub(super) fn begin(&self, source: Arc<dyn Source>, spec: PhaseSpec) -> bool {
        self.lock().source = Some(source);
        self.with(|machine, now| machine.begin(spec, now))
    }

    /// Waits until the machine halts, at most for `patience`.
    pub(super) fn wait(&self, patience: Duration) -> Option<Halt> {
        let state = self.lock();
        let waited =
            self.moved.wait_timeout_while(state, patience, |state| state.machine.halt().is_none());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.machine.halt()
    }

    /// The error that ended the run, once.
    pub(super) fn take_failure(&self) -> Option<TrainError> {
        self.lock().failure.take()
    }

    /// Whether an error ended the run.
    pub(super) fn failed(&self) -> bool {
        self.lock().failure.is_some()
    }

    /// Whether every thread is to end.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Lets every thread end.
    pub(super) fn quit(&self) {
        let mut state = self.lock();
        // Under the lock: whoever is about to sleep sees it, or is woken below.
        self.over.store(true, Ordering::Relaxed);
        let pacer = state.pacer.take();
        let sleepers: Vec<_> = state.sleepers.iter_mut().filter_map(Option::take).collect();
        drop(state);
        if let Some(pacer) = pacer {
            pacer.unpark();
        }
        for sleeper in sleepers {
            sleeper.thread.unpark();
            sleeper.waker.wake();
        }
    }

    fn wake(&self, wakes: Wakes) {
        if let Some(thread) = wakes.parked {
            thread.unpark();
        }
        if let Some(waker) = wakes.in_path {
            waker.wake();
        }
        if let Some(pacer) = wakes.pacer {
            pacer.unpark();
        }
        if wakes.main {
            self.moved.notify_all();
        }
        if let Some(next) = wakes.others {
            self.wait_for_others(next);
        }
    }

    /// Begins to wait for the other hosts, on the thread that talks to them.
    fn wait_for_others(&self, next: Next) {
        let Some((group, this)) = &self.others else {
            return;
        };
        let this = Weak::clone(this);
        group.step_then(next, move |went| {
            let Some(shared) = this.upgrade() else {
                return;
            };
            match went {
                Ok(Some(waited)) => {
                    let waited = waited.as_nanos() as Nanos;
                    shared.with(|machine, now| machine.others_came(waited, now));
                }
                // The run ends: who watches it has been told.
                Ok(None) => {}
                Err(error) => shared.fail(error.into()),
            }
        });
    }
}

impl State {
    /// Takes up to `want` reads; `None` where there are none.
    fn take(
        &mut self,
        taken: &mut Vec<ReadRequest>,
        want: usize,
        now: Nanos,
    ) -> Option<Arc<dyn Source>> {
        let source = self.source.as_ref()?;
        let next = std::iter::from_fn(|| self.machine.next_read(now));
        taken.extend(next.take(want));
        (!taken.is_empty()).then(|| Arc::clone(source))
    }

    /// Whom the machine's new state concerns. One I/O thread at a time is woken: it takes a read
    /// and wakes the next one if more are waiting.
    fn wakes(&mut self) -> Wakes {
        let mut wakes = Wakes {
            main: self.machine.halt().is_some(),
            others: self.machine.take_wish(),
            ..Wakes::default()
        };
        if self.machine.reads_waiting() > 0
            && let Some((index, sleep)) = self.asleep.pop()
            && let Some(sleeper) = &self.sleepers[index]
        {
            match sleep {
                Sleep::InPath => wakes.in_path = Some(Arc::clone(&sleeper.waker)),
                Sleep::Parked | Sleep::Busy => wakes.parked = Some(sleeper.thread.clone()),
            }
        }
        if self.machine.next_deadline().is_some_and(|at| at < self.armed) {
            wakes.pacer = self.pacer.clone();
        }
        wakes
    }
}
