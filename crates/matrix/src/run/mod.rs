//! Runs a transfer matrix: cell after cell, path after path.
//!
//! [`lock`] takes a report with its plan and, if resumed, previously measured cells; [`run`] adds a
//! cell for every entry of the plan. A cell is one crew of threads, each with its own path, file
//! and buffers. They start together, share only counters during the measurement, and hand over
//! their recorders at the end.

mod ahead;
mod beside;
mod cell;
mod layout;
pub mod matrix;
mod merge;
mod numbers;
mod offsets;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod panic_tests;
mod prepare;
mod recorder;
mod regions;
pub mod scan;
mod warnings;
mod worker;

use std::path::PathBuf;

use crate::plan::ManifestError;
use stormlp_hosts::GroupError;
use stormlp_transfer::TransferError;
use stormlp_transfer::crew::CrewError;
use stormlp_transfer::storage::LockError;

pub use crate::run::matrix::{Locked, Measured, lock, run, run_in_company};
pub use merge::{merged, shares};

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
    #[error("{path} is {found}, which stormlp did not make there; it is left as it is")]
    Replaced {
        /// The file.
        path: PathBuf,
        /// Its current type.
        found: String,
    },
    /// A data folder's manifest cannot be used.
    #[error("{path}: {source}; remove it if the folder holds nothing of value")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The reason.
        source: ManifestError,
    },
}
