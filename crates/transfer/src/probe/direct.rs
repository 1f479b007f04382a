//! Whether `O_DIRECT` works in a folder: tested on an unnamed file, because file systems differ in
//! whether they reject it on open, on use, or never.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, IFlags, Mode, OFlags, StatxFlags, fcntl_getfl, fstatfs, ioctl_getflags,
    open, statx,
};
use rustix::io::{Errno, pread, pwrite};
use stormlp_core::machine::{DirectSupport, Fact};

use super::root::plain;

/// Size and alignment of the test: accepted by all current devices.
const BLOCK: usize = 4096;

/// Tests `O_DIRECT` in a folder (a write), or on a file or block device (a read).
pub(crate) fn probe(path: &Path) -> Fact<DirectSupport> {
    let stat = match rustix::fs::stat(path) {
        Ok(stat) => stat,
        Err(error) => {
            return Fact::unknown(format!("stat {}: {}", path.display(), plain(&error.into())));
        }
    };
    let kind = FileType::from_raw_mode(stat.st_mode);
    let is_folder = kind == FileType::Directory;
    let attempt = match kind {
        FileType::Directory => scratch(path).map(|file| (file, true)),
        // Opening a pipe would block until the other end is opened.
        other if !matches!(other, FileType::RegularFile | FileType::BlockDevice) => {
            return Fact::unknown(format!("{} is neither a file nor a disk", path.display()));
        }
        _ => open(
            path,
            OFlags::RDONLY | OFlags::DIRECT | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map(|file| (file, false)),
    };
    match attempt {
        Ok((file, writing)) => Fact::Known(try_transfer(&file, writing)),
        Err(Errno::INVAL) => Fact::Known(DirectSupport {
            honoured: false,
            tried: "open with O_DIRECT: EINVAL".to_string(),
            offset_align_bytes: Fact::unknown("O_DIRECT is refused"),
        }),
        Err(error) => Fact::unknown(format!(
            "cannot {} {}: {}",
            if is_folder { "make a file in" } else { "read" },
            path.display(),
            plain(&error.into())
        )),
    }
}

/// An unnamed file, or one that is unlinked at once if there is no `O_TMPFILE`.
fn scratch(folder: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match open(folder, flags | OFlags::TMPFILE, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {
            let name: PathBuf = folder.join(format!(".stormlp-probe-{}", std::process::id()));
            let file = open(&name, flags | OFlags::CREATE | OFlags::EXCL, mode);
            // Some file systems create the file and then reject the flag.
            if matches!(file, Ok(_) | Err(Errno::INVAL)) {
                let _ = rustix::fs::unlink(&name);
            }
            file
        }
        other => other,
    }
}

fn try_transfer(file: &OwnedFd, writing: bool) -> DirectSupport {
    let mut memory = vec![0u8; 2 * BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK).min(BLOCK);
    let block = &mut memory[start..start + BLOCK];
    let (verb, outcome) =
        if writing { ("write", pwrite(file, block, 0)) } else { ("read", pread(file, block, 0)) };
    DirectSupport {
        honoured: outcome.is_ok(),
        tried: match outcome {
            Ok(moved) => {
                let by = buffered_by(file).map(|by| format!(", which {by} buffers"));
                let by = by.unwrap_or_default();
                format!("{verb} of {BLOCK} bytes with O_DIRECT: {moved} bytes{by}")
            }
            Err(error) => {
                format!("{verb} of {BLOCK} bytes with O_DIRECT: {}", plain(&error.into()))
            }
        },
        offset_align_bytes: alignment(file),
    }
}

/// The file system that buffers direct transfers of `file` instead of refusing them, if it is known to:
/// zfs before 2.3, and btrfs since Linux 6.14 for writes to files with checksums.
pub(crate) fn buffered_by(file: impl AsFd) -> Option<&'static str> {
    const ZFS: u64 = 0x2fc1_2fc1;
    const BTRFS: u64 = 0x9123_683e;
    match fstatfs(&file).ok()?.f_type as u64 {
        ZFS => {
            let version = std::fs::read_to_string("/sys/module/zfs/version").unwrap_or_default();
            (!is_at_least(&version, [2, 3])).then_some("zfs")
        }
        BTRFS => {
            let access = fcntl_getfl(&file).ok()?;
            let kernel = rustix::system::uname();
            let is_checked = !ioctl_getflags(&file).is_ok_and(|own| own.contains(IFlags::NOCOW));
            let is_new = is_at_least(&kernel.release().to_string_lossy(), [6, 14]);
            let writes = access.intersects(OFlags::WRONLY | OFlags::RDWR);
            (is_checked && is_new && writes).then_some("btrfs")
        }
        _ => None,
    }
}

/// Whether a version such as `6.14.0-rc1` is at least this one.
fn is_at_least(version: &str, least: [u32; 2]) -> bool {
    let numbers =
        version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    numbers.take(2).collect::<Vec<u32>>().as_slice() >= &least[..]
}

/// The alignment of offsets from `statx(2)`, on kernels since 6.1 and file systems that report it.
fn alignment(file: &OwnedFd) -> Fact<u32> {
    match statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(stat) if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            Fact::Known(stat.stx_dio_offset_align)
        }
        Ok(_) => Fact::unknown("statx reports no alignment here"),
        Err(error) => Fact::unknown(format!("statx: {}", plain(&error.into()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probing_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let support = probe(folder.path());
        assert!(support.known().unwrap().tried.contains("O_DIRECT"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_known_file_systems_buffer_what_is_direct() {
        assert_eq!(buffered_by(tempfile::tempfile().unwrap()), None);
        assert!(is_at_least("6.14.0-rc1", [6, 14]) && is_at_least("10.0", [6, 14]));
        assert!(!is_at_least("6.9.3", [6, 14]) && !is_at_least("", [2, 3]));
        assert!(is_at_least("2.3.1-1", [2, 3]) && !is_at_least("2.2.7", [2, 3]));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_unknown_not_refused() {
        assert!(probe(Path::new("/proc/self")).known().is_none());
        assert!(probe(Path::new("/does/not/exist")).known().is_none());
    }
}
