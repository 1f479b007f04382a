//! The directories of a run: scanned beforehand, locked during the run, with markers written around
//! every save. They are removed only if a marker says that stormlp made the contents.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::plan::{
    CheckpointFacts, CheckpointPlan, FolderFacts, MARKER_NAME, MarkedFile, Marker, MarkerError,
    OtherFile, SavedPart, step_folder, step_of,
};
use stormlp_core::facts::{Availability, FoundFile, keeps_inode_numbers};
use stormlp_core::location::Location;
use stormlp_transfer::storage::{
    Access, Durability, Entry, FolderLock, Kind, LOCK_NAME, Left, Storage, dead_link,
    is_direct_refused, temporary_name,
};
use stormlp_transfer::{TransferError, probe};

use super::error::CheckpointError;

/// How thoroughly directories are scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Nothing is modified, so it remains unknown whether a directory is writable.
    Only,
    /// A temporary file is created in each directory, to test writing and `O_DIRECT`.
    AndTry,
}

/// Scans the directories and their contents without changing them.
///
/// # Errors
/// If an existing directory cannot be read.
pub fn scan(
    storage: &dyn Storage,
    folders: &[Location],
    look: Look,
) -> Result<CheckpointFacts, TransferError> {
    let mut facts = CheckpointFacts::default();
    for (index, location) in folders.iter().enumerate() {
        storage.hold(location.folder());
        facts.folders.push(folder_facts(storage, location, look)?);
        if storage.is_folder(location.folder())? {
            facts.saved.extend(saved_parts(storage, index, location.folder())?);
        }
    }
    Ok(facts)
}

fn folder_facts(
    storage: &dyn Storage,
    location: &Location,
    look: Look,
) -> Result<FolderFacts, TransferError> {
    let nearest = storage.nearest(location.folder())?;
    let found = storage.found(&nearest)?;
    let writable = if let Some(link) = dead_link(location.folder()) {
        Availability::unavailable(
            format!("{} is a link that does not lead to a folder", link.display()),
            "remove the link, or use another --dir",
        )
    } else if found.kind != Kind::Folder {
        Availability::unavailable(
            format!("{} is not a folder", nearest.display()),
            "use --dir with a folder",
        )
    } else if look == Look::Only {
        Availability::Available
    } else if let Err(error) = try_file(storage, &nearest, false) {
        if error.is_device_failure() {
            return Err(error);
        }
        Availability::unavailable(error.reason(), "change its permissions, or use another --dir")
    } else {
        Availability::Available
    };
    let direct = match look == Look::AndTry && writable.is_available() {
        true => try_file(storage, &nearest, true),
        // Reading may still work; opening the files will tell.
        false => Ok(()),
    };
    Ok(FolderFacts {
        path: location.clone(),
        direct: match direct {
            Err(error) if is_direct_refused(&error) => {
                Availability::unavailable(error.to_string(), "use --path buffered")
            }
            _ => Availability::Available,
        },
        writable,
        free_bytes: storage.space(&nearest)?.free_bytes,
        file_system_id: found.file_system_id,
        file_system: probe::filesystem(&nearest).known().map(|fs| fs.kind.clone()),
    })
}

/// Whether a file can be created in a folder, with `O_DIRECT` if requested. Tested with a temporary
/// file under a name that no other run uses.
fn try_file(storage: &dyn Storage, folder: &Path, direct: bool) -> Result<(), TransferError> {
    let probe = folder.join(format!(".stormlp-trial-{}", std::process::id()));
    let opened = storage.open(&probe, Access::Create, direct);
    // Some file systems create the file and then reject the flag.
    storage.discard(&probe);
    opened.map(drop)
}

/// Every checkpoint folder in a directory.
fn saved_parts(
    storage: &dyn Storage,
    index: usize,
    directory: &Path,
) -> Result<Vec<SavedPart>, TransferError> {
    let mut parts = Vec::new();
    for entry in storage.list(directory)? {
        let Some(step) = entry.text().and_then(step_of) else {
            continue;
        };
        let folder = directory.join(&entry.name);
        let marker = marker_in(storage, &folder)?;
        let (mut files, mut hole_bytes) = (Vec::new(), 0);
        if entry.is_folder() {
            for file in storage.list(&folder)?.into_iter().filter(Entry::is_file) {
                let (bytes, name) = (file.facts.bytes, file.name.into_string());
                if file.facts.allocated_bytes < bytes
                    && let Ok(name) = &name
                {
                    // Unknown ranges count as data.
                    let holes = storage.hole_bytes(&folder.join(name), bytes);
                    hole_bytes += holes.unwrap_or(0);
                }
                if let Some(name) = name.ok().filter(|name| name != MARKER_NAME) {
                    files.push(FoundFile { name, bytes });
                }
            }
        }
        parts.push(SavedPart {
            step,
            folder: index,
            foreign: match &marker {
                Some(Ok(marker)) => not_made(storage, &folder, marker)?,
                _ => None,
            },
            unmarked: None,
            marker,
            files,
            hole_bytes,
        });
    }
    parts.sort_by_key(|part| part.step);
    Ok(parts)
}

/// The marker of a checkpoint's folder; `None` if there is none or the entry is not a folder.
///
/// # Errors
/// If storage fails to return it: then the folder's owner is unknown.
fn marker_in(
    storage: &dyn Storage,
    folder: &Path,
) -> Result<Option<Result<Marker, MarkerError>>, TransferError> {
    if !storage.is_folder(folder)? {
        return Ok(None);
    }
    match storage.read_text(&folder.join(MARKER_NAME)) {
        Ok(text) => Ok(text.map(|text| Marker::parse(&text))),
        // It could be read but is not text.
        Err(error) if error.errno().is_none() => {
            Ok(Some(Err(MarkerError::Malformed(error.reason()))))
        }
        Err(error) => Err(error),
    }
}

/// Creates the directories and locks out other runs.
pub(super) fn enter(
    storage: &dyn Storage,
    folders: &[Location],
) -> Result<Vec<FolderLock>, CheckpointError> {
    folders
        .iter()
        .map(Location::folder)
        .map(|folder| {
            storage.hold(folder);
            storage.make_folder(folder)?;
            Ok(storage.lock(folder)?)
        })
        .collect()
}

/// Uses existing directories: another host created them and locks out other runs.
pub(super) fn hold(storage: &dyn Storage, folders: &[Location]) -> Vec<FolderLock> {
    for folder in folders {
        storage.hold(folder.folder());
    }
    Vec::new()
}

/// The marker of a plan's checkpoint in one of its directories.
fn marker(plan: &CheckpointPlan, folder: usize, complete: bool) -> Marker {
    let (format_version, made_by) = Marker::version();
    let ranks = plan.ranks.iter().filter(|rank| rank.folder == folder);
    Marker {
        format_version,
        made_by,
        complete,
        crash_safe: plan.fsync != crate::plan::FsyncPolicy::None,
        model: plan.model.clone(),
        layout: plan.layout,
        full_layers: plan.scaling.full_layers,
        ranks: plan.scaling.ranks,
        full_ranks: plan.scaling.full_ranks,
        content: plan.content,
        files: ranks
            .flat_map(|rank| {
                rank.files.iter().map(|file| MarkedFile {
                    rank: rank.rank,
                    name: file.name.clone(),
                    bytes: file.bytes,
                    identity: None,
                })
            })
            .collect(),
    }
}

/// Creates the folders of checkpoint `step`, empty except for an "incomplete" marker. An existing
/// checkpoint of that number is removed if stormlp made it. Anything else is an error, and then
/// nothing is touched.
pub(super) fn begin(
    storage: &dyn Storage,
    plan: &CheckpointPlan,
    step: u32,
) -> Result<(), CheckpointError> {
    for made in made_before(storage, plan, step)? {
        made.remove(storage)?;
    }
    for (index, directory) in plan.request.folders.iter().enumerate() {
        let folder = directory.join(step_folder(step));
        make_folder(storage, &folder, &marker(plan, index, false))?;
        storage.sync_folder(directory.folder())?;
    }
    Ok(())
}

/// Creates a checkpoint's folder with its marker in it. A folder with the final name always has a
/// marker, since otherwise its origin would be unknown.
fn make_folder(
    storage: &dyn Storage,
    folder: &Path,
    marker: &Marker,
) -> Result<(), CheckpointError> {
    let unfinished = temporary_name(folder);
    remove_unfinished(storage, &unfinished)?;
    let make = || -> Result<(), CheckpointError> {
        storage.make_folder(&unfinished)?;
        write_marker(storage, &unfinished, marker)?;
        storage.rename(&unfinished, folder)?;
        Ok(())
    };
    make().inspect_err(|_| {
        // The remains of the attempt are useless.
        let _ = remove_unfinished(storage, &unfinished);
    })
}

/// Removes a checkpoint's folder under its temporary name, which holds at most a marker. A killed
/// run may have left one.
fn remove_unfinished(storage: &dyn Storage, folder: &Path) -> Result<(), CheckpointError> {
    let marker = folder.join(MARKER_NAME);
    storage.remove(&temporary_name(&marker))?;
    storage.remove(&marker)?;
    // What is not listed vanishes by itself.
    if !storage.remove_folder(folder)?
        && storage.is_folder(folder)?
        && !storage.list(folder)?.is_empty()
    {
        let path = folder.to_path_buf();
        return Err(CheckpointError::InTheWay { path });
    }
    Ok(())
}

/// Marks checkpoint `step` complete and records the identity of each file.
pub(super) fn complete(
    storage: &dyn Storage,
    plan: &CheckpointPlan,
    step: u32,
) -> Result<(), CheckpointError> {
    for (index, directory) in plan.request.folders.iter().enumerate() {
        let folder = directory.join(step_folder(step));
        let mut marker = marker(plan, index, true);
        let kind = probe::filesystem(&folder);
        if kind.known().is_none_or(|fs| keeps_inode_numbers(&fs.kind)) {
            for file in &mut marker.files {
                file.identity = Some(storage.found(&folder.join(&file.name))?.identity);
            }
        }
        write_marker(storage, &folder, &marker)?;
    }
    Ok(())
}

/// Writes a marker crash-safely, unless it says that the files themselves are not crash-safe: then
/// "complete" must not outlive them.
fn write_marker(
    storage: &dyn Storage,
    folder: &Path,
    marker: &Marker,
) -> Result<(), CheckpointError> {
    let path = folder.join(MARKER_NAME);
    let durability =
        if marker.complete && !marker.crash_safe { Durability::Whole } else { Durability::Certain };
    storage
        .write(&path, marker.to_json().as_bytes(), durability)
        .map_err(|error| CheckpointError::on(&path, error))
}

/// Removes temporary files that an interrupted save left.
pub(super) fn sweep(storage: &dyn Storage, plan: &CheckpointPlan, step: u32) {
    for rank in &plan.ranks {
        let folder = plan.request.folders[rank.folder].join(step_folder(step));
        for file in &rank.files {
            // Most were never created or already have their final name.
            storage.discard(&temporary_name(&folder.join(&file.name)));
        }
    }
}

/// Removes checkpoint `step` from all directories of the plan. If one of them holds anything that
/// stormlp did not make, nothing is removed.
pub(super) fn remove(
    storage: &dyn Storage,
    plan: &CheckpointPlan,
    step: u32,
) -> Result<(), CheckpointError> {
    for made in made_before(storage, plan, step)? {
        if let Some(path) = made.remove(storage)?.left {
            return Err(CheckpointError::InTheWay { path });
        }
    }
    Ok(())
}

/// The folders of checkpoint `step` in all directories of the plan, without touching anything.
///
/// # Errors
/// If one of them, or anything in it, was not made by stormlp or belongs to a different job.
fn made_before(
    storage: &dyn Storage,
    plan: &CheckpointPlan,
    step: u32,
) -> Result<Vec<MarkedFolder>, CheckpointError> {
    let mut all = Vec::new();
    for directory in &plan.request.folders {
        let folder = directory.join(step_folder(step));
        if storage.look(&folder)?.is_none() {
            continue;
        }
        let made = MarkedFolder::look(storage, &folder)?;
        if let Some(name) = foreign(storage, &folder, &made.marker)? {
            return Err(CheckpointError::InTheWay { path: folder.join(name) });
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
fn not_made(
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
struct MarkedFolder {
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
            Some(Err(_)) | None => Err(CheckpointError::InTheWay { path: folder.to_path_buf() }),
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
        // A folder with this name always has a marker, so it is renamed first.
        let unfinished = temporary_name(folder);
        remove_unfinished(storage, &unfinished)?;
        storage.rename(folder, &unfinished)?;
        remove_unfinished(storage, &unfinished)?;
        Ok(removed)
    }
}

/// What was removed of one checkpoint's folder.
#[derive(Default)]
struct Removed {
    files: u64,
    bytes: u64,
    /// An entry that stormlp did not make; the folder was kept for it.
    left: Option<PathBuf>,
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

/// Removes every checkpoint in `directory` that a marker says stormlp made, and the directory
/// itself if it is then empty. Anything without a marker stays.
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
    for part in saved_parts(storage, 0, directory)? {
        let folder = directory.join(step_folder(part.step));
        match MarkedFolder::look(storage, &folder).and_then(|made| made.remove(storage)) {
            Ok(removed) => {
                cleaned.files += removed.files;
                cleaned.bytes += removed.bytes;
                match removed.left {
                    Some(path) => cleaned.left.push(path),
                    None => cleaned.checkpoints += 1,
                }
            }
            Err(CheckpointError::InTheWay { path }) => cleaned.left.push(path),
            Err(error) => return Err(error),
        }
    }
    for entry in storage.list(directory)? {
        // A checkpoint's folder under its temporary name. It is kept if it holds anything that
        // stormlp did not make, as a final folder would be.
        let inner = entry.text().and_then(|name| name.strip_prefix('.')?.strip_suffix(".partial"));
        if inner.and_then(step_of).is_some() {
            let _ = remove_unfinished(storage, &directory.join(&entry.name));
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
