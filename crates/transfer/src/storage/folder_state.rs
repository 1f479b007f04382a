//! The state of a folder that a run is going to write to.

use std::path::Path;

use stormlp_core::facts::Availability;

use super::{Access, Kind, Storage, dead_link, is_direct_refused};
use crate::error::TransferError;
use crate::probe;

/// How the names of files begin that only test a folder. A kill may leave one.
pub const TRIAL_PREFIX: &str = ".stormlp-trial-";

/// How thoroughly folders are scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanDepth {
    /// Nothing is modified, so it remains unknown whether a folder is writable.
    Only,
    /// A temporary file is created in each folder, to test writing and `O_DIRECT`.
    AndTry,
}

/// A folder, existing or about to be created.
#[derive(Debug)]
pub struct FolderState {
    /// Whether it is writable or can be created.
    pub writable: Availability,
    /// Whether files in it can be opened with `O_DIRECT`, as far as that was tried.
    pub direct: Availability,
    /// Free bytes of its file system, if it tells.
    pub free_bytes: Option<u64>,
    /// Identity of its file system.
    pub file_system_id: u64,
    /// Type of its file system: `xfs`, `tmpfs`; `None` if unknown.
    pub file_system: Option<String>,
}

impl FolderState {
    /// Looks at a folder, or at its nearest parent if it does not exist yet.
    ///
    /// # Errors
    /// If it cannot be read, or its device fails.
    pub fn look(
        storage: &dyn Storage,
        folder: &Path,
        depth: ScanDepth,
    ) -> Result<Self, TransferError> {
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
        Ok(Self {
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
