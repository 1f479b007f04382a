//! What ends a checkpoint run before its time.

use std::path::PathBuf;

use stormlp_core::report::FailureCause;
use stormlp_hosts::GroupError;
use stormlp_transfer::TransferError;
use stormlp_transfer::crew::{CrewError, Panicked};
use stormlp_transfer::storage::LockError;

use stormlp_transfer::fallback;

/// Why a run, or one checkpoint of it, failed.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Another run has the directory, or its lock cannot be made.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file, a buffer, a path or a device failed.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The disk filled up.
    #[error("no space left while saving {path}: {}", .source.reason())]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// What was refused.
        source: TransferError,
    },
    /// `fsync` failed: the kernel may have dropped what it could not write.
    #[error(
        "data loss: fsync of {path} failed ({}); what was written may be lost, and asking again \
         would hide that, so it was not retried",
        .source.reason()
    )]
    DataLoss {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: TransferError,
    },
    /// A file ended before its size.
    #[error("{path} ended after {found} bytes; it must have {expected}")]
    Short {
        /// The file.
        path: PathBuf,
        /// Bytes that are there.
        found: u64,
        /// Bytes that must be there.
        expected: u64,
    },
    /// Storage gave back other bytes than were written.
    #[error("{path} holds wrong data at byte {at}: {found:#04x} instead of {expected:#04x}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Position of the first wrong byte.
        at: u64,
        /// The byte that should be there.
        expected: u8,
        /// The byte that is there.
        found: u8,
    },
    /// Something is in the way that stormlp did not make.
    #[error("{path} is in the way and was not made by stormlp")]
    InTheWay {
        /// What is in the way.
        path: PathBuf,
    },
    /// A file of an earlier checkpoint is not what its marker says any more.
    #[error("{path} is {found}, which is not what stormlp made there; it is left as it is")]
    Changed {
        /// The file.
        path: PathBuf,
        /// What it is now.
        found: String,
    },
    /// A checkpoint of another job is where one is to be saved.
    #[error("{path} is of {other}; a save would replace it")]
    Another {
        /// The checkpoint.
        path: PathBuf,
        /// In what it differs.
        other: String,
    },
    /// A thread of the run panicked, or could not be started.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// cuFile's path fell back, and nothing else was to do.
    #[error("{summary}")]
    FellBack {
        /// What ran, and that it was forbidden.
        summary: String,
    },
    /// Another host did not come, or cannot be heard.
    #[error(transparent)]
    Hosts(#[from] GroupError),
    /// The time at which all hosts begin had passed when this one was ready.
    #[error("--start-at had passed by {seconds:.1} s when this host was ready to begin")]
    Late {
        /// By how much.
        seconds: f64,
    },
    /// The run was asked to drop files from the page cache, and they are still there.
    #[error(
        "{share:.0} % of checkpoint {step} is still in the page cache after it was dropped; a \
         cold restore cannot be measured here"
    )]
    StillCached {
        /// The checkpoint.
        step: u32,
        /// Percent of its bytes that are in the page cache.
        share: f64,
    },
}

impl CheckpointError {
    /// Whose fault it was.
    pub(super) fn cause(&self) -> FailureCause {
        match self {
            Self::Crew(CrewError::Panicked(_)) => FailureCause::Internal,
            Self::Crew(CrewError::Start(_)) => FailureCause::Resources,
            Self::Hosts(_) => FailureCause::Hosts,
            _ => FailureCause::Storage,
        }
    }

    /// What the user can do now; in a closed run only what its rules permit.
    pub fn remedy(&self, closed: bool) -> &'static str {
        match self {
            Self::Hosts(error) => error.remedy(),
            Self::Lock(LockError::Held { .. }) => "wait for the other run, or use another --dir",
            Self::Lock(LockError::File(_)) => "change its permissions, or use another --dir",
            Self::Transfer(error) if error.errno() == Some(ENOENT) => {
                "something removed it during the run: keep others out of the directory, or use \
                 another --dir"
            }
            Self::Transfer(_) => {
                "look at the kernel's log for the device, then run it again; `stormlp doctor` \
                 shows what is there"
            }
            Self::NoSpace { .. } if closed => {
                "free some space or use another --dir; the checkpoint is marked incomplete, \
                 earlier ones are untouched"
            }
            Self::NoSpace { .. } => {
                "free some space or use --scale, --keep or another --dir; the checkpoint is \
                 marked incomplete, earlier ones are untouched"
            }
            Self::DataLoss { .. } => {
                "look at the kernel's log: the device or its connection lost writes; the \
                 checkpoint is marked incomplete"
            }
            Self::Short { .. } => "save it again: the file is not whole",
            Self::Corrupt { .. } => {
                "do not trust this storage; look at the kernel's log, or save again if something \
                 else wrote to the file"
            }
            Self::InTheWay { .. } | Self::Changed { .. } => "use another --dir, or move it away",
            Self::Crew(CrewError::Start(_)) => {
                "allow this user more threads (ulimit -u), or use fewer ranks"
            }
            Self::Crew(CrewError::Panicked(_)) => {
                "please report it, with the command and what stormlp printed; a checkpoint that \
                 was being saved is marked incomplete, others are untouched"
            }
            Self::FellBack { .. } => fallback::REMEDY,
            Self::Another { .. } => "use another --dir, or remove it first with --clean",
            Self::Late { .. } => "run again on every host with a later --start-at",
            Self::StillCached { .. } if closed => {
                "use a directory on a file system that gives up its cached pages"
            }
            Self::StillCached { .. } => {
                "use --path cpu to read around the page cache, or leave --cold out"
            }
        }
    }

    /// What a failed `fsync` of `path` means: lost data, unless the disk was only full.
    pub(super) fn on_sync(path: &std::path::Path, source: TransferError) -> Self {
        let path = path.to_path_buf();
        match source.errno() {
            Some(ENOSPC | EDQUOT) => Self::NoSpace { path, source },
            _ => Self::DataLoss { path, source },
        }
    }

    /// A transfer error on `path` in its own words, or as a full disk.
    pub(super) fn on(path: &std::path::Path, source: TransferError) -> Self {
        match source.errno() {
            Some(ENOSPC | EDQUOT) => Self::NoSpace { path: path.to_path_buf(), source },
            _ => Self::Transfer(source.named(path)),
        }
    }
}

impl From<Panicked> for CheckpointError {
    fn from(panicked: Panicked) -> Self {
        Self::Crew(panicked.into())
    }
}

/// Linux's error numbers for a name that is not there, a full disk and a full quota; the same on
/// every architecture.
const ENOENT: i32 = 2;
const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;
