//! The lock that keeps other runs out of a data folder.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::TransferError;

/// The name of the lock in a data folder.
pub const LOCK_NAME: &str = ".stormlp-lock";

/// Keeps other runs out of a data folder until it is dropped.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

/// Why a folder could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run has it.
    #[error("{folder} is in use by another stormlp run; wait for it, or use another folder")]
    Held {
        /// The folder.
        folder: PathBuf,
    },
    /// The lock file could not be made.
    #[error(transparent)]
    File(#[from] TransferError),
}

impl FolderLock {
    /// Takes the lock of `folder`, which must exist, without waiting.
    ///
    /// # Errors
    /// [`LockError::Held`] when another process has it; else why the lock file cannot be made.
    pub fn take(folder: &Path) -> Result<Self, LockError> {
        let path = folder.join(LOCK_NAME);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|source| TransferError::file("make the lock", &path, source))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(LockError::Held {
                folder: folder.to_path_buf(),
            }),
            Err(errno) => Err(TransferError::file("lock", &path, errno.into()).into()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_on_a_folder_is_refused_until_the_first_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::take(folder.path()).unwrap();
        let refused = FolderLock::take(folder.path()).unwrap_err();
        assert!(matches!(refused, LockError::Held { .. }), "{refused}");
        drop(first);
        assert!(FolderLock::take(folder.path()).is_ok());
    }
}
