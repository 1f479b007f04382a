//! The launchers, and the processes that they start.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A launcher that may be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Launcher {
    /// Open MPI's.
    OpenMpi,
    /// MPICH's.
    Hydra,
}

impl Launcher {
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::OpenMpi => "mpirun.openmpi",
            Self::Hydra => "mpiexec.hydra",
        }
    }

    /// The launchers that are there, and a word on those that are not.
    pub(crate) fn found() -> Vec<Self> {
        let all = [Self::OpenMpi, Self::Hydra];
        let (found, missing): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.is_there());
        for one in missing {
            let why = format!("{} is not installed", one.program());
            stormlp_fixtures::skipped(why, "install openmpi-bin and mpich");
        }
        found
    }

    /// Checks the same under each launcher that is there, at once: such runs mostly wait.
    pub(crate) fn under_each(check: impl Fn(Self) + Sync) {
        std::thread::scope(|scope| {
            for launcher in Self::found() {
                let check = &check;
                scope.spawn(move || check(launcher));
            }
        });
    }

    fn is_there(self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(self.program()).is_file())
    }

    /// The libraries that find the other processes under it, the launcher's MPI last.
    pub(crate) fn backends(self) -> [&'static str; 2] {
        match self {
            Self::OpenMpi => ["pmix", "mpi"],
            Self::Hydra => ["pmi1", "mpi"],
        }
    }

    /// A command that starts two processes in `folder`.
    pub(crate) fn two(self, folder: &Path, arguments: &[&str]) -> Command {
        self.two_of(folder, arguments, &[])
    }

    /// The same with `more` arguments for the second of them.
    pub(crate) fn two_of(self, folder: &Path, arguments: &[&str], more: &[&str]) -> Command {
        let second = [arguments, more].concat();
        self.each(folder, [arguments, &second])
    }

    /// The same with separate arguments for each of them.
    pub(crate) fn each(self, folder: &Path, [first, second]: [&[&str]; 2]) -> Command {
        let mut command = Command::new(self.program());
        // Everything, in lines that do not wrap.
        command.env("COLUMNS", "1000").env("STORMLP_DETAILS", "1");
        if self == Self::OpenMpi {
            // Launchers refuse to be root's, and to start more processes than there are cores.
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
            command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            command.args(["--oversubscribe", "--bind-to", "none"]);
        }
        let stormlp = env!("CARGO_BIN_EXE_stormlp");
        command.args(["-n", "1", stormlp]).args(first);
        command.args([":", "-n", "1", stormlp]).args(second);
        command.current_dir(folder);
        for name in ["STORMLP_LIBMPI", "STORMLP_LIBPMIX", "STORMLP_RESULTS_DIR"] {
            command.env_remove(name);
        }
        command
    }
}

/// The process of rank 1 among all that `launcher` has started, itself or through other processes.
pub(crate) fn second_process(launcher: u32) -> u32 {
    let stat = |pid: u32| fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let parent = |pid: u32| -> Option<u32> {
        let stat = stat(pid)?;
        stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
    };
    let is_below = |pid: u32| {
        std::iter::successors(Some(pid), |pid| parent(*pid)).take(16).any(|pid| pid == launcher)
    };
    let is_second = |pid: u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|one| one == b"OMPI_COMM_WORLD_RANK=1" || one == b"PMI_RANK=1")
    };
    let all = fs::read_dir("/proc").unwrap();
    let pids = all.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok());
    let mut found = pids.filter(|pid| is_second(*pid) && is_below(*pid));
    found.next().unwrap()
}

/// Both streams of a command that is over.
pub(crate) fn said(output: &Output) -> String {
    let streams = [&output.stdout, &output.stderr];
    streams.map(|text| String::from_utf8_lossy(text)).concat()
}
