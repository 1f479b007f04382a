//! What stormlp made in a checkpoint directory, as its markers say, and the removal of it. Anything
//! else stays.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::plan::{
    CheckpointPlan, MARKER_NAME, MarkedFile, Marker, OtherFile, beside_of, replaced_folder,
    step_folder, step_of,
};
use stormlp_core::location::names_object;
use stormlp_hosts::fault::Fault;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Entry, LOCK_NAME, Left, Storage, temporary_name};

use super::replace::write_marker;
use super::{CheckpointError, TRIAL_PREFIX, marker_in, saved_parts};

/// Removes checkpoint `step` from all directories of the plan. If one of them holds anything that
/// stormlp did not make, nothing is removed.
pub(in super::super) fn remove(
    storage: &dyn Storage,
    plan: &CheckpointPlan,
    step: u32,
) -> Result<(), CheckpointError> {
    for made in made_before(storage, plan, step)? {
        if let Some(path) = made.remove(storage)?.left {
            return Err(CheckpointError::in_the_way(path));
        }
    }
    Ok(())
}

/// The folders of checkpoint `step` in all directories of the plan, without touching anything.
///
/// # Errors
/// If one of them, or anything in it, was not made by stormlp or belongs to a different job.
pub(super) fn made_before(
    storage: &dyn Storage,
    plan: &CheckpointPlan,
    step: u32,
) -> Result<Vec<MarkedFolder>, CheckpointError> {
    let mut all = Vec::new();
    for directory in &plan.request.folders {
        let folder = directory.join(step_folder(step));
        let is_there = match directory.names_objects() {
            true => storage.is_folder(&folder)?,
            false => storage.look(&folder)?.is_some(),
        };
        if !is_there {
            continue;
        }
        let made = MarkedFolder::look(storage, &folder)?;
        if let Some(name) = foreign(storage, &folder, &made.marker)? {
            return Err(CheckpointError::in_the_way(folder.join(name)));
        }
        if let Some((path, found)) = changed(storage, &folder, &made.marker)? {
            return Err(CheckpointError::Changed { path, found });
        }
        if let Some(other) = plan.of_another_job(&made.marker) {
            return Err(CheckpointError::Another { path: folder, other });
        }
        all.push(made);
    }
    Ok(all)
}

/// An entry of a checkpoint's folder that stormlp did not make, and what it is.
pub(super) fn not_made(
    storage: &dyn Storage,
    folder: &Path,
    marker: &Marker,
) -> Result<Option<OtherFile>, TransferError> {
    if let Some(name) = foreign(storage, folder, marker)? {
        return Ok(Some(OtherFile { name, what: None }));
    }
    let other = |(path, what): (PathBuf, String)| OtherFile {
        name: (path.file_name().unwrap_or_default().to_string_lossy()).into_owned(),
        what: Some(what),
    };
    Ok(changed(storage, folder, marker)?.map(other))
}

/// The name of an entry in a checkpoint's folder that its marker does not list.
fn foreign(
    storage: &dyn Storage,
    folder: &Path,
    marker: &Marker,
) -> Result<Option<String>, TransferError> {
    let listed = marker.files.iter().map(|file| file.name.as_str());
    let own: HashSet<OsString> = listed
        .chain([MARKER_NAME])
        .flat_map(|name| {
            let name = Path::new(name);
            [name.into(), temporary_name(name).into_os_string()]
        })
        .collect();
    let entries = storage.list(folder)?;
    let other = entries.iter().find(|entry| !own.contains(&entry.name));
    Ok(other.map(|entry| entry.name.to_string_lossy().into_owned()))
}

/// A file that no longer matches its entry in the marker, and what it is now: someone may have put
/// it there.
fn changed(
    storage: &dyn Storage,
    folder: &Path,
    marker: &Marker,
) -> Result<Option<(PathBuf, String)>, TransferError> {
    for file in &marker.files {
        let path = folder.join(&file.name);
        for (path, left) in both_names(storage, path, file)? {
            if let Left::Other(found) = left {
                return Ok(Some((path, found)));
            }
        }
    }
    Ok(None)
}

/// What remains of a file under its temporary name, with any size, and under its final name.
fn both_names(
    storage: &dyn Storage,
    path: PathBuf,
    file: &MarkedFile,
) -> Result<[(PathBuf, Left); 2], TransferError> {
    let temporary = temporary_name(&path);
    let half = storage.left(&temporary, None, None)?;
    let whole = storage.left(&path, Some(file.bytes), file.identity)?;
    Ok([(temporary, half), (path, whole)])
}

/// A checkpoint's folder whose marker says that stormlp made it.
pub(super) struct MarkedFolder {
    folder: PathBuf,
    marker: Marker,
}

impl MarkedFolder {
    /// Reads the marker of a folder.
    ///
    /// # Errors
    /// If there is none or it is unusable, or if storage fails to return it.
    fn look(storage: &dyn Storage, folder: &Path) -> Result<Self, CheckpointError> {
        match marker_in(storage, folder)? {
            Some(Ok(marker)) => Ok(Self { folder: folder.to_path_buf(), marker }),
            Some(Err(_)) | None => Err(CheckpointError::in_the_way(folder)),
        }
    }

    /// Removes the files that the marker lists and that still match it, under final and temporary
    /// names, and then the folder. Any other entry stays, and so do the folder and its marker.
    ///
    /// # Errors
    /// If something cannot be removed.
    fn remove(mut self, storage: &dyn Storage) -> Result<Removed, CheckpointError> {
        let folder = &self.folder;
        if self.marker.complete {
            // From here on it is incomplete, whatever happens in between.
            self.marker.complete = false;
            write_marker(storage, folder, &self.marker)?;
        }
        let mut removed = Removed::default();
        let listed: HashSet<PathBuf> =
            self.marker.files.iter().map(|file| folder.join(&file.name)).collect();
        storage.abort_uploads(folder, &|path| listed.contains(path), false)?;
        for file in &self.marker.files {
            let path = folder.join(&file.name);
            for (path, left) in both_names(storage, path, file)? {
                match left {
                    Left::Nothing => {}
                    Left::Same(found) => {
                        storage.remove(&path)?;
                        removed.files += 1;
                        removed.bytes += found.bytes;
                    }
                    Left::Other(_) => removed.left = Some(path),
                }
            }
        }
        if removed.left.is_some() {
            return Ok(removed);
        }
        if let Some(name) = foreign(storage, folder, &self.marker)? {
            removed.left = Some(folder.join(name));
            return Ok(removed);
        }
        let step = folder.file_name().and_then(|name| step_of(name.to_str()?));
        let Some(step) = step.filter(|_| !names_object(folder)) else {
            remove_bare(storage, folder)?;
            return Ok(removed);
        };
        // A folder with such a name always has a marker, so it is renamed first.
        let bare = folder.with_file_name(replaced_folder(step));
        if storage.look(&bare)?.is_some() {
            remove_bare(storage, &bare)?;
        }
        storage.rename(folder, &bare)?;
        remove_bare(storage, &bare)?;
        Ok(removed)
    }
}

/// What was removed of one checkpoint's folder.
#[derive(Default)]
pub(super) struct Removed {
    files: u64,
    bytes: u64,
    /// An entry that stormlp did not make; the folder was kept for it.
    pub(super) left: Option<PathBuf>,
}

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CleanedFolder {
    /// Checkpoint folders.
    pub checkpoints: u64,
    /// Files of checkpoints, including those in folders that were kept.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Entries that are not as stormlp made them, for each checkpoint folder that was kept. The
    /// folder itself if nothing says that stormlp made it.
    pub left: Vec<PathBuf>,
}

impl CleanedFolder {
    /// Adds what was removed of a folder; returns whether all of it was.
    ///
    /// # Errors
    /// If something of stormlp's could not be removed.
    fn add(&mut self, removed: Result<Removed, CheckpointError>) -> Result<bool, CheckpointError> {
        let left = match removed {
            Ok(removed) => {
                self.files += removed.files;
                self.bytes += removed.bytes;
                removed.left
            }
            Err(CheckpointError::Fault(Fault::InTheWay { path })) => Some(path),
            Err(error) => return Err(error),
        };
        let all = left.is_none();
        self.left.extend(left);
        Ok(all)
    }
}

/// Removes a folder beside a checkpoint's: an unfinished save, or what one replaced.
///
/// # Errors
/// If something cannot be removed, or was not made by stormlp.
pub(super) fn remove_beside(
    storage: &dyn Storage,
    folder: &Path,
) -> Result<Removed, CheckpointError> {
    match marker_in(storage, folder)? {
        Some(Ok(marker)) => MarkedFolder { folder: folder.to_path_buf(), marker }.remove(storage),
        // A kill came before the marker, or after its removal.
        Some(Err(_)) | None => remove_bare(storage, folder).map(|()| Removed::default()),
    }
}

/// Removes a folder beside a checkpoint's that holds at most a marker.
fn remove_bare(storage: &dyn Storage, folder: &Path) -> Result<(), CheckpointError> {
    let marker = folder.join(MARKER_NAME);
    storage.remove(&temporary_name(&marker))?;
    storage.remove(&marker)?;
    // What is not listed vanishes by itself.
    if !storage.remove_folder(folder)?
        && storage.is_folder(folder)?
        && !storage.list(folder)?.is_empty()
    {
        let path = folder.to_path_buf();
        return Err(CheckpointError::in_the_way(path));
    }
    Ok(())
}

/// Removes a file that only tested the directory.
fn discard_trial(storage: &dyn Storage, directory: &Path, entry: &Entry) {
    if entry.text().is_some_and(|name| name.starts_with(TRIAL_PREFIX)) {
        storage.discard(&directory.join(&entry.name));
    }
}

/// Removes what killed runs left beside the checkpoints in a directory. What was not made by stormlp
/// stays, and is in the way of the save that needs its name.
///
/// # Errors
/// If storage fails.
pub(super) fn remove_leftovers(
    storage: &dyn Storage,
    directory: &Path,
) -> Result<(), CheckpointError> {
    for entry in storage.list(directory)? {
        discard_trial(storage, directory, &entry);
        if entry.text().and_then(beside_of).is_some() {
            match remove_beside(storage, &directory.join(&entry.name)) {
                Ok(_) | Err(CheckpointError::Fault(Fault::InTheWay { .. })) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Removes every checkpoint in `directory` that a marker says stormlp made, what is beside them, and
/// the directory itself if it is then empty. Anything without a marker stays.
///
/// # Errors
/// If another run uses the directory, or something of stormlp's cannot be removed.
pub fn clean(storage: &dyn Storage, directory: &Path) -> Result<CleanedFolder, CheckpointError> {
    let mut cleaned = CleanedFolder::default();
    storage.hold(directory);
    if !storage.is_folder(directory)? {
        return Ok(cleaned);
    }
    let lock = storage.lock(directory)?;
    let beside = |entry: &Entry| entry.text().and_then(beside_of).is_some();
    for entry in &storage.list(directory)? {
        discard_trial(storage, directory, entry);
        if !beside(entry) {
            continue;
        }
        let removed = remove_beside(storage, &directory.join(&entry.name));
        cleaned.add(removed)?;
    }
    for part in saved_parts(storage, 0, directory)? {
        let folder = directory.join(step_folder(part.step));
        let removed = MarkedFolder::look(storage, &folder).and_then(|made| made.remove(storage));
        if cleaned.add(removed)? {
            cleaned.checkpoints += 1;
        }
    }
    drop(lock);
    let only_lock = |entries: Vec<Entry>| entries.iter().all(|entry| entry.name == LOCK_NAME);
    if cleaned.left.is_empty() && storage.list(directory).is_ok_and(only_lock) {
        let _ = storage.remove(&directory.join(LOCK_NAME));
        let _ = storage.remove_folder(directory);
    }
    Ok(cleaned)
}
