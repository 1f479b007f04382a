//! MLPerf Storage's rules of what is submitted: a tree of results as plain data, and every rule
//! as a function of it.
//!
//! Only the official tool makes submissions. What is here looks at trees that it, DLIO or a
//! rehearsal made, and says of each rule whether it is kept, and what the official checker does
//! about it.

mod agreement;
mod check;
mod checkpointing;
mod figures;
mod files;
mod leaf;
mod moment;
pub mod plan;
mod rule;
mod structure;
mod survey;
pub mod system_yaml;
mod training;
pub mod tree;

pub use check::{CheckReport, Verdict, check};
pub use figures::{EpochFigures, RankFigures};
pub use rule::{Finding, Official, RuleResult};
pub use survey::{Category, Edition, Group, Shape, Submission};

/// What every report that names MLPerf says.
pub const NOTICE: &str = "Only MLCommons' own tool, mlpstorage, makes submissions; nothing that \
    stormlp measures or writes is an MLPerf result, and MLCommons Association has verified none of \
    it.";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
