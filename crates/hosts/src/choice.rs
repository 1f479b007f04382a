//! Selects the library by which processes find each other.

use std::time::{Duration, Instant};

use stormlp_core::names::{Named, unknown};
use stormlp_core::note::{Cause, Note};
use stormlp_core::stop::StopToken;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::engine::{CommThread, Timeouts};
use crate::environment::{Environment, Launch, OPEN_MPI};
use crate::error::GroupError;
use crate::group::Group;
use crate::mpi::{Mpi, MpiLibrary};
use crate::pmi1::Pmi1;
use crate::pmix::Pmix;

/// The shortest time for a library to start: hosts of a large job are started one after another.
const LEAST_START: Duration = Duration::from_secs(10);

/// Maximum time for a launcher to hear that a process cannot start.
const GIVING_UP: Timeouts =
    Timeouts { silence: Duration::from_secs(5), start: Duration::from_secs(5) };

const FINDING: &str = "while the processes were looking for each other, before any measurement";

const OTHER_LIBRARY: &str = "install the launcher's library on every host (libmpi, or libpmix), or \
     name it with STORMLP_LIBMPI or STORMLP_LIBPMIX; under srun add --mpi=pmix or --mpi=pmi2; \
     STORMLP_GROUP=none runs every process alone";

/// The values of `STORMLP_GROUP`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Display, EnumString, IntoStaticStr, VariantNames,
)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Choice {
    /// Whatever the launcher provides.
    #[default]
    Auto,
    /// None: every process is a separate run.
    None,
    /// An MPI library.
    Mpi,
    /// A PMIx library.
    Pmix,
    /// The PMI-1 wire protocol.
    Pmi1,
}

impl Named for Choice {
    const WHAT: &'static str = "a group";
}

/// Finds the other processes; waits for them for as long as `patience` allows, or until a stop is
/// requested.
///
/// # Errors
/// If a launcher started several processes that cannot find each other, or at a stop.
pub fn join(
    choice: Choice,
    environment: &Environment,
    patience: Timeouts,
    stop: &StopToken,
) -> Result<Group, GroupError> {
    let candidates = candidates(choice, environment);
    let nobody_else = candidates.is_empty() && environment.size() == Some(1);
    if choice == Choice::None || nobody_else {
        return Ok(Group::alone());
    }
    let patience = Timeouts { start: patience.start.max(LEAST_START), ..patience };
    let (begun, mut tried) = (Instant::now(), Vec::new());
    for candidate in candidates {
        match open(candidate, environment, patience, stop) {
            Ok(engine) => return checked(engine, candidate, environment),
            Err(_) if stop.is_stopped() => return Err(GroupError::Stopped { during: FINDING }),
            Err(why) => tried.push(format!("{candidate}: {why}")),
        }
        // It timed out waiting for the other processes, and another library would do the same.
        if begun.elapsed() >= patience.start {
            break;
        }
    }
    if choice != Choice::Auto {
        let fact = format!("STORMLP_GROUP={choice} cannot be used: {}", tried.join("; "));
        let remedy = "use STORMLP_GROUP=auto, or see `stormlp doctor` under the launcher";
        return Err(GroupError::NotJoined(Note::new(Cause::Machine, fact, remedy)));
    }
    if tried.is_empty() {
        tried.push("it provides no PMIx or PMI, and brings no MPI".to_string());
    }
    let (launch, tried) = (to_text(environment.launch), tried.join("; "));
    let fact = format!("{launch}, but they cannot find each other: {tried}");
    Err(GroupError::NotJoined(Note::new(Cause::Plan, fact, OTHER_LIBRARY)))
}

/// Aborts a launched job on behalf of a process that failed before joining: the other processes
/// would wait for it. Open MPI ends them by itself, hydra does not.
pub fn give_up(environment: &Environment, code: u8) {
    let several = environment.size() != Some(1);
    let Some(fd) = environment.pmi_fd.filter(|_| several) else {
        return;
    };
    // Without a connection the other processes have to notice by themselves.
    if let Ok(engine) = CommThread::start(GIVING_UP, &StopToken::new(), move || Pmi1::init(fd)) {
        engine.abort(code);
    }
}

/// The libraries to try, best first; empty if this process is alone.
fn candidates(choice: Choice, environment: &Environment) -> Vec<Choice> {
    match choice {
        Choice::None => return Vec::new(),
        Choice::Mpi | Choice::Pmix | Choice::Pmi1 => return vec![choice],
        Choice::Auto => {}
    }
    let Some(launch) = environment.launch.filter(|launch| launch.size != Some(1)) else {
        return Vec::new();
    };
    let mut candidates = Vec::new();
    if environment.has_pmix {
        candidates.push(Choice::Pmix);
    }
    if launch.by.brings_mpi {
        candidates.push(Choice::Mpi);
    }
    if environment.pmi_fd.is_some() {
        candidates.push(Choice::Pmi1);
    }
    candidates
}

fn open(
    candidate: Choice,
    environment: &Environment,
    patience: Timeouts,
    stop: &StopToken,
) -> Result<CommThread, String> {
    match candidate {
        Choice::Mpi => {
            let by = environment.launch.map(|launch| launch.by);
            match crate::mpi::find(by == Some(OPEN_MPI))? {
                MpiLibrary::Pointers(table) => {
                    CommThread::start(patience, stop, move || Mpi::init(table))
                }
                MpiLibrary::Integers(table) => {
                    CommThread::start(patience, stop, move || Mpi::init(table))
                }
            }
        }
        Choice::Pmix => {
            let library = crate::pmix::find()?;
            CommThread::start(patience, stop, move || Pmix::init(library))
        }
        Choice::Pmi1 => {
            let fd = environment.pmi_fd.ok_or("PMI_FD is not set")?;
            CommThread::start(patience, stop, move || Pmi1::init(fd))
        }
        Choice::Auto | Choice::None => Err("it has no library".to_string()),
    }
}

/// Rejects a library that sees a different number of processes than were started.
fn checked(
    engine: CommThread,
    backend: Choice,
    environment: &Environment,
) -> Result<Group, GroupError> {
    let seen = engine.seen();
    // If the launcher does not give a number, at least it started more than one process.
    let started = environment.launch.and_then(|launch| launch.size);
    let fits = started.is_none_or(|started| started == seen.size);
    if !fits {
        let (launch, library) = (to_text(environment.launch), &seen.library);
        let count = match seen.size {
            1 => "only this one".to_string(),
            size => size.to_string(),
        };
        return Err(GroupError::NotJoined(Note::new(
            Cause::Plan,
            format!("{launch}, but {library} sees {count}: it is not the library of this launcher"),
            "start with the mpirun of that library, or name the launcher's library with \
             STORMLP_LIBMPI; STORMLP_GROUP=pmix or pmi1 do not need it",
        )));
    }
    Ok(Group::of(engine, backend.into()))
}

fn to_text(launch: Option<Launch>) -> String {
    launch.map_or_else(
        || "the launcher of this process is unknown".to_string(),
        |launch| launch.to_text(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::{HYDRA, Launcher, SLURM};

    const SECOND: Timeouts =
        Timeouts { silence: Duration::from_secs(1), start: Duration::from_secs(1) };

    fn environment(by: Launcher, size: Option<u32>) -> Environment {
        Environment { launch: Some(Launch { by, size }), ..Environment::default() }
    }

    #[test]
    fn one_process_is_not_a_group() {
        let nobody = Environment::default();
        assert!(join(Choice::Auto, &nobody, SECOND, &StopToken::new()).unwrap().is_alone());
        let one = environment(OPEN_MPI, Some(1));
        assert!(join(Choice::Auto, &one, SECOND, &StopToken::new()).unwrap().is_alone());
    }

    #[test]
    fn processes_that_cannot_find_each_other_are_an_error() {
        let started = environment(SLURM, Some(4));
        let error = join(Choice::Auto, &started, SECOND, &StopToken::new()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("srun started 4 processes"), "{text}");
        assert!(error.remedy().contains("--mpi=pmix"));
    }

    #[test]
    fn separate_processes_must_be_requested() {
        let started = environment(SLURM, Some(4));
        let group = join(Choice::None, &started, SECOND, &StopToken::new()).unwrap();
        assert!(group.is_alone());
    }

    #[test]
    fn libraries_that_do_not_spin_come_first() {
        let open_mpi = Environment { has_pmix: true, ..environment(OPEN_MPI, Some(2)) };
        assert_eq!(candidates(Choice::Auto, &open_mpi), [Choice::Pmix, Choice::Mpi]);
        let hydra = Environment { pmi_fd: Some(7), ..environment(HYDRA, Some(2)) };
        assert_eq!(candidates(Choice::Auto, &hydra), [Choice::Mpi, Choice::Pmi1]);
        assert_eq!(candidates(Choice::Pmix, &hydra), [Choice::Pmix]);
    }

    #[test]
    fn names_are_read_as_they_are_shown() {
        for name in Choice::VARIANTS {
            assert_eq!(name.parse::<Choice>().unwrap().to_string(), *name);
        }
        let error = "ssh".parse::<Choice>().unwrap_err();
        assert_eq!(error, "`ssh` is not a group: use auto, none, mpi, pmix or pmi1");
    }
}
