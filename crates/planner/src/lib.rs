//! Predicts how a workload performs on storage that need not exist yet.
//!
//! The training loop of real runs is executed on a virtual clock over simulated storage. All output
//! is labelled as predicted.

#![forbid(unsafe_code)]

pub mod plan;
pub mod run;
pub mod show;
pub mod simulate;

#[cfg(test)]
#[allow(dead_code, unreachable_pub, reason = "the tests of a matrix use the rest")]
#[path = "../../matrix/tests/fixtures/mod.rs"]
mod fixtures;
