//! MLPerf Storage's submission rules, each a function of a tree of results, which is plain data.
//!
//! Only the official tool makes submissions. The rules check trees that it, DLIO or a rehearsal
//! made, and report for each rule whether it holds and what the official checker does about it.

mod agreement;
mod check;
mod checkpointing;
mod classes;
mod core_config;
mod dataset_manifest;
mod edition;
mod effective;
mod figures;
mod files;
mod kv_cache;
mod leaf;
mod marks;
mod object;
mod other_runs;
mod paths;
mod pool;
mod provenance;
pub mod read;
mod report_file;
mod rule;
mod scored;
mod stamped;
mod strays;
mod structure;
mod sums;
mod survey;
pub mod system_yaml;
mod systems;
mod tables;
mod timestamp;
mod training;
pub mod tree;
mod vector_database;

pub use check::{CheckReport, TreeVerdict, check};
pub use edition::Edition;
pub use figures::{CheckpointTime, EpochFigures, EpochTimes};
pub use rule::{Finding, FindingKind, Official, RuleFinding};
pub use survey::{Submission, TreeShape};

/// The notice in every report that names MLPerf.
pub const NOTICE: &str = "Only MLCommons' own tool, mlpstorage, makes submissions; nothing that \
    stormlp measures or writes is an MLPerf result, and MLCommons Association has verified none of \
    it.";

#[cfg(test)]
mod tests;
