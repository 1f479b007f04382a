//! The capabilities of the GPU libraries here, and so which transfer paths can run.
//!
//! The libraries are only opened in a child process ([`crate::cufile::probe`]): a driver stack
//! that hangs or crashes must not take down this process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stormlp_core::facts::{AcceleratorFacts, Availability, CuFileLimits, HiddenGpus, PathSupport};
use stormlp_core::machine::{Fact, LibraryCandidate, LibraryFacts, PciGpu};
use stormlp_core::path::PathKind;

use crate::cufile::LibraryVersion;
use crate::cufile::probe::{self, CuFileProbe, TIME_LIMIT};

/// The findings on the libraries, or why they were not queried.
#[derive(Debug, Clone)]
pub(crate) enum Libraries {
    /// Not queried.
    NotAsked,
    /// This program cannot open libraries, with a reason and a remedy.
    CannotOpen(Availability),
    /// The child's findings.
    Asked(Box<CuFileProbe>),
}

impl Libraries {
    /// Queries a child of `executable`, which is this program, about the libraries and
    /// `directory`.
    pub(crate) fn ask(
        executable: &Path,
        directory: Option<&Path>,
        goes_on: &dyn Fn(Duration) -> bool,
    ) -> Self {
        if cfg!(target_feature = "crt-static") {
            // Not even tried: a static process that opens a shared C library crashes.
            return Self::CannotOpen(Availability::unavailable(
                "this is a static build, which can open no library",
                "use the dynamically linked build",
            ));
        }
        // A folder that does not exist yet is represented by its nearest existing parent.
        let directory = directory.and_then(|path| super::storage::nearest(path).known().cloned());
        Self::Asked(Box::new(probe::run(executable, directory.as_deref(), TIME_LIMIT, goes_on)))
    }

    /// Whether cuFile works with ordinary host memory.
    pub(crate) fn cufile(&self) -> Availability {
        match self {
            Self::NotAsked => {
                Availability::unavailable("cuFile was not probed", "run `stormlp doctor`")
            }
            Self::CannotOpen(why) => why.clone(),
            Self::Asked(probe) => probe.availability(),
        }
    }

    /// The same where `no_gpu` says that there is no NVIDIA GPU: that comes first, since no library
    /// would help.
    fn cufile_with(&self, no_gpu: Option<&str>) -> Availability {
        let (Self::Asked(probe), Some(no_gpu)) = (self, no_gpu) else {
            return self.cufile();
        };
        let remedy = "measure GPUDirect Storage on a machine with a GPU; the other paths compare \
                      storage here";
        match probe.availability() {
            Availability::Unavailable { fact, .. } if probe.cuda.devices.is_empty() => {
                let has_library = probe.library_path.is_some() || !probe.candidates.is_empty();
                let fact = match has_library {
                    true => format!("{no_gpu}; {fact}"),
                    false => no_gpu.to_string(),
                };
                Availability::unavailable(fact, remedy)
            }
            other => other,
        }
    }

    /// Every libcufile that was found.
    pub(crate) fn cufile_candidates(&self) -> Vec<LibraryCandidate> {
        match self {
            Self::NotAsked | Self::CannotOpen(_) => Vec::new(),
            Self::Asked(probe) => probe.candidates.clone(),
        }
    }

    /// The GPUs on the bus if CUDA shows none, and why; `None` if CUDA was not queried.
    pub(crate) fn hidden_gpus(&self, on_bus: &Fact<Vec<PciGpu>>) -> Option<HiddenGpus> {
        match self {
            Self::NotAsked => return None,
            Self::Asked(probe) if !probe.cuda.devices.is_empty() => return None,
            Self::CannotOpen(_) | Self::Asked(_) => {}
        }
        let reason = self.cuda_problem();
        let on_bus = on_bus.known().filter(|gpus| !gpus.is_empty())?;
        Some(HiddenGpus {
            pci_addresses: on_bus.iter().map(|gpu| gpu.pci_address.clone()).collect(),
            reason: reason.unwrap_or_else(|| "CUDA shows no device".to_string()),
        })
    }

    /// Why CUDA shows no device, if it reported a reason.
    pub(crate) fn cuda_problem(&self) -> Option<String> {
        match self {
            Self::NotAsked => None,
            Self::CannotOpen(why) => why.reason().map(str::to_string),
            Self::Asked(probe) if !probe.cuda.devices.is_empty() => None,
            Self::Asked(probe) => match (&probe.cuda.problem, probe.driver.reason()) {
                (Some(problem), _) => Some(problem.clone()),
                // The probe ended before CUDA had responded.
                (None, Some(reason)) if probe.cuda.version.is_none() => Some(reason.to_string()),
                _ => None,
            },
        }
    }

    /// libcufile for the doctor.
    pub(crate) fn cufile_library(&self) -> LibraryFacts {
        let reason = match self.cufile() {
            Availability::Available => "not reported".to_string(),
            Availability::Unavailable { fact, .. } => fact,
        };
        let (version, path): (Option<String>, Option<PathBuf>) = match self {
            Self::NotAsked | Self::CannotOpen(_) => (None, None),
            Self::Asked(probe) => (probe.library_version.clone(), probe.library_path.clone()),
        };
        LibraryFacts {
            version: version.map_or_else(|| Fact::unknown(&reason), Fact::Known),
            found_at: path.map_or_else(|| Fact::unknown(&reason), Fact::Known),
        }
    }

    /// CUDA's driver library for the doctor.
    pub(crate) fn cuda_library(&self) -> LibraryFacts {
        let (version, path, reason) = match self {
            Self::NotAsked => (None, None, "not probed".to_string()),
            Self::CannotOpen(why) => {
                let reason = why.reason().unwrap_or_default();
                (None, None, reason.to_string())
            }
            Self::Asked(probe) => {
                let cuda = &probe.cuda;
                let reason = cuda.problem.clone().unwrap_or("not reported".to_string());
                (cuda.version.clone(), cuda.library_path.clone(), reason)
            }
        };
        LibraryFacts {
            version: version.map_or_else(|| Fact::unknown(&reason), Fact::Known),
            found_at: path.map_or_else(|| Fact::unknown(&reason), Fact::Known),
        }
    }

    /// The GPUs that CUDA can use.
    pub(crate) fn accelerators(&self) -> Vec<AcceleratorFacts> {
        match self {
            Self::NotAsked | Self::CannotOpen(_) => Vec::new(),
            Self::Asked(probe) => probe.cuda.devices.clone(),
        }
    }

    /// Size in bytes of cuFile's buffer for transfers without a direct route.
    pub(crate) fn cufile_buffer_bytes(&self) -> Option<u64> {
        match self {
            Self::NotAsked | Self::CannotOpen(_) => None,
            Self::Asked(probe) => probe.per_buffer_cache_bytes.filter(|bytes| *bytes > 0),
        }
    }

    /// Limits of libcufile that a plan has to keep.
    pub(crate) fn cufile_limits(&self) -> Option<CuFileLimits> {
        match self {
            Self::NotAsked | Self::CannotOpen(_) => None,
            Self::Asked(probe) => probe.limits.clone(),
        }
    }

    /// Whether libcufile has statistics by route.
    pub(crate) fn cufile_statistics(&self) -> Option<bool> {
        match self {
            Self::NotAsked | Self::CannotOpen(_) => None,
            Self::Asked(probe) => {
                let version: LibraryVersion = probe.library_version.as_ref()?.parse().ok()?;
                Some(version.counts_routes())
            }
        }
    }

    /// The properties, routes and parameters of cuFile's driver.
    pub(crate) fn cufile_says(&self) -> Vec<String> {
        match self {
            Self::NotAsked | Self::CannotOpen(_) => Vec::new(),
            Self::Asked(probe) => [&probe.properties, &probe.routes, &probe.parameters]
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
        }
    }
}

/// For each path whether it can run. CPU-driven paths run everywhere, cuFile's if the library
/// works, and those on streams need CUDA as well.
/// `no_gpu` says that there is no NVIDIA GPU, if that is certain.
pub(crate) fn paths(
    libraries: &Libraries,
    gpus: &[AcceleratorFacts],
    no_gpu: Option<&str>,
) -> Vec<PathSupport> {
    let cufile = libraries.cufile_with(no_gpu);
    let support = |path: PathKind| {
        let availability = if !path.needs_cufile() {
            Availability::Available
        } else if cufile.is_available() && needs_stream(path) && gpus.is_empty() {
            Availability::unavailable(
                "it needs CUDA streams, and CUDA has no GPU here",
                "use a machine with a GPU and its driver; `gds` and the batch paths work on host memory, too",
            )
        } else {
            cufile.clone()
        };
        PathSupport { path, availability }
    };
    PathKind::ALL.into_iter().map(support).collect()
}

fn needs_stream(path: PathKind) -> bool {
    path == PathKind::GdsAsync
}

#[cfg(test)]
mod tests {
    use super::*;

    fn working() -> Libraries {
        // The child's output is transmitted as JSON, so JSON represents it here.
        let probe = serde_json::json!({
            "driver": {"status": "available"}, "folder": {"status": "available"},
            "library_version": "1.20", "library_path": "/lib/libcufile.so.0",
            "nvfs_version": null, "compat_mode_allowed": true,
            "properties": ["compat"], "routes": [], "parameters": ["x = 1"],
        });
        Libraries::Asked(Box::new(serde_json::from_value(probe).unwrap()))
    }

    fn runs(paths: &[PathSupport]) -> Vec<&'static str> {
        let available = paths.iter().filter(|p| p.availability.is_available());
        available.map(|p| p.path.name()).collect()
    }

    #[test]
    fn without_libraries_the_cpu_still_drives_its_paths() {
        let paths = paths(&Libraries::NotAsked, &[], Some(NO_GPU));
        let expected = ["cpu", "buffered", "cpu-gpu", "cpu-async-gpu", "page-cache", "null"];
        assert_eq!(runs(&paths), expected);
    }

    const NO_GPU: &str = "this machine has no NVIDIA GPU";

    #[test]
    fn without_a_gpu_that_is_the_reason_and_no_library_is_recommended() {
        let Libraries::Asked(mut probe) = working() else { unreachable!("it has been asked") };
        probe.driver = Availability::unavailable("libcufile was not found", "install libcufile");
        let gds = |probe: &CuFileProbe, no_gpu| {
            let asked = Libraries::Asked(Box::new(probe.clone()));
            let paths = paths(&asked, &probe.cuda.devices, no_gpu);
            paths.into_iter().find(|path| path.path == PathKind::Gds).unwrap().availability
        };
        let Availability::Unavailable { fact, remedy } = gds(&probe, Some(NO_GPU)) else {
            unreachable!("no library")
        };
        assert_eq!(fact, format!("{NO_GPU}; libcufile was not found"));
        assert!(!remedy.contains("install"), "{remedy}");
        probe.library_path = None;
        assert_eq!(gds(&probe, Some(NO_GPU)).reason(), Some(NO_GPU));
        assert_eq!(gds(&probe, None).reason(), Some("libcufile was not found"));
    }

    #[test]
    fn streams_need_a_gpu_and_batches_do_not() {
        let paths = paths(&working(), &[], Some(NO_GPU));
        assert!(runs(&paths).contains(&"gds") && runs(&paths).contains(&"gds-batch"));
        assert!(!runs(&paths).contains(&"gds-async"));
        assert!(runs(&paths).contains(&"gds-batch-stream"));
    }

    #[test]
    fn the_library_that_answered_is_named() {
        let library = working().cufile_library();
        assert_eq!(library.version, Fact::Known("1.20".to_string()));
        assert_eq!(working().cufile_says(), ["compat", "x = 1"]);
        assert!(Libraries::NotAsked.cufile_library().version.known().is_none());
    }

    fn on_bus() -> Fact<Vec<PciGpu>> {
        Fact::Known(vec![PciGpu {
            pci_address: "0000:3b:00.0".to_string(),
            device_id: Fact::unknown(""),
            name: Fact::unknown(""),
            driver: Fact::unknown("no driver is bound to it"),
            numa_node: None,
            bar1_bytes: Fact::unknown(""),
            p2p_memory_bytes: Fact::unknown(""),
            link: Fact::unknown(""),
        }])
    }

    #[test]
    fn a_gpu_that_only_the_bus_shows_is_hidden_for_a_reason() {
        let hidden = working().hidden_gpus(&on_bus()).unwrap();
        assert_eq!(hidden.pci_addresses, ["0000:3b:00.0"]);
        // The child of `working` reported nothing on CUDA, although the driver opened.
        assert_eq!(hidden.reason, "CUDA shows no device");
        assert_eq!(working().cuda_problem(), None);
        assert_eq!(working().hidden_gpus(&Fact::Known(Vec::new())), None);
        assert_eq!(Libraries::NotAsked.hidden_gpus(&on_bus()), None);
        let hung = "listing CUDA's devices did not return within 60 s";
        let Libraries::Asked(mut probe) = working() else { unreachable!("it has been asked") };
        probe.driver = Availability::unavailable(hung, "");
        let asked = Libraries::Asked(probe);
        assert_eq!(asked.hidden_gpus(&on_bus()).unwrap().reason, hung);
        // A container may not show the bus.
        assert_eq!(asked.cuda_problem().unwrap(), hung);
    }
}
