//! Results of scanning a dataset folder: plain data for a training plan and the run.

use std::path::Path;

use crate::dataset::Dataset;
use crate::names::Split;
use serde::{Deserialize, Serialize};
use stormlp_core::facts::{Availability, FoundFile};
use stormlp_core::location::Location;
use stormlp_transfer::storage::Storage;

use super::check::inspect;
use super::scan::{FoundDataset, dlio_order};

/// A dataset folder as found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Inventory {
    /// The dataset folder.
    pub folder: Location,
    /// Training files, sorted by base name as in DLIO.
    pub train: Vec<FoundFile>,
    /// Files not in the workload's format; some of their names.
    pub foreign: Vec<String>,
    /// Samples per file, from the manifest or the first file; `None` if unknown.
    pub samples_per_file: Option<u64>,
    /// Number of training files that a run reads by default: the files that a finished stormlp
    /// manifest lists, or the files found. It overrides the workload.
    pub files: Option<u64>,
    /// Whether a stormlp manifest says that generation was interrupted.
    pub unfinished: bool,
    /// Whether a stormlp manifest says that it is a starter set.
    #[serde(default)]
    pub starter: bool,
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
}

/// Maximum number of foreign files that a plan receives by name.
const MAX_FOREIGN: usize = 10;

/// The inventory of a folder as it will be once `dataset` is made in it. If a format determines
/// sizes only while writing, they are estimated.
#[must_use]
pub fn planned(folder: &Path, dataset: &Dataset) -> Inventory {
    let indices = (0..dataset.files()).filter(|index| dataset.place(*index).0 == Split::Train);
    let mut train: Vec<FoundFile> = indices
        .map(|index| FoundFile { name: dataset.path(index), bytes: dataset.expected_bytes(index) })
        .collect();
    train.sort_by(|a, b| dlio_order(&a.name, &b.name));
    Inventory {
        folder: folder.into(),
        train,
        foreign: Vec::new(),
        samples_per_file: Some(dataset.recipe().samples_per_file),
        files: Some(dataset.recipe().train_files),
        unfinished: false,
        starter: false,
        direct: Availability::Available,
    }
}

impl FoundDataset {
    /// The input for `TrainPlan::resolve`. `dataset` is used to read the first file if no manifest
    /// gives the number of samples per file.
    #[must_use]
    pub fn for_plan(&self, storage: &dyn Storage, dataset: &Dataset) -> Inventory {
        let foreign = self.train.foreign.iter().chain(&self.valid.foreign);
        Inventory {
            folder: (&self.folder).into(),
            train: self.train.files.clone(),
            foreign: foreign.take(MAX_FOREIGN).cloned().collect(),
            samples_per_file: self.samples_per_file(storage, dataset),
            files: self
                .record
                .as_ref()
                .filter(|record| record.finished)
                .map(|record| record.head.train_files),
            unfinished: self.is_unfinished(),
            starter: self.record.as_ref().is_some_and(|record| record.head.starter),
            direct: Availability::Available,
        }
    }

    /// Samples per file: from the manifest, else from the first training file.
    #[must_use]
    pub fn samples_per_file(&self, storage: &dyn Storage, dataset: &Dataset) -> Option<u64> {
        if let Some(record) = &self.record {
            return Some(record.head.samples_per_file);
        }
        let first = self.train.files.first()?;
        let layout = inspect(storage, &self.folder, dataset, first).ok()?;
        Some(layout.samples)
    }
}
