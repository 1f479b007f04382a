//! MLPerf Storage's rules of what is submitted: a tree of results as plain data, and every rule
//! as a function of it.
//!
//! Only the official tool makes submissions. What is here looks at trees that it, DLIO or a
//! rehearsal made, and says of each rule whether it is kept, and what the official checker does
//! about it.

mod agreement;
mod check;
mod checkpointing;
mod effective;
mod figures;
mod files;
mod leaf;
mod marks;
mod moment;
mod paths;
pub mod plan;
mod provenance;
mod rehearsed;
mod report_file;
mod rule;
mod scored;
mod strays;
mod structure;
mod sums;
mod survey;
pub mod system_yaml;
mod systems;
mod training;
pub mod tree;

pub use check::{CheckReport, Verdict, check};
pub use figures::{CheckpointTimes, EpochFigures, EpochStats, EpochTimes, RankFigures};
pub use rule::{Finding, Official, RuleResult};
pub use survey::{Category, Edition, Group, Shape, Submission};

/// What every report that names MLPerf says.
pub const NOTICE: &str = "Only MLCommons' own tool, mlpstorage, makes submissions; nothing that \
    stormlp measures or writes is an MLPerf result, and MLCommons Association has verified none of \
    it.";

/// What is alike between a rehearsed figure and that of the official tool, and what is not.
pub const EQUIVALENCE: &str = "A rehearsed figure is a stormlp figure, modelled on the edition it \
    names: its sizes and order of samples, its emulated compute, its read pattern and its formulas \
    are that edition's; reader, data generator, barrier and the time that the official client takes \
    itself are stormlp's.";

/// Scored runs of a training result; a warm-up comes before them.
pub const SCORED_RUNS: u32 = stormlp_training::plan::rules::CLOSED_RUNS;

/// The organisation that a rehearsed tree is of.
pub const REHEARSAL_ORGANISATION: &str = "stormlp-rehearsal";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
