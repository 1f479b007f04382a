//! The capabilities of the GPU libraries here, and so which transfer paths can run.
//!
//! The libraries are only opened in a child process ([`crate::cufile::probe`]): a driver stack that
//! hangs or crashes must not end this process.

use std::path::Path;
use std::time::Duration;

use stormlp_core::facts::{Availability, HiddenGpus, PathSupport};
use stormlp_core::machine::{Fact, LibraryFacts, PciGpu};
use stormlp_core::path::PathKind;

use crate::cufile::LibraryVersion;
use crate::cufile::probe::{self, CuFileProbe, TIME_LIMIT};

/// Queries a child of `executable`, which is this program, about the libraries and `directory`.
pub(crate) fn ask(
    executable: &Path,
    directory: Option<&Path>,
    goes_on: &dyn Fn(Duration) -> bool,
) -> CuFileProbe {
    if cfg!(target_feature = "crt-static") {
        // Not even tried: a static process that opens a shared C library crashes.
        let reason = "this is a static build, which can open no library";
        let mut probe = CuFileProbe::unavailable(reason, "use the dynamically linked build");
        probe.cuda.problem = Some(reason.to_string());
        return probe;
    }
    // A folder that does not exist yet is represented by its nearest existing parent.
    let directory = directory.and_then(|path| super::storage::nearest(path).known().cloned());
    probe::run(executable, directory.as_deref(), TIME_LIMIT, goes_on)
}

/// Whether cuFile works. `no_gpu` says that there is no NVIDIA GPU, if so: that comes first, since
/// no library would help.
fn cufile(probe: &CuFileProbe, no_gpu: Option<&str>) -> Availability {
    match (probe.availability(), no_gpu) {
        (Availability::Unavailable { fact, .. }, Some(no_gpu)) if probe.cuda.devices.is_empty() => {
            let has_library = probe.library_path.is_some() || !probe.candidates.is_empty();
            let fact = if has_library { format!("{no_gpu}; {fact}") } else { no_gpu.to_string() };
            let remedy = "measure GPUDirect Storage on a machine with a GPU; the other paths \
                          compare storage here";
            Availability::unavailable(fact, remedy)
        }
        (availability, _) => availability,
    }
}

/// The GPUs on the bus if CUDA shows none, and why.
pub(crate) fn hidden_gpus(probe: &CuFileProbe, on_bus: &Fact<Vec<PciGpu>>) -> Option<HiddenGpus> {
    let on_bus = on_bus.known().filter(|gpus| !gpus.is_empty() && probe.cuda.devices.is_empty())?;
    Some(HiddenGpus {
        pci_addresses: on_bus.iter().map(|gpu| gpu.pci_address.clone()).collect(),
        reason: cuda_problem(probe).unwrap_or_else(|| "CUDA shows no device".to_string()),
    })
}

/// Why CUDA shows no device, if it reported a reason.
pub(crate) fn cuda_problem(probe: &CuFileProbe) -> Option<String> {
    // The probe may have ended before CUDA had responded.
    let of_probe = || probe.driver.reason().filter(|_| probe.cuda.version.is_none());
    let problem = probe.cuda.problem.as_deref().or_else(of_probe);
    problem.filter(|_| probe.cuda.devices.is_empty()).map(str::to_string)
}

/// libcufile for the doctor.
pub(crate) fn cufile_library(probe: &CuFileProbe) -> LibraryFacts {
    let availability = probe.availability();
    let reason = availability.reason().unwrap_or("not reported");
    LibraryFacts {
        version: known_or(probe.library_version.as_ref(), reason),
        found_at: known_or(probe.library_path.as_ref(), reason),
    }
}

/// CUDA's driver library for the doctor.
pub(crate) fn cuda_library(probe: &CuFileProbe) -> LibraryFacts {
    let reason = probe.cuda.problem.as_deref().unwrap_or("not reported");
    LibraryFacts {
        version: known_or(probe.cuda.version.as_ref(), reason),
        found_at: known_or(probe.cuda.library_path.as_ref(), reason),
    }
}

fn known_or<T: Clone>(value: Option<&T>, reason: &str) -> Fact<T> {
    value.cloned().map_or_else(|| Fact::unknown(reason), Fact::Known)
}

/// Whether libcufile has statistics by route.
pub(crate) fn cufile_statistics(probe: &CuFileProbe) -> Option<bool> {
    let version: LibraryVersion = probe.library_version.as_ref()?.parse().ok()?;
    Some(version.counts_routes())
}

/// For each path whether it can run. CPU-driven paths run everywhere, cuFile's if the library
/// works, and those on streams need CUDA as well.
/// `no_gpu` says that there is no NVIDIA GPU, if that is certain.
pub(crate) fn paths(probe: &CuFileProbe, no_gpu: Option<&str>) -> Vec<PathSupport> {
    let cufile = cufile(probe, no_gpu);
    let support = |path: PathKind| {
        let needs_gpu = path == PathKind::GdsAsync && probe.cuda.devices.is_empty();
        let availability = if !path.needs_cufile() {
            Availability::Available
        } else if cufile.is_available() && needs_gpu {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn working() -> CuFileProbe {
        // The child's output is transmitted as JSON, so JSON represents it here.
        let probe = serde_json::json!({
            "driver": {"status": "available"}, "folder": {"status": "available"},
            "library_version": "1.20", "library_path": "/lib/libcufile.so.0",
            "compat_mode_allowed": true,
            "says": ["compat", "x = 1"],
        });
        serde_json::from_value(probe).unwrap()
    }

    fn runs(paths: &[PathSupport]) -> Vec<&'static str> {
        let available = paths.iter().filter(|p| p.availability.is_available());
        available.map(|p| p.path.name()).collect()
    }

    #[test]
    fn without_libraries_the_cpu_still_drives_its_paths() {
        let paths = paths(&CuFileProbe::unavailable("cuFile was not probed", ""), None);
        let expected = ["cpu", "buffered", "cpu-gpu", "cpu-async-gpu", "page-cache", "null"];
        assert_eq!(runs(&paths), expected);
    }

    const NO_GPU: &str = "this machine has no NVIDIA GPU";

    #[test]
    fn without_a_gpu_that_is_the_reason_and_no_library_is_recommended() {
        let mut probe = working();
        probe.driver = Availability::unavailable("libcufile was not found", "install libcufile");
        let gds = |probe: &CuFileProbe, no_gpu| {
            let paths = paths(probe, no_gpu);
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
        let paths = paths(&working(), Some(NO_GPU));
        assert!(runs(&paths).contains(&"gds") && runs(&paths).contains(&"gds-batch"));
        assert!(!runs(&paths).contains(&"gds-async"));
        assert!(runs(&paths).contains(&"gds-batch-stream"));
    }

    #[test]
    fn the_library_that_answered_is_named() {
        let library = cufile_library(&working());
        assert_eq!(library.version, Fact::Known("1.20".to_string()));
        let unasked = CuFileProbe::unavailable("", "");
        assert!(cufile_library(&unasked).version.known().is_none());
    }

    fn on_bus() -> Fact<Vec<PciGpu>> {
        Fact::Known(vec![PciGpu {
            pci_address: "0000:3b:00.0".to_string(),
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
        let hidden = hidden_gpus(&working(), &on_bus()).unwrap();
        assert_eq!(hidden.pci_addresses, ["0000:3b:00.0"]);
        // The child of `working` did not report on CUDA, although the driver opened.
        assert_eq!(hidden.reason, "CUDA shows no device");
        assert_eq!(cuda_problem(&working()), None);
        assert_eq!(hidden_gpus(&working(), &Fact::Known(Vec::new())), None);
        let hung = "listing CUDA's devices did not return within 60 s";
        let mut asked = working();
        asked.driver = Availability::unavailable(hung, "");
        assert_eq!(hidden_gpus(&asked, &on_bus()).unwrap().reason, hung);
        // A container may not show the bus.
        assert_eq!(cuda_problem(&asked).unwrap(), hung);
    }
}
