//! The directories of a run: scanned beforehand, locked during the run, with markers written around
//! every save. They are removed only if a marker says that stormlp made the contents.

mod made;
mod replace;

use std::path::Path;

use crate::plan::{
    CheckpointFacts, FolderFacts, Leftover, MARKER_NAME, Marker, MarkerError, SavedPart, beside_of,
    step_of,
};
use stormlp_core::facts::{Availability, FoundFile};
use stormlp_core::location::Location;
use stormlp_transfer::storage::{
    Access, Entry, FolderLock, Kind, Storage, dead_link, is_direct_refused, temporary_name,
};
use stormlp_transfer::{TransferError, probe};

use super::error::CheckpointError;
use made::{not_made, remove_leftovers};

pub(super) use made::remove;
pub use made::{CleanedFolder, clean};
pub use replace::settle;
pub(super) use replace::{abandon, begin, complete, drop_replaced};

/// How the names of files begin that only test a directory. A kill may leave one.
pub(super) const TRIAL_PREFIX: &str = ".stormlp-trial-";

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
            facts.leftovers.extend(leftovers(storage, index, location.folder())?);
        }
    }
    Ok(facts)
}

fn folder_facts(
    storage: &dyn Storage,
    location: &Location,
    look: Look,
) -> Result<FolderFacts, TransferError> {
    if location.names_objects() {
        return bucket_facts(storage, location);
    }
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
        free_bytes: storage.space(&nearest)?.map(|space| space.free_bytes),
        file_system_id: found.file_system_id,
        file_system: probe::filesystem(&nearest).known().map(|fs| fs.kind.clone()),
    })
}

/// The facts of a prefix. Whether objects may be put there shows when the first one is: nothing is put
/// before a plan is complete.
fn bucket_facts(storage: &dyn Storage, location: &Location) -> Result<FolderFacts, TransferError> {
    Ok(FolderFacts {
        path: location.clone(),
        direct: Availability::Available,
        writable: Availability::Available,
        free_bytes: storage.space(location.folder())?.map(|space| space.free_bytes),
        file_system_id: 0,
        file_system: None,
    })
}

/// Whether a file can be created in a folder, with `O_DIRECT` if requested. Tested with a temporary
/// file under a name that no other run uses.
fn try_file(storage: &dyn Storage, folder: &Path, direct: bool) -> Result<(), TransferError> {
    let probe = folder.join(format!("{TRIAL_PREFIX}{}", std::process::id()));
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
                    hole_bytes += storage.hole_bytes(&folder.join(name), bytes)?;
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

/// What killed runs left beside the checkpoints in a directory.
fn leftovers(
    storage: &dyn Storage,
    index: usize,
    directory: &Path,
) -> Result<Vec<Leftover>, TransferError> {
    let mut found = Vec::new();
    for entry in storage.list(directory)? {
        let Some((name, step)) = entry.text().and_then(|name| Some((name, beside_of(name)?)))
        else {
            continue;
        };
        let folder = directory.join(name);
        let mut left = Leftover {
            folder: index,
            step,
            name: name.to_string(),
            bytes: 0,
            foreign: (!entry.is_folder()).then(|| name.to_string()),
        };
        if entry.is_folder() {
            let files = storage.list(&folder)?;
            left.bytes = files.iter().map(|file| file.facts.bytes).sum();
            left.foreign = match marker_in(storage, &folder)? {
                Some(Ok(marker)) => not_made(storage, &folder, &marker)?.map(|other| other.name),
                // It may hold a marker at most.
                _ => {
                    let own =
                        [Path::new(MARKER_NAME).into(), temporary_name(Path::new(MARKER_NAME))];
                    let other = files.iter().find(|file| !own.iter().any(|own| file.name == **own));
                    other.map(|file| file.name.to_string_lossy().into_owned())
                }
            }
            .map(|other| format!("{name}/{other}"));
        }
        found.push(left);
    }
    Ok(found)
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
        Err(error) if error.was_not_asked() => {
            Ok(Some(Err(MarkerError::Malformed(error.reason()))))
        }
        Err(error) => Err(error),
    }
}

/// Creates the directories and locks out other runs. Before a run that saves, what killed runs left
/// in them is removed.
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
            remove_leftovers(storage, folder)?;
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
