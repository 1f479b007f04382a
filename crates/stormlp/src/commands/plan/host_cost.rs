//! `--host-cost`: host cost measured by a training run without storage.

use std::path::Path;

use crate::any_report::AnyReport;
use stormlp_core::report::{Ending, ReportKind};
use stormlp_core::units::GIB;
use stormlp_training::plan::client::ClientCost;
use stormlp_training::report::TrainReport;

use crate::commands::saved;
use stormlp_core::failure::Failure;

/// The cost per step and per GiB from the report in `place`.
///
/// # Errors
/// With exit code 3 if the report is from another command, from a run on storage, or incomplete; 4
/// if it cannot be read.
pub(super) fn read(place: &Path) -> Result<ClientCost, Failure> {
    let no_use = |why: String| {
        let what = format!("--host-cost: {} {why}", place.display());
        Failure::no_plan(anyhow::anyhow!(what)).with_help(
            "use a report of `stormlp train WORKLOAD --storage null`, or set \
             --host-cost-per-step and --host-cost-per-gib",
        )
    };
    let report = match saved::of_kind(place, ReportKind::Train)? {
        AnyReport::Train(report) => report,
        other => {
            return Err(no_use(format!("is a report of `stormlp {}`", other.head().kind.name())));
        }
    };
    if !report.plan.is_null() {
        return Err(no_use("was run on storage, which also affects AU".to_string()));
    }
    if report.ending != Ending::Complete {
        return Err(no_use("is incomplete".to_string()));
    }
    cost(&report).ok_or_else(|| no_use("has no AU or no compute time".to_string()))
}

/// Time not spent computing is the cost of steps; CPU time is divided by the size of the samples,
/// although the run read none of them.
fn cost(report: &TrainReport) -> Option<ClientCost> {
    let results = &report.results;
    let share = results.mean.au_percent.measured / 100.0;
    let compute = report.plan.compute.mean_seconds();
    if share <= 0.0 || compute <= 0.0 {
        return None;
    }
    let cpu = results.cost.cpu_user_seconds + results.cost.cpu_system_seconds;
    let plan = &report.plan;
    let steps = plan.steps_per_epoch as f64 * f64::from(plan.epochs);
    let samples = steps * f64::from(plan.batch_size) * f64::from(plan.accelerators);
    let gib = samples * plan.data.read_sample_bytes / GIB as f64;
    Some(ClientCost {
        step_seconds: (compute / share - compute).max(0.0),
        cpu_seconds_per_gib: if gib > 0.0 { cpu / gib } else { 0.0 },
        cpus: 1,
        estimated: false,
    })
}
