//! The inventory as input for a training plan: plain data from the folder and its manifest.

use std::path::Path;

use crate::inventory::facts::Inventory;
use stormlp_core::facts::{Availability, FoundFile};
use stormlp_transfer::storage::Storage;

use super::check::inspect;
use super::scan::{FoundDataset, dlio_order};
use crate::dataset::Dataset;
use crate::names::Split;

/// The most names of foreign files passed to a plan.
const MAX_FOREIGN: usize = 10;

/// The inventory of a folder as it will be once `dataset` is made in it. For formats whose sizes
/// are only known after writing, they are estimated.
#[must_use]
pub fn planned(folder: &Path, dataset: &Dataset) -> Inventory {
    let files = |wanted: Split| {
        let indices = (0..dataset.files()).filter(|index| dataset.place(*index).0 == wanted);
        let mut files: Vec<FoundFile> = indices
            .map(|index| FoundFile {
                name: dataset.path(index),
                bytes: dataset.expected_bytes(index),
            })
            .collect();
        files.sort_by(|a, b| dlio_order(&a.name, &b.name));
        files
    };
    Inventory {
        folder: folder.into(),
        train: files(Split::Train),
        valid: files(Split::Valid),
        foreign: Vec::new(),
        samples_per_file: Some(dataset.recipe().samples_per_file),
        files: Some(dataset.recipe().train_files),
        unfinished: false,
        direct: Availability::Available,
    }
}

impl Dataset {
    /// Whether the existing files match the planned ones; to the byte if sizes are known
    /// beforehand.
    #[must_use]
    pub fn is_as_planned(&self, planned: &Inventory, made: &Inventory) -> bool {
        let exact = self.sizes_are_exact();
        let same = |planned: &[FoundFile], made: &[FoundFile]| {
            let pairs = planned.iter().zip(made);
            let mut alike = pairs.map(|(a, b)| a.name == b.name && (!exact || a.bytes == b.bytes));
            planned.len() == made.len() && alike.all(|alike| alike)
        };
        same(&planned.train, &made.train) && same(&planned.valid, &made.valid)
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
            valid: self.valid.files.clone(),
            foreign: foreign.take(MAX_FOREIGN).cloned().collect(),
            samples_per_file: self.samples_per_file(storage, dataset),
            files: self
                .record
                .as_ref()
                .filter(|record| record.finished)
                .map(|record| record.head.train_files),
            unfinished: self.is_unfinished(),
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
