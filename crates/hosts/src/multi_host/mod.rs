//! The hosts of a multi-host run: meeting them, monitoring each other during work, and exchanging
//! results.
//!
//! Only durations are exchanged; clocks are never compared.

mod series;
mod waiting_notes;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::GroupError;
use crate::group::Group;
use crate::rounds::Next;
use serde::Serialize;
use serde::de::DeserializeOwned;
use stormlp_core::group::{GroupFacts, Member};
use stormlp_core::json;
use stormlp_core::stop::StopToken;

use waiting_notes::WaitingNotes;

pub use series::sum as sum_of_series;

/// Poll interval for the end of the run while waiting for other hosts.
const LOOK: Duration = Duration::from_millis(100);
/// Poll interval while waiting for an immediate reply of other hosts.
const GLANCE: Duration = Duration::from_millis(20);
/// How long a stopped run waits for other hosts to notice it.
const FAREWELL: Duration = Duration::from_secs(2);
/// The same when a launcher ends this process: it kills the process after a second, and the results
/// must be saved by then.
const SHORT_FAREWELL: Duration = Duration::from_millis(600);

/// The hosts of a multi-host run.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// The processes.
    pub group: Arc<Group>,
    /// The processes, by rank.
    pub members: Vec<Member>,
    /// How they found each other, and the cost of synchronising them.
    pub facts: GroupFacts,
    /// Set once this host continues alone.
    apart: Arc<AtomicBool>,
    /// Set once all have agreed that the run stops.
    told: Arc<AtomicBool>,
    /// Set once all are known to have received the stop request individually.
    all_stopped: Arc<AtomicBool>,
    /// The current work of this host, between [`Self::works`] and [`Self::edge`].
    at_work: Arc<Mutex<Option<AtWork>>>,
    waiting_notes: Option<WaitingNotes>,
}

impl Hosts {
    /// The processes of `group`, which have introduced themselves as `members`.
    pub fn new(group: Arc<Group>, members: Vec<Member>, facts: GroupFacts) -> Self {
        Self {
            group,
            members,
            facts,
            apart: Arc::default(),
            told: Arc::default(),
            all_stopped: Arc::default(),
            at_work: Arc::default(),
            waiting_notes: None,
        }
    }

    /// Has hosts record in `folder` that they are waiting, which reveals those that are not. Each
    /// has a directory there with a name that begins with its rank.
    #[must_use]
    pub fn with_waiting_notes(mut self, folder: &Path) -> Self {
        self.waiting_notes = Some(WaitingNotes::in_folder(folder));
        self
    }

    /// The display name of each host, by rank.
    pub fn names(&self) -> Vec<String> {
        Member::names(&self.members)
    }

    /// Whether this host lost or left other hosts, so that their runs may have ended differently.
    pub fn are_apart(&self) -> bool {
        self.apart.load(Ordering::Relaxed)
    }

    /// Whether a stop was requested: with several hosts, once all of them know or this one has left
    /// them.
    pub fn have_stopped(hosts: Option<&Self>, stop: &StopToken) -> bool {
        hosts.map_or(stop.is_stopped(), |hosts| hosts.was_terminated() || hosts.are_apart())
    }

    /// Whether one host was interrupted and all noticed it: no host has failed.
    pub fn was_terminated(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Whether every host was interrupted individually: no host has failed.
    pub fn were_all_stopped(&self) -> bool {
        self.all_stopped.load(Ordering::Relaxed)
    }

    /// Continues alone.
    pub(crate) fn leave(&self) {
        self.apart.store(true, Ordering::Relaxed);
    }

    /// Starts work of unbounded duration. Until the next [`Self::edge`], `stop` ends it on all
    /// hosts, whichever host it is triggered on. `stop` is also triggered if a host is lost in the
    /// meantime. Must be called by all hosts.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn works(&self, stop: &StopToken) -> Result<(), GroupError> {
        self.begin(stop, || self.watch(stop).map(Some))
    }

    /// Starts a thread that triggers `stop` once a host is lost.
    fn watch(&self, stop: &StopToken) -> Result<Alive, GroupError> {
        // The work must not keep itself alive.
        let hosts = Self { at_work: Arc::default(), ..self.clone() };
        Alive::begin(hosts, stop.clone()).map_err(|error| garbled(&error))
    }

    /// Like [`Self::works`], for callers that check themselves whether a host is
    /// [lost](Self::lost).
    pub fn run_with_heartbeat(&self, stop: &StopToken) -> Result<(), GroupError> {
        self.begin(stop, || Ok(None))
    }

    fn begin(
        &self,
        stop: &StopToken,
        alive: impl FnOnce() -> Result<Option<Alive>, GroupError>,
    ) -> Result<(), GroupError> {
        let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        if at_work.is_none() && !self.are_apart() {
            let (own, all, told) = (stop.clone(), stop.clone(), Arc::clone(&self.told));
            self.group.works(
                move || own.is_stopped(),
                move || {
                    told.store(true, Ordering::Relaxed);
                    all.stop();
                },
            );
            let stop = stop.clone();
            *at_work = Some(AtWork { stop, alive: alive()? });
        }
        Ok(())
    }

    /// Does `work` while all hosts exchange heartbeats; `stop` ends it on all hosts, whichever host
    /// it is triggered on. Then waits for the other hosts, unless `has_failed` says of the result
    /// that waiting is useless. Also returns whether all were interrupted, or why another host was
    /// given up, in which case `stop` was triggered.
    pub fn alongside<T>(
        &self,
        stop: &StopToken,
        work: impl FnOnce() -> T,
        has_failed: impl FnOnce(&T) -> bool,
    ) -> (T, Result<bool, GroupError>) {
        let begun = self.works(stop);
        let done = work();
        let heard = begun.and_then(|()| if has_failed(&done) { Ok(false) } else { self.edge() });
        (done, heard)
    }

    /// Does `work` in the same way, whatever its result.
    ///
    /// # Errors
    /// If another host has been silent for too long; `stop` is then triggered.
    pub fn work<T>(&self, stop: &StopToken, work: impl FnOnce() -> T) -> Result<T, GroupError> {
        let (done, heard) = self.alongside(stop, work, |_| false);
        heard.map(|_| done)
    }

    /// Does `work` while a thread monitors whether a host is lost, in which case `stop` is
    /// triggered. For callers that do not check during this work.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn watched<T>(&self, stop: &StopToken, work: impl FnOnce() -> T) -> Result<T, GroupError> {
        let alive = self.watch(stop)?;
        let done = work();
        alive.end();
        Ok(done)
    }

    /// Waits until all hosts have finished their [work](Self::works). Returns whether one was
    /// interrupted; all hosts get the same answer.
    ///
    /// # Errors
    /// If another host has been silent for too long.
    pub fn edge(&self) -> Result<bool, GroupError> {
        let at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(AtWork { stop, alive }) = at_work else {
            return Ok(false);
        };
        if let Some(alive) = alive {
            alive.end();
        }
        if self.are_apart() || !self.group.hears() {
            return Ok(false);
        }
        let (told, came) = mpsc::channel();
        self.group.edge_then(move |went| drop(told.send(went)));
        let farewell = Farewell::default();
        let went = self
            .await_others(&came, &|| !farewell.is_over(&stop))
            .map_err(|error| error.during("while the hosts were working"))?;
        // A host that was interrupted does not wait forever.
        Ok(went.unwrap_or_else(|| {
            self.leave();
            true
        }))
    }

    /// Waits for all at an [edge](Self::edge) while `goes_on` holds. Returns whether all arrived
    /// and none was interrupted.
    pub fn meet(&self, goes_on: &dyn Fn() -> bool) -> Result<bool, GroupError> {
        if self.edge()? {
            return Ok(false);
        }
        let (told, came) = mpsc::channel();
        self.group.barrier_then(move |went| drop(told.send(went)));
        Ok(self.await_others(&came, goes_on)?.is_some())
    }

    /// Exchanges `value` with all hosts and returns their values by rank; `None` if this host is
    /// separated from the rest, or was interrupted and did not hear from them soon.
    pub fn exchange<T: Serialize + DeserializeOwned>(
        &self,
        value: &T,
        stop: &StopToken,
    ) -> Result<Option<Vec<T>>, GroupError> {
        self.edge()?;
        if self.are_apart() {
            return Ok(None);
        }
        let own = json::compact(value).map_err(|error| garbled(&error))?;
        let (told, came) = mpsc::channel();
        let then = move |all| drop(told.send(all));
        self.group.all_gather_then(own, then);
        let farewell = Farewell::default();
        let goes_on = || !farewell.is_over(stop);
        let went = self
            .await_others(&came, &goes_on)
            .map_err(|error| error.during("while results were exchanged"))?;
        let Some(all) = went else {
            self.leave();
            return Ok(None);
        };
        let all = all.iter().map(|bytes| json::read(bytes)).collect::<Result<_, _>>();
        all.map(Some).map_err(|error| garbled(&error))
    }

    /// Waits for the communication thread in a collective operation; `None` if the run is to stop
    /// first.
    fn await_others<T>(
        &self,
        came: &Receiver<Result<T, GroupError>>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Option<T>, GroupError> {
        loop {
            let error = match came.recv_timeout(LOOK) {
                Ok(Ok(value)) => return Ok(Some(value)),
                Ok(Err(error)) => error,
                Err(RecvTimeoutError::Disconnected) => {
                    garbled(&"the thread that talks to them has ended")
                }
                Err(RecvTimeoutError::Timeout) if !goes_on() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => match self.lost() {
                    Some(error) => error,
                    None => continue,
                },
            };
            self.leave();
            return Err(error);
        }
    }

    /// Tells hosts that wait for this one at a barrier that it was interrupted by `stop` and will
    /// not arrive. If a launcher ended it, also waits briefly for the other hosts to report the
    /// same: in that case no host has failed.
    pub fn say_stopped(&self, stop: &StopToken) {
        let Some(waiting_notes) = &self.waiting_notes else {
            return;
        };
        waiting_notes.stop(self.group.rank());
        if self.are_apart() {
            // It has already waited for them.
            return;
        }
        let farewell = Farewell::default();
        while stop.is_hurried() && !farewell.is_over(stop) {
            if waiting_notes.are_all_stopped(self.group.size()) {
                return self.all_stopped.store(true, Ordering::Relaxed);
            }
            thread::sleep(GLANCE);
        }
    }

    /// Whether another host has recorded a stop while this one has been waiting for some time.
    pub fn waits_for_stopped(&self) -> bool {
        let (waits, size) = (self.group.overdue(LOOK * 2).is_some(), self.group.size());
        waits && self.waiting_notes.as_ref().is_some_and(|notes| notes.is_stopped(size))
    }

    /// Waits for all at the end of a step while `goes_on` holds. Returns whether all arrived and
    /// none was interrupted.
    pub fn step(&self, next: Next, goes_on: &dyn Fn() -> bool) -> Result<bool, GroupError> {
        let (told, came) = mpsc::channel();
        self.group.step_then(next, move |went| drop(told.send(went)));
        let went = self.await_others(&came, goes_on)?;
        Ok(went.flatten().is_some())
    }

    /// Why another host is given up, and which one: it has been silent for too long, or the library
    /// has lost it.
    pub fn lost(&self) -> Option<GroupError> {
        if let Some(error) = self.group.broken() {
            return Some(error);
        }
        let limit = self.group.patience();
        let (rank, size) = (self.group.rank(), self.group.size());
        // Other hosts record that they are waiting before this one checks which do not.
        self.group.overdue(limit / 4 * 3)?;
        let notes = self.waiting_notes.as_ref();
        if let Some(notes) = notes {
            notes.wait(rank);
        }
        let error = self.group.overdue(limit)?;
        let Some(notes) = notes else {
            return Some(error);
        };
        let names = self.names();
        let absent = notes.absent(rank, size);
        let absent = absent.iter().filter_map(|rank| names.get(*rank as usize));
        Some(error.of(absent.cloned().collect()))
    }
}

/// Work of unbounded duration.
#[derive(Debug)]
struct AtWork {
    /// Ends the work.
    stop: StopToken,
    alive: Option<Alive>,
}

/// A thread that ends the concurrent work once another host is lost: for local work of unbounded
/// duration, such as laying out files, dropping caches and saving reports.
#[derive(Debug)]
struct Alive {
    done: Sender<()>,
    thread: JoinHandle<()>,
}

impl Alive {
    /// Starts monitoring; `stop` is triggered on this host once another one is lost.
    fn begin(hosts: Hosts, stop: StopToken) -> io::Result<Self> {
        let (done, is_done) = mpsc::channel();
        let look = move || {
            while is_done.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if hosts.lost().is_some() {
                    return stop.stop();
                }
            }
        };
        let thread = thread::Builder::new().name("alive".to_string()).spawn(look)?;
        Ok(Self { done, thread })
    }

    /// Ends monitoring when the work is done: from then on, a waiting host monitors the rest.
    fn end(self) {
        drop(self.done);
        // The thread has no result.
        let _ = self.thread.join();
    }
}

/// How long a stopped run has waited for other hosts.
#[derive(Default)]
struct Farewell(OnceLock<Instant>);

impl Farewell {
    fn is_over(&self, stop: &StopToken) -> bool {
        let limit = if stop.is_hurried() { SHORT_FAREWELL } else { FAREWELL };
        stop.is_stopped() && self.0.get_or_init(Instant::now).elapsed() > limit
    }
}

/// The error for an invalid message from another host.
pub fn garbled(why: &impl std::fmt::Display) -> GroupError {
    GroupError::Lost { during: "while results were exchanged", why: why.to_string() }
}
