//! Errors that can end a training run.

use std::io;
use std::path::PathBuf;

use crate::plan::train_plan::TrainPlan;
use stormlp_core::report::{Ending, FailureCause};
use stormlp_core::shell::shell_word;
use stormlp_core::units::ByteSize;
use stormlp_dataset::format::FormatError;
use stormlp_hosts::GroupError;
use stormlp_transfer::TransferError;
use stormlp_transfer::crew::Panicked;

use stormlp_transfer::fallback;

/// Why a run could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A file could not be opened or read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The storage error.
        source: TransferError,
    },
    /// A file is shorter or longer than expected.
    #[error(
        "{path} has {found_bytes} bytes, but had {expected_bytes} when the run began; check the \
         dataset with `stormlp datagen --verify`"
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// Its length when the dataset was scanned.
        expected_bytes: u64,
        /// Its current length.
        found_bytes: u64,
    },
    /// A file does not match its format.
    #[error("corrupt data: {0}")]
    Corrupt(#[from] FormatError),
    /// A checkpoint could not be written during training.
    #[error(transparent)]
    Checkpoint(TransferError),
    /// A transfer path could not be set up, or failed.
    #[error("the transfer path failed: {0}")]
    Path(#[source] TransferError),
    /// The accelerator could not be opened.
    #[error(transparent)]
    Device(TransferError),
    /// A thread of the run panicked: a bug in stormlp.
    #[error(transparent)]
    Panicked(#[from] Panicked),
    /// Another host did not connect, or was lost.
    #[error(transparent)]
    Hosts(#[from] GroupError),
    /// A thread could not be started.
    #[error("cannot start a thread: {source}")]
    Thread {
        /// The kernel's error.
        source: io::Error,
    },
}

impl TrainError {
    /// The ending of a run of `plan` that this error stopped.
    pub(super) fn ending(&self, plan: &TrainPlan) -> Ending {
        Ending::Failed { cause: self.cause(), message: self.to_string(), remedy: self.remedy(plan) }
    }

    /// Advice for the user.
    pub fn remedy(&self, plan: &TrainPlan) -> String {
        if let Some(remedy) = self.transfer().and_then(|e| fallback::remedy(plan.require_gds, e)) {
            return remedy.to_string();
        }
        if let Self::Hosts(error) = self {
            return error.remedy().to_string();
        }
        match self.cause() {
            FailureCause::Dataset => format!(
                "check the dataset with `stormlp datagen {} --data-dir {} --verify` and the \
                 options it was made with, the storage with `stormlp doctor`",
                shell_word(&plan.workload_source),
                shell_word(&plan.data.folder.as_ref().map_or(".".into(), ToString::to_string)),
            ),
            FailureCause::Checkpoint => checkpoint_remedy(plan),
            FailureCause::Machine | FailureCause::Storage | FailureCause::Hosts => {
                "`stormlp doctor` says what can run on this machine".to_string()
            }
            FailureCause::Resources => "allow this user more threads (ulimit -u, the control \
                                        group's pids), or use fewer --threads"
                .to_string(),
            FailureCause::Internal => "please report it with the command line and what was \
                                       printed above"
                .to_string(),
        }
    }

    /// The underlying transfer or path error.
    fn transfer(&self) -> Option<&TransferError> {
        match self {
            Self::Read { source, .. } => Some(source),
            Self::Checkpoint(error) | Self::Path(error) | Self::Device(error) => Some(error),
            _ => None,
        }
    }

    /// The kind of failure, for choosing advice.
    pub fn cause(&self) -> FailureCause {
        match self {
            Self::Read { .. } | Self::Length { .. } | Self::Corrupt(_) => FailureCause::Dataset,
            Self::Checkpoint(_) => FailureCause::Checkpoint,
            Self::Path(_) | Self::Device(_) => FailureCause::Machine,
            Self::Thread { .. } => FailureCause::Resources,
            Self::Panicked(_) => FailureCause::Internal,
            Self::Hosts(_) => FailureCause::Hosts,
        }
    }
}

/// Advice for when a checkpoint cannot be written.
fn checkpoint_remedy(plan: &TrainPlan) -> String {
    let Some(checkpoint) = &plan.checkpoint else {
        return "name another folder with --checkpoint-folder".to_string();
    };
    format!(
        "checkpoints go to {}: make sure that it can be written to and has {} free for each, or \
         name another folder with --checkpoint-folder",
        checkpoint.folder,
        ByteSize(checkpoint.bytes)
    )
}
