//! The folder of the objects: scanned beforehand, locked and marked during the run, emptied of
//! stormlp's files before and after each trial.

use std::path::{Path, PathBuf};

use stormlp_core::location::{Location, names_object};
use stormlp_hosts::fault::Fault;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{
    Access, Durability, Entry, FolderLock, Handle, LOCK_NAME, ScanDepth, Storage, TRIAL_PREFIX,
    folder_facts, temporary_name,
};

use super::chunk_files::is_chunk;
use super::error::KvcacheError;
use crate::plan::{KNOWN_BY_BYTES, KvcacheFacts, MARKER_NAME, Marker, names_object_of_a_run};

/// Scans the folder without changing it.
///
/// # Errors
/// If an existing folder cannot be read, or its marker cannot be used.
pub fn scan(
    storage: &dyn Storage,
    location: &Location,
    look: ScanDepth,
) -> Result<KvcacheFacts, KvcacheError> {
    let folder = location.folder();
    storage.hold(folder);
    let state = folder_facts(storage, location, look)?;
    let mut facts = KvcacheFacts { folder: state, left_bytes: 0, foreign: None, trace: None };
    if storage.is_folder(folder)? {
        for (entry, own) in contents(storage, folder)? {
            match own {
                Own::Object => facts.left_bytes += entry.facts.allocated_bytes,
                Own::Other => {}
                Own::Not if facts.foreign.is_some() => {}
                Own::Not => facts.foreign = Some(entry.name.to_string_lossy().into_owned()),
            }
        }
    }
    Ok(facts)
}

/// Whether an entry of the folder is stormlp's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    /// An object, whole or not.
    Object,
    /// The marker, the lock, or the remains of a trial.
    Other,
    /// It is not.
    Not,
}

/// The entries of a folder, with the kind of each. Without a marker none is an object.
pub(super) fn contents(
    storage: &dyn Storage,
    folder: &Path,
) -> Result<Vec<(Entry, Own)>, KvcacheError> {
    let marker = marker_of(storage, folder)?;
    let mut contents = Vec::new();
    for entry in storage.list(folder)? {
        let own = match &marker {
            Some(marker) if is_object(storage, folder, &entry, marker)? => Own::Object,
            _ if is_known(&entry) => Own::Other,
            _ => Own::Not,
        };
        contents.push((entry, own));
    }
    Ok(contents)
}

fn is_known(entry: &Entry) -> bool {
    let temporary = temporary_name(Path::new(MARKER_NAME));
    let is_name = |name: &str| {
        [MARKER_NAME, LOCK_NAME].contains(&name)
            || name.starts_with(TRIAL_PREFIX)
            || Path::new(name) == temporary
    };
    entry.is_file() && !entry.facts.link && entry.text().is_some_and(is_name)
}

fn is_object(
    storage: &dyn Storage,
    folder: &Path,
    entry: &Entry,
    marker: &Marker,
) -> Result<bool, TransferError> {
    let Some(name) = entry.text().filter(|_| entry.is_file() && !entry.facts.link) else {
        return Ok(false);
    };
    let path = folder.join(name);
    let file = match names_object(&path) {
        true => storage.known_object(&path, entry.facts.bytes)?,
        false => Handle::File(storage.open(&path, Access::Read, false)?),
    };
    let mut start = [0; KNOWN_BY_BYTES];
    let mut filled = 0;
    while filled < start.len() {
        match storage.read_from(&file, &path, filled as u64, &mut start[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(marker.made(name, entry.facts.bytes, &start[..filled]))
}

/// The marker of a folder; `None` without one.
fn marker_of(storage: &dyn Storage, folder: &Path) -> Result<Option<Marker>, KvcacheError> {
    let path = folder.join(MARKER_NAME);
    let unusable = |reason: String| KvcacheError::Marker { path: path.clone(), reason };
    let text = match storage.read_text(&path) {
        // It could be read but is not text.
        Err(error) if error.was_not_asked() => return Err(unusable(error.reason())),
        text => text?,
    };
    text.map(|text| Marker::parse(&text)).transpose().map_err(unusable)
}

/// Aborts the uploads of chunks that a killed run left, where a marker says that chunks are stormlp's,
/// and returns their number; a dry run only counts. Files have none.
pub(super) fn abort_uploads(
    storage: &dyn Storage,
    folder: &Path,
    dry_run: bool,
) -> Result<u64, KvcacheError> {
    if marker_of(storage, folder)?.is_none() {
        return Ok(0);
    }
    let ours = |path: &Path| path.parent() == Some(folder) && is_chunk(path);
    Ok(storage.abort_uploads(folder, &ours, dry_run)?)
}

/// Creates the folder, locks out other runs and removes the objects that an earlier run left.
///
/// # Errors
/// If anything else is in it.
pub(super) fn enter(
    storage: &dyn Storage,
    folder: &Path,
    marker: &Marker,
) -> Result<FolderLock, KvcacheError> {
    storage.hold(folder);
    storage.make_folder(folder)?;
    let lock = storage.lock(folder)?;
    let contents = contents(storage, folder)?;
    if let Some((entry, _)) = contents.iter().find(|(_, own)| *own == Own::Not) {
        return Err(Fault::InTheWay { path: folder.join(&entry.name) }.into());
    }
    abort_uploads(storage, folder, false)?;
    let objects = contents.iter().filter(|(_, own)| *own == Own::Object);
    let objects: Vec<_> = objects.map(|(entry, _)| folder.join(&entry.name)).collect();
    storage.remove_all(&objects)?;
    // A marker is plain data.
    let text = serde_json::to_string_pretty(marker).unwrap_or_default();
    let path = folder.join(MARKER_NAME);
    storage
        .write(&path, text.as_bytes(), Durability::Certain)
        .map_err(|error| Fault::on(&path, error))?;
    Ok(lock)
}

/// The entries removed, or to remove.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CleanedFolder {
    /// Objects.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries that are not stormlp's: each path, and why it is left if it could be taken for an
    /// object.
    pub left: Vec<String>,
    /// Uploads of objects that killed runs left.
    pub uploads: u64,
}

/// Removes the objects in `folder`; `dry_run` only counts them.
///
/// # Errors
/// If another run uses the folder, or something of stormlp's cannot be removed.
pub fn clean(
    storage: &dyn Storage,
    folder: &Path,
    dry_run: bool,
) -> Result<CleanedFolder, KvcacheError> {
    storage.hold(folder);
    // A lock is a file; a dry run must not create one.
    let lock = if dry_run { None } else { Some(storage.lock(folder)?) };
    let mut cleaned =
        CleanedFolder { uploads: abort_uploads(storage, folder, dry_run)?, ..Default::default() };
    let (mut objects, mut others) = (Vec::new(), Vec::new());
    for (entry, own) in contents(storage, folder)? {
        let path = folder.join(&entry.name);
        match own {
            Own::Object => {
                objects.push(path);
                cleaned.files += 1;
                cleaned.bytes += entry.facts.bytes;
            }
            Own::Other => others.push(path),
            Own::Not => cleaned.left.push(match entry.text().is_some_and(names_object_of_a_run) {
                true => {
                    format!("{} with the name of an object but other content", path.display())
                }
                false => path.display().to_string(),
            }),
        }
    }
    if !dry_run {
        storage.remove_all(&objects)?;
    }
    // The marker goes last, and stays as long as it may be needed to know what is stormlp's.
    if !dry_run && cleaned.left.is_empty() {
        let is_last = |path: &PathBuf| path.ends_with(MARKER_NAME) || path.ends_with(LOCK_NAME);
        others.sort_by_key(is_last);
        for path in &others {
            storage.remove(path)?;
        }
        storage.remove(&folder.join(LOCK_NAME))?;
    }
    drop(lock);
    Ok(cleaned)
}
