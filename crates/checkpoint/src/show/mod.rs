//! Checkpoint plans and reports as documents, and MLPerf's files.
//!
//! A scaled run could be mistaken for a real one, so the first and the last line of its text say SCALED
//! and the actual percentage.

mod charts;
#[cfg(test)]
#[path = "../../tests/fixtures/mod.rs"]
pub mod fixtures;
mod lane;
mod models;
mod plan;
mod run;

pub use stormlp_show::document::DryRun;

pub use models::models;
pub use plan::{dry_run, mark, opening};
pub use run::RECORDS;
pub use run::document;

#[cfg(test)]
mod tests;
