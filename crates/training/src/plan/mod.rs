//! Training runs: workloads, their sizes, the order of samples, plans, formulas and reports.
//!
//! `Workload` is the content of the workload file, `TrainRequest` the command line, `Inventory` the
//! content of the dataset folder. `TrainPlan` fixes every number, and `TrainReport` holds the
//! measurements.

pub mod calibration;
pub mod catalog;
pub mod client;
pub mod datasize;
pub mod distribution;
pub mod edition;
mod fields;
pub mod find_max;
pub mod generate;
mod keys;
mod memory;
pub mod metrics;
mod parse;
pub mod probe;
pub mod request;
pub mod resolve;
pub mod rules;
pub mod steps;
pub mod train_plan;
mod transport;
pub mod warnings;
pub mod workload;
mod write;
