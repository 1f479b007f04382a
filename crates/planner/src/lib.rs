//! Predictions: a workload on simulated storage, before there is any.
//!
//! The training machine of real runs goes through its steps on a virtual clock, over storage that is
//! given in figures. Answers are predicted, and say so.

#![forbid(unsafe_code)]

pub mod plan;
pub mod run;
pub mod show;
pub mod simulate;
