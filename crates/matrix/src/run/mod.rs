//! Runs a transfer matrix: cell after cell, path after path.
//!
//! [`lock`] takes a report that holds its plan (and, when it is resumed, cells measured before), and
//! [`run`] adds a cell for every entry of the plan. A cell is one crew of threads, each with a path,
//! a file and buffers of its own; they start together, share nothing but counters while they
//! measure, and hand over their recorders at the end.

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

/// Why a matrix could not run at all.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// A folder is in use, or its lock cannot be made.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file, a buffer or a device could not be had.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// A thread panicked, or could not be started.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// Another host did not come, or cannot be heard.
    #[error(transparent)]
    Hosts(#[from] GroupError),
    /// The time at which all hosts begin had passed when this one was ready.
    #[error("--start-at had passed by {seconds:.1} s when this host was ready to begin")]
    Late {
        /// By how much.
        seconds: f64,
    },
    /// Somebody put something else in the place of a test file.
    #[error("{path} is {found}, which stormlp did not make there; it is left as it is")]
    Replaced {
        /// The file.
        path: PathBuf,
        /// What it is now.
        found: String,
    },
    /// A data folder's manifest cannot be used.
    #[error("{path}: {source}; remove it if the folder holds nothing of value")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        source: ManifestError,
    },
}
