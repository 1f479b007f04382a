//! Checkpoint plans and reports as text, JSON and MLPerf's files.
//!
//! A scaled run can be mistaken for a real one, so every line of its text begins with SCALED and
//! the factor that was reached.

mod mlperf;
mod plan;
mod run;

pub use mlperf::{per_epoch_stats, summary as mlperf_summary};
pub use plan::{DryRun, dry_run_json, dry_run_text, opening};
pub use run::text;

use stormlp_model::checkpoint::CheckpointPlan;
use stormlp_model::units::GIB;

/// What a line about a scaled run begins with; `None` when the plan is not scaled.
pub fn mark(plan: &CheckpointPlan) -> Option<String> {
    plan.is_scaled()
        .then(|| format!("SCALED {}", plan.scaling.shown()))
}

/// Marks every line of `text` when the plan is scaled.
pub fn marked(plan: &CheckpointPlan, text: &str) -> String {
    let Some(mark) = mark(plan) else {
        return text.to_string();
    };
    let mut marked = String::with_capacity(text.len() + text.len() / 4);
    for line in text.lines() {
        marked.push_str(&mark);
        if !line.is_empty() {
            marked.push_str("  ");
            marked.push_str(line);
        }
        marked.push('\n');
    }
    marked
}

/// Bytes in GiB with two decimals; small ones in the unit that suits them.
fn gib(bytes: u64) -> String {
    if bytes < GIB {
        return stormlp_model::units::ByteSize(bytes).to_string();
    }
    format!("{:.2} GiB", bytes as f64 / GIB as f64)
}

#[cfg(test)]
mod tests;
