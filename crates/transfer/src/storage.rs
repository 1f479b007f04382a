//! Opening, preallocating, syncing and renaming files; a transfer path only moves bytes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, statvfs};

use crate::error::TransferError;

/// The name of the lock in a data folder.
pub const LOCK_NAME: &str = ".stormlp-lock";

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading what is there.
    Read,
    /// Reading and writing what is there.
    ReadWrite,
    /// Reading and writing a file that is made now; an older one of that name is emptied.
    Create,
}

/// Opens a file, with `O_DIRECT` when `direct`.
///
/// # Errors
/// What the kernel answers. A file system without `O_DIRECT` answers `EINVAL`; whether to go
/// through the page cache instead is for the caller to decide, and to say.
pub fn open(path: &Path, access: Access, direct: bool) -> Result<File, TransferError> {
    let mut options = File::options();
    options.read(true);
    if access != Access::Read {
        options.write(true);
    }
    if access == Access::Create {
        options.create(true).truncate(true);
    }
    if direct {
        options.custom_flags(libc::O_DIRECT);
    }
    options
        .open(path)
        .map_err(|source| TransferError::file("open", path, source))
}

/// Whether an error of [`open`] means that the file system has no `O_DIRECT`.
pub fn is_direct_refused(error: &TransferError) -> bool {
    matches!(error.errno(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

/// Gives a file its final size before it is written: blocks are allocated where the file system
/// can, so that a full disk shows now and direct writes need not extend the file.
///
/// # Errors
/// `ENOSPC` when the space is not there, and whatever else the kernel answers.
pub fn preallocate(file: &File, path: &Path, bytes: u64) -> Result<(), TransferError> {
    if bytes == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => file
            .set_len(bytes)
            .map_err(|source| TransferError::file("set the size of", path, source)),
        Err(errno) => Err(TransferError::file("preallocate", path, errno.into())),
    }
}

/// Free and total bytes of the file system that holds `path`, as an ordinary user may use them.
///
/// # Errors
/// When the kernel does not say.
pub fn space(path: &Path) -> Result<Space, TransferError> {
    let stat = statvfs(path)
        .map_err(|errno| TransferError::file("ask for the free space of", path, errno.into()))?;
    Ok(Space {
        free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
    })
}

/// The room on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// What an ordinary user may still write.
    pub free_bytes: u64,
    /// What the file system holds in all.
    pub total_bytes: u64,
}

/// Makes what was renamed or created in `folder` survive a crash.
///
/// # Errors
/// When the folder cannot be opened or synced.
pub fn sync_folder(folder: &Path) -> Result<(), TransferError> {
    let file = File::open(folder).map_err(|e| TransferError::file("open", folder, e))?;
    file.sync_all()
        .map_err(|e| TransferError::file("sync", folder, e))
}

/// The name under which `path` is written until it is whole.
pub fn temporary_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".partial");
    path.with_file_name(name)
}

/// Writes a small file so that it is either there whole or not at all, even after a crash.
///
/// # Errors
/// When any of writing, syncing and renaming fails; the old file is then as it was.
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<(), TransferError> {
    replace(path, content)?;
    sync_folder(
        path.parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new(".")),
    )
}

/// Writes a small file so that after a crash it is whole, though it may be the old one.
///
/// # Errors
/// When any of writing, syncing and renaming fails; the old file is then as it was.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), TransferError> {
    let temporary = temporary_name(path);
    let write = || -> io::Result<()> {
        let mut file = File::create(&temporary)?;
        io::Write::write_all(&mut file, content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|source| {
        // What is left of the attempt is of no use to anyone.
        let _ = fs::remove_file(&temporary);
        TransferError::file("write", path, source)
    })
}

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

    #[test]
    fn an_atomic_write_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn preallocated_files_have_their_size_and_too_large_ones_fail() {
        let file = tempfile::NamedTempFile::new_in(".").unwrap();
        preallocate(file.as_file(), file.path(), 1 << 20).unwrap();
        assert_eq!(file.as_file().metadata().unwrap().len(), 1 << 20);
        let error = preallocate(file.as_file(), file.path(), 1 << 60).unwrap_err();
        assert!(
            matches!(error.errno(), Some(libc::ENOSPC | libc::EFBIG)),
            "{error}"
        );
    }

    #[test]
    fn errors_name_the_file() {
        let error = open(Path::new("/no/such/file"), Access::Read, false).unwrap_err();
        assert!(
            error.to_string().starts_with("open /no/such/file: "),
            "{error}"
        );
        assert_eq!(error.errno(), Some(libc::ENOENT));
    }
}
