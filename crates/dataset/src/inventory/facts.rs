//! What a scan of a dataset folder found: plain data for a training plan and the run.

use serde::{Deserialize, Serialize};

use stormlp_core::facts::{Availability, FoundFile};
use stormlp_core::location::Location;

/// A dataset folder as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Inventory {
    /// The dataset folder.
    pub folder: Location,
    /// Training files, sorted by base name as DLIO sorts them.
    pub train: Vec<FoundFile>,
    /// Evaluation files, sorted alike.
    pub valid: Vec<FoundFile>,
    /// Files there that are not of the workload's format, some of them by name.
    pub foreign: Vec<String>,
    /// Samples in a file as the manifest says or the first file shows; `None` when unknown.
    pub samples_per_file: Option<u64>,
    /// Training files that a run reads unless it is told otherwise: those that a finished manifest
    /// of stormlp lists, or that are there; it wins over the workload.
    pub files: Option<u64>,
    /// Whether a manifest of stormlp says that generation was cut short.
    pub unfinished: bool,
    /// Whether its file system lets files be read with O_DIRECT, as far as that was tried.
    #[serde(default)]
    pub direct: Availability,
}

impl Inventory {
    /// Bytes of the first `files` training files.
    pub fn train_bytes(&self, files: u64) -> u64 {
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        self.train.iter().take(files).map(|file| file.bytes).sum()
    }

    /// Bytes of the first `files` evaluation files.
    pub fn valid_bytes(&self, files: u64) -> u64 {
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        self.valid.iter().take(files).map(|file| file.bytes).sum()
    }
}
