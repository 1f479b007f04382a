//! Messages of the probe's child to its parent, line by line.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stormlp_core::facts::{AcceleratorFacts, Availability, CuFileLimits};
use stormlp_core::machine::LibraryCandidate;

/// Distinguishes the child's lines from library output.
pub(super) const MARK: &str = "stormlp-cufile-probe ";

/// The steps that the parent knows, in words.
pub(super) const OPENS_DRIVER: &str = "cuFileDriverOpen";
pub(super) const USES_FOLDER: &str = "the transfer in the data folder";

/// The child's findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CuFileProbe {
    /// Whether cuFile can be used: the library loads and its driver opens and closes.
    pub driver: Availability,
    /// Whether cuFile accepts files in the requested folder; `None` without a folder that can be
    /// written to, or without a driver.
    pub folder: Option<Availability>,
    /// Version of the library, `1.16`.
    pub library_version: Option<String>,
    /// Where the library was found.
    pub library_path: Option<PathBuf>,
    /// Every libcufile that was found.
    #[serde(default)]
    pub candidates: Vec<LibraryCandidate>,
    /// Whether cuFile may fall back to POSIX calls.
    pub compat_mode_allowed: Option<bool>,
    /// Size in bytes of the buffer for transfers without a direct route.
    #[serde(default)]
    pub per_buffer_cache_bytes: Option<u64>,
    /// Limits that a plan has to keep; `None` if the driver does not open.
    #[serde(default)]
    pub limits: Option<CuFileLimits>,
    /// Properties of the driver, direct routes for each kind of target, `nvme: p2pdma, nvfs`, and
    /// settings that affect the route and the speed.
    pub says: Vec<String>,
    /// The findings on CUDA.
    #[serde(default)]
    pub cuda: CudaProbe,
}

/// The child's findings on CUDA.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CudaProbe {
    /// Version of CUDA that the driver supports, `12.8`.
    pub version: Option<String>,
    /// Where the library was found.
    pub library_path: Option<PathBuf>,
    /// The GPUs it can use.
    pub devices: Vec<AcceleratorFacts>,
    /// Why there are none.
    pub problem: Option<String>,
}

impl CuFileProbe {
    pub(crate) fn unavailable(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            driver: Availability::unavailable(reason, remedy),
            folder: None,
            library_version: None,
            library_path: None,
            candidates: Vec::new(),
            compat_mode_allowed: None,
            per_buffer_cache_bytes: None,
            limits: None,
            says: Vec::new(),
            cuda: CudaProbe::default(),
        }
    }

    /// Whether the cuFile paths can run on the requested folder.
    pub fn availability(&self) -> Availability {
        match (&self.driver, &self.folder) {
            (Availability::Available, Some(folder)) => folder.clone(),
            (driver, _) => driver.clone(),
        }
    }
}

/// A message of the child, one per line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    /// This step begins.
    Begins(String),
    /// The findings so far; the last message counts.
    Found(Box<CuFileProbe>),
}

/// The file that the child with this PID tests cuFile on.
pub(super) fn probe_file(folder: &Path, pid: u32) -> PathBuf {
    folder.join(format!(".stormlp-cufile-probe-{pid}"))
}
