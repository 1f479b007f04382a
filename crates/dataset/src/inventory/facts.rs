//! Results of scanning a dataset folder: plain data for a training plan and the run.

use serde::{Deserialize, Serialize};

use stormlp_core::facts::{Availability, FoundFile};
use stormlp_core::location::Location;

/// A dataset folder as found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Inventory {
    /// The dataset folder.
    pub folder: Location,
    /// Training files, sorted by base name as in DLIO.
    pub train: Vec<FoundFile>,
    /// Evaluation files, sorted likewise.
    pub valid: Vec<FoundFile>,
    /// Files not in the workload's format; some of their names.
    pub foreign: Vec<String>,
    /// Samples per file, from the manifest or the first file; `None` if unknown.
    pub samples_per_file: Option<u64>,
    /// Number of training files that a run reads by default: those that a finished stormlp manifest
    /// lists, or those found. Takes precedence over the workload.
    pub files: Option<u64>,
    /// Whether a stormlp manifest says that generation was interrupted.
    pub unfinished: bool,
    /// Whether its file system supports O_DIRECT reads, if tested.
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
