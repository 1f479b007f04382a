//! The lock that keeps other runs out of a data folder.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat, openat};
use rustix::io::Errno;

use super::reach;
use super::services::Told;
use crate::error::TransferError;

/// The name of the lock in a data folder.
pub const LOCK_NAME: &str = ".stormlp-lock";

/// Keeps other runs out of a data folder until dropped.
#[derive(Debug)]
pub struct FolderLock {
    /// `None` where locks do not exist.
    _file: Option<File>,
}

/// Why a folder could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run holds it.
    #[error("{folder} is in use by another stormlp run; wait for it, or use another folder")]
    Held {
        /// The folder.
        folder: PathBuf,
    },
    /// The lock file could not be created.
    #[error(transparent)]
    File(#[from] TransferError),
}

impl FolderLock {
    /// Of a bucket: object stores have no locks that end with a process.
    pub(super) fn of_bucket() -> Self {
        Self { _file: None }
    }

    /// Locks `folder`, which must exist, without waiting.
    ///
    /// # Errors
    /// [`LockError::Held`] when another process holds it; otherwise why the lock file cannot be
    /// created.
    pub fn take(folder: &Path) -> Result<Self, LockError> {
        let path = folder.join(LOCK_NAME);
        let file = lock_file(folder)
            .map_err(|source| TransferError::file("make the lock", &path, source))?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        match Told::Lock.unless_refused(locked) {
            Ok(_) => Ok(Self { _file: Some(file) }),
            Err(Errno::WOULDBLOCK) => Err(LockError::Held { folder: folder.to_path_buf() }),
            Err(errno) => Err(TransferError::file("lock", &path, errno.into()).into()),
        }
    }
}

/// Opens the lock file, creating it if missing. Never follows a link or opens a pipe.
fn lock_file(folder: &Path) -> io::Result<File> {
    let folder = reach::open_folder(folder)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mode = Mode::from_raw_mode(0o666);
    let no_file = || io::Error::other("it is not a regular file; move it away");
    let opened = openat(&folder, LOCK_NAME, flags | OFlags::CLOEXEC, mode);
    let file = opened.map_err(|errno| match errno {
        // A pipe without a reader, or a socket.
        Errno::NXIO => no_file(),
        errno => reach::told(errno),
    })?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file.into()),
        _ => Err(no_file()),
    }
}

#[cfg(test)]
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

    #[test]
    fn a_pipe_is_not_accepted_as_a_lock() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join(LOCK_NAME);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let refused = FolderLock::take(folder.path()).unwrap_err();
        assert!(
            refused.to_string().ends_with("it is not a regular file; move it away"),
            "{refused}"
        );
    }

    #[test]
    fn a_lock_is_never_created_through_a_link() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let away = other.path().join("away");
        std::os::unix::fs::symlink(&away, folder.path().join(LOCK_NAME)).unwrap();
        let refused = FolderLock::take(folder.path()).unwrap_err();
        assert!(refused.to_string().contains("the path contains a link"), "{refused}");
        assert!(!away.exists());
    }
}
