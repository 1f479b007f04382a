//! What a checkpoint run asks of the outside: files and transfer paths. Tests put a double here.

use std::fs::{self, File};
use std::path::Path;

use stormlp_transfer::storage::{self, Access};
use stormlp_transfer::{PathSpec, TransferError, TransferPath, build_path};

/// Files and transfer paths.
pub trait World: Sync {
    /// Makes a file to be written, with all of its space where the file system can.
    ///
    /// # Errors
    /// What the kernel answers; `ENOSPC` when the space is not there.
    fn create(&self, path: &Path, bytes: u64, direct: bool) -> Result<File, TransferError>;

    /// Opens a file to be read.
    ///
    /// # Errors
    /// What the kernel answers.
    fn open(&self, path: &Path, direct: bool) -> Result<File, TransferError>;

    /// Makes what was written to a file survive a crash. Called once for each file.
    ///
    /// # Errors
    /// What the kernel answers; then what was written may be lost.
    fn sync(&self, file: &File, path: &Path) -> Result<(), TransferError>;

    /// Gives a file its final name.
    ///
    /// # Errors
    /// What the kernel answers.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), TransferError>;

    /// Makes the names in a folder survive a crash.
    ///
    /// # Errors
    /// What the kernel answers.
    fn sync_folder(&self, folder: &Path) -> Result<(), TransferError>;

    /// Builds a transfer path on the calling thread.
    ///
    /// # Errors
    /// When this machine cannot run it.
    fn path(&self, spec: PathSpec) -> Result<Box<dyn TransferPath>, TransferError>;
}

/// The real storage.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl World for Disk {
    fn create(&self, path: &Path, bytes: u64, direct: bool) -> Result<File, TransferError> {
        let file = storage::open(path, Access::Create, direct)?;
        storage::preallocate(&file, path, bytes)?;
        Ok(file)
    }

    fn open(&self, path: &Path, direct: bool) -> Result<File, TransferError> {
        storage::open(path, Access::Read, direct)
    }

    fn sync(&self, file: &File, path: &Path) -> Result<(), TransferError> {
        file.sync_all()
            .map_err(|source| TransferError::file("sync", path, source))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), TransferError> {
        fs::rename(from, to).map_err(|source| TransferError::file("rename", from, source))
    }

    fn sync_folder(&self, folder: &Path) -> Result<(), TransferError> {
        storage::sync_folder(folder)
    }

    fn path(&self, spec: PathSpec) -> Result<Box<dyn TransferPath>, TransferError> {
        build_path(spec)
    }
}
