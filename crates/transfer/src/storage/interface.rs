//! Operations on files and objects.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use stormlp_core::facts::Identity;
use stormlp_core::impairment::StorageOperation as Call;
use stormlp_core::location::names_object;
use stormlp_core::warning::{Warning, WarningKind};

use super::bucket::Buckets;
use super::found::{Entry, Facts, Kind, RecordedState, Space, bounded};
use super::gate::Gate as _;
use super::handle::{Access, Durability, Handle};
use super::lock::{FolderLock, LOCK_NAME, LockError};
use super::services::Told;
use super::{disk, failing, holes, reach, temporary_name};
use crate::error::TransferError;
use crate::page_cache::{self, Residency};
use crate::paths::PathSpec;
use crate::telemetry::BlockDevices;
use crate::transfer::TransferPath;

/// Access to files. Every error names the file and the action. A file or folder is absent only if
/// the kernel says so (`ENOENT`, `ENOTDIR`); one that cannot be looked at is an error.
///
/// All of it goes by way of [`Self::pass`]; paths that begin with `s3://` go to [`Self::objects`].
pub trait Storage: Send + Sync {
    /// Asks before an operation on `bytes` of a file; returns how many of them may be transferred.
    ///
    /// # Errors
    /// When it is to fail, as [`inject`](super::inject) was asked.
    fn pass(&self, operation: Call, path: &Path, bytes: usize) -> Result<usize, TransferError> {
        failing::pass(operation, path, bytes)
    }

    /// The store of the object that `path` names; `None` if it names a file.
    ///
    /// # Errors
    /// When there is no such store.
    fn objects(&self, path: &Path) -> Result<Option<&Buckets>, TransferError> {
        let _ = path;
        Ok(None)
    }

    /// From now on, in the whole process, everything below `folder` is opened relative to the
    /// folder itself and without following links; call this before writing to a folder. The folder
    /// may be a link and need not exist yet. Call it again when another host may have replaced
    /// folders in it.
    fn hold(&self, folder: &Path) {
        if !names_object(folder) {
            reach::hold(folder);
        }
    }

    /// Metadata of a name, following links unless it is in a held folder; `None` if it does not exist.
    ///
    /// # Errors
    /// When the metadata cannot be read.
    fn look(&self, path: &Path) -> Result<Option<Facts>, TransferError> {
        match self.objects(path)? {
            Some(buckets) => buckets.look(path),
            None => {
                self.pass(Call::Stat, path, 0)?;
                disk::look(path)
            }
        }
    }

    /// The entries of a folder, sorted by name. Files that NFS or FUSE keep under another name,
    /// because they were removed while open, are left out: they vanish once they are closed.
    ///
    /// # Errors
    /// When it cannot be read or does not exist.
    fn list(&self, folder: &Path) -> Result<Vec<Entry>, TransferError> {
        let entries = match self.objects(folder)? {
            Some(buckets) => buckets.list(folder),
            None => {
                self.pass(Call::List, folder, 0)?;
                disk::list(folder)
            }
        };
        bounded(folder, entries?)
    }

    /// Opens a file, with `O_DIRECT` if `direct`.
    ///
    /// # Errors
    /// The kernel's error. [`is_direct_refused`] recognises a file system without `O_DIRECT`;
    /// whether to use the page cache instead is up to the caller, which must report it.
    fn open(&self, path: &Path, access: Access, direct: bool) -> Result<File, TransferError> {
        if self.objects(path)?.is_some() {
            return Err(TransferError::refused("open", path, "it is an object, not a file"));
        }
        self.pass(if access == Access::Create { Call::Create } else { Call::Open }, path, 0)?;
        disk::open(path, access, direct)
    }

    /// Opens the source or target of a path: a file as [`Storage::open`] does, or an object.
    ///
    /// # Errors
    /// As [`Storage::open`].
    fn handle(&self, path: &Path, access: Access, direct: bool) -> Result<Handle, TransferError> {
        match self.objects(path)? {
            Some(buckets) => buckets.handle(path, access),
            None => self.open(path, access, direct).map(Handle::File),
        }
    }

    /// The object at `path`, known to have `bytes`, without a request: the first read shows if it has.
    ///
    /// # Errors
    /// When it is a file.
    fn known_object(&self, path: &Path, bytes: u64) -> Result<Handle, TransferError> {
        match self.objects(path)? {
            Some(buckets) => buckets.known(path, bytes),
            None => {
                let why = format!("it is a file, not an object of {bytes} bytes");
                Err(TransferError::refused("open", path, why))
            }
        }
    }

    /// Reads at `offset` of a handle of [`Self::handle`]; 0 bytes at its end.
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
        match (handle, self.objects(path)?) {
            (Handle::File(file), _) => self.read_at(file, path, offset, buffer),
            (Handle::Object(object), Some(buckets)) => {
                buckets.read_at(object, path, offset, buffer)
            }
            (Handle::Object(_), None) => {
                Err(TransferError::refused("read", path, "it is an object, not a file"))
            }
        }
    }

    /// Aborts the uploads that killed processes left below `folder`, of the objects that are
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
        let buckets = self.objects(folder)?;
        buckets.map_or(Ok(0), |buckets| buckets.abort_uploads(folder, ours, dry_run))
    }

    /// Sets a file's final size before it is written: allocates blocks if the file system can, so
    /// that a full disk is detected now and direct writes need not extend the file.
    ///
    /// # Errors
    /// `ENOSPC` when there is not enough space, and any other error of the kernel.
    fn preallocate(&self, file: &File, path: &Path, bytes: u64) -> Result<(), TransferError> {
        self.pass(Call::Allocate, path, 0)?;
        disk::preallocate(file, path, bytes)
    }

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
    ) -> Result<usize, TransferError> {
        let bytes = self.pass(Call::Read, path, buffer.len()).map_err(|error| error.at(offset))?;
        disk::read_at(file, path, offset, &mut buffer[..bytes])
    }

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
    ) -> Result<(), TransferError> {
        // The rest of a short write is written at once, as usual.
        self.pass(Call::Write, path, bytes.len()).map_err(|error| error.at(offset))?;
        disk::write_at(file, path, offset, bytes)
    }

    /// Makes data written to a file survive a crash.
    ///
    /// # Errors
    /// The kernel's error; written data may then be lost.
    fn sync(&self, file: &File, path: &Path) -> Result<(), TransferError> {
        self.pass(Call::Sync, path, 0)?;
        file.sync_all().map_err(|source| TransferError::file("sync", path, source))
    }

    /// Creates a folder and its missing parents.
    ///
    /// # Errors
    /// When one of them cannot be created.
    fn make_folder(&self, folder: &Path) -> Result<(), TransferError> {
        // Prefixes exist as soon as an object begins with them.
        if names_object(folder) {
            return Ok(());
        }
        self.pass(Call::Mkdir, folder, 0)?;
        disk::make_folder(folder)
            .map_err(|source| TransferError::file("make the folder", folder, source))
    }

    /// Creates a folder in an existing one; `false` if there is already something of that name.
    ///
    /// # Errors
    /// The kernel's error.
    fn make_new_folder(&self, folder: &Path) -> Result<bool, TransferError> {
        self.pass(Call::Mkdir, folder, 0)?;
        disk::make_new_folder(folder)
    }

    /// Makes creations and renames in `folder` survive a crash.
    ///
    /// # Errors
    /// When the folder cannot be opened or synced.
    fn sync_folder(&self, folder: &Path) -> Result<(), TransferError> {
        if names_object(folder) {
            return Ok(());
        }
        self.pass(Call::Sync, folder, 0)?;
        Told::SyncFolder
            .unless_refused(rustix::fs::fsync(disk::open_folder(folder)?))
            .map_err(|errno| TransferError::file("sync", folder, errno.into()))
    }

    /// Makes all data written to the file system of `folder` survive a crash.
    ///
    /// # Errors
    /// When the folder cannot be opened, or the kernel could not write all of it.
    fn sync_all(&self, folder: &Path) -> Result<(), TransferError> {
        if names_object(folder) {
            return Ok(());
        }
        self.pass(Call::Sync, folder, 0)?;
        Told::SyncAll
            .unless_refused(rustix::fs::syncfs(disk::open_folder(folder)?))
            .map_err(|errno| TransferError::file("sync the file system of", folder, errno.into()))
    }

    /// Renames a file or folder.
    ///
    /// # Errors
    /// The kernel's error.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), TransferError> {
        self.pass(Call::Rename, from, 0)?;
        disk::rename(from, to)
    }

    /// Removes a file or link; `false` if it does not exist.
    ///
    /// # Errors
    /// The kernel's error.
    fn remove(&self, path: &Path) -> Result<bool, TransferError> {
        match self.objects(path)? {
            Some(buckets) => buckets.remove(path),
            None => {
                self.pass(Call::Remove, path, 0)?;
                disk::remove(path)
            }
        }
    }

    /// Removes files or objects, and returns how many there were.
    ///
    /// # Errors
    /// As [`Self::remove`]; some of them may be gone by then.
    fn remove_all(&self, paths: &[PathBuf]) -> Result<u64, TransferError> {
        let (objects, files): (Vec<_>, Vec<_>) =
            paths.iter().cloned().partition(|path| names_object(path));
        let removed = files.iter().map(|file| self.remove(file).map(u64::from));
        let removed = removed.sum::<Result<u64, _>>()?;
        match objects.first().map_or(Ok(None), |first| self.objects(first))? {
            Some(buckets) => Ok(removed + buckets.remove_all(&objects)?),
            None => Ok(removed),
        }
    }

    /// The objects that writes put for the one at `path`, which has a name but no bytes in place.
    /// An object with such a name without stormlp's mark is [`RecordedState::Other`]. Files have none.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn puts(&self, path: &Path) -> Result<Vec<(PathBuf, RecordedState)>, TransferError> {
        let buckets = self.objects(path)?;
        buckets.map_or(Ok(Vec::new()), |buckets| buckets.puts(path))
    }

    /// Removes a folder; `false` if it does not exist or is not empty, also of a removed open file.
    ///
    /// # Errors
    /// The kernel's error.
    fn remove_folder(&self, folder: &Path) -> Result<bool, TransferError> {
        if names_object(folder) {
            return Ok(false);
        }
        self.pass(Call::Remove, folder, 0)?;
        disk::remove_folder(folder)
    }

    /// Free and total bytes of the file system of `path` for unprivileged users; `None` of objects.
    ///
    /// # Errors
    /// When the kernel does not report it.
    fn space(&self, path: &Path) -> Result<Option<Space>, TransferError> {
        if names_object(path) {
            return Ok(None);
        }
        self.pass(Call::Statfs, path, 0)?;
        disk::space(path)
    }

    /// The page cache residency of a file; `None` if the kernel hides it, or other caches may hold it.
    ///
    /// # Errors
    /// When it cannot be determined for another reason.
    fn residency(&self, path: &Path) -> Result<Option<Residency>, TransferError> {
        self.pass(Call::Residency, path, 0)?;
        page_cache::residency(&disk::open(path, Access::Read, false)?, path)
    }

    /// Drops a file from the page cache. [`Storage::residency`] shows whether it worked.
    ///
    /// # Errors
    /// When the file cannot be synced or the advice is rejected.
    fn drop_cached(&self, path: &Path) -> Result<(), TransferError> {
        if names_object(path) {
            return Ok(());
        }
        self.pass(Call::Evict, path, 0)?;
        page_cache::drop_file(&disk::open(path, Access::Read, false)?, path)
    }

    /// The same for the clean pages of an open file: dirty ones are not written back, and stay.
    ///
    /// # Errors
    /// When the advice is rejected.
    fn forget(&self, file: &File, path: &Path) -> Result<(), TransferError> {
        self.pass(Call::Evict, path, 0)?;
        page_cache::forget(file, path)
    }

    /// The block devices under files and folders, if any.
    fn devices(&self, paths: &[&Path]) -> BlockDevices {
        BlockDevices::behind(paths.iter().copied().filter(|path| !names_object(path)))
    }

    /// Locks a folder against other runs.
    ///
    /// # Errors
    /// As [`FolderLock::take`].
    fn lock(&self, folder: &Path) -> Result<FolderLock, LockError> {
        if names_object(folder) {
            return Ok(FolderLock::of_bucket());
        }
        self.pass(Call::Lock, &folder.join(LOCK_NAME), 0)?;
        FolderLock::take(folder)
    }

    /// Builds a transfer path on the calling thread, which must be the one to use it.
    ///
    /// # Errors
    /// When this machine cannot run it: io_uring refused, no cuFile, no such device.
    fn path(&self, spec: PathSpec) -> Result<Box<dyn TransferPath>, TransferError> {
        failing::path_of_process(spec)
    }

    /// Causes of distorted results: properties of this storage, and retried requests other than transfers.
    fn warnings(&self) -> Vec<Warning> {
        failing::of_process().map_or_else(Vec::new, |failing| failing.warnings())
    }

    /// The properties of this storage among them, known before the first measurement.
    fn impairments(&self) -> Vec<Warning> {
        let of_storage = |warning: &Warning| warning.kind != WarningKind::Retried;
        self.warnings().into_iter().filter(of_storage).collect()
    }

    /// Creates a file for writing, with the mark of stormlp and preallocated if the file system
    /// supports it. It is marked while it is empty: a process killed at any time leaves no file with
    /// content and without the mark.
    ///
    /// # Errors
    /// The kernel's error; `ENOSPC` when there is not enough space.
    fn create(&self, path: &Path, bytes: u64, direct: bool) -> Result<File, TransferError> {
        let file = self.open(path, Access::Create, direct)?;
        disk::mark(&file);
        self.preallocate(&file, path, bytes)?;
        Ok(file)
    }

    /// Whether the folder exists.
    ///
    /// # Errors
    /// When the metadata cannot be read.
    fn is_folder(&self, path: &Path) -> Result<bool, TransferError> {
        // A prefix is a folder as soon as an object is below it.
        if let Some(buckets) = self.objects(path)? {
            return buckets.has_any(path);
        }
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
        match self.found(path)? {
            facts if facts.kind == Kind::File => Ok(facts.bytes),
            _ => Err(TransferError::refused("open", path, "it is not a regular file")),
        }
    }

    /// The current state of a file recorded with `bytes` and the identity `made`, as far as either
    /// is known. A file that is empty by now counts as the same: it has no data to lose.
    ///
    /// # Errors
    /// When the metadata cannot be read.
    fn left(
        &self,
        path: &Path,
        bytes: Option<u64>,
        made: Option<Identity>,
    ) -> Result<RecordedState, TransferError> {
        let state = RecordedState::of(self.look(path), bytes, made)?;
        let is_other = matches!(state, RecordedState::Other(_)) && names_object(path);
        // Some endpoints keep the part of an object that a killed process had sent.
        if is_other && self.is_marked(path)? { self.left(path, None, None) } else { Ok(state) }
    }

    /// Removes the remains of a failed attempt to write a file; its error says more than one of this.
    fn discard(&self, path: &Path) {
        if let Ok(RecordedState::Same(_)) = self.left(path, None, None) {
            let _ = self.remove(path);
        }
    }

    /// How many of the first `bytes` of a file are in holes or unwritten extents: reading them does
    /// not access a device. Unreported ranges and unreadable files count as data.
    ///
    /// # Errors
    /// When the device fails.
    fn hole_bytes(&self, path: &Path, bytes: u64) -> Result<u64, TransferError> {
        if names_object(path) {
            return Ok(0);
        }
        self.pass(Call::Holes, path, 0)?;
        holes::of(self.open(path, Access::Read, false), path, bytes)
    }

    /// Whether a file has the mark of [`Storage::create`], or a folder that of [`Storage::make_folder`].
    ///
    /// # Errors
    /// When a device failed; a file that cannot be opened is not marked.
    fn is_marked(&self, path: &Path) -> Result<bool, TransferError> {
        // Objects have their mark from the request that put them.
        if let Some(buckets) = self.objects(path)? {
            return buckets.is_marked(path);
        }
        match self.open(path, Access::Read, false) {
            Ok(file) => Ok(disk::is_marked(&file)),
            Err(error) if error.is_device_failure() => Err(error),
            Err(_) => Ok(disk::open_folder(path).is_ok_and(disk::is_marked)),
        }
    }

    /// The contents of a small file; `None` if it does not exist.
    ///
    /// # Errors
    /// When it cannot be read, or is not valid UTF-8.
    fn read_text(&self, path: &Path) -> Result<Option<String>, TransferError> {
        if let Some(buckets) = self.objects(path)? {
            return buckets.read_text(path);
        }
        let file = match self.open(path, Access::Read, false) {
            Err(error) if error.is_not_found() => return Ok(None),
            opened => opened?,
        };
        disk::text(path, |at, buffer| self.read_at(&file, path, at, buffer)).map(Some)
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
        self.write_by((&temporary_name(path), false), path, content, durability)
    }

    /// The same by a file `temporary` of this process, which `keeps` the old one's mode and owner, or not.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn write_by(
        &self,
        (temporary, keeps): (&Path, bool),
        path: &Path,
        content: &[u8],
        durability: Durability,
    ) -> Result<(), TransferError> {
        // One PUT is atomic, and needs no temporary name.
        if let Some(buckets) = self.objects(path)? {
            return buckets.write(path, content);
        }
        let write = || {
            let file = self.open(temporary, Access::Create, false)?;
            if keeps {
                disk::take_after(&file, path)?;
            }
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
            Durability::Certain => self.sync_folder(reach::parent(path)),
            Durability::Whole | Durability::Unsynced => Ok(()),
        }
    }

    /// The path itself, or its nearest existing parent.
    ///
    /// # Errors
    /// When the metadata of one of them cannot be read.
    fn nearest(&self, path: &Path) -> Result<PathBuf, TransferError> {
        reach::nearest(path, |path| self.look(path))
    }

    /// The page cache residency of several files; `None` if the kernel hides it, or without files.
    ///
    /// # Errors
    /// When it cannot be determined for another reason.
    fn cached(
        &self,
        paths: &mut dyn Iterator<Item = &Path>,
    ) -> Result<Option<Residency>, TransferError> {
        Residency::sum(paths.map(|path| match names_object(path) {
            // Objects are in no cache of this machine; the endpoint's is unknown.
            true => Ok(None),
            false => self.residency(path),
        }))
    }
}

/// The files of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Storage for Disk {}
