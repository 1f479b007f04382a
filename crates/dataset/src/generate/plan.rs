//! The plan of a run, its outline, and whether there is room.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stormlp_core::location::names_object;
use stormlp_core::path::EngineKind;
use stormlp_transfer::object::PART_BYTES;
use stormlp_transfer::storage::{Space, Storage, StorageRouter};

use super::error::GenerateError;
use crate::dataset::{Dataset, Recipe};
use crate::manifest::{MADE_BY, ManifestHead};
use crate::report::GenerateOutline;

/// Buffer size: a request size that every device handles well.
const CHUNK_BYTES: usize = 2 << 20;
/// Buffers per thread, and so its queue depth.
const DEPTH: usize = 8;
/// Buffers per thread for objects, each of a part: one waits for the end, one is filled, and two are
/// on their way, over a connection each.
const OBJECT_DEPTH: usize = 4;
/// The sizes of fewer files than these are drawn in no time.
const MANY_FILES: u64 = 100_000;

/// The treatment of the folder's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Existing {
    /// An occupied folder is an error.
    Refuse,
    /// Complete files of the same dataset are kept; the rest is made.
    Resume,
    /// An existing dataset is removed.
    Overwrite,
}

/// A dataset and its destination.
#[derive(Serialize)]
pub struct GeneratePlan {
    /// The dataset folder; samples are in its `train/` and `valid/`.
    pub folder: PathBuf,
    /// The workload's name, for the manifest.
    pub workload: String,
    /// The profile that decided sizes, for the manifest.
    pub profile: String,
    /// The dataset.
    pub dataset: Dataset,
    /// Whether it is a starter set, for the manifest.
    pub starter: bool,
    /// The treatment of existing files.
    pub existing: Existing,
    /// Number of threads; 0 means [`default_threads`].
    pub threads: usize,
    /// The storage that the folder is on.
    #[serde(skip)]
    pub storage: Arc<dyn Storage>,
    /// The I/O engine; `None` uses io_uring if the kernel allows it, else `pwrite`.
    pub engine: Option<EngineKind>,
}

impl GeneratePlan {
    /// A plan for a folder that must be empty.
    #[must_use]
    pub fn new(folder: PathBuf, workload: &str, profile: &str, dataset: Dataset) -> Self {
        Self {
            folder,
            workload: workload.to_string(),
            profile: profile.to_string(),
            dataset,
            starter: false,
            existing: Existing::Refuse,
            threads: 0,
            storage: Arc::new(StorageRouter::default()),
            engine: None,
        }
    }

    /// The manifest head that the run will write.
    #[must_use]
    pub fn manifest_head(&self) -> ManifestHead {
        let recipe = self.dataset.recipe();
        ManifestHead {
            format_version: ManifestHead::version(),
            made_by: MADE_BY.to_string(),
            workload: self.workload.clone(),
            profile: self.profile.clone(),
            format: recipe.format.name().to_string(),
            train_files: recipe.train_files,
            valid_files: recipe.valid_files,
            samples_per_file: recipe.samples_per_file,
            content: recipe.content.name().to_string(),
            seed: recipe.seed,
            recipe: recipe.text(),
            starter: self.starter,
        }
    }

    /// A summary of the plan, for `--dry-run`.
    #[must_use]
    pub fn outline(&self) -> GenerateOutline {
        let recipe = self.dataset.recipe();
        let space = room(&*self.storage, &self.folder).ok().flatten();
        let bytes = self.dataset.total_bytes();
        let (depth, chunk_bytes) = self.pool();
        GenerateOutline {
            folder: self.folder.clone(),
            workload: self.workload.clone(),
            profile: self.profile.clone(),
            format: recipe.format.name().to_string(),
            files: self.dataset.files(),
            train_files: recipe.train_files,
            valid_files: recipe.valid_files,
            subfolders: recipe.train_subfolders,
            samples_per_file: recipe.samples_per_file,
            bytes,
            bytes_are_exact: self.dataset.sizes_are_exact(),
            content: recipe.content.name().to_string(),
            seed: recipe.seed,
            threads: self.thread_count(),
            buffer_bytes: (self.thread_count() * depth * chunk_bytes) as u64,
            free_bytes: space.map(|space| space.free_bytes),
            fits: space.map(|space| bytes <= space.free_bytes),
        }
    }

    /// The number of threads that the run will use.
    #[must_use]
    pub fn thread_count(&self) -> usize {
        let threads = if self.threads == 0 { default_threads() } else { self.threads };
        threads.min(usize::try_from(self.dataset.files()).unwrap_or(usize::MAX))
    }

    /// Number and size of a thread's buffers, for files or for objects.
    pub(super) fn pool(&self) -> (usize, usize) {
        let is_objects = names_object(&self.folder);
        if is_objects { (OBJECT_DEPTH, PART_BYTES as usize) } else { (DEPTH, CHUNK_BYTES) }
    }

    /// The error for a folder that holds the dataset of `head`, which is not the plan's.
    pub(super) fn another(&self, head: &ManifestHead) -> GenerateError {
        let (theirs, ours) = differences(head, &self.manifest_head());
        GenerateError::Another { folder: self.folder.clone(), theirs, ours }
    }
}

/// Refuses a dataset of many files that is larger than the whole file system, before their sizes
/// are drawn, which would need minutes. For all other datasets the drawn sizes decide later.
///
/// # Errors
/// If the dataset does not fit, or the folder's file system cannot be queried.
pub fn check_room(
    storage: &dyn Storage,
    folder: &Path,
    recipe: &Recipe,
) -> Result<(), GenerateError> {
    // An invalid recipe is refused later, with its fault.
    let about = recipe.estimated_bytes().unwrap_or(0.0);
    let is_large = |space: &Space| about > space.total_bytes as f64;
    let many = recipe.train_files >= MANY_FILES;
    let space = if many { room(storage, folder)?.filter(is_large) } else { None };
    space.map_or(Ok(()), |space| Err(GenerateError::space(folder, space.free_bytes, about as u64)))
}

/// Available space for a folder that may not exist yet; `None` if the storage does not tell.
///
/// # Errors
/// If its file system cannot be queried.
pub fn room(storage: &dyn Storage, folder: &Path) -> Result<Option<Space>, GenerateError> {
    let space = storage.nearest(folder).and_then(|nearest| storage.space(&nearest));
    space.map_err(GenerateError::setup)
}

/// Default number of threads: two per CPU, since a thread waits for storage at the end of every
/// file, and at most 16, which limits the buffers to 256 MiB.
#[must_use]
pub fn default_threads() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * cpus).clamp(2, 16)
}

/// The differences between two heads, in the terms of the command line.
fn differences(theirs: &ManifestHead, ours: &ManifestHead) -> (String, String) {
    let fields = |head: &ManifestHead| {
        [
            format!("workload {}", head.workload),
            format!("format {}", head.format),
            format!("{} training files", head.train_files),
            format!("{} evaluation files", head.valid_files),
            format!("{} samples per file", head.samples_per_file),
            format!("content {}", head.content),
            format!("seed {}", head.seed),
            format!("edition {}", head.profile),
        ]
    };
    let differing: Vec<(String, String)> = fields(theirs)
        .into_iter()
        .zip(fields(ours))
        .filter(|(theirs, ours)| theirs != ours)
        .collect();
    if differing.is_empty() {
        return ("other sample sizes or names".to_string(), "the planned ones".to_string());
    }
    let (theirs, ours): (Vec<_>, Vec<_>) = differing.into_iter().unzip();
    (theirs.join(", "), ours.join(", "))
}
