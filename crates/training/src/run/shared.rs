//! The machine in real time: one lock around it, and who to wake after a change.
//!
//! I/O threads report completions and receive the next reads in one turn under the lock. The pacer
//! ends computations, as does any thread that holds the lock when they are due. No thread wakes
//! another while holding the lock, and the clock is read only under the lock: otherwise the
//! machine's time would run backwards.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Thread;
use std::time::Duration;

use stormlp_hosts::{Group, Next};
use stormlp_transfer::timer::Waker;
use stormlp_transfer::{DriverSet, Stamp, StampClock};

use super::error::TrainError;
use super::machine::{Halt, Machine, Nanos, PhaseSpec, ReadRequest, ReadResult};
use super::source::Source;

/// A completed read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Finished {
    pub(super) request: ReadRequest,
    pub(super) landed: ReadResult,
    pub(super) bytes: u64,
}

/// The reads that an I/O thread reports and receives.
pub(super) struct Hands {
    /// Completed reads.
    pub(super) finished: Vec<Finished>,
    /// Reads to perform.
    pub(super) taken: Vec<ReadRequest>,
}

/// The next step of an I/O thread.
pub(super) enum Turn {
    /// Perform the taken reads.
    Read(Arc<dyn Source>),
    /// No read was handed out. A thread that wanted reads is registered to be woken.
    Nothing,
    /// The run has ended.
    Quit,
}

/// Where an idle I/O thread will sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sleep {
    /// Parked: it has no read in flight.
    Parked,
    /// In its path's wait, which its waker interrupts.
    InPath,
    /// Not at all: it has no room for another read, or its wait cannot be interrupted.
    Busy,
}

/// How a sleeping I/O thread is woken.
pub(super) struct Sleeper {
    pub(super) thread: Thread,
    pub(super) waker: Arc<Waker>,
}

struct SharedState {
    machine: Machine,
    /// Bytes read so far for each accelerator of this process.
    rank_bytes: Vec<u64>,
    source: Option<Arc<dyn Source>>,
    /// The sleeping I/O threads, and where they sleep.
    asleep: Vec<(usize, Sleep)>,
    sleepers: Vec<Option<Sleeper>>,
    pacer: Option<Thread>,
    /// Deadline that the pacer's timer is armed for; 0 while it is awake.
    armed: Nanos,
    failure: Option<TrainError>,
}

/// State shared by all threads of a run.
pub(super) struct Shared {
    /// Counters of the I/O threads, and their final slots.
    pub(super) drivers: DriverSet,
    state: Mutex<SharedState>,
    moved: Condvar,
    clock: StampClock,
    epoch: Stamp,
    /// The other hosts, and a reference for their thread; `None` on a single host.
    others: Option<(Arc<Group>, Weak<Self>)>,
    /// Whether every thread must end; outside `State` for threads that should not wait for its
    /// lock.
    over: AtomicBool,
}

/// Who to wake once the lock is released.
#[derive(Default)]
struct Wakes {
    parked: Option<Thread>,
    in_path: Option<Arc<Waker>>,
    pacer: Option<Thread>,
    main: bool,
    /// Whether to wait for other hosts.
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
            state: Mutex::new(SharedState {
                rank_bytes: vec![0; machine.accelerator_count()],
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
            over: AtomicBool::new(false),
        })
    }

    /// Total bytes read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.lock().rank_bytes.iter().sum()
    }

    /// Bytes read so far for each accelerator of this process.
    pub(super) fn rank_bytes(&self) -> Vec<u64> {
        self.lock().rank_bytes.clone()
    }

    /// Nanoseconds since the run was set up.
    pub(super) fn now(&self) -> Nanos {
        self.clock.now().nanos_since(self.epoch)
    }

    fn lock(&self) -> MutexGuard<'_, SharedState> {
        // A panicking thread ends the run with an error; the tallies are still valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers how to wake I/O thread `index`.
    pub(super) fn register_io(&self, index: usize, sleeper: Sleeper) {
        self.lock().sleepers[index] = Some(sleeper);
    }

    /// Reports completed reads and returns up to `want` waiting ones; if there are none, the thread
    /// will sleep as given by `sleep`.
    pub(super) fn turn(&self, index: usize, hands: &mut Hands, want: usize, sleep: Sleep) -> Turn {
        let mut state = self.lock();
        let now = self.now();
        for finished in hands.finished.drain(..) {
            let Finished { request, landed, bytes } = finished;
            state.rank_bytes[request.accelerator as usize] += bytes;
            state.machine.on_read_complete(request, landed, now);
        }
        // If I/O occupies all CPUs, the pacer may have to wait for one.
        state.machine.on_deadline(now, || self.now());
        state.asleep.retain(|(sleeper, _)| *sleeper != index);
        let turn = if self.is_over() {
            Turn::Quit
        } else if let Some(source) = state.take(index, &mut hands.taken, want, now) {
            Turn::Read(source)
        } else {
            if sleep != Sleep::Busy {
                state.asleep.push((index, sleep));
            }
            Turn::Nothing
        };
        self.release(state);
        turn
    }

    /// Ends the run because of `error`; keeps the measurements.
    pub(super) fn fail(&self, error: TrainError) {
        let mut state = self.lock();
        let now = self.now();
        if state.failure.is_none() {
            state.failure = Some(error);
        }
        state.machine.abort(now);
        self.release(state);
    }

    /// One turn of the pacer: ends due computations and returns until when it may sleep.
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
        self.release(state);
        Some(until)
    }

    /// Registers the pacer thread.
    pub(super) fn register_pacer(&self, thread: Thread) {
        self.lock().pacer = Some(thread);
    }

    /// Applies `act` to the machine, then wakes the affected threads.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Machine, Nanos) -> T) -> T {
        let mut state = self.lock();
        let now = self.now();
        let answer = act(&mut state.machine, now);
        self.release(state);
        answer
    }

    /// Begins a phase over `source`, unless the run has failed.
    #[must_use]
    pub(super) fn begin(&self, source: Arc<dyn Source>, spec: PhaseSpec) -> bool {
        self.lock().source = Some(source);
        self.with(|machine, now| machine.begin(spec, now))
    }

    /// Waits until the machine halts, up to `patience`.
    pub(super) fn wait(&self, patience: Duration) -> Option<Halt> {
        let state = self.lock();
        let waited =
            self.moved.wait_timeout_while(state, patience, |state| state.machine.halt().is_none());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.machine.halt()
    }

    /// The error that ended the run; returned once.
    pub(super) fn take_failure(&self) -> Option<TrainError> {
        self.lock().failure.take()
    }

    /// Whether an error ended the run.
    pub(super) fn failed(&self) -> bool {
        self.lock().failure.is_some()
    }

    /// Whether every thread must end.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Tells every thread to end.
    pub(super) fn quit(&self) {
        let mut state = self.lock();
        // Under the lock: a thread about to sleep sees it, or is woken below.
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

    /// Releases the lock, then wakes the affected threads.
    fn release(&self, mut state: MutexGuard<'_, SharedState>) {
        let wakes = state.wakes();
        drop(state);
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

    /// Starts waiting for the other hosts, on the thread that communicates with them.
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
                // The run is ending; its watcher already knows.
                Ok(None) => {}
                Err(error) => shared.fail(error.into()),
            }
        });
    }
}

impl SharedState {
    /// The device that I/O thread `index` serves.
    fn device_of(&self, index: usize) -> usize {
        index % self.machine.devices()
    }

    /// Returns up to `want` reads for I/O thread `index`; `None` if there are none.
    fn take(
        &mut self,
        index: usize,
        taken: &mut Vec<ReadRequest>,
        want: usize,
        now: Nanos,
    ) -> Option<Arc<dyn Source>> {
        let source = Arc::clone(self.source.as_ref()?);
        let device = self.device_of(index);
        let next = std::iter::from_fn(|| self.machine.next_read_for(device, now));
        taken.extend(next.take(want));
        (!taken.is_empty()).then_some(source)
    }

    /// Who to wake for the machine's new state. One I/O thread is woken at a time: it starts a read
    /// and wakes the next one if more are waiting.
    fn wakes(&mut self) -> Wakes {
        let mut wakes = Wakes {
            main: self.machine.halt().is_some(),
            others: self.machine.take_wish(),
            ..Wakes::default()
        };
        let is_wanted =
            |(index, _): &(usize, Sleep)| self.machine.has_reads_for(self.device_of(*index));
        if let Some(last) = self.asleep.iter().rposition(is_wanted)
            && let (index, sleep) = self.asleep.remove(last)
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
