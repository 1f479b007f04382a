//! Scans a dataset folder: its files, their sizes and order, and its manifest.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stormlp_core::facts::FoundFile;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Kind, Storage};

use crate::manifest::{ManifestError, Record};
use crate::names::Split;

/// One split of a dataset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundSplit {
    /// The data files, in DLIO's order.
    pub files: Vec<FoundFile>,
    /// Number of subfolders with data files.
    pub subfolders: u64,
    /// Files of other types, relative to the dataset folder; index files of data files and dotfiles
    /// are not counted.
    pub foreign: Vec<String>,
    /// A folder or data file that is a link, relative to the dataset folder.
    pub a_link: Option<String>,
    /// Bytes of the data files that are in holes, which no device stores.
    pub hole_bytes: u64,
}

impl FoundSplit {
    /// Total bytes of all data files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add)
    }
}

/// The contents of a dataset folder.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundDataset {
    /// The dataset folder.
    pub folder: PathBuf,
    /// Training files.
    pub train: FoundSplit,
    /// Evaluation files.
    pub valid: FoundSplit,
    /// The record that stormlp wrote when it made the dataset.
    pub record: Option<Record>,
}

/// Why a folder could not be scanned.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The folder does not exist.
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    /// Part of it cannot be read.
    #[error(transparent)]
    Unreadable(#[from] TransferError),
    /// Its manifest cannot be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl FoundDataset {
    /// The half `split`.
    #[must_use]
    pub fn split(&self, split: Split) -> &FoundSplit {
        match split {
            Split::Train => &self.train,
            Split::Valid => &self.valid,
        }
    }

    /// Whether there are no data files at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.train.files.is_empty() && self.valid.files.is_empty()
    }

    /// Whether stormlp began to generate this dataset but did not finish.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.record.as_ref().is_some_and(|record| !record.finished)
    }
}

/// Scans `folder` for data files that end in `.suffix`. Reads names, sizes and the manifest, but no
/// data.
///
/// # Errors
/// If the folder is missing, or a part of it cannot be read.
pub fn scan(storage: &dyn Storage, folder: &Path, suffix: &str) -> Result<FoundDataset, ScanError> {
    if !storage.is_folder(folder)? {
        return Err(ScanError::Missing(folder.to_path_buf()));
    }
    Ok(FoundDataset {
        folder: folder.to_path_buf(),
        train: scan_split(storage, folder, Split::Train, suffix)?,
        valid: scan_split(storage, folder, Split::Valid, suffix)?,
        record: Record::load(storage, folder)?,
    })
}

fn scan_split(
    storage: &dyn Storage,
    folder: &Path,
    split: Split,
    suffix: &str,
) -> Result<FoundSplit, TransferError> {
    let mut found = FoundSplit::default();
    if storage.look(&folder.join(split.folder()))?.is_some_and(|facts| facts.link) {
        found.a_link = Some(split.folder().to_string());
    }
    for subfolder in scan_folder(storage, folder, split.folder(), suffix, &mut found)? {
        let before = found.files.len();
        scan_folder(storage, folder, &subfolder, suffix, &mut found)?;
        found.subfolders += u64::from(found.files.len() > before);
    }
    found.files.sort_by(|a, b| dlio_order(&a.name, &b.name));
    found.foreign.sort_unstable();
    Ok(found)
}

/// Adds the files of one folder; returns its subfolders, relative to the dataset folder.
fn scan_folder(
    storage: &dyn Storage,
    root: &Path,
    relative: &str,
    suffix: &str,
    found: &mut FoundSplit,
) -> Result<Vec<String>, TransferError> {
    let entries = match storage.list(&root.join(relative)) {
        // DLIO creates both splits, other tools may not: a missing one is empty.
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut subfolders = Vec::new();
    for entry in entries {
        let name = entry.name.to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        let name = format!("{relative}/{name}");
        // Links are followed: a dataset may be assembled from several locations.
        let wanted = entry.is_folder() || entry.is_file() && has_suffix(&name, suffix);
        if entry.facts.link && wanted {
            found.a_link.get_or_insert_with(|| name.clone());
        }
        match entry.facts.kind {
            Kind::Nothing => {
                let nothing = std::io::ErrorKind::NotFound.into();
                return Err(TransferError::file("read", root.join(name), nothing));
            }
            Kind::Folder => subfolders.push(name),
            Kind::File if has_suffix(&name, suffix) => {
                let bytes = entry.facts.bytes;
                // Only such a file can have holes; the rest need not be opened.
                if entry.facts.allocated_bytes < bytes {
                    let holes = storage.hole_bytes(&root.join(&name), bytes);
                    found.hole_bytes += holes.unwrap_or(0);
                }
                found.files.push(FoundFile { name, bytes });
            }
            _ if name.ends_with(".idx") => {}
            _ => found.foreign.push(name),
        }
    }
    Ok(subfolders)
}

/// The order of a dataset's files: DLIO sorts by base name across all subfolders.
pub(super) fn dlio_order(a: &str, b: &str) -> Ordering {
    base_name(a).cmp(base_name(b)).then_with(|| a.cmp(b))
}

pub(super) fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// DLIO accepts the suffix in lower and in upper case.
fn has_suffix(name: &str, suffix: &str) -> bool {
    base_name(name)
        .rsplit_once('.')
        .is_some_and(|(_, end)| end == suffix || end == suffix.to_uppercase())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use stormlp_transfer::storage::Disk;

    use super::{ScanError, scan};

    #[test]
    fn files_are_found_in_dlios_order() {
        let root = tempfile::tempdir().unwrap();
        for (name, bytes) in [
            ("train/1/img_01_of_12.npz", 3),
            ("train/0/img_00_of_12.npz", 4),
            ("train/0/img_02_of_12.NPZ", 5),
            ("train/0/.img_04_of_12.npz.partial", 5),
            ("train/notes.txt", 1),
            ("train/img.off.idx", 1),
        ] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![0; bytes]).unwrap();
        }
        let inventory = scan(&Disk, root.path(), "npz").unwrap();
        let names: Vec<&str> = inventory.train.files.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(
            names,
            ["train/0/img_00_of_12.npz", "train/1/img_01_of_12.npz", "train/0/img_02_of_12.NPZ"]
        );
        assert_eq!(inventory.train.bytes(), 12);
        assert_eq!(inventory.train.subfolders, 2);
        assert_eq!(inventory.train.foreign, ["train/notes.txt"]);
        assert!(inventory.valid.files.is_empty() && inventory.record.is_none());
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = scan(&Disk, std::path::Path::new("/no/such/folder"), "npz").unwrap_err();
        assert!(matches!(error, ScanError::Missing(_)));
        assert_eq!(error.to_string(), "/no/such/folder does not exist");
    }
}
