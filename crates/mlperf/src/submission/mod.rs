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
mod image;
mod kv_cache;
mod leaf;
mod marks;
mod object;
mod other_runs;
mod paths;
pub mod plan;
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
pub use marks::REHEARSAL_ORGANISATION;
pub(crate) use report_file::label as model_label;
pub use rule::{Finding, FindingKind, Official, RuleFinding};
pub use survey::{Submission, TreeShape};

/// The notice in every report that names MLPerf.
pub const NOTICE: &str = "Only MLCommons' own tool, mlpstorage, makes submissions; nothing that \
    stormlp measures or writes is an MLPerf result, and MLCommons Association has verified none of \
    it.";

/// How a rehearsed figure compares to one of the official tool's.
pub const EQUIVALENCE: &str = "A rehearsed figure is a stormlp figure, modelled on the edition it \
    names: its sizes and order of samples, its emulated compute, its read pattern and its formulas \
    are that edition's; reader, data generator, barrier and the time that the official client takes \
    itself are stormlp's.";

/// Scored runs of a training result; a warm-up comes before them.
pub const SCORED_RUNS: u32 = stormlp_training::plan::rules::CLOSED_RUNS;

#[cfg(test)]
mod tests;
