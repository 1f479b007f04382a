//! Checkpoint plans and reports as documents, and MLPerf's files.
//!
//! A scaled run can be mistaken for a real one, so every line of its text begins with SCALED and
//! the factor that was reached.

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

/// What a line about a scaled run begins with; `None` when the plan is not scaled.
pub fn mark(plan: &CheckpointPlan) -> Option<String> {
    let scaled = plan.is_scaled();
    scaled.then(|| format!("SCALED {}", plan.scaling.shown()))
}

/// Bytes in GiB with two decimals; small ones in the unit that suits them.
fn gib(bytes: u64) -> String {
    if bytes < GIB {
        return ByteSize(bytes).to_string();
    }
    format!("{:.2} GiB", bytes as f64 / GIB as f64)
}

#[cfg(test)]
mod tests;
