//! Errors that end a checkpoint run early.

use std::path::PathBuf;

use stormlp_core::failure::Failure;
use stormlp_core::note::{Cause, DATA_MISMATCH};
use stormlp_hosts::GroupError;
use stormlp_hosts::company::Company;
use stormlp_transfer::crew::{CrewError, Panicked};
use stormlp_transfer::storage::LockError;
use stormlp_transfer::{DEVICE_HELP, TransferError};

use stormlp_transfer::fallback;

/// Why a run, or one checkpoint of it, failed.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Another run holds the directory, or its lock cannot be created.
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
        /// The failed operation.
        source: TransferError,
    },
    /// `fsync` failed: the kernel may have dropped data it could not write.
    #[error(
        "data loss: fsync of {path} failed ({}); written data may be lost; it was not retried, \
         since that would hide the loss",
        .source.reason()
    )]
    DataLoss {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: TransferError,
    },
    /// A file is shorter than its size.
    #[error("{path} ended after {found} bytes; it must have {expected}")]
    Short {
        /// The file.
        path: PathBuf,
        /// Actual size in bytes.
        found: u64,
        /// Expected size in bytes.
        expected: u64,
    },
    /// Storage returned different data than was written.
    #[error("{DATA_MISMATCH} {path} at offset {at}: read {found:#04x}, expected {expected:#04x}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Offset of the first wrong byte.
        at: u64,
        /// The expected byte.
        expected: u8,
        /// The actual byte.
        found: u8,
    },
    /// Something that stormlp did not make is in the way.
    #[error("{path} is in the way and was not made by stormlp")]
    InTheWay {
        /// What is in the way.
        path: PathBuf,
    },
    /// A file of an earlier checkpoint no longer matches its marker.
    #[error("{path} is {found}, which stormlp did not create; it was left unchanged")]
    Changed {
        /// The file.
        path: PathBuf,
        /// What it is now.
        found: String,
    },
    /// A checkpoint of a different job is where one is to be saved.
    #[error("{path} is of {other}; a save would replace it")]
    Another {
        /// The checkpoint.
        path: PathBuf,
        /// How it differs.
        other: String,
    },
    /// A thread of the run panicked, or could not be started.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// The cuFile path fell back, and the run forbids fallbacks.
    #[error("{summary}")]
    FellBack {
        /// What ran, and that fallbacks are forbidden.
        summary: String,
    },
    /// Another host did not join, or cannot be reached.
    #[error(transparent)]
    Hosts(#[from] GroupError),
    /// The common start time had passed before this host was ready.
    #[error("--start-at had passed by {seconds:.1} s when this host was ready to begin")]
    Late {
        /// Delay in seconds.
        seconds: f64,
    },
    /// Files that the run was asked to drop from the page cache are still there.
    #[error(
        "{share:.0} % of checkpoint {step} is still in the page cache after it was dropped; a \
         cold restore cannot be measured here"
    )]
    StillCached {
        /// The checkpoint's step.
        step: u32,
        /// Percentage of its bytes in the page cache.
        share: f64,
    },
}

impl CheckpointError {
    /// Classifies the cause of the failure.
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Crew(CrewError::Panicked(_)) => Cause::Internal,
            Self::Crew(CrewError::Start(_)) => Cause::Resources,
            Self::Hosts(_) => Cause::Hosts,
            Self::Transfer(error) if error.missing().is_some() => Cause::Machine,
            Self::Transfer(error) if error.is_of_gpu() => Cause::Device,
            _ => Cause::Storage,
        }
    }

    /// The failure of a run that could not start.
    pub fn not_started(self) -> Failure {
        self.not_started_in(Company::Alone, false)
    }

    /// The same in `company`, or of a `closed` run.
    pub fn not_started_in(self, company: Company<'_>, closed: bool) -> Failure {
        let remedy = match (&self, company) {
            (Self::Lock(LockError::Held { .. }), Company::From(_)) => {
                "give every host a --dir of its own: hosts started by their clocks share nothing"
            }
            _ => self.remedy(closed),
        }
        .to_string();
        Failure::new(self.cause_before(), self).with_help(remedy)
    }

    /// The cause of a failure before anything was saved or restored.
    fn cause_before(&self) -> Cause {
        match self {
            Self::Transfer(error)
            | Self::NoSpace { source: error, .. }
            | Self::DataLoss { source: error, .. }
            | Self::Lock(LockError::File(error)) => error.cause(),
            _ => Cause::Machine,
        }
    }

    /// What the user can do now; in a closed run only what the rules permit.
    pub(super) fn remedy(&self, closed: bool) -> &str {
        match self {
            Self::Hosts(error) => error.remedy(),
            Self::Lock(LockError::Held { .. }) => "wait for the other run, or use another --dir",
            Self::Lock(LockError::File(_)) => "change its permissions, or use another --dir",
            Self::Transfer(error) if error.errno() == Some(ENOENT) => {
                "something removed it during the run: keep others out of the directory, or use \
                 another --dir"
            }
            Self::Transfer(error) if error.is_of_gpu() => {
                "`stormlp doctor` shows what can run on this machine"
            }
            Self::Transfer(error) => error.missing().unwrap_or(DEVICE_HELP),
            Self::NoSpace { .. } if closed => {
                "free some space or use another --dir; the checkpoint is not saved, others are \
                 untouched"
            }
            Self::NoSpace { .. } => {
                "free some space or use --scale, --keep or another --dir; the checkpoint is not \
                 saved, others are untouched"
            }
            Self::DataLoss { .. } => {
                "check the kernel log: the device or its connection lost writes; the checkpoint \
                 is not saved"
            }
            Self::Short { .. } => "save it again: the file is incomplete",
            Self::Corrupt { .. } => {
                "do not trust this storage; check the kernel log, or save again if something \
                 else wrote to the file"
            }
            Self::InTheWay { .. } | Self::Changed { .. } => "use another --dir, or move it away",
            Self::Crew(CrewError::Start(_)) => {
                "allow this user more threads (ulimit -u), or use fewer ranks"
            }
            Self::Crew(CrewError::Panicked(_)) => {
                "please report it with the command and stormlp's output; a checkpoint that \
                 was being saved is discarded, others are untouched"
            }
            Self::FellBack { .. } => fallback::REMEDY,
            Self::Another { .. } => {
                "use another --dir, or remove it first with `stormlp clean DIR`"
            }
            Self::Late { .. } => "run again on every host with a later --start-at",
            Self::StillCached { .. } if closed => {
                "use a directory on a file system that can drop its cached pages"
            }
            Self::StillCached { .. } => {
                "use --path cpu to read around the page cache, or leave --cold out"
            }
        }
    }

    /// The meaning of a failed `fsync` of `path`: lost data, unless the disk was merely full.
    pub(super) fn on_sync(path: &std::path::Path, source: TransferError) -> Self {
        let path = path.to_path_buf();
        if source.is_full() {
            Self::NoSpace { path, source }
        } else {
            Self::DataLoss { path, source }
        }
    }

    /// Converts a transfer error on `path`, distinguishing a full disk.
    pub(super) fn on(path: &std::path::Path, source: TransferError) -> Self {
        if source.is_full() {
            Self::NoSpace { path: path.to_path_buf(), source }
        } else {
            Self::Transfer(source.named(path))
        }
    }
}

impl From<Panicked> for CheckpointError {
    fn from(panicked: Panicked) -> Self {
        Self::Crew(panicked.into())
    }
}

/// Linux's error number for a missing file, the same on every architecture.
const ENOENT: i32 = 2;
