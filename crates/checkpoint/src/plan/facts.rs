//! The state before a checkpoint run: the directories and the checkpoints in them, as found by a
//! scan.

use serde::{Deserialize, Serialize};

use super::choice::Container;
use super::marker::{Marker, MarkerError, step_folder};
use stormlp_core::facts::{Availability, FoundFile};
use stormlp_core::location::Location;

/// A checkpoint directory, existing or about to be created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FolderFacts {
    /// The directory as given.
    pub path: Location,
    /// Whether it is writable or can be created.
    pub writable: Availability,
    /// Bytes available to an unprivileged user; `None` if the storage does not tell.
    pub free_bytes: Option<u64>,
    /// File system identity, equal for directories that share its space.
    pub file_system_id: u64,
    /// Type of the file system: `xfs`, `tmpfs`; `None` if unknown.
    pub file_system: Option<String>,
    /// Whether files here can be opened with `O_DIRECT`.
    pub direct: Availability,
}

/// The contents of one directory of one checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedPart {
    /// The checkpoint's step.
    pub step: u32,
    /// Index of the directory in [`CheckpointFacts::folders`].
    pub folder: usize,
    /// Its marker; `None` for a folder without one, which stormlp did not make.
    pub marker: Option<Result<Marker, MarkerError>>,
    /// The files in it.
    pub files: Vec<FoundFile>,
    /// Bytes of the files that are in holes, which no device stores.
    pub hole_bytes: u64,
    /// An entry that stormlp did not make.
    pub foreign: Option<OtherFile>,
    /// How its files are treated if stormlp wrote no marker; `None` if it did, or if nothing is
    /// restored.
    pub unmarked: Option<Unmarked>,
}

/// An entry of a checkpoint's folder that stormlp did not make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherFile {
    /// Its name in the folder.
    pub name: String,
    /// What it is, if the marker lists its name.
    pub what: Option<String>,
}

/// A folder that a killed run left beside the checkpoints: a save that did not finish, or what one
/// replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Index of the directory in [`CheckpointFacts::folders`].
    pub folder: usize,
    /// The checkpoint's step.
    pub step: u32,
    /// Its name in the directory.
    pub name: String,
    /// Total bytes of its files.
    pub bytes: u64,
    /// What stormlp did not make: itself, or an entry of it, by its place in the directory.
    pub foreign: Option<String>,
}

/// How a run that restores treats a folder without a marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmarked {
    /// A checkpoint of this model made by other software, recognised by the names and sizes of its
    /// files. Its marker was derived from them.
    Taken,
    /// Not a checkpoint of this model, for this reason.
    Unlike(String),
}

impl SavedPart {
    /// The marker, if there is a readable one.
    pub fn readable_marker(&self) -> Option<&Marker> {
        self.marker.as_ref()?.as_ref().ok()
    }

    /// Total bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The reasons, in words, why it cannot be restored.
    pub fn defects(&self) -> Vec<String> {
        let name = step_folder(self.step);
        let marker = match &self.marker {
            None => {
                let why = match &self.unmarked {
                    Some(Unmarked::Unlike(why)) => {
                        format!(", and is not a checkpoint of this model by DLIO: {why}")
                    }
                    _ => String::new(),
                };
                return vec![format!("{name} was not made by stormlp (it has no marker){why}")];
            }
            Some(Err(error)) => return vec![format!("{name}: {error}")],
            Some(Ok(marker)) => marker,
        };
        let mut defects = Vec::new();
        if !marker.complete {
            defects.push(format!("{name} is incomplete: its save did not finish"));
        }
        for file in &marker.files {
            match self.files.iter().find(|found| found.name == file.name) {
                None => defects.push(format!("{name}/{} is missing", file.name)),
                Some(found) if found.bytes != file.bytes => defects.push(format!(
                    "{name}/{} has {} bytes; it must have {}",
                    file.name, found.bytes, file.bytes
                )),
                Some(_) => {}
            }
        }
        defects
    }
}

/// Everything a plan needs to know about storage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CheckpointFacts {
    /// One for each directory of the request.
    pub folders: Vec<FolderFacts>,
    /// The checkpoints in them.
    pub saved: Vec<SavedPart>,
    /// What killed runs left beside them.
    pub leftovers: Vec<Leftover>,
    /// Write rate of a short trial in bytes per second, including the sync; `None` without a trial.
    pub trial_bytes_per_second: Option<f64>,
}

impl CheckpointFacts {
    /// The parts of checkpoint `step`.
    pub fn parts(&self, step: u32) -> impl Iterator<Item = &SavedPart> {
        self.saved.iter().filter(move |part| part.step == step)
    }

    /// The existing checkpoints, complete or not, in ascending order.
    pub fn steps(&self) -> Vec<u32> {
        let mut steps: Vec<u32> =
            self.saved.iter().filter(|part| part.marker.is_some()).map(|part| part.step).collect();
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    /// How the tensors of `model` are packed in existing checkpoints; `None` if unknown.
    pub fn container_of(&self, model: &str) -> Option<Container> {
        let mut markers = self.saved.iter().filter_map(SavedPart::readable_marker);
        let of_model = markers.find(|marker| marker.model == model)?;
        Some(of_model.content.container)
    }

    /// Directories grouped by file system: free bytes and indices of each group.
    pub fn file_systems(&self) -> Vec<(Option<u64>, Vec<usize>)> {
        let mut groups: Vec<(u64, Option<u64>, Vec<usize>)> = Vec::new();
        for (index, folder) in self.folders.iter().enumerate() {
            match groups.iter_mut().find(|(id, ..)| *id == folder.file_system_id) {
                Some((_, free, members)) => {
                    *free = free.zip(folder.free_bytes).map(|(one, other)| one.min(other));
                    members.push(index);
                }
                None => groups.push((folder.file_system_id, folder.free_bytes, vec![index])),
            }
        }
        groups.into_iter().map(|(_, free, members)| (free, members)).collect()
    }
}

/// Checkpoints in words; `steps` must be ascending.
pub(super) fn named(steps: &[u32]) -> String {
    match steps {
        [one] => format!("checkpoint {one}"),
        [first, .., last] if (last - first) as usize == steps.len() - 1 => {
            format!("checkpoints {first} to {last}")
        }
        _ => {
            let all: Vec<String> = steps.iter().map(u32::to_string).collect();
            format!("checkpoints {}", all.join(", "))
        }
    }
}
