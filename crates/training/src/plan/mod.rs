//! Training runs: workloads, their sizes, the order of samples, plans, formulas and reports.
//!
//! `Workload` says what a file says, `TrainRequest` what was typed, `Inventory` what lies in the
//! folder; `TrainPlan` decides every number, and `TrainReport` holds what was measured.

pub mod barrier;
pub mod catalog;
pub mod client;
pub mod datasize;
pub mod distribution;
pub mod edition;
mod fields;
pub mod find_max;
mod keys;
mod memory;
pub mod metrics;
mod parse;
pub mod probe;
pub mod request;
pub mod resolve;
pub mod rules;
pub mod search;
pub mod steps;
pub mod train_plan;
mod transport;
pub mod warnings;
pub mod workload;
mod write;
