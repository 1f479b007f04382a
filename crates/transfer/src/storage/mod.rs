//! The one door to files: looking, opening, completing, removing. A transfer path only moves
//! bytes, and is built here too, so that storage can be slowed down or made to fail as a whole.
//!
//! [`Disk`] is what the kernel gives. [`Gated`] asks a [`Gate`] before each operation: a
//! [`Throttled`] one makes it wait, a [`Failing`] one breaks it.

mod disk;
mod failing;
mod gated;
mod gated_path;
mod holes;
mod lock;
mod reach;
mod throttled;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stormlp_core::impairment::{Fault, Throttle};
use stormlp_core::warning::Warning;

use crate::error::TransferError;
use crate::page_cache::Residency;
use crate::paths::{PathSpec, TransferPath};
use crate::telemetry::BlockDevices;

pub use stormlp_core::facts::Identity;

pub use disk::Disk;
pub use failing::Failing;
pub use gated::{Clock, Gate, Gated, Grant, Request};
pub use lock::{FolderLock, LOCK_NAME, LockError};
pub use reach::dead_link;
pub use throttled::Throttled;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading what is there.
    Read,
    /// Reading and writing what is there.
    ReadWrite,
    /// Reading and writing a file that is made now; an older one of that name goes, and anything
    /// but a regular file is in the way.
    Create,
}

/// What lies under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A block device.
    BlockDevice,
    /// A link that leads nowhere.
    Nothing,
    /// A link beneath a held folder, where none is followed.
    Link,
    /// Something transfers cannot end in: a socket, a pipe, a character device.
    Other,
}

/// What storage says of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// What it is.
    pub kind: Kind,
    /// Bytes of a file; a device's capacity.
    pub bytes: u64,
    /// Bytes for which a file has space on storage. Fewer than its own where it has holes, or where
    /// the file system packs what it holds.
    pub allocated_bytes: u64,
    /// When it was last changed in any way, in nanoseconds since 1970: unlike the time of its last
    /// write, nobody can set this one back.
    pub changed_ns: u64,
    /// Which file of its file system it is.
    pub identity: Identity,
    /// Whether the name is a link to it.
    pub link: bool,
    /// Which file system it is on: equal for all that share its space.
    pub file_system_id: u64,
}

/// What is left of a file that a list tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// Nothing lies under the name.
    Nothing,
    /// The regular file that the list says, as far as it says which, or an empty one.
    Same(Facts),
    /// Something else, and what: stormlp may not have made it.
    Other(String),
}

impl Facts {
    /// Whether it is known to be another file than the one that was `made`.
    pub fn is_another(&self, made: Option<Identity>) -> bool {
        made.is_some_and(|made| !made.may_be(self.identity))
    }

    /// What it is, for messages.
    pub fn what(&self) -> &'static str {
        match self.kind {
            _ if self.link => "a link",
            Kind::File => "a file",
            Kind::Folder => "a folder",
            Kind::BlockDevice => "a device",
            Kind::Nothing | Kind::Link => "a link",
            Kind::Other => "a pipe, a socket or a device",
        }
    }
}

/// A name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, without the folder.
    pub name: OsString,
    /// What it is, the target's where it is a link.
    pub facts: Facts,
}

impl Entry {
    /// The name, where it is text.
    pub fn text(&self) -> Option<&str> {
        self.name.to_str()
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.facts.kind == Kind::File
    }

    /// Whether it is a folder.
    pub fn is_folder(&self) -> bool {
        self.facts.kind == Kind::Folder
    }
}

/// The room on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// What an ordinary user may still write.
    pub free_bytes: u64,
    /// What the file system holds in all.
    pub total_bytes: u64,
}

/// Whether a small file that is replaced survives a crash in its new form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It does: its folder is synced too.
    Certain,
    /// It is whole, though it may be the old one.
    Whole,
    /// It may be lost or cut short, as a file that is only made again.
    Unsynced,
}

/// Where files are. Every error names the file and what was tried.
pub trait Storage: Send + Sync {
    /// From now on reaches everything beneath `folder` from the folder itself and through no link,
    /// in the whole process: to be called before a folder is written to. The folder may be a link,
    /// and need not be there yet. To be called once more when another host may have put other
    /// folders in it.
    fn hold(&self, folder: &Path) {
        reach::hold(folder);
    }

    /// What lies under a name, links followed unless a folder around it is held; `None` for
    /// nothing.
    ///
    /// # Errors
    /// When storage does not say.
    fn look(&self, path: &Path) -> Result<Option<Facts>, TransferError>;

    /// What lies in a folder, sorted by name.
    ///
    /// # Errors
    /// When it cannot be read, or is not there.
    fn list(&self, folder: &Path) -> Result<Vec<Entry>, TransferError>;

    /// Opens a file, with `O_DIRECT` when `direct`.
    ///
    /// # Errors
    /// What the kernel answers. A file system without `O_DIRECT` answers so that
    /// [`is_direct_refused`] tells; whether to go through the page cache instead is for the caller
    /// to decide, and to say.
    fn open(&self, path: &Path, access: Access, direct: bool) -> Result<File, TransferError>;

    /// Gives a file its final size before it is written: blocks are allocated where the file
    /// system can, so that a full disk shows now and direct writes need not extend the file.
    ///
    /// # Errors
    /// `ENOSPC` when the space is not there, and whatever else the kernel answers.
    fn preallocate(&self, file: &File, path: &Path, bytes: u64) -> Result<(), TransferError>;

    /// Reads at `offset`; 0 bytes at the end of the file.
    ///
    /// # Errors
    /// What the kernel answers.
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
    /// What the kernel answers.
    fn write_at(
        &self,
        file: &File,
        path: &Path,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), TransferError>;

    /// Makes what was written to a file survive a crash.
    ///
    /// # Errors
    /// What the kernel answers; then what was written may be lost.
    fn sync(&self, file: &File, path: &Path) -> Result<(), TransferError>;

    /// Makes a folder with all above it that are missing.
    ///
    /// # Errors
    /// When one of them cannot be made.
    fn make_folder(&self, folder: &Path) -> Result<(), TransferError>;

    /// Makes what was renamed or created in `folder` survive a crash.
    ///
    /// # Errors
    /// When the folder cannot be opened or synced.
    fn sync_folder(&self, folder: &Path) -> Result<(), TransferError>;

    /// Makes all that was written to the file system of `folder` survive a crash, at once.
    ///
    /// # Errors
    /// When the folder cannot be opened, or the kernel could not write all of it.
    fn sync_all(&self, folder: &Path) -> Result<(), TransferError>;

    /// Gives a file or folder another name.
    ///
    /// # Errors
    /// What the kernel answers.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), TransferError>;

    /// Removes a file or link; `false` when there is none.
    ///
    /// # Errors
    /// What the kernel answers.
    fn remove(&self, path: &Path) -> Result<bool, TransferError>;

    /// Removes a folder; `false` when there is none, or something lies in it.
    ///
    /// # Errors
    /// What the kernel answers.
    fn remove_folder(&self, folder: &Path) -> Result<bool, TransferError>;

    /// Free and total bytes of the file system that holds `path`, as an ordinary user may use
    /// them.
    ///
    /// # Errors
    /// When the kernel does not say.
    fn space(&self, path: &Path) -> Result<Space, TransferError>;

    /// How much of a file is in the page cache.
    ///
    /// # Errors
    /// When that cannot be found out; [`TransferError::is_permission_denied`] where the kernel
    /// does not tell this user.
    fn residency(&self, path: &Path) -> Result<Residency, TransferError>;

    /// Drops a file from the page cache. Whether it worked, [`Storage::residency`] tells.
    ///
    /// # Errors
    /// When the file cannot be synced or takes no advice.
    fn drop_cached(&self, path: &Path) -> Result<(), TransferError>;

    /// The block devices under files and folders, where there are any.
    fn devices(&self, paths: &[&Path]) -> BlockDevices {
        BlockDevices::behind(paths.iter().copied())
    }

    /// Keeps other runs out of a folder.
    ///
    /// # Errors
    /// As [`FolderLock::take`].
    fn lock(&self, folder: &Path) -> Result<FolderLock, LockError> {
        FolderLock::take(folder)
    }

    /// Claims a block device that is about to be written, as long as the handle lives: until then
    /// nothing can be mounted from it or built upon it.
    ///
    /// # Errors
    /// When somebody else has claimed it, or it cannot be opened.
    fn claim_device(&self, path: &Path) -> Result<File, TransferError> {
        Disk::claim(path)
    }

    /// Builds a transfer path on the calling thread, which must be the one to use it.
    ///
    /// # Errors
    /// When this machine cannot run it: io_uring refused, no cuFile, no such device.
    fn path(&self, spec: PathSpec) -> Result<Box<dyn TransferPath>, TransferError>;

    /// What makes results on this storage other than the storage's own.
    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }

    /// Makes a file that is to be written, with all of its space where the file system can.
    ///
    /// # Errors
    /// What the kernel answers; `ENOSPC` when the space is not there.
    fn create(&self, path: &Path, bytes: u64, direct: bool) -> Result<File, TransferError> {
        let file = self.open(path, Access::Create, direct)?;
        self.preallocate(&file, path, bytes)?;
        Ok(file)
    }

    /// Whether a folder is there.
    fn is_folder(&self, path: &Path) -> bool {
        matches!(self.look(path), Ok(Some(facts)) if facts.kind == Kind::Folder)
    }

    /// What lies under a name that is there.
    ///
    /// # Errors
    /// When nothing is, or storage does not say.
    fn found(&self, path: &Path) -> Result<Facts, TransferError> {
        self.look(path)?.ok_or_else(|| {
            let nothing = io::Error::from_raw_os_error(libc::ENOENT);
            TransferError::file("look at", path, nothing)
        })
    }

    /// The bytes of a regular file.
    ///
    /// # Errors
    /// When there is none, or something else.
    fn regular_file(&self, path: &Path) -> Result<u64, TransferError> {
        let facts = self.found(path)?;
        if facts.kind == Kind::File {
            return Ok(facts.bytes);
        }
        let reason = io::Error::other("it is no regular file");
        Err(TransferError::file("open", path, reason))
    }

    /// What is left of a file that a list says has `bytes` and is the one that was `made`, as far as
    /// it says either. A file that is empty by now is taken for the same: nothing in it can be lost.
    ///
    /// # Errors
    /// When storage does not say.
    fn left(
        &self,
        path: &Path,
        bytes: Option<u64>,
        made: Option<Identity>,
    ) -> Result<Left, TransferError> {
        let found = match self.look(path) {
            // It was never asked of the kernel, since a link is on the way.
            Err(error) if error.errno().is_none() => {
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

    /// Removes what is left of an attempt to write a file, which is of no use to anyone. What was
    /// in its way stays, and so may a part that cannot be removed: the attempt's error says more.
    fn discard(&self, path: &Path) {
        if let Ok(Left::Same(_)) = self.left(path, None, None) {
            let _ = self.remove(path);
        }
    }

    /// How many of the first `bytes` of a file lie in holes or in space that was never written: no
    /// device is read for them.
    ///
    /// # Errors
    /// When it cannot be opened, or the kernel does not say.
    fn hole_bytes(&self, path: &Path, bytes: u64) -> Result<u64, TransferError> {
        let file = self.open(path, Access::Read, false)?;
        holes::hole_bytes(&file, bytes)
            .map_err(|source| TransferError::file("look for holes in", path, source))
    }

    /// A small file, whole; `None` when it is not there.
    ///
    /// # Errors
    /// When it cannot be read, or is not text.
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

    /// Writes a small file so that it is either there whole or not at all, even after a crash.
    ///
    /// # Errors
    /// When any of writing, syncing and renaming fails; the old file is then as it was.
    fn write(
        &self,
        path: &Path,
        content: &[u8],
        durability: Durability,
    ) -> Result<(), TransferError> {
        let temporary = temporary_name(path);
        let write = || {
            let file = self.open(&temporary, Access::Create, false)?;
            self.write_at(&file, &temporary, 0, content)?;
            if durability != Durability::Unsynced {
                self.sync(&file, &temporary)?;
            }
            self.rename(&temporary, path)
        };
        write().map_err(|error| {
            self.discard(&temporary);
            error.on(path)
        })?;
        match durability {
            Durability::Certain => self.sync_folder(parent(path)),
            Durability::Whole | Durability::Unsynced => Ok(()),
        }
    }

    /// The folder itself, or the nearest one above it that is there.
    fn nearest(&self, path: &Path) -> PathBuf {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let there = |path: &&Path| self.look(path).is_ok_and(|found| found.is_some());
        let found = absolute.ancestors().find(there);
        found.map_or_else(|| PathBuf::from("/"), Path::to_path_buf)
    }

    /// How much of several files is in the page cache; `None` where the kernel does not tell this
    /// user, and for no file.
    ///
    /// # Errors
    /// When it cannot be found out for another reason.
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

/// The folder that a file lies in.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The name under which `path` is written until it is whole.
pub fn temporary_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".partial");
    path.with_file_name(name)
}

/// Writes a small file of the user's own, as a report, so that it is either there whole or not at
/// all, even after a crash.
///
/// # Errors
/// As [`Storage::write`].
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<(), TransferError> {
    Disk.write(path, content, Durability::Certain)
}

/// A file in which nothing is, for a path that asks for one and touches none.
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

/// Storage as it is, or slowed down and made to fail as asked.
pub fn impaired(throttle: Option<Throttle>, faults: &[Fault]) -> Arc<dyn Storage> {
    let mut storage: Arc<dyn Storage> = Arc::new(Disk);
    if let Some(throttle) = throttle {
        storage = Arc::new(Gated::new(storage, Throttled::new(throttle)));
    }
    if !faults.is_empty() {
        storage = Arc::new(Gated::new(storage, Failing::new(faults)));
    }
    storage
}
