//! Runs a transfer matrix: cell after cell, path after path.
//!
//! [`lock`] accepts a report with its plan and, if resumed, previously measured cells; [`run`] adds
//! a cell for every entry of the plan. A cell is one thread group of threads, each with a path, a
//! file and buffers. They start together, share only counters during the measurement, and hand over
//! their recorders at the end.

pub mod agreement;
mod beside;
mod cell;
mod error;
mod layout;
pub mod matrix;
mod merge;
mod numbers;
mod offsets;
mod others;
#[cfg(test)]
mod panic_tests;
mod prepare;
mod recorder;
mod regions;
mod scan;
mod steady;
mod verification;
mod warnings;
mod worker;

pub use error::MatrixError;
pub use matrix::{lock, run};
pub use merge::shares;
pub use prepare::Folders;
