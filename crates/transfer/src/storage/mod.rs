//! The single interface to files: look up, open, complete, remove. A transfer path only moves
//! bytes, and is built here too, so that storage as a whole can be throttled or made to fail.
//!
//! [`Disk`] has files; [`StorageRouter`] adds the objects that paths name as `s3://`. [`Gated`]
//! asks a [`Gate`] before each operation on a file: [`Throttled`] delays it, [`Failing`] fails it.
//! Faults given to [`inject`] fail in all of them, for the whole process.

mod bucket;
mod disk;
mod failing;
mod folder_state;
mod found;
mod gate;
mod gated;
mod handle;
mod holes;
pub(crate) mod interface;
mod lock;
#[cfg(test)]
mod object_tests;
mod reach;
mod reader;
mod removal;
mod router;
pub(crate) mod services;
mod throttled;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stormlp_core::impairment::{Fault, Throttle};
use stormlp_core::verify::Verify;

use crate::error::TransferError;

pub use stormlp_core::facts::Identity;

pub use failing::{Failing, inject, injected};
pub use folder_state::{ScanDepth, TRIAL_PREFIX, folder_facts};
pub use found::{Entry, Facts, Kind, RecordedState, Space};
pub use gate::{Clock, Gate, Grant, Request};
pub use gated::Gated;
pub use handle::{Access, Durability, Handle, OpenObject, PUTS};
pub(crate) use handle::{ObjectMode, put_key};
pub use interface::{Disk, Storage};
pub use lock::{FolderLock, LOCK_NAME, LockError};
pub use reach::dead_link;
pub use reader::Reader;
pub use removal::{left_to_remove, other_owners};
pub use router::StorageRouter;
pub use services::refusals;
pub use throttled::Throttled;

/// The name under which `path` is written until it is complete.
pub fn temporary_name(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".partial");
    path.with_file_name(name)
}

/// Writes a small file of the user, such as a report, atomically: it exists completely or not at
/// all, even after a crash.
///
/// # Errors
/// As [`Storage::write`].
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<(), TransferError> {
    Disk.write(path, content, Durability::Certain)
}

/// The same for a file that several processes may write at once: the last one wins.
///
/// # Errors
/// As [`write_atomically`].
pub fn write_shared(path: &Path, content: &[u8]) -> Result<(), TransferError> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.partial", std::process::id()));
    Disk.write_by((&path.with_file_name(name), true), path, content, Durability::Certain)
}

/// An empty file, for a path that requires a file but does not access it.
///
/// # Errors
/// When the system has no such file.
pub fn nothing() -> Result<File, TransferError> {
    let path = Path::new("/dev/null");
    File::open(path).map_err(|source| TransferError::file("open", path, source))
}

/// Whether an error of [`Storage::open`] means that the file system has no `O_DIRECT`.
pub fn is_direct_refused(error: &TransferError) -> bool {
    matches!(error.errno(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

/// Real storage, throttled and with the injected faults of a run; objects are verified as
/// `verify_objects` says.
pub fn of_run(
    throttle: Option<Throttle>,
    faults: &[Fault],
    verify_objects: Verify,
) -> Arc<dyn Storage> {
    let of_run: Vec<Fault> = faults.iter().filter(|one| !one.everywhere).copied().collect();
    if throttle.is_none() && of_run.is_empty() {
        return Arc::new(StorageRouter::verifying(verify_objects));
    }
    let mut storage: Arc<dyn Storage> = Arc::new(Disk);
    if let Some(throttle) = throttle {
        storage = Arc::new(Gated::new(storage, Throttled::new(throttle)));
    }
    if !of_run.is_empty() {
        storage = Arc::new(Gated::new(storage, Failing::new(&of_run)));
    }
    Arc::new(StorageRouter::impaired(storage))
}
