//! MLPerf Storage's submission rules, each a function of a tree of results, which is plain data.
//!
//! Only the official tool makes submissions. The rules check trees that it or DLIO made, and report
//! for each rule whether it holds and the official checker's reaction.

mod check;
mod checkpoints;
mod effective;
mod figures;
mod files;
mod kv_cache;
mod leaf;
mod paths;
pub mod read;
mod recomputed;
mod rule;
mod runs;
mod scored;
mod structure;
mod survey;
pub mod system_yaml;
mod systems;
mod timestamp;
mod training;
pub mod tree;

pub use check::{CheckReport, TreeVerdict, check};
pub(crate) use figures::number;
pub use figures::{CheckpointTime, EpochFigures, EpochTimes};
pub(crate) use kv_cache::{AGGREGATES, aggregate};
pub use rule::{Finding, FindingKind, Official};
pub use survey::{Submission, TreeShape};

/// The notice in every report that names MLPerf.
pub const NOTICE: &str = "Only MLCommons' tool, mlpstorage, makes submissions. stormlp's measurements \
    and files are not MLPerf results, and MLCommons Association has not verified them.";

#[cfg(test)]
mod tests;
