//! Page cache residency of files, and how to drop them from the cache without root.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::Advice;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use serde::{Deserialize, Serialize};

use crate::error::TransferError;
use crate::storage::services::{Told, unless_refused};

/// `cachestat(2)`, Linux 6.5: the same number on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

/// Types of file systems above others: overlayfs, aufs, ecryptfs.
const STACKED: [u64; 3] = [0x794c_7630, 0x6175_6673, 0xf15f];
/// The type of FUSE.
const FUSE: u64 = 0x6573_5546;

/// How much of one or more files is in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residency {
    /// Bytes in the page cache, in whole pages but never more than the file size.
    pub cached_bytes: u64,
    /// Bytes of the file.
    pub total_bytes: u64,
}

impl Residency {
    /// The sum with another file's residency.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cached_bytes: self.cached_bytes + other.cached_bytes,
            total_bytes: self.total_bytes + other.total_bytes,
        }
    }

    /// The sum over several files; `None` without files, or if the residency of one is not known.
    ///
    /// # Errors
    /// The first one.
    pub(crate) fn sum(
        all: impl Iterator<Item = Result<Option<Self>, TransferError>>,
    ) -> Result<Option<Self>, TransferError> {
        let all: Option<Vec<Self>> = all.collect::<Result<_, _>>()?;
        Ok(all.and_then(|all| all.into_iter().reduce(Self::plus)))
    }

    /// The cached share, 0 to 1; 0 for an empty file.
    pub fn share(self) -> f64 {
        if self.total_bytes == 0 { 0.0 } else { self.cached_bytes as f64 / self.total_bytes as f64 }
    }
}

#[repr(C)]
struct CachestatRange {
    offset: u64,
    len: u64,
}

#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached_pages: u64,
    dirty_pages: u64,
    writeback_pages: u64,
    evicted_pages: u64,
    recently_evicted_pages: u64,
}

/// The page cache residency of `file`; `None` if the kernel does not report it, as for a file that
/// cannot be mapped or that the user neither owns nor may write to, or if a FUSE server may have it in
/// a cache of its own.
///
/// # Errors
/// When it cannot be determined for another reason.
pub fn residency(file: &File, path: &Path) -> Result<Option<Residency>, TransferError> {
    let fail = |source| TransferError::file("query the page cache of", path, source);
    let of = rustix::fs::fstatfs(file).map_or(0, |stat| stat.f_type as u64);
    if of == FUSE || !may_be_told(file, path).map_err(fail)? {
        return Ok(None);
    }
    let total_bytes = size(file).map_err(fail)?;
    // A file of these lies on another file system, whose pages a mapping shows.
    let seen = if STACKED.contains(&of) { None } else { cachestat_pages(file) };
    let told = seen.map_or_else(|| mincore_pages(file, total_bytes), Ok);
    let pages = unless_refused(told).map_err(|errno| fail(errno.into()))?;
    let page_bytes = rustix::param::page_size() as u64;
    let cached_bytes = pages.map(|pages| (pages * page_bytes).min(total_bytes));
    Ok(cached_bytes.map(|cached_bytes| Residency { cached_bytes, total_bytes }))
}

/// Whether the kernel reports residency to this user: to other users `cachestat` is refused, and
/// `mincore` reports every page as resident.
fn may_be_told(file: &File, path: &Path) -> std::io::Result<bool> {
    let user = rustix::process::geteuid();
    Ok(user.is_root()
        || file.metadata()?.uid() == user.as_raw()
        || rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok())
}

/// Bytes of a file or block device; for a device the metadata say 0.
fn size(file: &File) -> std::io::Result<u64> {
    let metadata = file.metadata()?;
    if metadata.file_type().is_block_device() {
        return Ok(rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?);
    }
    Ok(metadata.len())
}

/// Cached pages of the whole file, if the kernel has the call.
fn cachestat_pages(file: &File) -> Option<u64> {
    let range = CachestatRange { offset: 0, len: 0 };
    let mut stat = Cachestat::default();
    // SAFETY: both structures are live and laid out as the kernel's; a kernel without the call
    // returns ENOSYS without writing.
    let rc = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut stat, 0)
    };
    (rc == 0).then_some(stat.cached_pages)
}

/// Cached pages of the file, from `mincore` on a mapping.
fn mincore_pages(file: &File, bytes: u64) -> Result<u64, Errno> {
    if bytes == 0 {
        return Ok(0);
    }
    let len = bytes as usize;
    // SAFETY: a fresh read-only mapping, never dereferenced, unmapped below.
    let mapping =
        unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0)? };
    let mut resident = vec![0u8; len.div_ceil(rustix::param::page_size())];
    // SAFETY: the vector has a byte for each page of the mapping.
    let rc = unsafe { libc::mincore(mapping, len, resident.as_mut_ptr()) };
    let error = Errno::from_io_error(&std::io::Error::last_os_error());
    // SAFETY: exactly the mapping made above.
    unsafe { munmap(mapping, len)? };
    if rc != 0 {
        return Err(error.unwrap_or(Errno::NOSYS));
    }
    Ok(resident.iter().filter(|page| **page & 1 == 1).count() as u64)
}

/// Drops `file` from the page cache: writes back dirty pages, then advises the kernel. Needs no
/// privilege. [`residency`] shows whether it worked.
///
/// # Errors
/// When the file cannot be synced or the advice is rejected.
pub fn drop_file(file: &File, path: &Path) -> Result<(), TransferError> {
    let fail = |source| TransferError::file("drop from the page cache", path, source);
    // Only clean pages can be dropped. A file opened read-only may still be synced.
    unless_refused(rustix::fs::fdatasync(file)).map_err(|errno| fail(errno.into()))?;
    forget(file, path)
}

/// Advises the kernel to drop the clean pages of `file`, without writing back dirty ones.
///
/// # Errors
/// When the advice is rejected.
pub fn forget(file: &File, path: &Path) -> Result<(), TransferError> {
    let fail = |source| TransferError::file("drop from the page cache", path, source);
    let dropped = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
    Told::Drop.unless_refused(dropped).map_err(|errno| fail(errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_file_is_cached_until_it_is_dropped() {
        let file = tempfile::NamedTempFile::new_in(".").unwrap();
        std::fs::write(file.path(), vec![1u8; 1 << 20]).unwrap();
        let handle = file.reopen().unwrap();
        let warm = residency(&handle, file.path()).unwrap().unwrap();
        assert!(warm.share() > 0.9, "{warm:?}");
        drop_file(&handle, file.path()).unwrap();
        let cold = residency(&handle, file.path()).unwrap().unwrap();
        assert!(cold.share() < 0.1, "{cold:?}");
    }

    #[test]
    fn both_methods_agree() {
        let file = tempfile::NamedTempFile::new_in(".").unwrap();
        std::fs::write(file.path(), vec![1u8; 300_000]).unwrap();
        let handle = file.reopen().unwrap();
        let mincore = mincore_pages(&handle, 300_000).unwrap();
        if let Some(cachestat) = cachestat_pages(&handle) {
            assert_eq!(cachestat, mincore);
        }
        assert_eq!(mincore, 74);
    }
}
