//! System calls that serve a run without being its work. Where file systems (NFS, Lustre without
//! `flock`, FUSE, squashfs), old kernels and containers refuse them, a run goes on, with a warning
//! where it matters:
//!
//! | call | instead |
//! |---|---|
//! | `flock` | other runs are not kept out: a warning |
//! | `posix_fadvise` | pages stay, which residency shows: a warning |
//! | `fsync` of a folder | a crash may lose names: a warning |
//! | `fdatasync` before pages are dropped | nothing: a file system without it has no dirty pages |
//! | `fallocate` | the size is set |
//! | `statvfs` | free space is unknown |
//! | `syncfs` | `sync`: a warning |
//! | `cachestat` | `mmap` and `mincore`; without these, residency is unknown |
//!
//! Marks (`fsetxattr`), huge pages (`madvise`) and facts from `/proc` and `/sys` may fail in any way.
//! Every other call, such as `statx`, ends the run.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use stormlp_core::warning::{Warning, WarningKind};

/// The errors that mean a refusal, as opposed to a failure. A container's seccomp profile answers with
/// EPERM or ENOSYS.
const REFUSALS: [Errno; 10] = [
    Errno::NOSYS,
    Errno::OPNOTSUPP,
    Errno::PERM,
    Errno::INVAL,
    Errno::NOLCK,
    Errno::ROFS,
    Errno::SPIPE,
    Errno::NODEV,
    Errno::ACCESS,
    Errno::BADF,
];

/// The result of a call that serves a run; `None` if it is refused.
///
/// # Errors
/// With which it failed.
pub(crate) fn unless_refused<T>(done: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match done {
        Err(errno) if REFUSALS.contains(&errno) => Ok(None),
        done => done.map(Some),
    }
}

/// A call whose refusal a run has to tell.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Told {
    /// `flock`.
    Lock,
    /// `posix_fadvise`.
    Drop,
    /// `fsync` of a folder.
    SyncFolder,
    /// `syncfs`.
    SyncAll,
}

/// For each of them: the kind of warning, what is missing, and the remedy.
const TOLD: [(WarningKind, &str, &str); 4] = [
    (
        WarningKind::KnownIssue,
        "files cannot be locked here, so another stormlp run would not be noticed",
        "start one run at a time; on Lustre, mount with -o flock",
    ),
    (
        WarningKind::CacheState,
        "pages cannot be dropped from the page cache here: reads may come from memory",
        "use --path cpu, or drop the caches as root before the run",
    ),
    (
        WarningKind::NotDurable,
        "folders cannot be synced here: a crash may lose the names of new files",
        "",
    ),
    (
        WarningKind::KnownIssue,
        "one file system cannot be synced here: all were, so a sync may include other data",
        "",
    ),
];

/// The calls that were refused to this process, a bit for each.
static REFUSED: AtomicU32 = AtomicU32::new(0);

impl Told {
    /// As [`unless_refused`]; a refusal is noted.
    ///
    /// # Errors
    /// With which it failed.
    pub(crate) fn unless_refused(self, done: Result<(), Errno>) -> Result<(), Errno> {
        if unless_refused(done)?.is_none() {
            REFUSED.fetch_or(1 << self as u32, Ordering::Relaxed);
            if matches!(self, Self::SyncAll) {
                rustix::fs::sync();
            }
        }
        Ok(())
    }
}

/// The warnings about calls that were refused to this process.
pub fn refusals() -> impl Iterator<Item = Warning> {
    warnings_of(REFUSED.load(Ordering::Relaxed))
}

fn warnings_of(refused: u32) -> impl Iterator<Item = Warning> {
    let told = TOLD.iter().enumerate().filter(move |(nth, _)| refused & (1 << nth) != 0);
    told.map(|(_, (kind, fact, remedy))| Warning::new(*kind, *fact, *remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_goes_on_and_every_failure_ends() {
        for errno in REFUSALS {
            assert_eq!(unless_refused::<()>(Err(errno)), Ok(None), "{errno}");
        }
        for errno in [Errno::IO, Errno::NOSPC, Errno::STALE, Errno::WOULDBLOCK] {
            assert_eq!(Told::Lock.unless_refused(Err(errno)), Err(errno));
        }
        assert_eq!(
            (unless_refused(Ok(7)), unless_refused::<()>(Err(Errno::NOSYS))),
            (Ok(Some(7)), Ok(None))
        );
        let told: Vec<WarningKind> = warnings_of(0b1110).map(|warning| warning.kind).collect();
        let kinds = [WarningKind::CacheState, WarningKind::NotDurable, WarningKind::KnownIssue];
        assert_eq!(told, kinds);
    }
}
