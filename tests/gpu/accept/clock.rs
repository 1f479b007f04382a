//! The time of the run: no command starts after it, and none outlives it.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::{Ended, Running};

/// The time that all commands share.
pub(crate) struct Clock {
    until: Instant,
}

impl Clock {
    /// So much time, from now on.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { until: Instant::now() + limit }
    }

    /// The time that is left.
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Whether any is left; the answer says what to do where none is.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.left().is_zero() {
            Err("the ten minutes are over and it was not started: use --only to run one \
                         part at a time"
                .to_string())
        } else {
            Ok(())
        }
    }

    /// Starts a command while there is time.
    pub(crate) fn start(&self, command: &mut Command) -> Result<Running, String> {
        self.check()?;
        Running::start(command)
    }

    /// Waits for a command's end, to its limit or to the end of the time.
    pub(crate) fn attend(&self, running: Running, limit: Duration, look: impl FnMut(u32)) -> Ended {
        let mut ended = running.attend(limit.min(self.left()), look);
        if ended.code.is_none() && self.left().is_zero() {
            ended.stderr.push_str(", because the ten minutes are over");
        }
        ended
    }

    /// Runs a command to its end, to its limit or to the end of the time.
    pub(crate) fn run(&self, command: &mut Command, limit: Duration) -> Ended {
        match self.start(command) {
            Ok(running) => self.attend(running, limit, |_| {}),
            Err(why) => Ended::never(why),
        }
    }
}
