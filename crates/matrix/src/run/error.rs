//! Why a matrix could not run.

use std::path::PathBuf;

use crate::plan::DataManifestError;
use stormlp_hosts::GroupError;
use stormlp_transfer::TransferError;
use stormlp_transfer::crew::CrewError;
use stormlp_transfer::storage::LockError;

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
    Crew(#[from] CrewError),
    /// Another host did not join or is unreachable.
    #[error(transparent)]
    Hosts(#[from] GroupError),
    /// The common start time passed before this host was ready.
    #[error("--start-at had passed by {seconds:.1} s when this host was ready to begin")]
    Late {
        /// Delay in seconds.
        seconds: f64,
    },
    /// A test file was replaced with something else.
    #[error("{path} is {found}, which stormlp did not create; it was left unchanged")]
    Replaced {
        /// The file.
        path: PathBuf,
        /// Its current type.
        found: String,
    },
    /// A data folder's manifest cannot be used.
    #[error("{path}: {source}; remove it if the folder contains nothing of value")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The reason.
        source: DataManifestError,
    },
}
