//! The hosts of a run that has several: meeting them, looking after each other while each works,
//! and exchanging what each measured.
//!
//! Only durations travel; no clock is compared with another.

mod alive;
mod alongside;
mod pulse;
mod roll_call;
mod series;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use stormlp_group::{Group, GroupError};
use stormlp_model::group::{GroupFacts, Member};
use stormlp_model::stop::StopToken;

use crate::surroundings::unix_seconds;

use alive::Alive;
use roll_call::RollCall;

pub(crate) use pulse::Pulse;
pub(crate) use series::sum as sum_of_series;

/// How often to look whether the run is to end, while the others are waited for.
const LOOK: Duration = Duration::from_millis(100);
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
    pub(crate) fn rank(self) -> u32 {
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
    pub(crate) fn await_time(self, stop: &StopToken) -> Option<f64> {
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
            std::thread::sleep(Duration::from_secs_f64(left).min(LOOK));
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
    /// What tells the others that this host works, from [`Self::works`] to [`Self::edge`].
    alive: Arc<Mutex<Option<Alive>>>,
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
            alive: Arc::default(),
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
        let names = self.members.iter().map(|member| member.name(&self.members));
        names.collect()
    }

    /// Whether this host lost the others, or left them: they may not have ended alike.
    pub fn are_apart(&self) -> bool {
        self.apart.load(Ordering::Relaxed)
    }

    /// Whether one was told to end, and all heard of it from each other: nobody has failed.
    pub fn were_told_to_end(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Goes on without the others.
    pub(crate) fn leave(&self) {
        self.apart.store(true, Ordering::Relaxed);
    }

    /// From now on to the next [`Self::edge`] tells the others that this host works: it may take as long
    /// as it takes. To be called by all.
    ///
    /// # Errors
    /// When no thread can be had.
    pub(crate) fn works(&self, stop: &StopToken) -> Result<(), GroupError> {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        if alive.is_none() && !self.are_apart() {
            // The thread must not keep itself alive.
            let hosts = Self {
                alive: Arc::default(),
                ..self.clone()
            };
            *alive = Some(Alive::begin(hosts, stop.clone())?);
        }
        Ok(())
    }

    /// Waits until nobody [works](Self::works) any more; whether one was told to end, of which all hear
    /// alike.
    ///
    /// # Errors
    /// When another host has not been heard of for too long.
    pub(crate) fn edge(&self) -> Result<bool, GroupError> {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        alive.take().map_or(Ok(false), Alive::finish)
    }

    /// Says no more that this host works: the run ends.
    fn fall_silent(&self) {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        *alive = None;
    }

    /// Waits for all at an [edge](Self::edge), while `goes_on` says so; whether they came, and nobody was
    /// told to end.
    pub(crate) fn meet(&self, goes_on: &dyn Fn() -> bool) -> Result<bool, GroupError> {
        if self.edge()? {
            return Ok(false);
        }
        let (told, came) = mpsc::channel();
        self.group.barrier_then(move |went| drop(told.send(went)));
        Ok(self.await_others(&came, goes_on)?.is_some())
    }

    /// Gives `value` to all, and returns what each of them gave, by rank; `None` where this host is
    /// apart from the others, or was told to end and did not hear of them soon.
    pub(crate) fn exchange<T: Serialize + DeserializeOwned>(
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
        let went = self.await_others(&came, &goes_on);
        let went = went.map_err(|error| error.during("while results were exchanged"))?;
        let Some(all) = went else {
            self.leave();
            return Ok(None);
        };
        let all = all.iter().map(|bytes| serde_json::from_slice(bytes));
        let all = all.collect::<Result<_, _>>();
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
                Err(RecvTimeoutError::Timeout) => match self.overdue(true) {
                    Some(error) => error,
                    None => continue,
                },
            };
            self.leave();
            return Err(error);
        }
    }

    /// Tells those that wait for this host at a barrier that it was told to end, and will not come.
    pub(crate) fn say_stopped(&self) {
        if let Some(roll_call) = &self.roll_call {
            roll_call.stop(self.group.rank());
        }
    }

    /// Whether another host has said so, while this one has waited for a while.
    pub(crate) fn waits_for_stopped(&self) -> bool {
        let waits = self.group.overdue(LOOK * 2).is_some();
        let size = self.group.size();
        waits
            && self
                .roll_call
                .as_ref()
                .is_some_and(|roll_call| roll_call.is_stopped(size))
    }

    /// The error that waiting has become; in the middle of a phase the others may take less time
    /// than at its edge, where one may have much more to do.
    pub(crate) fn overdue(&self, in_the_middle: bool) -> Option<GroupError> {
        let patience = self.group.patience();
        let limit = match in_the_middle {
            true => patience.step,
            false => patience.edge,
        };
        self.silent(limit)
    }

    /// The error of having waited for longer than `limit`, with who did not come.
    fn silent(&self, limit: Duration) -> Option<GroupError> {
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
        let absent = absent.cloned().collect();
        roll_call.forget(rank);
        Some(error.of(absent))
    }
}

/// How long a run that was told to end has waited for the others.
#[derive(Default)]
struct Farewell(OnceLock<Instant>);

impl Farewell {
    fn is_over(&self, stop: &StopToken) -> bool {
        let limit = match stop.is_hurried() {
            true => SHORT_FAREWELL,
            false => FAREWELL,
        };
        stop.is_stopped() && self.0.get_or_init(Instant::now).elapsed() > limit
    }
}

/// The thread that talks to the others is gone.
fn unheard() -> GroupError {
    garbled(&"the thread that talks to them has ended")
}

/// What the others said makes no sense.
pub(crate) fn garbled(why: &impl std::fmt::Display) -> GroupError {
    GroupError::Lost {
        during: "while results were exchanged",
        why: why.to_string(),
    }
}
