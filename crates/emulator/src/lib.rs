//! Runs a plan: a transfer matrix, a training run, a checkpoint run.
//!
//! The emulator takes a plan that has been decided to the last number, emits events while it
//! works and returns a report. It prints nothing and asks no configuration.

#![forbid(unsafe_code)]

pub mod checkpoint;
mod evidence;
mod fallback;
mod hosts;
pub mod matrix;
mod sampler;
mod surroundings;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod testing;
pub mod training;

pub use hosts::{Company, Hosts};
pub use surroundings::Surroundings;
