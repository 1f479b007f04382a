//! What the kernel gives: files in folders.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::{Access, Entry, Facts, Kind, Space, Storage};
use crate::error::TransferError;
use crate::page_cache::{self, Residency};
use crate::paths::{PathSpec, TransferPath, build_path};

/// The real storage.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Storage for Disk {
    fn look(&self, path: &Path) -> Result<Option<Facts>, TransferError> {
        match fs::symlink_metadata(path) {
            Ok(metadata) => Ok(facts(path, &metadata)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(source) => Err(TransferError::file("look at", path, source)),
        }
    }

    fn list(&self, folder: &Path) -> Result<Vec<Entry>, TransferError> {
        let read = || {
            let mut entries = Vec::new();
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                // What is gone by now was not there.
                if let Ok(metadata) = entry.metadata() {
                    entries.push(Entry {
                        name: entry.file_name(),
                        facts: facts(&entry.path(), &metadata).unwrap_or(NOWHERE),
                    });
                }
            }
            entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            Ok(entries)
        };
        read().map_err(|source| TransferError::file("read the folder", folder, source))
    }

    fn open(&self, path: &Path, access: Access, direct: bool) -> Result<File, TransferError> {
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

    fn preallocate(&self, file: &File, path: &Path, bytes: u64) -> Result<(), TransferError> {
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

    fn read_at(
        &self,
        file: &File,
        path: &Path,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, TransferError> {
        loop {
            match file.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read.map_err(|source| TransferError::file("read", path, source)),
            }
        }
    }

    fn write_at(
        &self,
        file: &File,
        path: &Path,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), TransferError> {
        file.write_all_at(bytes, offset)
            .map_err(|source| TransferError::file("write", path, source))
    }

    fn sync(&self, file: &File, path: &Path) -> Result<(), TransferError> {
        file.sync_all()
            .map_err(|source| TransferError::file("sync", path, source))
    }

    fn make_folder(&self, folder: &Path) -> Result<(), TransferError> {
        fs::create_dir_all(folder)
            .map_err(|source| TransferError::file("make the folder", folder, source))
    }

    fn sync_folder(&self, folder: &Path) -> Result<(), TransferError> {
        self.sync(&self.open(folder, Access::Read, false)?, folder)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), TransferError> {
        fs::rename(from, to).map_err(|source| TransferError::file("rename", from, source))
    }

    fn remove(&self, path: &Path) -> Result<bool, TransferError> {
        match fs::remove_file(path) {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(source) => Err(TransferError::file("remove", path, source)),
        }
    }

    fn remove_folder(&self, folder: &Path) -> Result<bool, TransferError> {
        match fs::remove_dir(folder) {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            Err(source) => Err(TransferError::file("remove", folder, source)),
        }
    }

    fn space(&self, path: &Path) -> Result<Space, TransferError> {
        let stat = statvfs(path).map_err(|errno| {
            TransferError::file("ask for the free space of", path, errno.into())
        })?;
        Ok(Space {
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
        })
    }

    fn residency(&self, path: &Path) -> Result<Residency, TransferError> {
        page_cache::residency(&self.open(path, Access::Read, false)?, path)
    }

    fn drop_cached(&self, path: &Path) -> Result<(), TransferError> {
        page_cache::drop_file(&self.open(path, Access::Read, false)?, path)
    }

    fn path(&self, spec: PathSpec) -> Result<Box<dyn TransferPath>, TransferError> {
        build_path(spec)
    }
}

impl Disk {
    /// Opens a block device for this process alone, among all that ask for it in this way: file
    /// systems, arrays, volumes and swap do.
    pub(super) fn claim(path: &Path) -> Result<File, TransferError> {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_EXCL);
        options
            .open(path)
            .map_err(|source| match source.raw_os_error() {
                Some(libc::EBUSY) => TransferError::Unavailable {
                    what: format!("{} for writing", path.display()),
                    reason: "another program or the kernel has claimed it".to_string(),
                    remedy: "stop what uses it first, or name another device".to_string(),
                },
                _ => TransferError::file("claim", path, source),
            })
    }
}

/// A link that leads nowhere.
const NOWHERE: Facts = Facts {
    kind: Kind::Nothing,
    bytes: 0,
    changed_ns: 0,
    link: true,
    file_system_id: 0,
};

/// What a name stands for; `None` for a link that leads nowhere.
fn facts(path: &Path, metadata: &Metadata) -> Option<Facts> {
    if metadata.is_symlink() {
        let target = facts(path, &fs::metadata(path).ok()?)?;
        return Some(Facts {
            link: true,
            ..target
        });
    }
    let of = metadata.file_type();
    let (kind, bytes) = match () {
        () if of.is_file() => (Kind::File, metadata.len()),
        () if of.is_dir() => (Kind::Folder, 0),
        () if of.is_block_device() => (Kind::BlockDevice, capacity(path)),
        () => (Kind::Other, 0),
    };
    Some(Facts {
        kind,
        bytes,
        changed_ns: metadata.ctime().max(0).unsigned_abs() * 1_000_000_000
            + metadata.ctime_nsec().max(0).unsigned_abs(),
        link: false,
        file_system_id: metadata.dev(),
    })
}

/// The capacity of a block device, which only seeking to its end tells; 0 for one that may not be
/// opened.
fn capacity(path: &Path) -> u64 {
    File::open(path)
        .and_then(|mut device| io::Seek::seek(&mut device, io::SeekFrom::End(0)))
        .unwrap_or(0)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::storage::{Durability, temporary_name};

    #[test]
    fn an_atomic_write_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        Disk.write(&path, b"one", Durability::Certain).unwrap();
        Disk.write(&path, b"two", Durability::Whole).unwrap();
        assert_eq!(Disk.read_text(&path).unwrap().unwrap(), "two");
        assert_eq!(Disk.list(folder.path()).unwrap().len(), 1);
        assert_eq!(Disk.read_text(&temporary_name(&path)).unwrap(), None);
    }

    #[test]
    fn preallocated_files_have_their_size_and_too_large_ones_fail() {
        let file = tempfile::NamedTempFile::new_in(".").unwrap();
        Disk.preallocate(file.as_file(), file.path(), 1 << 20)
            .unwrap();
        assert_eq!(file.as_file().metadata().unwrap().len(), 1 << 20);
        let error = Disk
            .preallocate(file.as_file(), file.path(), 1 << 60)
            .unwrap_err();
        assert!(
            matches!(error.errno(), Some(libc::ENOSPC | libc::EFBIG)),
            "{error}"
        );
    }

    #[test]
    fn errors_name_the_file() {
        let error = Disk
            .open(Path::new("/no/such/file"), Access::Read, false)
            .unwrap_err();
        assert!(
            error.to_string().starts_with("open /no/such/file: "),
            "{error}"
        );
        assert!(error.is_not_found());
    }

    #[test]
    fn links_are_told_apart_and_followed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "four").unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("b")).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("c")).unwrap();
        let entries = Disk.list(folder.path()).unwrap();
        let seen: Vec<_> = entries
            .iter()
            .map(|e| (e.text().unwrap(), e.is_file(), e.facts.bytes, e.facts.link))
            .collect();
        assert_eq!(
            seen,
            [
                ("a", true, 4, false),
                ("b", true, 4, true),
                ("c", false, 0, true)
            ]
        );
        assert_eq!(Disk.look(&folder.path().join("c")).unwrap(), None);
        assert_eq!(Disk.look(&folder.path().join("d")).unwrap(), None);
        assert!(!Disk.remove_folder(folder.path()).unwrap());
    }
}
