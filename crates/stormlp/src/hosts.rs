//! The processes started together by a launcher: how a command joins the others and leaves them.

use std::ffi::OsString;
use std::fs;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use chrono::{DateTime, Utc};
use stormlp_core::facts::HostFacts;
use stormlp_core::group::{
    self, AtBarrier, BarrierUs, ClockOffset, GroupFacts, Member, PROTOCOL, clock_offsets,
};
use stormlp_core::units::parse_duration;
use stormlp_hosts::{
    AroundBarrier, Choice, Environment, Group, Moment, Patience, give_up, join as find_others,
};

use crate::output;
use crate::session::Session;
use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;

/// Default timeouts for the other processes.
const PATIENCE: Patience =
    Patience { silence: Duration::from_secs(8), start: Duration::from_secs(120) };
/// The shortest heartbeat timeout: a working host can be this late.
const LEAST_PATIENCE: Duration = Duration::from_secs(2);
/// Number of empty barriers to time.
const EMPTY_BARRIERS: u32 = 1000;
/// Number of empty barriers that shows whether they are slow.
const FEW_BARRIERS: u32 = 20;
/// Time limit for all of them together.
const TRIAL: Duration = Duration::from_millis(500);

/// Grace period that a stopped process gives the others to end by themselves before it ends them.
const GRACE: Duration = Duration::from_millis(1500);
/// Likewise for a process that lost a host, which the others detect as soon.
const SHORT_GRACE: Duration = Duration::from_millis(800);

/// Time for the first process to report for all why none can start, and to end the others.
const FIRST_SPEAKS: Duration = Duration::from_secs(2);

/// How processes on several hosts find each other.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Several hosts")]
pub(crate) struct GroupArgs {
    /// How processes of a launcher find each other: auto, mpi, pmix, pmi1; none starts separate
    /// runs
    #[arg(long, global = true, value_name = "HOW", default_value_t, hide_default_value = true)]
    group: Choice,

    /// Heartbeat timeout after which a silent host ends the run, such as 30s [default: 8s; 2 min at
    /// the start]
    #[arg(long, global = true, value_name = "TIME", value_parser = patience)]
    barrier_timeout: Option<Duration>,
}

/// Parses the heartbeat timeout.
fn patience(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if time < LEAST_PATIENCE {
        Err("hosts say twice a second that they are there: use 2s or more".to_string())
    } else {
        Ok(time)
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
pub(crate) fn allow(args: &GroupArgs, needs: Needs) -> Result<(), Failure> {
    let Needs::OneProcess(command) = needs else {
        return Ok(());
    };
    match Environment::of_process().launch {
        Some(launch) if launch.size != Some(1) && args.group != Choice::None => {
            let what = launch.in_words();
            let message = format!("{what}, and `stormlp {command}` is for one");
            Err(Failure::usage(message).with_help(
                "start it without the launcher; --group none makes every process a run of its own",
            ))
        }
        Some(_) | None => Ok(()),
    }
}

/// Joins the other processes, if any.
///
/// # Errors
/// If processes that were started together cannot find each other.
pub(crate) fn join(args: &GroupArgs, needs: Needs) -> Result<Group, Failure> {
    match needs {
        Needs::Nobody | Needs::OneProcess(_) => Ok(Group::alone()),
        Needs::Group => {
            let environment = Environment::of_process();
            let asked = args.barrier_timeout;
            let patience = asked.map_or(PATIENCE, |time| Patience { silence: time, start: time });
            find_others(args.group, &environment, patience).map_err(Failure::from)
        }
    }
}

/// Reports why this process cannot start, and ends the processes a launcher started with it, which
/// would wait for it. `tell` prints the message; its argument says whether there are other
/// processes. Most often none of them can start, and the first has ended the others before they
/// report it too.
pub(crate) fn refuse<T>(code: u8, tell: impl FnOnce(bool) -> T) -> ExitCode {
    let environment = Environment::of_process();
    let of_many = environment.size() != Some(1) && !each_for_itself(std::env::args_os());
    if of_many {
        output::speak_for(&hostname());
        if environment.rank.is_some_and(|rank| rank > 0) {
            thread::sleep(FIRST_SPEAKS);
        }
    }
    tell(of_many);
    if of_many {
        give_up(&environment, PATIENCE, code);
    }
    ExitCode::from(code)
}

/// Whether the `words` of a possibly invalid command line make every process a run of its own.
fn each_for_itself(words: impl Iterator<Item = OsString>) -> bool {
    let words: Vec<OsString> = words.collect();
    let mut pairs = words.windows(2);
    pairs.any(|pair| pair == ["--group", "none"]) || words.iter().any(|word| word == "--group=none")
}

/// Reports how a command ended, and leaves the others: cleanly if all ended alike, else so that
/// they end too.
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

/// Exchanges host facts with the other processes; returns the members by rank.
///
/// # Errors
/// If they cannot work together; all of them fail alike then.
pub(crate) fn introduce(session: &Session, host: &HostFacts) -> Result<Vec<Member>, Failure> {
    let group = &session.group;
    // So that all read their clocks at about the same time.
    group.barrier()?;
    let own = Member {
        rank: group.rank(),
        hostname: host.hostname.clone(),
        boot_id: boot_id(),
        version: host.stormlp_version.clone(),
        protocol: PROTOCOL,
        command: session.command.to_string(),
        cpus: host.cpus,
        cpu_model: host.cpu_model.clone(),
        host_memory_bytes: host.memory_bytes,
        memory_bytes: host
            .memory_limit_bytes
            .map_or(host.memory_bytes, |limit| limit.min(host.memory_bytes)),
        unix_seconds: Utc::now().timestamp_micros() as f64 / 1e6,
    };
    let members: Vec<Member> = exchange(group, &own)?;
    group.call_them(Member::names(&members));
    match group::disagreement(&members) {
        None => Ok(members),
        Some(difference) => Err(Failure::no_plan(anyhow::anyhow!("{difference}"))
            .with_help("run the same stormlp and the same command on every host")
            .of_all()),
    }
}

/// Sends a value to all processes and returns the values of all, by rank.
///
/// # Errors
/// If the others cannot be reached, or their message does not match.
pub(crate) fn exchange<T>(group: &Group, value: &T) -> Result<Vec<T>, Failure>
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let bytes = serde_json::to_vec(value).map_err(Failure::bug)?;
    let all = group.all_gather(&bytes)?;
    let all = all.iter().map(|bytes| serde_json::from_slice(bytes));
    all.collect::<Result<_, _>>().map_err(|error| {
        let what = "the processes do not understand each other: are they the same stormlp?";
        Failure::no_plan(anyhow::Error::new(error).context(what)).of_all()
    })
}

/// How the processes found each other, and the cost of a barrier.
///
/// # Errors
/// If the others cannot be reached.
pub(crate) fn facts(group: &Group) -> Result<GroupFacts, Failure> {
    let around = group.barriers(FEW_BARRIERS)?;
    let mut took = durations(&around);
    let so_far: Duration = took.iter().sum();
    // All must arrive at the same number.
    let slowest = exchange(group, &so_far.as_secs_f64())?.into_iter().fold(0.0, f64::max);
    if slowest * f64::from(EMPTY_BARRIERS / FEW_BARRIERS) < TRIAL.as_secs_f64() {
        took = durations(&group.barriers(EMPTY_BARRIERS)?);
    }
    let took: Vec<f64> = took.iter().map(|one| one.as_secs_f64() * 1e6).collect();
    Ok(GroupFacts {
        backend: group.backend().to_string(),
        library: group.library().to_string(),
        size: group.size(),
        empty_barrier_us: BarrierUs::of(&took),
        own_barrier_us: None,
        ideal_au_percent: None,
        clocks: clocks(group, &around)?,
        machines: Vec::new(),
    })
}

/// Durations of the barriers.
fn durations(around: &[AroundBarrier]) -> Vec<Duration> {
    let took = |[came, left]: &AroundBarrier| left.instant - came.instant;
    around.iter().map(took).collect()
}

/// Clock offsets of all processes, from when each entered and left the barriers.
fn clocks(group: &Group, around: &[AroundBarrier]) -> Result<Vec<ClockOffset>, Failure> {
    let micros = |moment: &Moment| DateTime::<Utc>::from(moment.system).timestamp_micros();
    let reading = |[came, left]: &AroundBarrier| (micros(came), micros(left));
    let readings: Vec<AtBarrier> = around.iter().map(reading).collect();
    Ok(clock_offsets(&exchange(group, &readings)?))
}

fn hostname() -> String {
    let contents = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    contents.trim().to_string()
}

/// The kernel's random ID of this boot.
pub(crate) fn boot_id() -> String {
    let contents = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    contents.trim().to_string()
}
