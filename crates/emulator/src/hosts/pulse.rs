//! Hosts that look after each other while each of them works: twice a second all say how they are.
//!
//! Who does not say anything for as long as a step may take has died or hangs. One that was told to
//! end has all of them end. The last word is the one at which all are done: all hear it alike.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use stormlp_group::GroupError;
use stormlp_model::stop::StopToken;

use super::{Farewell, Hosts, LOOK, unheard};

/// How often hosts that work say so: so often that all hear of a launcher that ends one of them before it
/// [goes](super::SHORT_FAREWELL).
const INTERVAL: Duration = Duration::from_millis(500);

/// How a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Works = 0,
    Done = 1,
    /// It was told to end.
    Stopped = 2,
}

type Answers = Receiver<Result<Vec<Vec<u8>>, GroupError>>;

/// See the [module's description](self).
pub(crate) struct Pulse<'a> {
    hosts: &'a Hosts,
    stop: &'a StopToken,
    /// What goes on, in words.
    during: &'static str,
    asked: Option<Answers>,
    next: Instant,
    over: bool,
    stopped: bool,
}

impl<'a> Pulse<'a> {
    /// Of work that begins; `stop` is pulled here, too, once it is on another host.
    pub(crate) fn new(hosts: &'a Hosts, stop: &'a StopToken) -> Self {
        Self {
            hosts,
            stop,
            during: "while all were at work",
            asked: None,
            next: Instant::now() + INTERVAL,
            over: false,
            stopped: false,
        }
    }

    /// The same, where more can be said of what goes on.
    pub(crate) fn during(mut self, what: &'static str) -> Self {
        self.during = what;
        self
    }

    /// To be called often while this host works: it takes no time.
    ///
    /// # Errors
    /// When another host has not been heard of for too long.
    pub(crate) fn beat(&mut self) -> Result<(), GroupError> {
        self.say(State::Works, Duration::ZERO)
    }

    /// Waits until all are done, or told to end; whether they were told.
    ///
    /// # Errors
    /// When another host has not been heard of for too long.
    pub(crate) fn finish(mut self) -> Result<bool, GroupError> {
        let farewell = Farewell::default();
        while !self.over {
            self.say(State::Done, LOOK)?;
            if !self.over && farewell.is_over(self.stop) {
                self.hosts.leave();
                return Ok(true);
            }
        }
        Ok(self.stopped)
    }

    fn say(&mut self, state: State, wait: Duration) -> Result<(), GroupError> {
        if self.over {
            return Ok(());
        }
        let state = match self.stop.is_stopped() {
            true => State::Stopped,
            false => state,
        };
        if self.asked.is_none() && (state != State::Works || Instant::now() >= self.next) {
            let (told, answers) = mpsc::channel();
            let then = move |all| drop(told.send(all));
            let group = &self.hosts.group;
            group.all_gather_then(vec![state as u8], then);
            self.asked = Some(answers);
        }
        let Some(asked) = &self.asked else {
            return Ok(());
        };
        let error = match asked.recv_timeout(wait) {
            Ok(Ok(all)) => {
                self.asked = None;
                self.next = Instant::now() + INTERVAL;
                self.hear(&all);
                return Ok(());
            }
            Ok(Err(error)) => error,
            Err(RecvTimeoutError::Disconnected) => unheard(),
            Err(RecvTimeoutError::Timeout) => match self.hosts.overdue(true) {
                Some(error) => error,
                None => return Ok(()),
            },
        };
        self.over = true;
        self.hosts.leave();
        Err(error.during(self.during))
    }

    fn hear(&mut self, all: &[Vec<u8>]) {
        let is = |state: State| move |said: &Vec<u8>| said.first() == Some(&(state as u8));
        if all.iter().any(is(State::Stopped)) {
            self.stop.stop();
            self.hosts.told.store(true, Ordering::Relaxed);
            (self.over, self.stopped) = (true, true);
        }
        self.over |= all.iter().all(is(State::Done));
    }
}
