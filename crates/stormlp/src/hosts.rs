//! The processes started together by a launcher: how a command joins the rest and leaves them.

use std::fs;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use stormlp_core::units::parse_duration;
use stormlp_hosts::{Choice, Environment, Group, Timeouts, give_up, join as find_others};

use crate::output;
use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::stop::StopToken;

/// Default timeouts for the other processes.
const PATIENCE: Timeouts =
    Timeouts { silence: Duration::from_secs(8), start: Duration::from_secs(120) };
/// The shortest heartbeat timeout: a working host can be this late.
const LEAST_PATIENCE: Duration = Duration::from_secs(2);

/// Grace period that a stopped process gives the other processes to end by themselves before it
/// ends them.
const GRACE: Duration = Duration::from_millis(1500);
/// The same for a process that lost a host, which the other processes detect as soon.
const SHORT_GRACE: Duration = Duration::from_millis(800);

/// Time for the first process to report for all why none can start, and to end the other processes.
const FIRST_SPEAKS: Duration = Duration::from_secs(2);

/// How processes of a launcher find each other: auto, mpi, pmix or pmi1; with none, each is a run of
/// its own.
const GROUP: &str = "STORMLP_GROUP";
/// The heartbeat timeout after which a silent host ends the run.
const BARRIER_TIMEOUT: &str = "STORMLP_BARRIER_TIMEOUT";

/// How processes on several hosts find each other, from the environment.
#[derive(Debug)]
pub(crate) struct GroupSettings {
    choice: Choice,
    timeouts: Timeouts,
}

impl GroupSettings {
    /// Reads them.
    ///
    /// # Errors
    /// With exit code 2 for a value that is none.
    pub(crate) fn of_process() -> Result<Self, Failure> {
        let value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let wrong = |name, why: String| Failure::usage(format!("{name}: {why}"));
        let choice = value(GROUP).map_or(Ok(Choice::Auto), |text| text.parse());
        let timeouts = value(BARRIER_TIMEOUT).map_or(Ok(PATIENCE), |text| patience(&text));
        Ok(Self {
            choice: choice.map_err(|why| wrong(GROUP, why))?,
            timeouts: timeouts.map_err(|why| wrong(BARRIER_TIMEOUT, why))?,
        })
    }
}

/// Parses the heartbeat timeout.
fn patience(text: &str) -> Result<Timeouts, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if time < LEAST_PATIENCE {
        Err("hosts send a heartbeat twice a second: use 2s or more".to_string())
    } else {
        Ok(Timeouts { silence: time, start: time })
    }
}

/// How a command deals with other processes started with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// It cooperates with them.
    Group,
    /// It would repeat its work in every process.
    OneProcess(&'static str),
    /// It ignores them.
    Nobody,
}

/// Rejects several processes if the command is for one process.
///
/// # Errors
/// With exit code 2.
pub(crate) fn allow(settings: &GroupSettings, needs: Needs) -> Result<(), Failure> {
    let Needs::OneProcess(command) = needs else {
        return Ok(());
    };
    match Environment::of_process().launch {
        Some(launch) if launch.size != Some(1) && settings.choice != Choice::None => {
            let what = launch.to_text();
            let message = format!("{what}, but `stormlp {command}` is for one");
            Err(Failure::usage(message).with_help(
                "start it without the launcher; STORMLP_GROUP=none runs every process alone",
            ))
        }
        Some(_) | None => Ok(()),
    }
}

/// Joins the other processes, if any.
///
/// # Errors
/// If processes that were started together cannot find each other, or at a stop.
pub(crate) fn join(
    settings: &GroupSettings,
    needs: Needs,
    stop: &StopToken,
) -> Result<Group, Failure> {
    match needs {
        Needs::Nobody | Needs::OneProcess(_) => Ok(Group::alone()),
        Needs::Group => {
            let environment = Environment::of_process();
            find_others(settings.choice, &environment, settings.timeouts, stop)
                .map_err(Failure::from)
        }
    }
}

/// Reports why this process cannot start, and ends the processes a launcher started with it, which
/// would wait for it. `tell` prints the message; its argument says whether there are other
/// processes. Usually none of them can start, and the first has ended the rest before they report
/// it too.
pub(crate) fn refuse<T>(code: u8, tell: impl FnOnce(bool) -> T) -> ExitCode {
    let environment = Environment::of_process();
    let of_many = environment.size() != Some(1)
        && std::env::var_os(GROUP).is_none_or(|group| group != "none");
    if of_many {
        output::speak_for(&hostname());
        if environment.rank.is_some_and(|rank| rank > 0) {
            thread::sleep(FIRST_SPEAKS);
        }
    }
    tell(of_many);
    if of_many {
        give_up(&environment, code);
    }
    ExitCode::from(code)
}

/// Reports how a command ended, and leaves the other processes: cleanly if all ended in the same
/// way, otherwise so that they end too.
pub(crate) fn part(group: &Group, outcome: Result<(), Failure>) -> ExitCode {
    let failure = match outcome {
        Ok(()) => {
            group.leave();
            return ExitCode::SUCCESS;
        }
        Err(failure) => failure,
    };
    if group.is_alone() {
        return output::report(&failure);
    }
    let code = failure.cause().exit_code();
    if failure.of_all {
        if group.leads() {
            output::report(&failure);
        }
        // A launcher ends all processes as soon as one fails, including the one that still prints
        // the results. So none fails before that one has finished, and no other needs to.
        let _ = group.barrier();
        group.leave();
        if !group.leads() {
            return ExitCode::SUCCESS;
        }
    } else {
        output::speak_for(&hostname());
        output::report(&failure);
        if !group.leads() {
            // Meanwhile the first process saves the report of all.
            thread::sleep(match failure.cause() {
                Cause::Stopped => GRACE,
                cause if cause.exit_code() == Cause::Storage.exit_code() => SHORT_GRACE,
                _ => Duration::ZERO,
            });
        }
        group.abort(code);
    }
    ExitCode::from(code)
}

pub(crate) fn hostname() -> String {
    let contents = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    contents.trim().to_string()
}
