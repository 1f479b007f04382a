//! Checkpoints: `checkpoint`.
//!
//! Ranks write and read the files of a model; their layout follows from its architecture and
//! parallelism.

#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as stormlp_checkpoint;

pub mod plan;
pub mod report;
pub mod run;
pub mod show;
