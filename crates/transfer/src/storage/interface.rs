//! What can be done with files, whatever stands behind them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use stormlp_core::facts::Identity;
use stormlp_core::impairment::StorageOperation;
use stormlp_core::warning::{Warning, WarningKind};

use super::found::{Entry, Facts, Kind, Left, Space};
use super::handle::Handle;
use super::lock::{FolderLock, LockError};
use super::reach::parent;
use super::{failing, holes, reach, temporary_name};
use crate::error::TransferError;
use crate::page_cache::Residency;
use crate::paths::PathSpec;
use crate::telemetry::BlockDevices;
use crate::transfer::TransferPath;

/// The extended attribute of files that stormlp created.
const MARK: &str = "user.stormlp";

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read an existing file.
    Read,
    /// Read and write an existing file.
    ReadWrite,
    /// Read and write a new file; an older file of that name is removed, and anything but a
    /// regular file is an error.
    Create,
}

/// The guarantee that a replaced small file survives a crash in its new form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Guaranteed: its folder is synced too.
    Certain,
    /// It is complete, though possibly the old version.
    Whole,
    /// It may be lost or truncated, like a file that is cheap to recreate.
    Unsynced,
}

/// Access to files. Every error names the file and the action. A file or folder is absent only if
/// the kernel says so (`ENOENT`, `ENOTDIR`); one that cannot be looked at is an error.
pub trait Storage: Send + Sync {
    /// From now on, in the whole process, everything beneath `folder` is opened relative to the
    /// folder itself and without following links; call this before writing to a folder. The folder
    /// may be a link and need not exist yet. Call it again when another host may have replaced
    /// folders in it.
    fn hold(&self, folder: &Path) {
        reach::hold(folder);
    }

    /// Metadata of a name, following links unless it is in a held folder; `None` if it does not
    /// exist.
    ///
    /// # Errors
    /// When the metadata cannot be read.
    fn look(&self, path: &Path) -> Result<Option<Facts>, TransferError>;

    /// The entries of a folder, sorted by name. Files that NFS or FUSE keep under another name,
    /// because they were removed while open, are left out: they vanish once they are closed.
    ///
    /// # Errors
    /// When it cannot be read or does not exist.
    fn list(&self, folder: &Path) -> Result<Vec<Entry>, TransferError>;

    /// Opens a file, with `O_DIRECT` if `direct`.
    ///
    /// # Errors
    /// The kernel's error. [`is_direct_refused`] recognises a file system without `O_DIRECT`;
    /// whether to use the page cache instead is up to the caller, which must report it.
    fn open(&self, path: &Path, access: Access, direct: bool) -> Result<File, TransferError>;

    /// Opens what a path is to move: a file as [`Storage::open`] does, or an object.
    ///
    /// # Errors
    /// As [`Storage::open`].
    fn handle(&self, path: &Path, access: Access, direct: bool) -> Result<Handle, TransferError> {
        self.open(path, access, direct).map(Handle::File)
    }

    /// The object at `path`, known to have `bytes`, without asking the endpoint: the first read of it
    /// shows whether it is still that one.
    ///
    /// # Errors
    /// When it is a file.
    fn known_object(&self, path: &Path, bytes: u64) -> Result<Handle, TransferError> {
        let source = io::Error::other(format!("it is a file, not an object of {bytes} bytes"));
        Err(TransferError::file("open", path, source))
    }

    /// Reads at `offset` of what [`Self::handle`] opened; 0 bytes at its end.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    fn read_from(
        &self,
        handle: &Handle,
        path: &Path,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, TransferError> {
        match handle {
            Handle::File(file) => self.read_at(file, path, offset, buffer),
            Handle::Object(_) => {
                let source = io::Error::other("it is an object, not a file");
                Err(TransferError::file("read", path, source))
            }
        }
    }

    /// Aborts the uploads that killed processes left beneath `folder`, of the objects that are
    /// `ours`, and returns their number; a dry run only counts. Files have none.
    ///
    /// # Errors
    /// When they cannot be listed or aborted.
    fn abort_uploads(
        &self,
        folder: &Path,
        ours: &dyn Fn(&Path) -> bool,
        dry_run: bool,
    ) -> Result<u64, TransferError> {
        let _ = (folder, ours, dry_run);
        Ok(0)
    }

    /// Sets a file's final size before it is written: allocates blocks if the file system can, so
    /// that a full disk is detected now and direct writes need not extend the file.
    ///
    /// # Errors
    /// `ENOSPC` when there is not enough space, and any other error of the kernel.
    fn preallocate(&self, file: &File, path: &Path, bytes: u64) -> Result<(), TransferError>;

    /// Reads at `offset`; 0 bytes at the end of the file.
    ///
    /// # Errors
    /// The kernel's error.
    fn read_at(
        &self,
        file: &File,
        path: &Path,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, TransferError>;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// The kernel's error.
    fn write_at(
        &self,
        file: &File,
        path: &Path,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), TransferError>;

    /// Makes data written to a file survive a crash.
    ///
    /// # Errors
    /// The kernel's error; written data may then be lost.
    fn sync(&self, file: &File, path: &Path) -> Result<(), TransferError>;

    /// Creates a folder and its missing parents.
    ///
    /// # Errors
    /// When one of them cannot be created.
    fn make_folder(&self, folder: &Path) -> Result<(), TransferError>;

    /// Creates a folder in an existing one; `false` if there is already something of that name.
    ///
    /// # Errors
    /// The kernel's error.
    fn make_new_folder(&self, folder: &Path) -> Result<bool, TransferError>;

    /// Makes creations and renames in `folder` survive a crash.
    ///
    /// # Errors
    /// When the folder cannot be opened or synced.
    fn sync_folder(&self, folder: &Path) -> Result<(), TransferError>;

    /// Makes all data written to the file system of `folder` survive a crash.
    ///
    /// # Errors
    /// When the folder cannot be opened, or the kernel could not write all of it.
    fn sync_all(&self, folder: &Path) -> Result<(), TransferError>;

    /// Renames a file or folder.
    ///
    /// # Errors
    /// The kernel's error.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), TransferError>;

    /// Lets two names of one file system change places, in one step; `false` if the file system
    /// cannot do that.
    ///
    /// # Errors
    /// The kernel's error; then both are where they were.
    fn exchange(&self, one: &Path, other: &Path) -> Result<bool, TransferError>;

    /// Removes a file or link; `false` if it does not exist.
    ///
    /// # Errors
    /// The kernel's error.
    fn remove(&self, path: &Path) -> Result<bool, TransferError>;

    /// Removes files or objects, and returns how many there were.
    ///
    /// # Errors
    /// As [`Self::remove`]; some of them may be gone by then.
    fn remove_all(&self, paths: &[PathBuf]) -> Result<u64, TransferError> {
        paths.iter().try_fold(0, |removed, path| Ok(removed + u64::from(self.remove(path)?)))
    }

    /// The objects that writes put for the one at `path`, which has a name of its own but no bytes
    /// in place. What has such a name without stormlp's mark is [`Left::Other`]. Files have none.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn puts(&self, path: &Path) -> Result<Vec<(PathBuf, Left)>, TransferError> {
        let _ = path;
        Ok(Vec::new())
    }

    /// Removes a folder; `false` if it does not exist or is not empty, be it of a file that was
    /// removed while open.
    ///
    /// # Errors
    /// The kernel's error.
    fn remove_folder(&self, folder: &Path) -> Result<bool, TransferError>;

    /// Free and total bytes of the file system that holds `path`, as available to unprivileged
    /// users; `None` if it does not tell, as object stores do not.
    ///
    /// # Errors
    /// When the kernel does not report it.
    fn space(&self, path: &Path) -> Result<Option<Space>, TransferError>;

    /// The page cache residency of a file.
    ///
    /// # Errors
    /// When it cannot be determined; [`TransferError::is_permission_denied`] if the kernel does
    /// not report it to this user.
    fn residency(&self, path: &Path) -> Result<Residency, TransferError>;

    /// Drops a file from the page cache. [`Storage::residency`] shows whether it worked.
    ///
    /// # Errors
    /// When the file cannot be synced or the advice is rejected.
    fn drop_cached(&self, path: &Path) -> Result<(), TransferError>;

    /// The same for the clean pages of an open file: others are not written back, and stay.
    ///
    /// # Errors
    /// When the advice is rejected.
    fn forget(&self, file: &File, path: &Path) -> Result<(), TransferError>;

    /// The block devices under files and folders, if any.
    fn devices(&self, paths: &[&Path]) -> BlockDevices {
        BlockDevices::behind(paths.iter().copied())
    }

    /// Locks a folder against other runs.
    ///
    /// # Errors
    /// As [`FolderLock::take`].
    fn lock(&self, folder: &Path) -> Result<FolderLock, LockError> {
        FolderLock::take(folder)
    }

    /// Builds a transfer path on the calling thread, which must be the one to use it.
    ///
    /// # Errors
    /// When this machine cannot run it: io_uring refused, no cuFile, no such device.
    fn path(&self, spec: PathSpec) -> Result<Box<dyn TransferPath>, TransferError>;

    /// What distorts results: properties of this storage, and requests beside transfers that were made
    /// again so far.
    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }

    /// Those of them that are properties of this storage, known before anything is measured.
    fn impairments(&self) -> Vec<Warning> {
        let of_storage = |warning: &Warning| warning.kind != WarningKind::Retried;
        self.warnings().into_iter().filter(of_storage).collect()
    }

    /// Creates a file for writing, preallocated if the file system supports it.
    ///
    /// # Errors
    /// The kernel's error; `ENOSPC` when there is not enough space.
    fn create(&self, path: &Path, bytes: u64, direct: bool) -> Result<File, TransferError> {
        let file = self.open(path, Access::Create, direct)?;
        self.preallocate(&file, path, bytes)?;
        Ok(file)
    }

    /// Whether the folder exists.
    ///
    /// # Errors
    /// When the metadata cannot be read.
    fn is_folder(&self, path: &Path) -> Result<bool, TransferError> {
        match self.look(path) {
            // Whoever goes on names the link.
            Err(error) if error.is_link() => Ok(false),
            found => Ok(found?.is_some_and(|facts| facts.kind == Kind::Folder)),
        }
    }

    /// Metadata of an existing name.
    ///
    /// # Errors
    /// When it does not exist or the metadata cannot be read.
    fn found(&self, path: &Path) -> Result<Facts, TransferError> {
        self.look(path)?.ok_or_else(|| {
            let nothing = io::Error::from_raw_os_error(libc::ENOENT);
            TransferError::file("inspect", path, nothing)
        })
    }

    /// The size of a regular file in bytes.
    ///
    /// # Errors
    /// When it does not exist or is not a regular file.
    fn regular_file(&self, path: &Path) -> Result<u64, TransferError> {
        let facts = self.found(path)?;
        if facts.kind == Kind::File {
            return Ok(facts.bytes);
        }
        let reason = io::Error::other("it is not a regular file");
        Err(TransferError::file("open", path, reason))
    }

    /// The current state of a file recorded with `bytes` and the identity `made`, as far as either
    /// is known. A file that is empty by now counts as the same: it holds nothing to lose.
    ///
    /// # Errors
    /// When the metadata cannot be read.
    fn left(
        &self,
        path: &Path,
        bytes: Option<u64>,
        made: Option<Identity>,
    ) -> Result<Left, TransferError> {
        let found = match self.look(path) {
            // The kernel was never asked, since there is a link on the way.
            Err(error) if error.was_not_asked() => {
                return Ok(Left::Other("behind a link".to_string()));
            }
            found => found?,
        };
        let Some(found) = found else {
            return Ok(Left::Nothing);
        };
        let other_size = bytes.filter(|bytes| *bytes != found.bytes);
        Ok(match other_size {
            _ if found.kind != Kind::File || found.link => Left::Other(found.what().to_string()),
            _ if found.bytes == 0 => Left::Same(found),
            Some(bytes) => Left::Other(format!("a file of {} bytes, not of {bytes}", found.bytes)),
            None if found.is_another(made) => Left::Other(match bytes {
                Some(_) => "another file of the same size".to_string(),
                None => "another file".to_string(),
            }),
            None => Left::Same(found),
        })
    }

    /// Removes the remains of a failed attempt to write a file. Whatever was in its way stays, and
    /// so may a part that cannot be removed: the error of the attempt says more.
    fn discard(&self, path: &Path) {
        if let Ok(Left::Same(_)) = self.left(path, None, None) {
            let _ = self.remove(path);
        }
    }

    /// How many of the first `bytes` of a file are in holes or unwritten extents: reading them
    /// does not access a device. What the file system does not report, or of a file that may not be
    /// read, counts as data.
    ///
    /// # Errors
    /// When the device fails.
    fn hole_bytes(&self, path: &Path, bytes: u64) -> Result<u64, TransferError> {
        failing::pass(StorageOperation::Holes, path, 0)?;
        let holes = self.open(path, Access::Read, false).and_then(|file| {
            holes::hole_bytes(&file, bytes)
                .map_err(|source| TransferError::file("find holes in", path, source))
        });
        match holes {
            Err(error) if !error.is_device_failure() => Ok(0),
            holes => holes,
        }
    }

    /// Marks an open file as created by stormlp. Not every file system can keep the mark; without
    /// it a file that its user names is only written over on request.
    fn mark(&self, file: &File) {
        let _ = rustix::fs::fsetxattr(file, MARK, b"1", rustix::fs::XattrFlags::empty());
    }

    /// Whether a file has the mark of [`Storage::mark`].
    ///
    /// # Errors
    /// When a device failed; a file that cannot be opened is not marked.
    fn is_marked(&self, path: &Path) -> Result<bool, TransferError> {
        match self.open(path, Access::Read, false) {
            Ok(file) => Ok(rustix::fs::fgetxattr(&file, MARK, &mut [0_u8; 8][..]).is_ok()),
            Err(error) if error.is_device_failure() => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// The contents of a small file; `None` if it does not exist.
    ///
    /// # Errors
    /// When it cannot be read, or is not valid UTF-8.
    fn read_text(&self, path: &Path) -> Result<Option<String>, TransferError> {
        let file = match self.open(path, Access::Read, false) {
            Err(error) if error.is_not_found() => return Ok(None),
            opened => opened?,
        };
        let (mut content, mut filled) = (Vec::new(), 0);
        loop {
            content.resize(filled + (64 << 10), 0);
            match self.read_at(&file, path, filled as u64, &mut content[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        content.truncate(filled);
        let text = String::from_utf8(content).map_err(|error| {
            TransferError::file("read", path, io::Error::new(io::ErrorKind::InvalidData, error))
        });
        text.map(Some)
    }

    /// Writes a small file atomically: it exists completely or not at all, even after a crash.
    ///
    /// # Errors
    /// When writing, syncing or renaming fails; the old file is then unchanged.
    fn write(
        &self,
        path: &Path,
        content: &[u8],
        durability: Durability,
    ) -> Result<(), TransferError> {
        self.write_by(&temporary_name(path), path, content, durability)
    }

    /// The same by way of a file named `temporary`, which no other process may use.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn write_by(
        &self,
        temporary: &Path,
        path: &Path,
        content: &[u8],
        durability: Durability,
    ) -> Result<(), TransferError> {
        let write = || {
            let file = self.open(temporary, Access::Create, false)?;
            self.write_at(&file, temporary, 0, content)?;
            if durability != Durability::Unsynced {
                self.sync(&file, temporary)?;
            }
            self.rename(temporary, path)
        };
        write().map_err(|error| {
            self.discard(temporary);
            error.on(path)
        })?;
        match durability {
            Durability::Certain => self.sync_folder(parent(path)),
            Durability::Whole | Durability::Unsynced => Ok(()),
        }
    }

    /// The path itself, or its nearest existing parent.
    ///
    /// # Errors
    /// When the metadata of one of them cannot be read.
    fn nearest(&self, path: &Path) -> Result<PathBuf, TransferError> {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        for path in absolute.ancestors() {
            match self.look(path) {
                // Whoever goes on names the link.
                Err(error) if error.is_link() => {}
                found => {
                    if found?.is_some() {
                        return Ok(path.to_path_buf());
                    }
                }
            }
        }
        Ok(PathBuf::from("/"))
    }

    /// The total page cache residency of several files; `None` if the kernel does not report it to
    /// this user, or without files.
    ///
    /// # Errors
    /// When it cannot be determined for another reason.
    fn cached(
        &self,
        paths: &mut dyn Iterator<Item = &Path>,
    ) -> Result<Option<Residency>, TransferError> {
        let mut sum: Option<Residency> = None;
        for path in paths {
            match self.residency(path) {
                Err(error) if error.is_permission_denied() => return Ok(None),
                told => {
                    let told = told?;
                    sum = Some(sum.map_or(told, |sum| sum.plus(told)));
                }
            }
        }
        Ok(sum)
    }
}
