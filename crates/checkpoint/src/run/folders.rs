//! The directories of a run: scanned beforehand, locked during the run. Every run saves into a
//! separate folder in them, and each checkpoint's marker says whether it is complete. Checkpoints
//! are removed only if a marker says that stormlp made them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::plan::{
    CheckpointFacts, CheckpointPlan, MARKER_NAME, Marker, MarkerError, SavedPart, run_number,
    step_folder, step_of,
};
use stormlp_core::facts::{FoundFile, keeps_inode_numbers};
use stormlp_core::location::Location;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_hosts::fault::Fault;
use stormlp_transfer::storage::{
    Durability, Entry, FolderLock, RecordedState, ScanDepth, Storage, TRIAL_PREFIX, folder_facts,
    left_to_remove, other_owners, temporary_name,
};
use stormlp_transfer::{TransferError, probe};

use super::error::CheckpointError;

/// Scans the directories and their contents without changing them.
///
/// # Errors
/// If an existing directory cannot be read.
pub fn scan(
    storage: &dyn Storage,
    folders: &[Location],
    look: ScanDepth,
) -> Result<CheckpointFacts, TransferError> {
    let mut facts = CheckpointFacts::default();
    for (index, location) in folders.iter().enumerate() {
        storage.hold(location.folder());
        facts.folders.push(folder_facts(storage, location, look)?);
        if storage.is_folder(location.folder())? {
            saved_parts(storage, index, location.folder(), "", &mut facts.saved)?;
            for run in run_folders(storage, location.folder())? {
                let folder = location.join(&run);
                saved_parts(storage, index, &folder, &run, &mut facts.saved)?;
                facts.last_run = facts.last_run.max(run_number(&run).unwrap_or(0));
            }
        }
    }
    Ok(facts)
}

/// The names of the runs' folders in a directory. Links are not followed.
fn run_folders(storage: &dyn Storage, directory: &Path) -> Result<Vec<String>, TransferError> {
    let entries = storage.list(directory)?;
    let folders = entries.iter().filter(|entry| entry.is_folder() && !entry.facts.link);
    let names = folders.filter_map(Entry::text).filter(|name| run_number(name).is_some());
    Ok(names.map(String::from).collect())
}

/// Adds every checkpoint in the folder of a run, or in the directory itself.
fn saved_parts(
    storage: &dyn Storage,
    index: usize,
    run_folder: &Path,
    run: &str,
    parts: &mut Vec<SavedPart>,
) -> Result<(), TransferError> {
    for entry in storage.list(run_folder)? {
        let Some(step) = entry.text().and_then(step_of) else {
            continue;
        };
        let folder = run_folder.join(&entry.name);
        let (mut files, mut hole_bytes) = (Vec::new(), 0);
        if entry.is_folder() {
            for file in storage.list(&folder)?.into_iter().filter(Entry::is_file) {
                let (bytes, name) = (file.facts.bytes, file.name.into_string());
                if file.facts.allocated_bytes < bytes
                    && let Ok(name) = &name
                {
                    hole_bytes += storage.hole_bytes(&folder.join(name), bytes)?;
                }
                if let Some(name) = name.ok().filter(|name| name != MARKER_NAME) {
                    files.push(FoundFile { name, bytes });
                }
            }
        }
        let marker = marker_in(storage, &folder)?;
        parts.push(SavedPart {
            run: run.to_string(),
            step,
            folder: index,
            marker,
            files,
            hole_bytes,
        });
    }
    Ok(())
}

/// The marker of a checkpoint's folder.
///
/// # Errors
/// If storage fails to return it: then the folder's owner is unknown.
fn marker_in(
    storage: &dyn Storage,
    folder: &Path,
) -> Result<Result<Marker, MarkerError>, TransferError> {
    if !storage.is_folder(folder)? {
        return Ok(Err(MarkerError::Absent));
    }
    match storage.read_text(&folder.join(MARKER_NAME)) {
        Ok(text) => Ok(text.map_or(Err(MarkerError::Absent), |text| Marker::parse(&text))),
        // It could be read but is not text.
        Err(error) if error.was_not_asked() => Ok(Err(MarkerError::Malformed(error.reason()))),
        Err(error) => Err(error),
    }
}

/// Creates the directories and locks out other runs. Before a run that saves, leftovers of killed
/// runs in them are removed.
pub(super) fn enter(
    storage: &dyn Storage,
    folders: &[Location],
    saves: bool,
) -> Result<Vec<FolderLock>, CheckpointError> {
    let enter = |folder: &Path| {
        storage.hold(folder);
        storage.make_folder(folder)?;
        let lock = storage.lock(folder)?;
        if saves {
            remove_unfinished(storage, folder)?;
        }
        Ok(lock)
    };
    folders.iter().map(Location::folder).map(enter).collect()
}

/// Uses existing directories: another host created them and locks out other runs.
pub(super) fn hold(storage: &dyn Storage, folders: &[Location]) -> Vec<FolderLock> {
    for folder in folders {
        storage.hold(folder.folder());
    }
    Vec::new()
}

/// Creates the folders of checkpoint `step`, empty except for an "incomplete" marker.
///
/// # Errors
/// If there is one already: the plan is older than checkpoints that another run has saved since.
pub(super) fn begin(
    storage: &dyn Storage,
    plan: &CheckpointPlan,
    step: u32,
) -> Result<(), CheckpointError> {
    for (index, directory) in plan.request.folders.iter().enumerate() {
        let run = directory.join(&plan.run);
        let folder = run.join(step_folder(step));
        storage.make_folder(&run)?;
        let is_new = match directory.names_objects() {
            true => !storage.is_folder(&folder)?,
            false => storage.make_new_folder(&folder)?,
        };
        if !is_new {
            return Err(Fault::InTheWay { path: folder }.into());
        }
        write_marker(storage, &folder, &plan.marker(index, false))?;
        storage.sync_folder(&run)?;
        storage.sync_folder(directory.folder())?;
    }
    Ok(())
}

/// Marks checkpoint `step` complete, and records the identity of each file.
pub(super) fn complete(
    storage: &dyn Storage,
    plan: &CheckpointPlan,
    step: u32,
) -> Result<(), CheckpointError> {
    for (index, folder) in plan.step_folders(step).enumerate() {
        let mut marker = plan.marker(index, true);
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

/// Removes the files of an unfinished save. Files that cannot be removed now, the next save
/// removes.
pub(super) fn abandon(storage: &dyn Storage, plan: &CheckpointPlan, step: u32) {
    for folder in plan.step_folders(step) {
        let _ = remove(storage, &folder, true);
        let _ = folder.parent().map(|run| storage.remove_folder(run));
    }
}

/// Removes the checkpoints of the earlier runs that the plan names, and warns of those that stay.
pub(super) fn remove_earlier(
    storage: &dyn Storage,
    plan: &CheckpointPlan,
) -> Result<Vec<Warning>, CheckpointError> {
    let mut left = Vec::new();
    let directories = plan.request.folders.iter();
    for run in directories.flat_map(|folder| plan.removed_runs.iter().map(|run| folder.join(run))) {
        if !storage.is_folder(&run)? {
            continue;
        }
        remove_from_run(storage, &run, |_| true)?;
        if storage.is_folder(&run)? {
            let what = format!("{} has files that their list does not identify", run.display());
            let help = "move away those that are yours, then remove the folder";
            left.push(Warning::new(WarningKind::NotRemoved, what, help));
        }
    }
    Ok(left)
}

/// Removes leftovers of killed runs in a directory: checkpoints that are not complete, and empty
/// folders.
fn remove_unfinished(storage: &dyn Storage, directory: &Path) -> Result<(), CheckpointError> {
    for entry in storage.list(directory)? {
        // A file that only tested the directory.
        if entry.text().is_some_and(|name| name.starts_with(TRIAL_PREFIX)) {
            storage.discard(&directory.join(&entry.name));
        }
    }
    for run in run_folders(storage, directory)? {
        remove_from_run(storage, &directory.join(run), |marker| !marker.complete)?;
    }
    Ok(())
}

/// Removes the checkpoints of a run with `wanted` markers, and then its folder if it is empty.
fn remove_from_run(
    storage: &dyn Storage,
    run: &Path,
    wanted: impl Fn(&Marker) -> bool,
) -> Result<(), CheckpointError> {
    for entry in storage.list(run)? {
        let folder = run.join(&entry.name);
        if entry.text().and_then(step_of).is_some()
            && marker_in(storage, &folder)?.as_ref().map_or(true, &wanted)
        {
            remove(storage, &folder, false)?;
        }
    }
    storage.remove_folder(run)?;
    Ok(())
}

/// Removes a checkpoint by its marker, which first says that it is not complete. Files that the
/// marker does not list, or that were changed, stay, and so do the folder and its marker. In a
/// folder that this run made, `is_own`, files with the listed names and sizes are this run's;
/// elsewhere the marker must identify them, and belong to their owner.
///
/// # Errors
/// If something cannot be removed.
pub(super) fn remove(
    storage: &dyn Storage,
    folder: &Path,
    is_own: bool,
) -> Result<(), CheckpointError> {
    if let Ok(mut marker) = marker_in(storage, folder)? {
        let owners = other_owners(storage, folder, &[MARKER_NAME]);
        let left = |path: &Path, bytes, made| match is_own {
            true => storage.left(path, bytes, made),
            false => left_to_remove(storage, &owners, path, (bytes, made)),
        };
        if marker.complete {
            marker.complete = false;
            write_marker(storage, folder, &marker)?;
        }
        let listed: HashSet<PathBuf> =
            marker.files.iter().map(|file| folder.join(&file.name)).collect();
        storage.abort_uploads(folder, &|path| listed.contains(path), false)?;
        for file in &marker.files {
            let path = folder.join(&file.name);
            let temporary = temporary_name(&path);
            if let RecordedState::Same(_) = left(&temporary, None, None)? {
                storage.remove(&temporary)?;
            }
            if let RecordedState::Same(_) = left(&path, Some(file.bytes), file.identity)? {
                storage.remove(&path)?;
            }
        }
    }
    let marker = Path::new(MARKER_NAME);
    let own = [marker.to_path_buf(), temporary_name(marker)];
    if storage.is_folder(folder)?
        && storage.list(folder)?.iter().all(|entry| own.iter().any(|own| entry.name == **own))
    {
        for name in own.iter().rev() {
            storage.remove(&folder.join(name))?;
        }
        storage.remove_folder(folder)?;
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
    let written = storage.write(&path, marker.to_json().as_bytes(), durability);
    Ok(written.map_err(|error| Fault::on(&path, error))?)
}
