//! Renders training as documents: the run, its plan, the built-in workloads, dataset sizes; and the
//! files that MLPerf Storage's tools read.

mod calibration;
mod charts;
pub mod datagen;
mod datasize;
mod find_max;
mod lane;
mod plan;
mod run;
mod workloads;

#[cfg(test)]
#[path = "../../tests/fixtures/mod.rs"]
pub mod fixtures;
#[cfg(test)]
mod tests;

pub use calibration::document as calibration;
pub(crate) use charts::charts;
pub use datasize::{SizeAnswer, datasize};
pub use plan::plan;
pub use run::RECORDS;
pub use run::document;
pub use workloads::workloads;
