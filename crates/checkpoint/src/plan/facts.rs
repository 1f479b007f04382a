//! The state before a checkpoint run: the directories and the checkpoints in them, as found by a
//! scan.

use std::collections::BTreeSet;
use std::path::Path;

use super::marker::{Marker, MarkerError, run_number, step_folder};
use stormlp_core::facts::{FolderFacts, FoundFile};

/// The contents of one directory of one checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedPart {
    /// The folder of its run; empty for a checkpoint that lies in the directory itself.
    pub run: String,
    /// The checkpoint's step.
    pub step: u32,
    /// Index of the directory in [`CheckpointFacts::folders`].
    pub folder: usize,
    /// Its marker.
    pub marker: Result<Marker, MarkerError>,
    /// The files in it.
    pub files: Vec<FoundFile>,
    /// Bytes of the files that are in holes, which no device stores.
    pub hole_bytes: u64,
}

impl SavedPart {
    /// Total bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Its folder inside the directory.
    pub fn name(&self) -> String {
        Path::new(&self.run).join(step_folder(self.step)).display().to_string()
    }

    /// Whether its save did not finish.
    pub fn is_unfinished(&self) -> bool {
        self.marker.as_ref().is_ok_and(|marker| !marker.complete)
    }

    /// The reasons, in words, why it cannot be restored.
    pub fn defects(&self) -> Vec<String> {
        let name = self.name();
        let marker = match &self.marker {
            Err(error) => return vec![format!("{name}: {error}")],
            Ok(marker) => marker,
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
    /// The highest number in the name of a run's folder; 0 if there is none.
    pub last_run: u32,
    /// Write rate of a short trial in bytes per second, including the sync; `None` without a trial.
    pub trial_bytes_per_second: Option<f64>,
}

impl CheckpointFacts {
    /// The runs with checkpoints, the oldest first.
    pub fn runs(&self) -> Vec<&str> {
        let mut runs: Vec<&str> = self.saved.iter().map(|part| part.run.as_str()).collect();
        runs.sort_unstable_by_key(|run| run_number(run));
        runs.dedup();
        runs
    }

    /// The parts of checkpoint `step` of a run.
    pub fn parts<'a>(&'a self, run: &'a str, step: u32) -> impl Iterator<Item = &'a SavedPart> {
        self.saved.iter().filter(move |part| part.run == run && part.step == step)
    }

    /// The checkpoints of a run, complete or not, in ascending order.
    pub fn steps(&self, run: &str) -> Vec<u32> {
        let parts = self.saved.iter().filter(|part| part.run == run);
        let marked = parts.filter(|part| part.marker != Err(MarkerError::Absent));
        let steps: BTreeSet<u32> = marked.map(|part| part.step).collect();
        steps.into_iter().collect()
    }

    /// The ones that are whole in all directories.
    pub fn whole_steps(&self, run: &str) -> Vec<u32> {
        let mut steps = self.steps(run);
        steps.retain(|step| {
            self.parts(run, *step).count() >= self.folders.len()
                && self.parts(run, *step).all(|part| part.defects().is_empty())
        });
        steps
    }

    /// The checkpoints of a run, by the first of its markers that can be read.
    pub fn marker(&self, run: &str) -> Option<&Marker> {
        self.saved.iter().filter(|part| part.run == run).find_map(|part| part.marker.as_ref().ok())
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
