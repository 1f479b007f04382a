//! Errors that end a checkpoint run early.

use std::path::PathBuf;

use stormlp_core::failure::Failure;
use stormlp_core::note::{Cause, DATA_MISMATCH};
use stormlp_hosts::fault::Fault;
use stormlp_hosts::{GroupError, from_faults};
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::LockError;
use stormlp_transfer::thread_group::{Panicked, ThreadGroupError};

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

from_faults!(CheckpointError: LockError, TransferError, GroupError, ThreadGroupError, Panicked);

impl CheckpointError {
    /// Classifies the cause of the failure.
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Fault(fault) => fault.cause(),
            _ => Cause::Storage,
        }
    }

    /// The failure of a run that could not start.
    pub fn not_started(self) -> Failure {
        let cause = match &self {
            Self::Fault(fault) => fault.cause_before(),
            _ => Cause::Machine,
        };
        let remedy = self.remedy().to_string();
        Failure::new(cause, self).with_help(remedy)
    }

    /// The next step for the user.
    pub(super) fn remedy(&self) -> &str {
        match self {
            Self::Fault(Fault::NoSpace { .. }) => {
                "free some space or use another --dir; the checkpoint is not saved, earlier ones are \
                 untouched"
            }
            Self::Fault(Fault::DataLoss { .. }) => {
                "check the kernel log: the device or its connection lost writes; the checkpoint \
                 is not saved"
            }
            Self::Fault(Fault::ThreadGroup(ThreadGroupError::Panicked(_))) => {
                "please report it with the command and stormlp's output; a checkpoint that \
                 was being saved is discarded, earlier ones are untouched"
            }
            Self::Fault(fault) => fault.remedy(),
            Self::Short { .. } => "save it again: the file is incomplete",
            Self::Corrupt { .. } => {
                "do not trust this storage; check the kernel log, or save again if something \
                 else wrote to the file"
            }
            Self::StillCached { .. } => {
                "use a --dir on a file system that can drop its cached pages, --path cpu, or --cache as-is"
            }
        }
    }
}
