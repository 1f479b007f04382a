//! The journal of a run that is making files: a line for each complete one. Objects cannot be appended
//! to, so that a journal in a bucket has segments, and lists objects a moment after they were put.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stormlp_core::location::names_object;
use stormlp_transfer::storage::{Access, Durability, Storage};

use super::{
    JOURNAL_NAME, JOURNALS_BESIDE, ManifestError, ManifestFile, ManifestHead, line, remove_beside,
};

/// The journal of a run that is making files.
pub struct Journal<'a> {
    storage: &'a dyn Storage,
    path: PathBuf,
    end: Mutex<End>,
}

/// The end of a journal.
struct End {
    place: EndPlace,
    /// Lines buffered until the next write.
    waiting: String,
}

/// Where the next lines of a journal go.
enum EndPlace {
    /// To this offset of a file.
    File(File, u64),
    /// To a separate object.
    Segment {
        /// The line that every journal begins with.
        head: String,
        /// Segments written so far.
        number: u32,
        /// When the last one was written.
        written: Instant,
    },
}

/// Lines of a segment, unless there are fewer for [`SEGMENT_PAUSE`].
const SEGMENT_LINE_BYTES: usize = 64 << 10;
/// Maximum time for which an object may be unlisted while further ones follow.
const SEGMENT_PAUSE: Duration = Duration::from_secs(2);

impl<'a> Journal<'a> {
    /// Starts a journal with the files that are already complete. From here on the folder counts as
    /// unfinished until [`finish`](super::finish).
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(
        storage: &'a dyn Storage,
        folder: &Path,
        head: &ManifestHead,
        whole: &[ManifestFile],
    ) -> Result<Self, ManifestError> {
        let path = folder.join(JOURNAL_NAME);
        let mut text = line(head);
        for file in whole {
            text.push_str(&line(file));
        }
        storage.write(&path, text.as_bytes(), Durability::Certain)?;
        // The entries of an earlier run's journals are in this one.
        remove_beside(storage, folder)?;
        Self::at(storage, path, head, text.len() as u64)
    }

    /// Starts the journal of process `rank`, which makes files of the same dataset as the first
    /// one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn beside(
        storage: &'a dyn Storage,
        folder: &Path,
        head: &ManifestHead,
        rank: u32,
    ) -> Result<Self, ManifestError> {
        let path = folder.join(format!("{JOURNALS_BESIDE}{rank}.jsonl"));
        let text = line(head);
        storage.write(&path, text.as_bytes(), Durability::Certain)?;
        Self::at(storage, path, head, text.len() as u64)
    }

    fn at(
        storage: &'a dyn Storage,
        path: PathBuf,
        head: &ManifestHead,
        bytes: u64,
    ) -> Result<Self, ManifestError> {
        let place = match names_object(&path) {
            true => EndPlace::Segment { head: line(head), number: 0, written: Instant::now() },
            false => EndPlace::File(storage.open(&path, Access::ReadWrite, false)?, bytes),
        };
        Ok(Self { storage, path, end: Mutex::new(End { place, waiting: String::new() }) })
    }

    /// Adds a file that is about to get its name, in one write, so that a killed run leaves
    /// complete lines; or an object that was put, which may wait for further ones.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&self, file: &ManifestFile) -> Result<(), ManifestError> {
        let mut end = self.lock();
        end.waiting.push_str(&line(file));
        if let EndPlace::Segment { written, .. } = &end.place
            && end.waiting.len() < SEGMENT_LINE_BYTES
            && written.elapsed() < SEGMENT_PAUSE
        {
            return Ok(());
        }
        self.write(&mut end)
    }

    /// Adds a file's current facts after it got its name. It is already listed, and without this
    /// line its checksum would identify it, so the line is buffered until the next write.
    pub fn amend(&self, file: &ManifestFile) {
        self.lock().waiting.push_str(&line(file));
    }

    /// Writes the buffered lines.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn flush(&self) -> Result<(), ManifestError> {
        self.write(&mut self.lock())
    }

    fn write(&self, end: &mut End) -> Result<(), ManifestError> {
        if end.waiting.is_empty() {
            return Ok(());
        }
        match &mut end.place {
            EndPlace::File(file, bytes) => {
                self.storage.write_at(file, &self.path, *bytes, end.waiting.as_bytes())?;
                *bytes += end.waiting.len() as u64;
            }
            EndPlace::Segment { head, number, written } => {
                let text = format!("{head}{}", end.waiting);
                let path = segment(&self.path, *number);
                self.storage.write(&path, text.as_bytes(), Durability::Certain)?;
                *number += 1;
                *written = Instant::now();
            }
        }
        end.waiting.clear();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a segment of the journal at `path`, which is one of the journals next to the first.
fn segment(path: &Path, number: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let process = name.strip_prefix(JOURNALS_BESIDE).unwrap_or("0");
    let process = process.trim_end_matches(".jsonl");
    path.with_file_name(format!("{JOURNALS_BESIDE}{process}-{number:06}.jsonl"))
}
