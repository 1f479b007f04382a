//! Why a matrix could not run.

use std::path::PathBuf;

use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_hosts::GroupError;
use stormlp_transfer::TransferError;
use stormlp_transfer::error::THREADS_HELP;
use stormlp_transfer::storage::LockError;
use stormlp_transfer::thread_group::ThreadGroupError;

/// Why a matrix could not run.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// A folder is in use, or its lock cannot be created.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file, buffer or device was unavailable.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// A thread panicked, or could not be started.
    #[error(transparent)]
    ThreadGroup(#[from] ThreadGroupError),
    /// Another host did not join or is unreachable.
    #[error(transparent)]
    Hosts(#[from] GroupError),
    /// A test file was replaced with something else.
    #[error("{path} is {found}, which stormlp did not create; it was left unchanged")]
    Replaced {
        /// The file.
        path: PathBuf,
        /// Its current type.
        found: String,
    },
    /// A data folder's manifest cannot be used.
    #[error("{path}: {reason}; remove it if you do not need the folder's contents")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// The failure for a matrix that could not run at all, classified by cause.
impl From<MatrixError> for Failure {
    fn from(error: MatrixError) -> Self {
        let cause = match &error {
            MatrixError::Transfer(error) | MatrixError::Lock(LockError::File(error)) => {
                error.cause()
            }
            MatrixError::Hosts(_) => Cause::Storage,
            MatrixError::ThreadGroup(ThreadGroupError::Panicked(_)) => Cause::Internal,
            _ => Cause::Machine,
        };
        let remedy = match &error {
            MatrixError::Transfer(error) if error.is_full() => {
                "free some space, or use a smaller --file-size"
            }
            MatrixError::Transfer(error) if error.is_too_large() => {
                "raise the limit on the size of files (ulimit -f), or use a smaller --file-size"
            }
            MatrixError::Replaced { .. } => {
                "move it away, and keep other programs out of the folder while a run uses it"
            }
            MatrixError::Hosts(error) => error.remedy(),
            MatrixError::ThreadGroup(ThreadGroupError::Start(_)) => THREADS_HELP,
            MatrixError::Transfer(error) => {
                error.missing().or(error.object_remedy()).unwrap_or_default()
            }
            MatrixError::Lock(_) | MatrixError::Manifest { .. } | MatrixError::ThreadGroup(_) => "",
        };
        let remedy = remedy.to_string();
        Self::new(cause, error).with_help(remedy)
    }
}
