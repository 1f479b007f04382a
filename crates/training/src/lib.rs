//! Training: `train`, `--find-max`, and the fidelity profiles of DLIO.
//!
//! A state machine reads samples ahead, emulates compute and counts accelerator utilisation.

#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as stormlp_training;

pub mod plan;
pub mod report;
pub mod run;
pub mod show;
