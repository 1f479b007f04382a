//! Storage of whatever a path names: `s3://` names objects, everything else files.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use stormlp_core::location::names_object;
use stormlp_core::path::PathKind;
use stormlp_core::verify::Verify;
use stormlp_core::warning::Warning;

use super::bucket::Buckets;
use super::disk::Disk;
use super::found::{Entry, Facts, Left, Space};
use super::handle::Handle;
use super::interface::{Access, Durability, Storage};
use super::lock::{FolderLock, LockError};
use crate::error::TransferError;
use crate::page_cache::Residency;
use crate::paths::{PathSpec, build_path};
use crate::telemetry::BlockDevices;
use crate::transfer::TransferPath;

/// Files, and the objects of the user's object store, whose settings are read when the first
/// object is named.
pub struct Anywhere {
    files: Arc<dyn Storage>,
    /// Whether operations on files are delayed or made to fail.
    impaired: bool,
    verify: Verify,
    buckets: OnceLock<Buckets>,
}

impl Default for Anywhere {
    fn default() -> Self {
        Self::verifying(Verify::default())
    }
}

impl Anywhere {
    /// Files, and objects that are verified as `verify` says.
    pub fn verifying(verify: Verify) -> Self {
        Self { files: Arc::new(Disk), impaired: false, verify, buckets: OnceLock::new() }
    }

    /// Files, and the objects of a test's server.
    #[cfg(any(test, feature = "testing"))]
    pub fn over(server: &crate::testing::ObjectServer) -> Self {
        Self::over_by(server, Verify::default())
    }

    /// The same, verified as `verify` says.
    #[cfg(any(test, feature = "testing"))]
    pub fn over_by(server: &crate::testing::ObjectServer, verify: Verify) -> Self {
        Self { buckets: Buckets::of(server.client(verify)).into(), ..Self::verifying(verify) }
    }

    /// The same with files behind gates.
    pub(super) fn impaired(files: Arc<dyn Storage>) -> Self {
        Self { files, impaired: true, ..Self::default() }
    }

    fn buckets(&self) -> Result<&Buckets, TransferError> {
        if self.impaired {
            return Err(TransferError::Unavailable {
                what: "the object store".to_string(),
                reason: "--throttle and --inject-fault act on files alone".to_string(),
                remedy: "leave them out, or name a folder".to_string(),
            });
        }
        if let Some(buckets) = self.buckets.get() {
            return Ok(buckets);
        }
        let buckets = Buckets::of_user(self.verify)?;
        Ok(self.buckets.get_or_init(|| buckets))
    }
}

impl Storage for Anywhere {
    fn hold(&self, folder: &Path) {
        if !names_object(folder) {
            self.files.hold(folder);
        }
    }

    fn look(&self, path: &Path) -> Result<Option<Facts>, TransferError> {
        if names_object(path) { self.buckets()?.look(path) } else { self.files.look(path) }
    }

    fn list(&self, folder: &Path) -> Result<Vec<Entry>, TransferError> {
        if names_object(folder) { self.buckets()?.list(folder) } else { self.files.list(folder) }
    }

    fn open(&self, path: &Path, access: Access, direct: bool) -> Result<File, TransferError> {
        if names_object(path) {
            let source = io::Error::other("it is an object, not a file");
            return Err(TransferError::file("open", path, source));
        }
        self.files.open(path, access, direct)
    }

    fn handle(&self, path: &Path, access: Access, direct: bool) -> Result<Handle, TransferError> {
        match names_object(path) {
            true => self.buckets()?.handle(path, access),
            false => self.files.handle(path, access, direct),
        }
    }

    fn known_object(&self, path: &Path, bytes: u64) -> Result<Handle, TransferError> {
        self.buckets()?.known(path, bytes)
    }

    fn read_from(
        &self,
        handle: &Handle,
        path: &Path,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, TransferError> {
        match handle {
            Handle::File(file) => self.files.read_at(file, path, offset, buffer),
            Handle::Object(object) => self.buckets()?.read_at(object, path, offset, buffer),
        }
    }

    fn abort_uploads(
        &self,
        folder: &Path,
        ours: &dyn Fn(&Path) -> bool,
        dry_run: bool,
    ) -> Result<u64, TransferError> {
        match names_object(folder) {
            true => self.buckets()?.abort_uploads(folder, ours, dry_run),
            false => Ok(0),
        }
    }

    /// A prefix is a folder as soon as an object is beneath it.
    fn is_folder(&self, path: &Path) -> Result<bool, TransferError> {
        if names_object(path) { self.buckets()?.has_any(path) } else { self.files.is_folder(path) }
    }

    fn nearest(&self, path: &Path) -> Result<PathBuf, TransferError> {
        if names_object(path) { Ok(path.to_path_buf()) } else { self.files.nearest(path) }
    }

    fn preallocate(&self, file: &File, path: &Path, bytes: u64) -> Result<(), TransferError> {
        self.files.preallocate(file, path, bytes)
    }

    fn read_at(
        &self,
        file: &File,
        path: &Path,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, TransferError> {
        self.files.read_at(file, path, offset, buffer)
    }

    fn write_at(
        &self,
        file: &File,
        path: &Path,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), TransferError> {
        self.files.write_at(file, path, offset, bytes)
    }

    fn sync(&self, file: &File, path: &Path) -> Result<(), TransferError> {
        self.files.sync(file, path)
    }

    /// Prefixes exist as soon as an object begins with them.
    fn make_folder(&self, folder: &Path) -> Result<(), TransferError> {
        if names_object(folder) { Ok(()) } else { self.files.make_folder(folder) }
    }

    fn make_new_folder(&self, folder: &Path) -> Result<bool, TransferError> {
        self.files.make_new_folder(folder)
    }

    fn sync_folder(&self, folder: &Path) -> Result<(), TransferError> {
        if names_object(folder) { Ok(()) } else { self.files.sync_folder(folder) }
    }

    fn sync_all(&self, folder: &Path) -> Result<(), TransferError> {
        if names_object(folder) { Ok(()) } else { self.files.sync_all(folder) }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), TransferError> {
        self.files.rename(from, to)
    }

    fn exchange(&self, one: &Path, other: &Path) -> Result<bool, TransferError> {
        self.files.exchange(one, other)
    }

    fn remove(&self, path: &Path) -> Result<bool, TransferError> {
        if names_object(path) { self.buckets()?.remove(path) } else { self.files.remove(path) }
    }

    fn remove_all(&self, paths: &[PathBuf]) -> Result<u64, TransferError> {
        let (objects, files): (Vec<_>, Vec<_>) =
            paths.iter().cloned().partition(|path| names_object(path));
        let removed = self.files.remove_all(&files)?;
        if objects.is_empty() {
            return Ok(removed);
        }
        Ok(removed + self.buckets()?.remove_all(&objects)?)
    }

    fn puts(&self, path: &Path) -> Result<Vec<(PathBuf, Left)>, TransferError> {
        if names_object(path) { self.buckets()?.puts(path) } else { Ok(Vec::new()) }
    }

    fn mark(&self, file: &File) {
        self.files.mark(file);
    }

    /// Objects have their mark from the request that put them.
    fn is_marked(&self, path: &Path) -> Result<bool, TransferError> {
        if names_object(path) {
            self.buckets()?.is_marked(path)
        } else {
            self.files.is_marked(path)
        }
    }

    fn remove_folder(&self, folder: &Path) -> Result<bool, TransferError> {
        if names_object(folder) { Ok(false) } else { self.files.remove_folder(folder) }
    }

    fn hole_bytes(&self, path: &Path, bytes: u64) -> Result<u64, TransferError> {
        if names_object(path) { Ok(0) } else { self.files.hole_bytes(path, bytes) }
    }

    fn space(&self, path: &Path) -> Result<Option<Space>, TransferError> {
        match names_object(path) {
            true => Ok(None),
            false => self.files.space(path),
        }
    }

    fn residency(&self, path: &Path) -> Result<Residency, TransferError> {
        self.files.residency(path)
    }

    /// Objects are in no cache of this machine; the endpoint's own is unknown.
    fn cached(
        &self,
        paths: &mut dyn Iterator<Item = &Path>,
    ) -> Result<Option<Residency>, TransferError> {
        let paths: Vec<&Path> = paths.collect();
        match paths.iter().any(|path| names_object(path)) {
            true => Ok(None),
            false => self.files.cached(&mut paths.into_iter()),
        }
    }

    fn drop_cached(&self, path: &Path) -> Result<(), TransferError> {
        if names_object(path) { Ok(()) } else { self.files.drop_cached(path) }
    }

    fn forget(&self, file: &File, path: &Path) -> Result<(), TransferError> {
        self.files.forget(file, path)
    }

    fn devices(&self, paths: &[&Path]) -> BlockDevices {
        let files: Vec<&Path> = paths.iter().copied().filter(|path| !names_object(path)).collect();
        self.files.devices(&files)
    }

    fn lock(&self, folder: &Path) -> Result<FolderLock, LockError> {
        match names_object(folder) {
            true => Ok(FolderLock::of_bucket()),
            false => self.files.lock(folder),
        }
    }

    fn path(&self, spec: PathSpec) -> Result<Box<dyn TransferPath>, TransferError> {
        if spec.kind == PathKind::S3 { build_path(spec) } else { self.files.path(spec) }
    }

    fn warnings(&self) -> Vec<Warning> {
        let of_objects = self.buckets.get().map_or_else(Vec::new, Buckets::warnings);
        self.files.warnings().into_iter().chain(of_objects).collect()
    }

    fn read_text(&self, path: &Path) -> Result<Option<String>, TransferError> {
        match names_object(path) {
            true => self.buckets()?.read_text(path),
            false => self.files.read_text(path),
        }
    }

    /// One PUT is atomic, and needs no temporary name.
    fn write_by(
        &self,
        temporary: &Path,
        path: &Path,
        content: &[u8],
        durability: Durability,
    ) -> Result<(), TransferError> {
        match names_object(path) {
            true => self.buckets()?.write(path, content),
            false => self.files.write_by(temporary, path, content, durability),
        }
    }
}
