//! Errors that end a checkpoint run early.

use std::path::{Path, PathBuf};

use stormlp_core::failure::Failure;
use stormlp_core::note::{Cause, DATA_MISMATCH};
use stormlp_hosts::fault::Fault;
use stormlp_hosts::{GroupError, from_faults};
use stormlp_transfer::TransferError;
use stormlp_transfer::crew::{CrewError, Panicked};
use stormlp_transfer::storage::LockError;

/// Why a run, or one checkpoint of it, failed.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Directory, files, threads, hosts, or a path that fell back.
    #[error(transparent)]
    Fault(#[from] Fault),
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

from_faults!(CheckpointError: LockError, TransferError, GroupError, CrewError, Panicked);

impl CheckpointError {
    /// Something that stormlp did not make is in the way.
    pub(super) fn in_the_way(path: impl Into<PathBuf>) -> Self {
        Fault::InTheWay { path: path.into() }.into()
    }

    /// Classifies the cause of the failure.
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Fault(fault) => fault.cause(),
            _ => Cause::Storage,
        }
    }

    /// The failure of a run that could not start.
    pub fn not_started(self) -> Failure {
        self.not_started_in(false)
    }

    /// The same of a `closed` run.
    pub fn not_started_in(self, closed: bool) -> Failure {
        let remedy = self.remedy(closed).to_string();
        Failure::new(self.cause_before(), self).with_help(remedy)
    }

    /// The cause of a failure before anything was saved or restored.
    fn cause_before(&self) -> Cause {
        match self {
            Self::Fault(fault) => fault.cause_before(),
            _ => Cause::Machine,
        }
    }

    /// What the user can do now; in a closed run only what the rules permit.
    pub(super) fn remedy(&self, closed: bool) -> &str {
        match self {
            Self::Fault(Fault::NoSpace { .. }) if closed => {
                "free some space or use another --dir; the checkpoint is not saved, others are \
                 untouched"
            }
            Self::Fault(Fault::NoSpace { .. }) => {
                "free some space or use --scale, --keep or another --dir; the checkpoint is not \
                 saved, others are untouched"
            }
            Self::Fault(Fault::DataLoss { .. }) => {
                "check the kernel log: the device or its connection lost writes; the checkpoint \
                 is not saved"
            }
            Self::Fault(Fault::Crew(CrewError::Start(_))) => {
                "allow this user more threads (ulimit -u), or use fewer ranks"
            }
            Self::Fault(Fault::Crew(CrewError::Panicked(_))) => {
                "please report it with the command and stormlp's output; a checkpoint that \
                 was being saved is discarded, others are untouched"
            }
            Self::Fault(fault) => fault.remedy(),
            Self::Short { .. } => "save it again: the file is incomplete",
            Self::Corrupt { .. } => {
                "do not trust this storage; check the kernel log, or save again if something \
                 else wrote to the file"
            }
            Self::Changed { .. } => "use another --dir, or move it away",
            Self::Another { .. } => {
                "use another --dir, or remove it first with `stormlp clean DIR`"
            }
            Self::StillCached { .. } if closed => {
                "use a directory on a file system that can drop its cached pages"
            }
            Self::StillCached { .. } => {
                "use --path cpu to read around the page cache, or leave --cold out"
            }
        }
    }

    /// The meaning of a failed `fsync` of `path`.
    pub(super) fn on_sync(path: &Path, source: TransferError) -> Self {
        Fault::on_sync(path, source).into()
    }

    /// Converts a transfer error on `path`, distinguishing a full disk.
    pub(super) fn on(path: &Path, source: TransferError) -> Self {
        Fault::on(path, source).into()
    }
}
