//! The launchers, and what they start.

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
    fn program(self) -> &'static str {
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
            eprintln!("skipped: {} is not installed", one.program());
        }
        found
    }

    fn is_there(self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(self.program()).is_file())
    }

    /// What finds the other processes under it, the launcher's own library of MPI last.
    pub(crate) fn backends(self) -> [&'static str; 2] {
        match self {
            Self::OpenMpi => ["pmix", "mpi"],
            Self::Hydra => ["pmi1", "mpi"],
        }
    }

    /// A command that starts two processes in `folder`.
    pub(crate) fn two(self, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program());
        if self == Self::OpenMpi {
            // Launchers refuse to be root's, and to start more processes than there are cores.
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
            command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            command.args(["--oversubscribe", "--bind-to", "none"]);
        }
        command.args(["-n", "2"]);
        command.arg(env!("CARGO_BIN_EXE_stormlp")).args(arguments);
        command.current_dir(folder);
        for name in ["STORMLP_LIBMPI", "STORMLP_LIBPMIX", "STORMLP_RESULTS_DIR"] {
            command.env_remove(name);
        }
        command
    }
}

/// Both streams of a command that is over.
pub(crate) fn said(output: &Output) -> String {
    let streams = [&output.stdout, &output.stderr];
    streams.map(|text| String::from_utf8_lossy(text)).concat()
}
