//! Generation and verification of datasets, as plain data: the plan, work and findings of a run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use stormlp_core::evidence::ObjectStore;
use stormlp_core::note::{Cause, Note};
use stormlp_core::path::EngineKind;
use stormlp_core::warning::Warning;

/// The files that a run would make; printed by `stormlp datagen --dry-run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateOutline {
    /// The dataset folder.
    pub folder: PathBuf,
    /// The workload's name.
    pub workload: String,
    /// The profile that decides sizes.
    pub profile: String,
    /// The files' format.
    pub format: String,
    /// Total number of data files.
    pub files: u64,
    /// Training files.
    pub train_files: u64,
    /// Evaluation files.
    pub valid_files: u64,
    /// Subfolders of the training files; 0 or 1 for none.
    pub subfolders: u64,
    /// Samples in each file.
    pub samples_per_file: u64,
    /// Bytes of all data files.
    pub bytes: u64,
    /// Whether `bytes` is exact; parquet's framing is an upper estimate.
    pub bytes_are_exact: bool,
    /// The payload of the samples.
    pub content: String,
    /// The content's seed.
    pub seed: u64,
    /// Number of writer threads.
    pub threads: usize,
    /// Bytes of all their buffers.
    pub buffer_bytes: u64,
    /// Free bytes of the file system; `None` if unknown.
    pub free_bytes: Option<u64>,
    /// Whether the dataset fits there.
    pub fits: Option<bool>,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateReport {
    /// The dataset folder.
    pub folder: PathBuf,
    /// The workload's name.
    pub workload: String,
    /// The profile that decided sizes.
    pub profile: String,
    /// The files' format.
    pub format: String,
    /// Data files in the dataset.
    pub files: u64,
    /// Data files made by this run.
    pub files_made: u64,
    /// Data files that were already complete.
    pub files_kept: u64,
    /// Names of files that existed but were truncated or altered, and were remade (the first
    /// hundred).
    pub remade: Vec<String>,
    /// Bytes of all data files.
    pub bytes: u64,
    /// Bytes of data files written by this run.
    pub bytes_written: u64,
    /// Seconds from the first file to the last.
    pub seconds: f64,
    /// CPU seconds of this process in user mode, over the same time.
    pub cpu_user_seconds: f64,
    /// CPU seconds of this process in the kernel, over the same time.
    pub cpu_system_seconds: f64,
    /// Number of writer threads.
    pub threads: usize,
    /// The I/O engine used.
    pub engine: EngineKind,
    /// Whether files were written with `O_DIRECT`.
    pub direct: bool,
    /// The object store and the requests to it, if the files are objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_store: Option<ObjectStore>,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
}

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// Data files of the dataset.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Whether there was a manifest; without one, sizes and framing were checked.
    pub by_checksum: bool,
    /// The problems, one sentence per bad file, in file order.
    pub faults: Vec<String>,
    /// The names of files that are not there.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Why files could not be read, and the remedy; their content is unknown.
    #[serde(default)]
    pub unread: Vec<Note<Cause>>,
    /// Warnings for the user.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}

impl Verification {
    /// Files that are bad, missing, or could not be read.
    #[must_use]
    pub fn not_good(&self) -> usize {
        self.faults.len() + self.missing.len() + self.unread.len()
    }
}
