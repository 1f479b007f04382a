//! Finds missing hosts: waiting hosts leave a note in the run's directory, where one can look up
//! which ones did not.
//!
//! A library that waits for all does not show which host is missing. A host writes only after a
//! long wait, at which point the measurement is lost anyway.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stormlp_transfer::storage::{Disk, Durability, Storage as _};

/// How often a waiting host renews its note.
const AGAIN: Duration = Duration::from_secs(1);
/// Notes older than this host's by this much belong to an earlier wait.
const OF_ONE_WAIT_NS: u64 = 5_000_000_000;

/// The directory in which hosts record that they are waiting.
#[derive(Debug, Clone)]
pub(super) struct WaitingNotes {
    folder: PathBuf,
    written: Arc<Mutex<Option<Instant>>>,
}

impl WaitingNotes {
    /// Uses `folder`, which all processes see.
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), written: Arc::default() }
    }

    fn note(&self, rank: u32) -> PathBuf {
        self.folder.join(format!(".waiting-{rank}"))
    }

    /// Records that this host is waiting; other hosts may look for its note after it has ended. If
    /// it cannot be written, no host is named as missing.
    pub(super) fn wait(&self, rank: u32) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.is_none_or(|since| since.elapsed() > AGAIN) {
            *written = Some(Instant::now());
            let _ = Disk.write(&self.note(rank), b"", Durability::Whole);
        }
    }

    fn end(&self, rank: u32) -> PathBuf {
        self.folder.join(format!(".stopped-{rank}"))
    }

    /// Records that this host was interrupted. If that cannot be written, the other hosts wait for
    /// it in vain.
    pub(super) fn stop(&self, rank: u32) {
        let _ = Disk.write(&self.end(rank), b"", Durability::Whole);
    }

    /// Whether any of `size` hosts was interrupted, according to the directory.
    pub(super) fn is_stopped(&self, size: u32) -> bool {
        (0..size).any(|rank| self.has_stopped(rank))
    }

    /// Whether each of `size` hosts was interrupted, according to the directory.
    pub(super) fn are_all_stopped(&self, size: u32) -> bool {
        (0..size).all(|rank| self.has_stopped(rank))
    }

    fn has_stopped(&self, rank: u32) -> bool {
        matches!(Disk.look(&self.end(rank)), Ok(Some(_)))
    }

    /// The ranks out of `size` that are not waiting; empty if the directory does not show it.
    pub(super) fn absent(&self, own: u32, size: u32) -> Vec<u32> {
        if size == 2 {
            return vec![1 - own.min(1)];
        }
        let written_ns = |rank: u32| -> Option<u64> {
            let found = Disk.look(&self.note(rank)).ok()??;
            Some(found.changed_ns)
        };
        let Some(here_ns) = written_ns(own) else {
            return Vec::new();
        };
        let waits =
            |rank: &u32| written_ns(*rank).is_some_and(|then| then + OF_ONE_WAIT_NS > here_ns);
        (0..size).filter(|rank| !waits(rank)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_host_informs_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let other = WaitingNotes::in_folder(folder.path());
        assert!(!other.is_stopped(2));
        WaitingNotes::in_folder(folder.path()).stop(1);
        assert!(other.is_stopped(2) && !other.are_all_stopped(2));
        other.stop(0);
        assert!(other.are_all_stopped(2));
    }

    #[test]
    fn a_host_without_a_note_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let waiting_notes = WaitingNotes::in_folder(folder.path());
        waiting_notes.wait(0);
        assert_eq!(waiting_notes.absent(0, 3), [1, 2]);
        assert!(waiting_notes.absent(1, 3).is_empty(), "its own note could not be written");
        WaitingNotes::in_folder(folder.path()).wait(2);
        assert_eq!(waiting_notes.absent(0, 3), [1]);
        assert_eq!(waiting_notes.absent(2, 3), [1], "who looks later finds the same");
        assert_eq!(waiting_notes.absent(1, 2), [0], "of two it is the other one");
    }
}
