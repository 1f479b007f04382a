//! Errors that can end a training run.

use std::path::{Path, PathBuf};

use crate::plan::train_plan::TrainPlan;
use stormlp_core::failure::Failure;
use stormlp_core::note::{Cause, DATA_MISMATCH, Note};
use stormlp_core::shell::shell_word;
use stormlp_core::units::ByteSize;
use stormlp_dataset::format::FormatError;
use stormlp_hosts::GroupError;
use stormlp_hosts::fault::Fault;
use stormlp_hosts::from_faults;
use stormlp_transfer::TransferError;
use stormlp_transfer::fallback;
use stormlp_transfer::thread_group::{Panicked, ThreadGroupError};

/// Why a run could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A file could not be opened or read.
    #[error("{}", unread(path, source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The storage error.
        source: TransferError,
    },
    /// A file is shorter or longer than expected.
    #[error(
        "{path} has {found_bytes} bytes, but had {expected_bytes} when the run began; check the \
         dataset with `stormlp datagen --check`"
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
    #[error("{DATA_MISMATCH} {0}")]
    Corrupt(#[from] FormatError),
    /// A checkpoint could not be written during training.
    #[error(transparent)]
    Checkpoint(TransferError),
    /// A path, a device, a thread or another host failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A file that could not be read. Errors of objects name them.
fn unread(path: &Path, source: &TransferError) -> String {
    match source.is_of_object() {
        true => format!("cannot read: {source}"),
        false => format!("cannot read {}: {source}", path.display()),
    }
}

from_faults!(TrainError: TransferError, ThreadGroupError, Panicked, GroupError);

impl TrainError {
    /// The error as the ending of a run of `plan` reports it.
    pub fn note(&self, plan: &TrainPlan) -> Note<Cause> {
        let (cause, remedy) = match self {
            Self::Read { .. } | Self::Length { .. } | Self::Corrupt(_) => (
                Cause::Dataset,
                format!(
                    "check the dataset with `stormlp datagen {} --dir {} --check` and the \
                     options it was made with, the storage with `stormlp doctor`",
                    shell_word(&plan.request.workload),
                    shell_word(&plan.data.folder.as_ref().map_or(".".into(), ToString::to_string)),
                ),
            ),
            Self::Checkpoint(_) => (Cause::Checkpoint, checkpoint_remedy(plan)),
            Self::Fault(fault) => (fault.cause(), fault.remedy().to_string()),
        };
        let (cause, remedy) = match self.transfer() {
            Some(error) if error.missing().is_some() => {
                (Cause::Machine, error.missing().unwrap_or_default().to_string())
            }
            Some(error) if error.is_of_gpu() => {
                (Cause::Device, "`stormlp doctor` shows what can run on this machine".to_string())
            }
            _ => (cause, remedy),
        };
        let fell_back =
            self.transfer().and_then(|e| fallback::remedy(plan.request.require.is_some(), e));
        Note::new(cause, self.to_string(), fell_back.map_or(remedy, str::to_string))
    }

    /// The failure of a run of `plan` that could not start.
    pub fn not_started(self, plan: &TrainPlan) -> Failure {
        let remedy = self.note(plan).remedy;
        let cause = self.transfer().map_or(Cause::Machine, TransferError::cause);
        Failure::new(cause, self).with_help(remedy)
    }

    /// The underlying transfer or path error.
    fn transfer(&self) -> Option<&TransferError> {
        match self {
            Self::Read { source, .. } => Some(source),
            Self::Checkpoint(error) | Self::Fault(Fault::Transfer(error)) => Some(error),
            _ => None,
        }
    }
}

/// Advice for when a checkpoint cannot be written.
fn checkpoint_remedy(plan: &TrainPlan) -> String {
    let Some(checkpoint) = &plan.checkpoint else {
        return "name another folder with --params checkpoint.checkpoint_folder=DIR".to_string();
    };
    format!(
        "checkpoints go to {}: make sure that it can be written to and has {} free for each, or \
         name another folder with --params checkpoint.checkpoint_folder=DIR",
        checkpoint.folder,
        ByteSize(checkpoint.bytes)
    )
}
