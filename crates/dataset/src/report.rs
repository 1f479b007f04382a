//! Making and verifying datasets, as plain data: what a run would do, did, and found.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use stormlp_core::path::EngineKind;
use stormlp_core::warning::Warning;

/// What a run would make; `stormlp datagen --dry-run` prints it.
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
    /// Data files in all.
    pub files: u64,
    /// Training files.
    pub train_files: u64,
    /// Evaluation files.
    pub valid_files: u64,
    /// Subfolders of the training files; 0 and 1 mean none.
    pub subfolders: u64,
    /// Samples in each file.
    pub samples_per_file: u64,
    /// Bytes of all data files.
    pub bytes: u64,
    /// Whether `bytes` is exact; parquet's framing is estimated from above.
    pub bytes_are_exact: bool,
    /// What fills the samples.
    pub content: String,
    /// The content's seed.
    pub seed: u64,
    /// Threads that would write.
    pub threads: usize,
    /// Free bytes of the file system; `None` when it does not say.
    pub free_bytes: Option<u64>,
    /// Whether the dataset fits there.
    pub fits: Option<bool>,
}

/// What a run did.
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
    /// Data files that were whole already.
    pub files_kept: u64,
    /// Names of files that were there but cut off or altered, and were made again (the first
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
    /// Threads that wrote.
    pub threads: usize,
    /// The engine that wrote.
    pub engine: EngineKind,
    /// Whether files were written with `O_DIRECT`.
    pub direct: bool,
    /// What the user should know.
    pub warnings: Vec<Warning>,
}

/// What verifying found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// Data files that were looked at.
    pub files: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Whether a manifest was there; without one, sizes and framing were checked.
    pub by_checksum: bool,
    /// What is wrong, one sentence for each bad file, in the order of the files.
    pub faults: Vec<String>,
}
