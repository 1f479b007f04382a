//! Runs a plan.

pub mod training;
