//! How files are reached. A folder that a run writes to is *held*: everything below it is opened,
//! created, renamed and removed by descriptors relative to the folder itself, and no link is
//! followed on the way. Otherwise anyone who may write to the folder could redirect a run to any
//! other file. The held folder itself, and files that are named explicitly, may be links: that is
//! the user's choice.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use stormlp_core::location::names_object;

use super::found::Facts;
use crate::error::{LinkInTheWay, TransferError};

/// Flags for opening parent folders: enough to continue from them.
const ON_THE_WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// No links anywhere, and no escape from the folder.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
/// Subfolders of a held folder that are kept open, since the next file is likely in the same one.
const KEPT_FOLDERS: usize = 16;
/// How often a lookup is retried that the kernel aborted because of a concurrent rename.
const TRIES: usize = 64;

/// The held folders. They belong to the process, like its current directory.
static HELD: RwLock<Vec<Held>> = RwLock::new(Vec::new());

/// A held folder with the names it may be called by.
struct Held {
    as_named: PathBuf,
    absolute: PathBuf,
    /// Set once it exists.
    folder: Option<Arc<Opened>>,
}

struct Opened {
    folder: Arc<OwnedFd>,
    /// The subfolders where files were last reached, by relative path.
    kept: Mutex<Vec<(PathBuf, Arc<OwnedFd>)>>,
}

impl Held {
    /// The part of `path` below the folder; empty for the folder itself.
    fn rest<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        let rest = path.strip_prefix(&self.as_named);
        rest.or_else(|_| path.strip_prefix(&self.absolute)).ok()
    }
}

/// Holds a folder from now on; it need not exist yet. If it is already held, its subfolders are
/// looked up again: another host may have replaced them.
pub(super) fn hold(folder: &Path) {
    let mut held = HELD.write().unwrap_or_else(PoisonError::into_inner);
    match held.iter().find(|one| one.as_named == folder) {
        Some(one) => {
            if let Some(opened) = &one.folder {
                opened.lock().clear();
            }
        }
        None => held.push(Held {
            as_named: folder.to_path_buf(),
            absolute: std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf()),
            folder: Opened::at(folder).ok(),
        }),
    }
}

/// Forgets the identity of a folder that was removed or renamed: there may be a new one. Anything
/// but a folder is ignored.
pub(super) fn forget(folder: &Path) {
    let is_open = |held: &Held| held.as_named == folder && held.folder.is_some();
    let known = HELD.read().unwrap_or_else(PoisonError::into_inner);
    for one in known.iter() {
        if let (Some(rest), Some(opened)) = (one.rest(folder), &one.folder) {
            opened.lock().retain(|(at, _)| !at.starts_with(rest));
        }
    }
    if !known.iter().any(is_open) {
        return;
    }
    drop(known);
    let mut held = HELD.write().unwrap_or_else(PoisonError::into_inner);
    for one in held.iter_mut().filter(|one| is_open(one)) {
        one.folder = None;
    }
}

/// Whether `folder` itself is held.
pub(super) fn is_held(folder: &Path) -> bool {
    let held = HELD.read().unwrap_or_else(PoisonError::into_inner);
    let mut rests = held.iter().filter_map(|one| one.rest(folder));
    rests.any(|rest| rest == Path::new(""))
}

/// A name and the folder it is looked up in.
pub(super) struct Spot {
    /// The held folder; names outside held folders are looked up as usual.
    folder: Option<Arc<OwnedFd>>,
    /// A single name below a held folder; any path elsewhere.
    pub(super) name: PathBuf,
}

impl Spot {
    /// The spot of `path`; its last component is not resolved.
    pub(super) fn of(path: &Path) -> Result<Self, Errno> {
        let Some((held, rest)) = beneath(path)? else {
            return Ok(Self { folder: None, name: path.to_path_buf() });
        };
        let name = rest.file_name().ok_or(Errno::XDEV)?;
        let folder = match parent(rest) {
            above if above == Path::new(".") => Arc::clone(&held.folder),
            above => held.beneath(above)?,
        };
        Ok(Self { folder: Some(folder), name: name.into() })
    }

    /// The folder the name is looked up in.
    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_ref().map_or(CWD, AsFd::as_fd)
    }

    /// Whether the spot lies below a held folder.
    pub(super) fn is_held(&self) -> bool {
        self.folder.is_some()
    }
}

/// Opens `path`: without following links below a held folder, as usual elsewhere.
///
/// # Returns
/// The descriptor, and whether it lies below a held folder.
pub(super) fn open(path: &Path, flags: OFlags) -> Result<(OwnedFd, bool), Errno> {
    let flags = flags | OFlags::CLOEXEC;
    match beneath(path)? {
        Some((held, rest)) => Ok((open_beneath(&held.folder, rest, flags, Mode::empty())?, true)),
        None => Ok((rustix::fs::open(path, flags, Mode::empty())?, false)),
    }
}

/// Opens a folder, following links.
pub(super) fn open_folder(folder: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(folder, ON_THE_WAY, Mode::empty())
}

/// Creates a folder and its missing parents.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    let top = {
        let held = HELD.read().unwrap_or_else(PoisonError::into_inner);
        let of = |held: &Held| held.rest(folder).map(|rest| (held.as_named.clone(), rest));
        held.iter().filter_map(of).min_by_key(|(_, rest)| rest.as_os_str().len())
    };
    let Some((top, rest)) = top.filter(|(_, rest)| *rest != Path::new("")) else {
        return make_top(folder);
    };
    make_top(&top)?;
    let Some((held, _)) = beneath(folder)? else {
        return Err(Errno::NOENT.into());
    };
    let mut at: Option<OwnedFd> = None;
    for part in rest.components() {
        let from = at.as_ref().map_or(held.folder.as_fd(), AsFd::as_fd);
        match rustix::fs::mkdirat(from, part.as_os_str(), Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(told(errno)),
        }
        at = Some(next(from, part, ON_THE_WAY, Mode::empty()).map_err(told)?);
    }
    Ok(())
}

/// Creates a folder outside held folders.
fn make_top(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| match dead_link(folder) {
        Some(link) => io::Error::other(LinkInTheWay(format!(
            "{} is a link that does not lead to a folder",
            link.display()
        ))),
        None => error,
    })
}

/// The link in `path` that does not lead to a folder: `folder` itself or one of its parents.
pub fn dead_link(folder: &Path) -> Option<&Path> {
    let mut ancestors = folder.ancestors();
    ancestors.find(|path| path.is_symlink() && !path.is_dir())
}

/// The error for a name below a held folder, with a clearer message: the kernel reports "too many
/// links" if there was a link.
pub(super) fn told(errno: Errno) -> io::Error {
    match errno {
        Errno::LOOP => io::Error::other(LinkInTheWay(
            "the path contains a link, and links are not followed in a folder that stormlp writes to; \
             put the data itself there, or name the folder that the link points to"
                .to_string(),
        )),
        Errno::XDEV => io::Error::other("it points outside its folder"),
        errno => errno.into(),
    }
}

/// The innermost held folder around `path`, and the part of the path below it. `None` if no folder
/// around it is held, and for a held folder itself.
fn beneath(path: &Path) -> Result<Option<(Arc<Opened>, &Path)>, Errno> {
    let found = {
        let held = HELD.read().unwrap_or_else(PoisonError::into_inner);
        let one = innermost(held.iter(), path);
        match one.and_then(|one| Some((one, one.rest(path)?))) {
            None => return Ok(None),
            Some((_, rest)) if rest == Path::new("") => return Ok(None),
            Some((one, rest)) => (one.folder.clone(), one.as_named.clone(), rest),
        }
    };
    match found {
        (Some(folder), _, rest) => Ok(Some((folder, rest))),
        // It did not exist when it was held.
        (None, named, rest) => {
            let folder = Opened::at(&named)?;
            let mut held = HELD.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(one) = held.iter_mut().find(|one| one.as_named == named) {
                one.folder = Some(Arc::clone(&folder));
            }
            Ok(Some((folder, rest)))
        }
    }
}

/// The innermost held folder around `path`.
fn innermost<'a>(held: impl Iterator<Item = &'a Held>, path: &Path) -> Option<&'a Held> {
    held.filter_map(|one| Some((one, one.rest(path)?)))
        .min_by_key(|(_, rest)| rest.as_os_str().len())
        .map(|(one, _)| one)
}

impl Opened {
    fn at(folder: &Path) -> Result<Arc<Self>, Errno> {
        Ok(Arc::new(Self { folder: Arc::new(open_folder(folder)?), kept: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(PathBuf, Arc<OwnedFd>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The subfolder `above`, which stays open for the next file in it.
    fn beneath(&self, above: &Path) -> Result<Arc<OwnedFd>, Errno> {
        if let Some((_, folder)) = self.lock().iter().find(|(at, _)| at == above) {
            return Ok(Arc::clone(folder));
        }
        let folder = Arc::new(open_beneath(&self.folder, above, ON_THE_WAY, Mode::empty())?);
        let mut kept = self.lock();
        if kept.len() == KEPT_FOLDERS {
            kept.remove(0);
        }
        kept.push((above.to_path_buf(), Arc::clone(&folder)));
        Ok(folder)
    }
}

/// Opens a path below a folder without following links.
fn open_beneath(
    folder: &OwnedFd,
    rest: &Path,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    if !has_openat2() {
        return open_stepwise(folder, rest, flags, mode);
    }
    let mut tries = 0;
    loop {
        match rustix::fs::openat2(folder, rest, flags, mode, BENEATH) {
            Err(Errno::AGAIN) if tries < TRIES => tries += 1,
            opened => return opened,
        }
    }
}

/// Whether the kernel has `openat2` (Linux 5.6) and lets this process call it.
fn has_openat2() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        rustix::fs::openat2(CWD, ".", ON_THE_WAY, Mode::empty(), ResolveFlags::NO_SYMLINKS).is_ok()
    })
}

/// The same on older kernels: one path component at a time.
fn open_stepwise(
    folder: &OwnedFd,
    rest: &Path,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let mut at: Option<OwnedFd> = None;
    let mut parts = rest.components().peekable();
    while let Some(part) = parts.next() {
        let from = at.as_ref().map_or(folder.as_fd(), AsFd::as_fd);
        at = Some(match parts.peek() {
            Some(_) => next(from, part, ON_THE_WAY, Mode::empty())?,
            None => plain(next(from, part, flags, mode)?, flags),
        });
    }
    at.ok_or(Errno::XDEV)
}

/// The same file without `O_NOFOLLOW`, which would stay set on it: cuFile rejects files with
/// unknown flags. Without `/proc` the file is returned as is.
fn plain(opened: OwnedFd, flags: OFlags) -> OwnedFd {
    let itself = format!("/proc/self/fd/{}", opened.as_raw_fd());
    rustix::fs::openat(CWD, itself, flags, Mode::empty()).unwrap_or(opened)
}

/// Opens one path component, which must not be a link.
fn next(
    from: BorrowedFd<'_>,
    part: Component<'_>,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let Component::Normal(name) = part else {
        return Err(Errno::XDEV);
    };
    let opened = rustix::fs::openat(from, name, flags | OFlags::NOFOLLOW, mode);
    // A link in place of a folder is reported as "not a folder".
    let is_link = || {
        let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    };
    match opened {
        Err(Errno::NOTDIR) if is_link() => Err(Errno::LOOP),
        opened => opened,
    }
}

/// The path itself, or its nearest existing parent; an object has none.
pub(super) fn nearest(
    path: &Path,
    look: impl Fn(&Path) -> Result<Option<Facts>, TransferError>,
) -> Result<PathBuf, TransferError> {
    if names_object(path) {
        return Ok(path.to_path_buf());
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for path in absolute.ancestors() {
        match look(path) {
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

/// The folder that a file lies in.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder with a file in a subfolder, links to both, and a link out of it.
    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/file"), "x").unwrap();
        symlink("sub", folder.path().join("linked")).unwrap();
        symlink("sub/file", folder.path().join("link")).unwrap();
        symlink("/etc", folder.path().join("out")).unwrap();
        folder
    }

    #[test]
    fn both_ways_reach_files_without_following_links() {
        type Open = fn(&OwnedFd, &Path, OFlags, Mode) -> Result<OwnedFd, Errno>;
        let tree = tree();
        let top = open_folder(tree.path()).unwrap();
        for open in [open_beneath as Open, open_stepwise as Open] {
            let open = |name: &str| {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                open(&top, Path::new(name), flags, Mode::empty()).map(drop)
            };
            assert_eq!(open("sub/file"), Ok(()));
            assert_eq!(open("sub/none"), Err(Errno::NOENT));
            for link in ["link", "linked/file", "out/passwd"] {
                assert_eq!(open(link), Err(Errno::LOOP), "{link}");
            }
            assert_eq!(open("../x"), Err(Errno::XDEV));
            assert_eq!(open("/etc/passwd"), Err(Errno::XDEV));
        }
    }

    #[test]
    fn a_folder_may_be_held_before_it_exists_and_may_be_a_link() {
        let tree = tree();
        let top = tree.path().join("new");
        hold(&top);
        assert_eq!(open(&top.join("a"), OFlags::RDONLY).map(drop), Err(Errno::NOENT));
        make_folder(&top.join("a/b")).unwrap();
        let (_, held) = open(&top.join("a/b"), ON_THE_WAY).unwrap();
        assert!(held);
        symlink("/etc", top.join("a/out")).unwrap();
        let error = make_folder(&top.join("a/out/c")).unwrap_err();
        assert!(error.to_string().contains("the path contains a link"), "{error}");

        let linked = tree.path().join("linked");
        hold(&linked);
        assert!(open(&linked.join("file"), OFlags::RDONLY).unwrap().1);
        assert!(!open(&linked, ON_THE_WAY).unwrap().1);
    }
}
