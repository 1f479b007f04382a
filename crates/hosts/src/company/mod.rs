//! The hosts of a run that has several: meeting them, looking after each other while each works,
//! and exchanging what each measured.
//!
//! Only durations travel; no clock is compared with another.

mod alive;
mod alongside;
mod roll_call;
mod series;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Group, GroupError, Next};
use serde::Serialize;
use serde::de::DeserializeOwned;
use stormlp_core::group::{GroupFacts, Member};
use stormlp_core::stop::StopToken;

use stormlp_transfer::surroundings::unix_seconds;

use alive::Alive;
use roll_call::RollCall;

pub use series::sum as sum_of_series;

/// How often to look whether the run is to end, while the others are waited for.
const LOOK: Duration = Duration::from_millis(100);
/// How often to look for what takes the others no time.
const GLANCE: Duration = Duration::from_millis(20);
/// How long a run that was told to end waits for the others to hear of it.
const FAREWELL: Duration = Duration::from_secs(2);
/// The same where a launcher ends this process: after a second it kills it, and what was measured is to
/// be saved by then.
const SHORT_FAREWELL: Duration = Duration::from_millis(600);

/// Who measures at the same time.
#[derive(Debug, Clone, Copy)]
pub enum Company<'a> {
    /// Nobody else.
    Alone,
    /// Several hosts, which wait for each other.
    Hosts(&'a Hosts),
    /// Whoever else begins at this time, in seconds since 1970: no launcher lets them meet.
    From(f64),
}

impl Company<'_> {
    /// The number of this host among those that a launcher started.
    pub fn rank(self) -> u32 {
        match self {
            Self::Hosts(hosts) => hosts.group.rank(),
            Self::Alone | Self::From(_) => 0,
        }
    }

    /// Whether nobody else has a share in the run.
    pub fn is_alone(self) -> bool {
        matches!(self, Self::Alone)
    }

    /// Waits for the time at which all begin, where there is one: by how many seconds it had passed
    /// already, if it had.
    pub fn await_time(self, stop: &StopToken) -> Option<f64> {
        let Self::From(start) = self else {
            return None;
        };
        let left = start - unix_seconds();
        if left < 0.0 {
            return Some(-left);
        }
        while !stop.is_stopped() {
            let left = start - unix_seconds();
            if left <= 0.0 {
                break;
            }
            thread::sleep(Duration::from_secs_f64(left).min(LOOK));
        }
        None
    }
}

/// The hosts of a run that has several.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// The processes.
    pub group: Arc<Group>,
    /// Who they are, by rank.
    pub members: Vec<Member>,
    /// How they found each other, and what meeting costs.
    pub facts: GroupFacts,
    /// Set once this host goes on without the others.
    apart: Arc<AtomicBool>,
    /// Set once all have told each other that the run is to end.
    told: Arc<AtomicBool>,
    /// Set once all are known to have been told, each by itself.
    all_stopped: Arc<AtomicBool>,
    /// What this host works at, from [`Self::works`] to [`Self::edge`].
    at_work: Arc<Mutex<Option<AtWork>>>,
    roll_call: Option<RollCall>,
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
            roll_call: None,
        }
    }

    /// The same, who say in `folder` that they wait, so that those are known who do not. Each has a
    /// folder there whose name begins with its rank.
    #[must_use]
    pub fn with_roll_call(mut self, folder: &Path) -> Self {
        self.roll_call = Some(RollCall::in_folder(folder));
        self
    }

    /// What each host is called, by rank.
    pub fn names(&self) -> Vec<String> {
        Member::names(&self.members)
    }

    /// Whether this host lost the others, or left them: they may not have ended alike.
    pub fn are_apart(&self) -> bool {
        self.apart.load(Ordering::Relaxed)
    }

    /// Whether one was told to end, and all heard of it from each other: nobody has failed.
    pub fn were_told_to_end(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Whether every host was told to end, each by itself: nobody has failed.
    pub fn were_all_stopped(&self) -> bool {
        self.all_stopped.load(Ordering::Relaxed)
    }

    /// Goes on without the others.
    pub(crate) fn leave(&self) {
        self.apart.store(true, Ordering::Relaxed);
    }

    /// Begins work that may take as long as it takes, and that ends on all hosts by `stop`, on whichever
    /// it is pulled, up to the next [`Self::edge`]. `stop` is pulled, too, when a host is lost meanwhile.
    /// To be called by all.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn works(&self, stop: &StopToken) -> Result<(), GroupError> {
        self.begin(stop, || self.watch(stop).map(Some))
    }

    /// A thread that pulls `stop` once a host is lost.
    fn watch(&self, stop: &StopToken) -> Result<Alive, GroupError> {
        // It must not keep itself alive.
        let hosts = Self { at_work: Arc::default(), ..self.clone() };
        Alive::begin(hosts, stop.clone()).map_err(|error| garbled(&error))
    }

    /// The same where the caller looks for himself whether a host is [lost](Self::lost).
    pub fn works_watchfully(&self, stop: &StopToken) -> Result<(), GroupError> {
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

    /// Waits until nobody [works](Self::works) any more; whether one was told to end, of which all hear
    /// alike.
    ///
    /// # Errors
    /// When another host has not been heard of for too long.
    pub fn edge(&self) -> Result<bool, GroupError> {
        let at_work = {
            let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
            at_work.take()
        };
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
            .map_err(|error| error.during("while all were at work"))?;
        // One that was told to end does not wait for ever.
        Ok(went.unwrap_or_else(|| {
            self.leave();
            true
        }))
    }

    /// Waits for all at an [edge](Self::edge), while `goes_on` says so; whether they came, and nobody was
    /// told to end.
    pub fn meet(&self, goes_on: &dyn Fn() -> bool) -> Result<bool, GroupError> {
        if self.edge()? {
            return Ok(false);
        }
        let (told, came) = mpsc::channel();
        self.group.barrier_then(move |went| drop(told.send(went)));
        Ok(self.await_others(&came, goes_on)?.is_some())
    }

    /// Gives `value` to all, and returns what each of them gave, by rank; `None` where this host is
    /// apart from the others, or was told to end and did not hear of them soon.
    pub fn exchange<T: Serialize + DeserializeOwned>(
        &self,
        value: &T,
        stop: &StopToken,
    ) -> Result<Option<Vec<T>>, GroupError> {
        self.edge()?;
        if self.are_apart() {
            return Ok(None);
        }
        let own = serde_json::to_vec(value).map_err(|error| garbled(&error))?;
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
        let all = all.iter().map(|bytes| serde_json::from_slice(bytes)).collect::<Result<_, _>>();
        all.map(Some).map_err(|error| garbled(&error))
    }

    /// What the thread that talks to the others says, where all go at the same time; `None` when the run
    /// is to end before it does.
    fn await_others<T>(
        &self,
        came: &Receiver<Result<T, GroupError>>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Option<T>, GroupError> {
        loop {
            let error = match came.recv_timeout(LOOK) {
                Ok(Ok(value)) => return Ok(Some(value)),
                Ok(Err(error)) => error,
                Err(RecvTimeoutError::Disconnected) => unheard(),
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

    /// Tells those that wait for this host at a barrier that it was told to end by `stop`, and will not
    /// come. Where a launcher ended it, waits for a while for the others to say so, too: nobody has failed
    /// then.
    pub fn say_stopped(&self, stop: &StopToken) {
        let Some(roll_call) = &self.roll_call else {
            return;
        };
        roll_call.stop(self.group.rank());
        if self.are_apart() {
            // It has waited for them already.
            return;
        }
        let farewell = Farewell::default();
        while stop.is_hurried() && !farewell.is_over(stop) {
            if roll_call.are_all_stopped(self.group.size()) {
                return self.all_stopped.store(true, Ordering::Relaxed);
            }
            thread::sleep(GLANCE);
        }
    }

    /// Whether another host has said so, while this one has waited for a while.
    pub fn waits_for_stopped(&self) -> bool {
        let waits = self.group.overdue(LOOK * 2).is_some();
        let size = self.group.size();
        waits && self.roll_call.as_ref().is_some_and(|roll_call| roll_call.is_stopped(size))
    }

    /// Waits for all at the end of a step, while `goes_on` says so; whether they came, and nobody was told
    /// to end.
    pub fn step(&self, next: Next, goes_on: &dyn Fn() -> bool) -> Result<bool, GroupError> {
        let (told, came) = mpsc::channel();
        self.group.step_then(next, move |went| drop(told.send(went)));
        let went = self.await_others(&came, goes_on)?;
        Ok(went.flatten().is_some())
    }

    /// Why another host is given up, with who it is: it has said nothing for too long, or the library
    /// has lost it.
    pub fn lost(&self) -> Option<GroupError> {
        if let Some(error) = self.group.broken() {
            return Some(error);
        }
        let limit = self.group.patience();
        let (rank, size) = (self.group.rank(), self.group.size());
        // The others say that they wait before this host looks who does.
        self.group.overdue(limit / 4 * 3)?;
        if let Some(roll_call) = &self.roll_call {
            roll_call.wait(rank);
        }
        let error = self.group.overdue(limit)?;
        let Some(roll_call) = &self.roll_call else {
            return Some(error);
        };
        let names = self.names();
        let absent = roll_call.absent(rank, size);
        let absent = absent.iter().filter_map(|rank| names.get(*rank as usize));
        Some(error.of(absent.cloned().collect()))
    }
}

/// Work that may take as long as it takes.
#[derive(Debug)]
struct AtWork {
    /// Ends it.
    stop: StopToken,
    alive: Option<Alive>,
}

/// How long a run that was told to end has waited for the others.
#[derive(Default)]
struct Farewell(OnceLock<Instant>);

impl Farewell {
    fn is_over(&self, stop: &StopToken) -> bool {
        let limit = if stop.is_hurried() { SHORT_FAREWELL } else { FAREWELL };
        stop.is_stopped() && self.0.get_or_init(Instant::now).elapsed() > limit
    }
}

/// The thread that talks to the others is gone.
fn unheard() -> GroupError {
    garbled(&"the thread that talks to them has ended")
}

/// What the others said makes no sense.
pub fn garbled(why: &impl std::fmt::Display) -> GroupError {
    GroupError::Lost { during: "while results were exchanged", why: why.to_string() }
}
