//! What is there before a checkpoint run: the directories and the checkpoints in them, as a scan
//! found them.

use serde::{Deserialize, Serialize};

use super::choice::Container;
use super::marker::{Marker, MarkerError, step_folder};
use stormlp_core::facts::{Availability, FoundFile};
use stormlp_core::location::Location;

/// A directory for checkpoints, existing or about to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FolderFacts {
    /// The directory, as it was given.
    pub path: Location,
    /// Whether it can be written, or made.
    pub writable: Availability,
    /// What an ordinary user may still write, in bytes.
    pub free_bytes: u64,
    /// An identity of the file system, equal for directories that share its space.
    pub file_system_id: u64,
    /// Type of the file system: `xfs`, `tmpfs`; `None` where that could not be found out.
    pub file_system: Option<String>,
    /// Whether files here can be opened with `O_DIRECT`.
    pub direct: Availability,
}

/// What lies in one directory of one checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedPart {
    /// Which checkpoint.
    pub step: u32,
    /// Index of the directory in [`CheckpointFacts::folders`].
    pub folder: usize,
    /// What its marker says; `None` for a folder without one, which is not stormlp's.
    pub marker: Option<Result<Marker, MarkerError>>,
    /// The files in it.
    pub files: Vec<FoundFile>,
    /// How many bytes of them lie in holes, for which no device has data.
    pub hole_bytes: u64,
    /// Something in it that stormlp did not make.
    pub foreign: Option<OtherFile>,
    /// What its files are held to be where stormlp wrote no marker; `None` where it did, or where
    /// nothing is restored.
    pub unmarked: Option<Unmarked>,
}

/// What lies in a checkpoint's folder and is not stormlp's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherFile {
    /// Its name in the folder.
    pub name: String,
    /// What it is, where it has a name that the marker lists.
    pub what: Option<String>,
}

/// What a folder without a marker is to a run that restores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmarked {
    /// A checkpoint of this model by somebody else: by the names and sizes of its files. The
    /// marker beside it was made up from them.
    Taken,
    /// None, for this reason.
    Unlike(String),
}

impl SavedPart {
    /// The marker, where there is one that can be read.
    pub fn readable_marker(&self) -> Option<&Marker> {
        self.marker.as_ref()?.as_ref().ok()
    }

    /// Bytes its files have.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// What keeps it from being restored, in words.
    pub fn defects(&self) -> Vec<String> {
        let name = step_folder(self.step);
        let marker = match &self.marker {
            None => {
                let why = match &self.unmarked {
                    Some(Unmarked::Unlike(why)) => {
                        format!(", and is no checkpoint of this model by DLIO: {why}")
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

/// Everything a plan needs to know of storage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CheckpointFacts {
    /// One for each directory of the request.
    pub folders: Vec<FolderFacts>,
    /// The checkpoints in them.
    pub saved: Vec<SavedPart>,
    /// What a short trial wrote, in bytes per second, synced; `None` when none was made.
    pub trial_bytes_per_second: Option<f64>,
}

impl CheckpointFacts {
    /// The parts of checkpoint `step`.
    pub fn parts(&self, step: u32) -> impl Iterator<Item = &SavedPart> {
        self.saved.iter().filter(move |part| part.step == step)
    }

    /// The checkpoints that are there, whole or not, in ascending order.
    pub fn steps(&self) -> Vec<u32> {
        let mut steps: Vec<u32> =
            self.saved.iter().filter(|part| part.marker.is_some()).map(|part| part.step).collect();
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    /// How the tensors of `model` are packed in what is there; `None` where nothing says.
    pub fn container_of(&self, model: &str) -> Option<Container> {
        let mut markers = self.saved.iter().filter_map(SavedPart::readable_marker);
        let of_model = markers.find(|marker| marker.model == model)?;
        Some(of_model.content.container)
    }

    /// Directories as groups that share a file system: free bytes and indices of each group.
    pub fn file_systems(&self) -> Vec<(u64, Vec<usize>)> {
        let mut groups: Vec<(u64, u64, Vec<usize>)> = Vec::new();
        for (index, folder) in self.folders.iter().enumerate() {
            match groups.iter_mut().find(|(id, ..)| *id == folder.file_system_id) {
                Some((_, free, members)) => {
                    *free = (*free).min(folder.free_bytes);
                    members.push(index);
                }
                None => groups.push((folder.file_system_id, folder.free_bytes, vec![index])),
            }
        }
        groups.into_iter().map(|(_, free, members)| (free, members)).collect()
    }
}
