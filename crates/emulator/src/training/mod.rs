//! Training: the emulated accelerators, their loaders, and what keeps them waiting.

mod attribution;
mod cache;
mod calibrate;
mod checkpoint;
pub mod crew;
pub mod dataset;
pub mod draw;
mod epochs;
pub mod error;
mod handles;
mod io;
mod job;
pub mod machine;
mod measure;
mod merged;
pub mod order;
mod pacer;
pub mod prepare;
mod records;
mod requests;
mod run;
mod shared;
pub mod simulate;
pub mod source;
mod together;
mod verdict;
mod warnings;

pub use error::TrainError;
pub use merged::{is_of_some_hosts, merged};
pub use run::{Course, SoFar, Unit, begun, probe, run, run_on_hosts};
pub use simulate::{SimulateError, simulate};

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod crew_tests;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod run_tests;
