//! How a checkpoint takes the place of an earlier one: it is saved beside it, and the two folders
//! change places once all ranks are whole. A kill at any point leaves a whole checkpoint. Objects cannot
//! be renamed: theirs is removed first, and its marker says that it is incomplete until the last.

use std::path::Path;

use crate::plan::{
    CheckpointPlan, ContentFacts, FsyncPolicy, MARKER_NAME, MarkedFile, Marker, beside_of,
    replaced_folder, saved_folder, step_folder, unfinished_folder,
};
use stormlp_core::facts::keeps_inode_numbers;
use stormlp_core::location::Location;
use stormlp_core::path::PathKind;
use stormlp_transfer::probe;
use stormlp_transfer::storage::{Durability, LockError, Storage};

use super::made::{self, made_before, remove_beside};
use super::{CheckpointError, marker_in};

/// The marker of a plan's checkpoint in one of its directories.
fn marker(plan: &CheckpointPlan, folder: usize, complete: bool) -> Marker {
    let (format_version, made_by) = Marker::version();
    let ranks = plan.ranks.iter().filter(|rank| rank.folder == folder);
    Marker {
        format_version,
        made_by,
        complete,
        crash_safe: plan.fsync != FsyncPolicy::None,
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

/// Creates the folders in which checkpoint `step` is saved, empty except for an "incomplete" marker.
/// An existing checkpoint of that number stays where it is, unless the plan overwrites it.
///
/// # Errors
/// If what is there was not made by stormlp or belongs to a different job; then nothing is touched.
pub(in super::super) fn begin(
    storage: &dyn Storage,
    plan: &CheckpointPlan,
    step: u32,
) -> Result<(), CheckpointError> {
    // Objects have no other name to be saved under: an earlier checkpoint makes room for them.
    if plan.request.overwrite || plan.path() == PathKind::S3 {
        made::remove(storage, plan, step)?;
    } else {
        made_before(storage, plan, step)?;
    }
    for (index, directory) in plan.request.folders.iter().enumerate() {
        if directory.names_objects() {
            let folder = directory.join(step_folder(step));
            write_marker(storage, &folder, &marker(plan, index, false))?;
            continue;
        }
        let path = directory.join(unfinished_folder(step));
        if !storage.make_new_folder(&path)? {
            return Err(CheckpointError::in_the_way(path));
        }
        write_marker(storage, &path, &marker(plan, index, false))?;
        storage.sync_folder(directory.folder())?;
    }
    Ok(())
}

/// Marks checkpoint `step` complete, records the identity of each file, and gives it its final
/// name. Whatever had that name remains beside it, for [`drop_replaced`].
pub(in super::super) fn complete(
    storage: &dyn Storage,
    plan: &CheckpointPlan,
    step: u32,
) -> Result<(), CheckpointError> {
    for (index, directory) in plan.request.folders.iter().enumerate() {
        let folder = directory.join(saved_folder(plan, step));
        let mut marker = marker(plan, index, true);
        let kind = probe::filesystem(&folder);
        if kind.known().is_none_or(|fs| keeps_inode_numbers(&fs.kind)) {
            for file in &mut marker.files {
                file.identity = Some(storage.found(&folder.join(&file.name))?.identity);
            }
        }
        write_marker(storage, &folder, &marker)?;
    }
    let in_files = |folder: &&Location| !folder.names_objects();
    for directory in plan.request.folders.iter().filter(in_files) {
        put_in_place(storage, directory.folder(), step)?;
    }
    Ok(())
}

/// Gives a whole checkpoint in `directory` its final name. An earlier one takes the name under which
/// it was saved, or, where the file system cannot exchange names, that of a replaced one.
fn put_in_place(storage: &dyn Storage, directory: &Path, step: u32) -> Result<(), CheckpointError> {
    let [saved, place, old] = [unfinished_folder(step), step_folder(step), replaced_folder(step)]
        .map(|name| directory.join(name));
    if storage.look(&place)?.is_none() {
        storage.rename(&saved, &place)?;
    } else if !storage.exchange(&saved, &place)? {
        storage.rename(&place, &old)?;
        storage.rename(&saved, &place).inspect_err(|_| {
            // If this fails too, the next run puts the whole one in place.
            let _ = storage.rename(&old, &place);
        })?;
    }
    Ok(storage.sync_folder(directory)?)
}

/// Removes what checkpoint `step` replaced.
///
/// # Errors
/// If storage fails, or something was put there that stormlp did not make.
pub(in super::super) fn drop_replaced(
    storage: &dyn Storage,
    plan: &CheckpointPlan,
    step: u32,
) -> Result<(), CheckpointError> {
    let in_files = |folder: &&Location| !folder.names_objects();
    for directory in plan.request.folders.iter().filter(in_files) {
        for name in [unfinished_folder(step), replaced_folder(step)] {
            let folder = directory.join(name);
            if storage.look(&folder)?.is_some()
                && let Some(path) = remove_beside(storage, &folder)?.left
            {
                return Err(CheckpointError::in_the_way(path));
            }
        }
    }
    Ok(())
}

/// Removes what a save that did not finish has written. What cannot be removed now, the next run
/// removes.
pub(in super::super) fn abandon(storage: &dyn Storage, plan: &CheckpointPlan, step: u32) {
    for directory in &plan.request.folders {
        let folder = directory.join(saved_folder(plan, step));
        // A complete one may be the only one: its exchange failed half way.
        let is_whole =
            matches!(marker_in(storage, &folder), Ok(Some(Ok(marker))) if marker.complete);
        if !is_whole {
            let _ = remove_beside(storage, &folder);
        }
    }
}

/// Writes a marker crash-safely, unless it says that the files themselves are not crash-safe: then
/// "complete" must not outlive them.
pub(super) fn write_marker(
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

/// The complete parts of one checkpoint in one directory.
struct Parts {
    /// Under the final name.
    placed: Option<Marker>,
    /// Under the name of an unfinished save.
    beside: Option<Marker>,
}

impl Parts {
    fn in_directory(
        storage: &dyn Storage,
        directory: &Path,
        step: u32,
    ) -> Result<Self, CheckpointError> {
        let complete = |name: String| -> Result<Option<Marker>, CheckpointError> {
            let marker = marker_in(storage, &directory.join(name))?.and_then(Result::ok);
            Ok(marker.filter(|marker| marker.complete))
        };
        let (placed, beside) = (complete(step_folder(step))?, complete(unfinished_folder(step))?);
        Ok(Self { placed, beside })
    }

    /// The content of both, which identifies their saves.
    fn contents(&self) -> impl Iterator<Item = ContentFacts> {
        self.placed.iter().chain(&self.beside).map(|marker| marker.content)
    }
}

/// Puts checkpoints in place whose run was killed while they replaced earlier ones: with several
/// directories, or by two renames, that takes more than one step. Folders that another run uses are
/// left alone.
///
/// # Errors
/// If storage fails.
pub fn settle(storage: &dyn Storage, folders: &[Location]) -> Result<(), CheckpointError> {
    let mut steps = Vec::new();
    for folder in folders.iter().map(Location::folder) {
        storage.hold(folder);
        if storage.is_folder(folder)? {
            let entries = storage.list(folder)?;
            steps.extend(entries.iter().filter_map(|entry| beside_of(entry.text()?)));
        }
    }
    steps.sort_unstable();
    steps.dedup();
    for step in steps {
        settle_step(storage, folders, step)?;
    }
    Ok(())
}

fn settle_step(
    storage: &dyn Storage,
    folders: &[Location],
    step: u32,
) -> Result<(), CheckpointError> {
    let look = |folder: &Location| Parts::in_directory(storage, folder.folder(), step);
    let parts = folders.iter().map(look).collect::<Result<Vec<_>, _>>()?;
    let is_in = |content: ContentFacts, marker: &Option<Marker>| {
        marker.as_ref().is_some_and(|marker| marker.content == content)
    };
    // The first directory is the first in which a new checkpoint takes its place.
    let mut contents = parts.iter().flat_map(Parts::contents);
    let is_whole = |content: &ContentFacts| {
        parts.iter().all(|one| is_in(*content, &one.placed) || is_in(*content, &one.beside))
    };
    let Some(content) = contents.find(is_whole) else {
        return Ok(());
    };
    if parts.iter().all(|one| is_in(content, &one.placed)) {
        return Ok(());
    }
    let mut locks = Vec::new();
    for folder in folders {
        match storage.lock(folder.folder()) {
            Ok(lock) => locks.push(lock),
            Err(LockError::Held { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    for (folder, parts) in folders.iter().zip(&parts) {
        if !is_in(content, &parts.placed) {
            put_in_place(storage, folder.folder(), step)?;
        }
    }
    Ok(())
}
