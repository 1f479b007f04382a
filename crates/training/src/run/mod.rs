//! Training: the emulated accelerators, their loaders, and the causes of waiting.

pub mod agreement;
pub mod attribution;
mod cache;
mod calibrate;
pub mod data;
pub mod dataset;
mod epochs;
pub mod error;
pub mod find_max;
mod handles;
mod io;
mod job;
mod journal;
pub mod machine;
pub mod measure;
pub mod order;
pub mod prepare;
mod records;
pub mod requests;
mod shared;
pub mod source;
pub mod start;
pub mod thread_group;
mod together;
pub mod training;
pub mod verdict;
mod warnings;

pub use crate::run::training::{PartialReport, RunInputs, begun, probe, run, run_on_hosts};
pub use error::TrainError;
pub use journal::{SavedEpoch, with_epochs};

#[cfg(test)]
mod thread_group_tests;

#[cfg(test)]
mod run_tests;
