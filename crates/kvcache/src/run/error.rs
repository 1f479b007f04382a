//! Errors that end a run early.

use std::path::{Path, PathBuf};

use stormlp_core::failure::Failure;
use stormlp_core::note::{Cause, DATA_MISMATCH};
use stormlp_hosts::GroupError;
use stormlp_transfer::crew::{CrewError, Panicked};
use stormlp_transfer::storage::LockError;
use stormlp_transfer::{DEVICE_HELP, TransferError};

use crate::plan::TraceError;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum KvcacheError {
    /// Another run holds the folder, or its lock cannot be created.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file or a buffer failed.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The disk filled up.
    #[error("no space left while writing {path}: {}", .source.reason())]
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
    /// A file is not as long as it was written.
    #[error("{path} ended after {found} bytes; {expected} were written")]
    Short {
        /// The file.
        path: PathBuf,
        /// Actual size in bytes.
        found: u64,
        /// Expected size in bytes.
        expected: u64,
    },
    /// An entry of the folder that stormlp did not make.
    #[error("{path} is in the way: stormlp did not make it")]
    InTheWay {
        /// The entry.
        path: PathBuf,
    },
    /// The marker of the folder cannot be used.
    #[error("the marker {path} cannot be read: {reason}")]
    Marker {
        /// The marker.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A line of a trace that is wrong now: the file changed since it was read before the run.
    #[error("trace {path}, {wrong}")]
    Trace {
        /// The file.
        path: PathBuf,
        /// The line and what is wrong with it.
        wrong: TraceError,
    },
    /// A byte is not what was written.
    #[error("{DATA_MISMATCH}: {path}, byte {byte} is not what was written")]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// Its place in the object.
        byte: u64,
    },
    /// The file system has no `O_DIRECT`.
    #[error("{path} cannot be opened with O_DIRECT on this file system")]
    NotDirect {
        /// The file.
        path: PathBuf,
    },
    /// An object does not fit, whatever is deleted.
    #[error("an object of {bytes} bytes does not fit into the {capacity_bytes} for objects")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// Room for all objects.
        capacity_bytes: u64,
    },
    /// Another host did not join, or cannot be reached.
    #[error(transparent)]
    Hosts(#[from] GroupError),
    /// The crew could not start, or a thread panicked.
    #[error(transparent)]
    Crew(#[from] CrewError),
}

impl KvcacheError {
    /// Classifies the cause of a failure during the run.
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Crew(CrewError::Panicked(_)) => Cause::Internal,
            Self::Crew(CrewError::Start(_)) => Cause::Resources,
            Self::Transfer(error) if error.missing().is_some() => Cause::Machine,
            Self::NotDirect { .. } => Cause::Machine,
            Self::Hosts(_) => Cause::Hosts,
            _ => Cause::Storage,
        }
    }

    /// The failure of a run that could not start.
    pub fn not_started(self) -> Failure {
        let cause = match &self {
            Self::Transfer(error)
            | Self::NoSpace { source: error, .. }
            | Self::DataLoss { source: error, .. }
            | Self::Lock(LockError::File(error)) => error.cause(),
            Self::Crew(CrewError::Panicked(_)) => Cause::Internal,
            Self::Hosts(_) => Cause::Hosts,
            _ => Cause::Machine,
        };
        let remedy = self.remedy().to_string();
        Failure::new(cause, self).with_help(remedy)
    }

    /// What the user can do now.
    pub(super) fn remedy(&self) -> &str {
        match self {
            Self::Hosts(error) => error.remedy(),
            Self::Lock(LockError::Held { .. }) => "wait for the other run, or use another --dir",
            Self::Lock(LockError::File(_)) => "change its permissions, or use another --dir",
            Self::Transfer(error) if error.is_not_found() => {
                "something removed it during the run: keep others out of the folder, or use \
                 another --dir"
            }
            Self::Transfer(error) => error.missing().unwrap_or(DEVICE_HELP),
            Self::NoSpace { .. } => {
                "something else filled the disk: free some space, or use a smaller --capacity or \
                 another --dir"
            }
            Self::DataLoss { .. } => {
                "check the kernel log: the device or its connection lost writes"
            }
            Self::Short { .. } => {
                "check the kernel log; something else may have changed the file: keep others out \
                 of the folder"
            }
            Self::InTheWay { .. } => "use another --dir, or move it away",
            Self::Marker { .. } => "use another --dir, or the stormlp that wrote it",
            Self::Mismatch { .. } => {
                "check the kernel log and the device: storage returned other data than it was given"
            }
            Self::NotDirect { .. } => "use --path buffered, or a --dir on another file system",
            Self::Trace { .. } => "leave the trace as it is while it is replayed",
            Self::TooLarge { .. } => "use a larger --capacity",
            Self::Crew(CrewError::Start(_)) => {
                "allow this user more threads (ulimit -u), or use fewer --users"
            }
            Self::Crew(CrewError::Panicked(_)) => {
                "please report it with the command and stormlp's output"
            }
        }
    }

    /// Converts an error on `path`, distinguishing a full disk.
    pub(super) fn on(path: &Path, source: TransferError) -> Self {
        if source.is_full() {
            Self::NoSpace { path: path.to_path_buf(), source }
        } else {
            Self::Transfer(source.named(path))
        }
    }

    /// The meaning of a failed `fsync` of `path`: lost data, unless the disk was merely full.
    pub(super) fn on_sync(path: &Path, source: TransferError) -> Self {
        let path = path.to_path_buf();
        if source.is_full() {
            Self::NoSpace { path, source }
        } else {
            Self::DataLoss { path, source }
        }
    }
}

impl From<Panicked> for KvcacheError {
    fn from(panicked: Panicked) -> Self {
        Self::Crew(panicked.into())
    }
}
