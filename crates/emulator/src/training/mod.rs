//! Training: the emulated accelerators, their loaders, and what keeps them waiting.

pub mod assemble;
mod attribution;
mod cache;
mod checkpoint;
pub mod crew;
pub mod dataset;
pub mod draw;
pub mod error;
mod handles;
mod io;
mod job;
pub mod machine;
pub mod measured;
pub mod order;
mod pacer;
pub mod prepare;
mod records;
pub mod run;
mod shared;
pub mod source;
pub mod spec;
mod verdict;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod crew_tests;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod run_tests;
