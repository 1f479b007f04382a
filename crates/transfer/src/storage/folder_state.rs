//! The state of a folder that a run is going to write to.

use std::path::Path;

use stormlp_core::facts::{Availability, FolderFacts};
use stormlp_core::location::Location;

use super::{Access, Kind, Storage, dead_link, is_direct_refused};
use crate::error::TransferError;
use crate::probe;

/// How the names of files begin that only test a folder. A kill may leave one.
pub const TRIAL_PREFIX: &str = ".stormlp-trial-";

/// How thoroughly folders are scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanDepth {
    /// No file is modified, so it remains unknown whether a folder is writable.
    Only,
    /// A temporary file is created in each folder, to test writing and `O_DIRECT`.
    AndTry,
}

/// Looks at a folder, or at its nearest parent if it does not exist yet.
///
/// # Errors
/// If it cannot be read, or its device fails.
pub fn folder_facts(
    storage: &dyn Storage,
    location: &Location,
    depth: ScanDepth,
) -> Result<FolderFacts, TransferError> {
    let folder = location.folder();
    if location.names_objects() {
        // Whether objects may be put there shows when the first one is: no object is put before a
        // plan is complete.
        return Ok(FolderFacts {
            path: location.clone(),
            writable: Availability::Available,
            free_bytes: storage.space(folder)?.map(|space| space.free_bytes),
            file_system_id: 0,
            file_system: None,
            direct: Availability::Available,
        });
    }
    let nearest = storage.nearest(folder)?;
    let found = storage.found(&nearest)?;
    let tries = depth == ScanDepth::AndTry;
    let writable = if let Some(link) = dead_link(folder) {
        let what = format!("{} is a link that does not lead to a folder", link.display());
        Availability::unavailable(what, "remove the link, or use another --dir")
    } else if found.kind != Kind::Folder {
        let what = format!("{} is not a folder", nearest.display());
        Availability::unavailable(what, "use --dir with a folder")
    } else {
        match if tries { try_file(storage, &nearest, false) } else { Ok(()) } {
            Err(error) if error.is_device_failure() => return Err(error),
            Err(error) => Availability::unavailable(
                error.reason(),
                "change its permissions, or use another --dir",
            ),
            Ok(()) => Availability::Available,
        }
    };
    let direct = match tries && writable.is_available() {
        true => try_file(storage, &nearest, true),
        // Reading may still work; opening the files will tell.
        false => Ok(()),
    };
    Ok(FolderFacts {
        path: location.clone(),
        writable,
        direct: match direct {
            Err(error) if is_direct_refused(&error) => {
                Availability::unavailable(error.to_string(), "use --path buffered")
            }
            _ => Availability::Available,
        },
        free_bytes: storage.space(&nearest)?.map(|space| space.free_bytes),
        file_system_id: found.file_system_id,
        file_system: probe::filesystem(&nearest).known().map(|fs| fs.kind.clone()),
    })
}

/// Whether a file can be created in a folder, with `O_DIRECT` if requested. Tested with a temporary
/// file under a name that no other run uses.
fn try_file(storage: &dyn Storage, folder: &Path, direct: bool) -> Result<(), TransferError> {
    let trial = folder.join(format!("{TRIAL_PREFIX}{}", std::process::id()));
    let opened = storage.open(&trial, Access::Create, direct);
    // Some file systems create the file and then reject the flag.
    storage.discard(&trial);
    opened.map(drop)
}
