//! Files in folders, as the kernel has them.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, fchown};
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FallocateFlags, FileType, Mode, OFlags, Statx, StatxFlags, fallocate,
    fcntl_setfl, statvfs, statx,
};
use rustix::io::Errno;

use super::found::{Entry, Facts, Kind, Space};
use super::handle::Access;
use super::reach::{self, Spot};
use super::services::unless_refused;
use crate::error::TransferError;
use crate::watchdog::{Hang, enter};
use stormlp_core::facts::Identity;

/// The kernel's facts about a name.
pub(super) fn look(path: &Path) -> Result<Option<Facts>, TransferError> {
    let look = || {
        let spot = Spot::of(path)?;
        facts(spot.folder(), &spot.name, !spot.is_held())
    };
    match look() {
        Ok(facts) => Ok(Some(facts).filter(|facts| facts.kind != Kind::Nothing)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(TransferError::file("inspect", path, reach::told(errno))),
    }
}

/// The entries of a folder.
pub(super) fn list(folder: &Path) -> Result<Vec<Entry>, TransferError> {
    let read = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let itself = |errno| (errno, None);
        let (opened, held) = reach::open(folder, flags).map_err(itself)?;
        // The held folder itself is not below one, but its contents are.
        let follow = !held && !reach::is_held(folder);
        let mut entries = Vec::new();
        for entry in Dir::read_from(&opened).map_err(itself)? {
            let name = entry.map_err(itself)?.file_name().to_owned();
            let name = OsString::from_vec(name.into_bytes());
            if name == "." || name == ".." || is_removed_while_open(&name) {
                continue;
            }
            match facts(opened.as_fd(), Path::new(&name), follow) {
                Ok(facts) => entries.push(Entry { name, facts }),
                // Removed meanwhile.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err((errno, Some(name))),
            }
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    };
    read().map_err(|(errno, entry): (Errno, Option<OsString>)| match entry {
        None => TransferError::file("read the folder", folder, reach::told(errno)),
        Some(name) => TransferError::file("inspect", folder.join(name), reach::told(errno)),
    })
}

/// Opens a file that can hold data.
pub(super) fn open(path: &Path, access: Access, direct: bool) -> Result<File, TransferError> {
    let mode = match access {
        Access::Read => OFlags::RDONLY,
        Access::ReadWrite | Access::Create => OFlags::RDWR,
    };
    let kept = if direct { OFlags::DIRECT } else { OFlags::empty() };
    // Opening a pipe would block until the other end is opened.
    let flags = mode | kept | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let _call = enter(Hang::Open);
    let opened = match access {
        Access::Read | Access::ReadWrite => reach::open(path, flags),
        Access::Create => create(path, flags),
    };
    let usable = opened.map_err(|errno| match errno {
        // A pipe without a reader, a socket, or a device node without a device.
        Errno::NXIO => irregular(type_of(path)),
        errno => reach::told(errno),
    });
    usable
        .and_then(|(file, held)| regular(file, held, kept))
        .map_err(|source| TransferError::file("open", path, source))
}

/// Allocates the blocks of a file.
pub(super) fn preallocate(file: &File, path: &Path, bytes: u64) -> Result<(), TransferError> {
    if bytes == 0 {
        return Ok(());
    }
    match unless_refused(fallocate(file, FallocateFlags::empty(), 0, bytes)) {
        Ok(Some(())) => Ok(()),
        Ok(None) => file
            .set_len(bytes)
            .map_err(|source| TransferError::file("set the size of", path, source)),
        Err(errno) => Err(TransferError::file("preallocate", path, errno.into())),
    }
}

/// Gives a new file the mode of the one at `path`, if there is one, and its owner if this user may.
pub(super) fn take_after(file: &File, path: &Path) -> Result<(), TransferError> {
    let Ok(old) = path.symlink_metadata() else { return Ok(()) };
    let owned = |of: &Metadata| (of.uid(), of.gid());
    let set = |new: &Metadata| match owned(new) == owned(&old) {
        true => file.set_permissions(old.permissions()),
        // Only root may give files away; the mode is kept all the same.
        false => match fchown(file, Some(old.uid()), Some(old.gid())) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Err(error),
            _ => file.set_permissions(old.permissions()),
        },
    };
    let kept = file.metadata().and_then(|new| set(&new));
    kept.map_err(|source| TransferError::file("keep the owner and mode of", path, source))
}

/// Reads at an offset.
pub(super) fn read_at(
    file: &File,
    path: &Path,
    offset: u64,
    buffer: &mut [u8],
) -> Result<usize, TransferError> {
    loop {
        match file.read_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => {
                return read.map_err(|source| TransferError::file("read", path, source).at(offset));
            }
        }
    }
}

/// The extended attribute of files that stormlp created.
const MARK: &str = "user.stormlp";

/// Marks a file or folder as created by stormlp, where the file system can keep the mark.
pub(super) fn mark(file: impl AsFd) {
    let _ = rustix::fs::fsetxattr(file, MARK, b"1", rustix::fs::XattrFlags::empty());
}

/// Whether a file or folder has the mark.
pub(super) fn is_marked(file: impl AsFd) -> bool {
    rustix::fs::fgetxattr(file, MARK, &mut [0_u8; 8][..]).is_ok()
}

/// Whether the file system of a file is known to keep no marks, as NFS before 4.2.
pub(super) fn keeps_no_marks(path: &Path) -> bool {
    let mark = |file: File| rustix::fs::fgetxattr(file, MARK, &mut [0_u8; 8][..]);
    open(path, Access::Read, false)
        .is_ok_and(|file| mark(file).is_err_and(|errno| errno == Errno::OPNOTSUPP))
}

/// The longest text that is read: the manifest of ten million files has half of it.
pub(super) const TEXT_BYTES: u64 = 4 << 30;

/// All that `read` returns from the start of a small file to its end, which must be UTF-8.
pub(super) fn text(
    path: &Path,
    read: impl Fn(u64, &mut [u8]) -> Result<usize, TransferError>,
) -> Result<String, TransferError> {
    let (mut content, mut filled) = (Vec::new(), 0);
    loop {
        content.resize(filled + (64 << 10), 0);
        match read(filled as u64, &mut content[filled..])? {
            0 => break,
            // Whoever can write to a folder can put a sparse file there.
            _ if filled as u64 > TEXT_BYTES => {
                return Err(TransferError::refused("read", path, "it is too long for a text"));
            }
            read => filled += read,
        }
    }
    content.truncate(filled);
    String::from_utf8(content).map_err(|error| {
        TransferError::file("read", path, io::Error::new(io::ErrorKind::InvalidData, error))
    })
}

/// Writes all of `bytes` at an offset.
pub(super) fn write_at(
    file: &File,
    path: &Path,
    offset: u64,
    bytes: &[u8],
) -> Result<(), TransferError> {
    let mut written = 0;
    while written < bytes.len() {
        let at = offset + written as u64;
        match file.write_at(&bytes[written..], at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) => {
                let nothing = io::ErrorKind::WriteZero.into();
                return Err(TransferError::file("write", path, nothing).at(at));
            }
            more => {
                written +=
                    more.map_err(|source| TransferError::file("write", path, source).at(at))?;
            }
        }
    }
    Ok(())
}

/// Creates a folder and its missing parents; marks it if it is new.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    let is_new = !folder.is_dir();
    reach::make_folder(folder)?;
    if is_new && let Ok(made) = open_folder(folder) {
        mark(made);
    }
    Ok(())
}

/// Creates a folder in an existing one.
pub(super) fn make_new_folder(folder: &Path) -> Result<bool, TransferError> {
    let make = || {
        let spot = Spot::of(folder)?;
        rustix::fs::mkdirat(spot.folder(), &spot.name, Mode::from_raw_mode(0o777))
    };
    match make() {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(TransferError::file("make the folder", folder, reach::told(errno))),
    }
}

/// Renames a file or folder.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), TransferError> {
    let rename = || {
        let (from, to) = (Spot::of(from)?, Spot::of(to)?);
        rustix::fs::renameat(from.folder(), &from.name, to.folder(), &to.name)
    };
    rename().map_err(|errno| TransferError::file("rename", from, reach::told(errno)))?;
    reach::forget(from);
    reach::forget(to);
    Ok(())
}

/// Removes a file or link.
pub(super) fn remove(path: &Path) -> Result<bool, TransferError> {
    match unlink(path, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(errno) => Err(TransferError::file("remove", path, reach::told(errno))),
    }
}

/// Removes an empty folder.
pub(super) fn remove_folder(folder: &Path) -> Result<bool, TransferError> {
    match unlink(folder, AtFlags::REMOVEDIR) {
        Ok(()) => {
            reach::forget(folder);
            Ok(true)
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(errno) => Err(TransferError::file("remove", folder, reach::told(errno))),
    }
}

/// The space of a file system.
pub(super) fn space(path: &Path) -> Result<Option<Space>, TransferError> {
    let stat = unless_refused(statvfs(path))
        .map_err(|errno| TransferError::file("query the free space of", path, errno.into()))?;
    // A FUSE server without the call has no blocks at all.
    Ok(stat.filter(|stat| stat.f_blocks > 0).map(|stat| Space {
        free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
    }))
}

/// The facts of `name` in a folder; with `follow`, of a link's target.
fn facts(folder: BorrowedFd<'_>, name: &Path, follow: bool) -> Result<Facts, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let stat = statx(folder, name, flags, wanted)?;
    let of = FileType::from_raw_mode(stat.stx_mode.into());
    if of != FileType::Symlink || !follow {
        return Ok(known(folder, name, of, &stat));
    }
    let stat = match statx(folder, name, AtFlags::empty(), wanted) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
            // A dangling link.
            return Ok(Facts { link: true, ..Facts::of(Kind::Nothing) });
        }
        stat => stat?,
    };
    let of = FileType::from_raw_mode(stat.stx_mode.into());
    Ok(Facts { link: true, ..known(folder, name, of, &stat) })
}

fn known(folder: BorrowedFd<'_>, name: &Path, of: FileType, stat: &Statx) -> Facts {
    let (kind, bytes) = match of {
        FileType::RegularFile => (Kind::File, stat.stx_size),
        FileType::Directory => (Kind::Folder, 0),
        FileType::BlockDevice => (Kind::BlockDevice, capacity(folder, name)),
        FileType::Symlink => (Kind::Link, 0),
        _ => (Kind::Other, 0),
    };
    let born = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
    Facts {
        kind,
        bytes,
        allocated_bytes: stat.stx_blocks.saturating_mul(512),
        changed_ns: nanoseconds(stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        identity: Identity {
            inode: stat.stx_ino,
            born_ns: born.then(|| nanoseconds(stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)),
        },
        link: kind == Kind::Link,
        file_system_id: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
        owner: stat.stx_uid,
    }
}

fn nanoseconds(seconds: i64, nanoseconds: u32) -> u64 {
    seconds.max(0).unsigned_abs() * 1_000_000_000 + u64::from(nanoseconds)
}

/// Whether a name is one under which NFS (`.nfs…`) and FUSE (`.fuse_hidden…`) keep a file that was
/// removed while it was open, until it is closed.
fn is_removed_while_open(name: &OsStr) -> bool {
    let hidden = |name: &str| {
        let number = name.strip_prefix(".nfs").or_else(|| name.strip_prefix(".fuse_hidden"))?;
        Some(number.len() >= 16 && number.bytes().all(|digit| digit.is_ascii_hexdigit()))
    };
    name.to_str().and_then(hidden).unwrap_or(false)
}

/// The capacity of a block device, found by seeking to its end; 0 if it cannot be opened.
fn capacity(folder: BorrowedFd<'_>, name: &Path) -> u64 {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty())
        .and_then(|device| rustix::fs::seek(device, rustix::fs::SeekFrom::End(0)))
        .unwrap_or(0)
}

/// Opens a folder to sync it or its file system.
pub(super) fn open_folder(folder: &Path) -> Result<OwnedFd, TransferError> {
    reach::open(folder, OFlags::RDONLY | OFlags::DIRECTORY)
        .map(|(opened, _)| opened)
        .map_err(|errno| TransferError::file("open", folder, reach::told(errno)))
}

/// Removes a name, never a link's target.
fn unlink(path: &Path, flags: AtFlags) -> Result<(), Errno> {
    let spot = Spot::of(path)?;
    rustix::fs::unlinkat(spot.folder(), &spot.name, flags)
}

/// Creates a new file exclusively: an existing file of that name is removed first, never
/// truncated, since it may have other names too.
fn create(path: &Path, flags: OFlags) -> Result<(OwnedFd, bool), Errno> {
    let spot = Spot::of(path)?;
    // Exclusive creation follows no link either. O_NOFOLLOW would stay set on the file, and cuFile
    // rejects files with unknown flags.
    let flags = flags | OFlags::CREATE | OFlags::EXCL;
    let mode = Mode::from_raw_mode(0o666);
    loop {
        match rustix::fs::openat(spot.folder(), &spot.name, flags, mode) {
            Err(Errno::EXIST) => {}
            opened => return Ok((opened?, spot.is_held())),
        }
        match facts(spot.folder(), &spot.name, false) {
            Ok(Facts { kind: Kind::File, .. }) => {
                rustix::fs::unlinkat(spot.folder(), &spot.name, AtFlags::empty())?;
            }
            Ok(Facts { kind: Kind::Link, .. }) => return Err(Errno::LOOP),
            Ok(Facts { kind: Kind::Folder, .. }) => return Err(Errno::ISDIR),
            Ok(_) => return Err(Errno::NXIO),
            // Removed meanwhile.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// An opened file, if it can hold data: a block device is accepted only if it was named
/// explicitly.
fn regular(file: OwnedFd, held: bool, kept: OFlags) -> io::Result<File> {
    let stat = rustix::fs::fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::BlockDevice if !held => {}
        other => return Err(irregular(other)),
    }
    // Regular files and block devices do not block; with O_NONBLOCK io_uring would return EAGAIN
    // instead of waiting.
    fcntl_setfl(&file, kept)?;
    Ok(file.into())
}

/// The type of a file that cannot be opened.
fn type_of(path: &Path) -> FileType {
    let look = || -> Result<FileType, Errno> {
        let spot = Spot::of(path)?;
        let flags = if spot.is_held() { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
        let stat = statx(spot.folder(), &spot.name, flags, StatxFlags::TYPE)?;
        Ok(FileType::from_raw_mode(stat.stx_mode.into()))
    };
    look().unwrap_or(FileType::Unknown)
}

fn irregular(of: FileType) -> io::Error {
    io::Error::other(match of {
        FileType::Directory => "it is a folder, not a file",
        FileType::Fifo | FileType::Socket => "it is a pipe or a socket, not a file",
        FileType::BlockDevice | FileType::CharacterDevice => "it is a device, not a file",
        _ => "it is not a regular file",
    })
}

#[cfg(test)]
mod tests;
