//! Checkpoint plans and reports as documents, and MLPerf's files.
//!
//! A scaled run could be mistaken for a real one, so every line of its text begins with SCALED and
//! the actual factor.

mod charts;
mod detached;
mod figures;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod knee;
mod lane;
mod outcome;
mod plan;
mod run;
mod settings;

pub(crate) use charts::charts;
pub(crate) use figures::figures;

pub use plan::{DryRun, dry_run, opening};
pub use run::RECORDS;
pub use run::document;

use crate::plan::CheckpointPlan;
use stormlp_core::units::{ByteSize, GIB};

/// Prefix of every line about a scaled run; `None` if the plan is not scaled.
pub fn mark(plan: &CheckpointPlan) -> Option<String> {
    let scaled = plan.is_scaled();
    scaled.then(|| format!("SCALED {}", plan.scaling.shown()))
}

/// Bytes in GiB with two decimals; small values in a suitable unit.
fn gib(bytes: u64) -> String {
    if bytes < GIB {
        return ByteSize(bytes).to_string();
    }
    format!("{:.2} GiB", bytes as f64 / GIB as f64)
}

#[cfg(test)]
mod tests;
