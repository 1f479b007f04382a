//! Training for people and for other programs: the run, its plan, the built-in workloads, sizes
//! of datasets, and the files that MLPerf Storage's own tools read.
//!
//! Nothing is measured or decided here: what is printed is in the report that was given.

mod datasize;
pub mod mlperf;
mod plan;
mod stamp;
mod table;
mod text;
mod workloads;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod fixtures;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use datasize::{SizeAnswer, datasize_text};
pub use plan::plan_text;
pub use text::text;
pub use workloads::workloads_text;
