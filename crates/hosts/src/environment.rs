//! The environment variables with which launchers start processes.

/// Launcher information from the environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// The launcher that started this process as one of several; `None` without a launcher.
    pub launch: Option<Launch>,
    /// The rank of this process, if the environment gives it.
    pub rank: Option<u32>,
    /// Whether the environment names a PMIx server.
    pub has_pmix: bool,
    /// The file descriptor of a PMI-1 connection.
    pub pmi_fd: Option<i32>,
}

/// A launcher and the processes it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// The launcher.
    pub by: Launcher,
    /// Total number of processes, if the environment gives it.
    pub size: Option<u32>,
}

/// A launcher that can be distinguished by the variables it sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launcher {
    /// The command users type.
    pub name: &'static str,
    /// Whether its programs use an MPI library that it brings. The remaining launchers start
    /// programs of every MPI and do not say which one is in use.
    pub brings_mpi: bool,
}

/// Open MPI's `mpirun`.
pub(crate) const OPEN_MPI: Launcher = Launcher { name: "mpirun (Open MPI)", brings_mpi: true };
/// Hydra: the `mpiexec` of MPICH and Intel MPI, and other launchers that speak PMI-1.
pub(crate) const HYDRA: Launcher = Launcher { name: "mpiexec (hydra)", brings_mpi: true };
/// MVAPICH's launcher.
const MVAPICH: Launcher = Launcher { name: "mpirun (MVAPICH)", brings_mpi: true };
/// Slurm's `srun`.
pub(crate) const SLURM: Launcher = Launcher { name: "srun", brings_mpi: false };
/// Cray's `mpiexec`.
const PALS: Launcher = Launcher { name: "mpiexec (PALS)", brings_mpi: true };
/// `flux run`.
const FLUX: Launcher = Launcher { name: "flux", brings_mpi: false };
/// IBM's `jsrun`.
const JSRUN: Launcher = Launcher { name: "jsrun", brings_mpi: false };
/// Another kind of PMIx server.
const PMIX: Launcher = Launcher { name: "a launcher with PMIx", brings_mpi: false };

/// The variables that hold the number of processes and the rank, ordered from specific to general.
const VARIABLES: [(Launcher, &str, &str); 7] = [
    (OPEN_MPI, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    (MVAPICH, "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),
    // These belong to a step: a batch script has the job's task count, but is started once.
    (SLURM, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
    (FLUX, "FLUX_JOB_SIZE", "FLUX_TASK_RANK"),
    (PALS, "PALS_SIZE", "PALS_RANKID"),
    (JSRUN, "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"),
    (HYDRA, "PMI_SIZE", "PMI_RANK"),
];

impl Launch {
    /// The launcher and its process count, such as `mpirun (Open MPI) started 4 processes`.
    pub fn to_text(&self) -> String {
        let by = self.by.name;
        match self.size {
            Some(size) => format!("{by} started {size} processes"),
            None => format!("{by} started this process"),
        }
    }
}

impl Environment {
    /// Reads the environment of this process.
    pub fn of_process() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Reads the environment from `variable`.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        let number = |name| variable(name)?.trim().parse::<u32>().ok();
        let has_pmix = variable("PMIX_RANK").is_some() && variable("PMIX_NAMESPACE").is_some();
        let pmi_fd = variable("PMI_FD").and_then(|fd| fd.trim().parse().ok());
        let told =
            VARIABLES.into_iter().find_map(|(by, size, rank)| Some((by, number(size)?, rank)));
        // Hydra's variable, which it sets in addition to variables of other launchers' protocols.
        let here = number("MPI_LOCALNRANKS");
        let (by, size, rank) = match told {
            // The inherited variables do not describe what hydra started.
            Some((HYDRA, size, rank)) if here.is_some_and(|here| here > size) => {
                (HYDRA, here, number(rank))
            }
            Some((by, size, rank)) => (by, Some(size), number(rank)),
            None if here.is_some() => (HYDRA, here.filter(|here| *here > 1), None),
            None if has_pmix => (PMIX, None, number("PMIX_RANK")),
            None => return Self { launch: None, rank: None, has_pmix, pmi_fd },
        };
        let launch = Some(Launch { by, size });
        Self { launch, rank, has_pmix, pmi_fd }
    }

    /// The number of processes started together, if known; 1 if this process was not launched.
    pub fn size(&self) -> Option<u32> {
        self.launch.map_or(Some(1), |launch| launch.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Environment {
        Environment::read(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_string())
        })
    }

    #[test]
    fn a_process_without_a_launcher_runs_alone() {
        assert_eq!(read(&[]), Environment::default());
        assert_eq!(read(&[]).size(), Some(1));
        // A batch script sees the task count of its job but is a single process.
        assert_eq!(read(&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")]).size(), Some(1));
        assert_eq!(read(&[("PMI_SIZE", "")]).size(), Some(1));
    }

    #[test]
    fn launchers_are_known_by_their_variables() {
        let by = |variables: &[(&str, &str)]| {
            let launch = read(variables).launch;
            launch.map(|launch| (launch.by, launch.size))
        };
        let ompi = [("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "17")];
        assert_eq!(by(&ompi), Some((OPEN_MPI, Some(4))));
        // Hydra reported two processes on this host, whatever its other variables contain.
        let cut = [("MPI_LOCALNRANKS", "2"), ("MPI_LOCALRANKID", "1")];
        assert_eq!(by(&cut), Some((HYDRA, Some(2))));
        let changed = [("MPI_LOCALNRANKS", "2"), ("PMI_SIZE", "1"), ("PMI_RANK", "0")];
        assert_eq!(by(&changed), Some((HYDRA, Some(2))));
        let spread = [("MPI_LOCALNRANKS", "1"), ("PMI_SIZE", "2"), ("PMI_RANK", "0")];
        assert_eq!(by(&spread), Some((HYDRA, Some(2))));
        assert!(read(&ompi).has_pmix);
        // The launcher's variable is not set here.
        assert_eq!(read(&ompi).rank, None);
        let hydra = [("PMI_SIZE", "2"), ("PMI_RANK", "0"), ("PMI_FD", "9")];
        assert_eq!(by(&hydra), Some((HYDRA, Some(2))));
        assert_eq!(read(&hydra).pmi_fd, Some(9));
        assert_eq!(read(&hydra).rank, Some(0));
        let srun = [("SLURM_STEP_NUM_TASKS", "8"), ("PMI_SIZE", "8")];
        assert_eq!(by(&srun), Some((SLURM, Some(8))));
        let other = [("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "x")];
        assert_eq!(by(&other), Some((PMIX, None)));
        assert_eq!((read(&other).size(), read(&other).rank), (None, Some(0)));
    }
}
