//! `--host-cost`: host cost measured by a training run without storage.

use std::path::Path;

use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::report::Ending;
use stormlp_core::units::GIB;
use stormlp_training::plan::client::ClientCost;
use stormlp_training::report::TrainReport;

/// The cost per step and per GiB from a report saved in `place`.
///
/// # Errors
/// If the report is from a run on storage, or incomplete.
pub fn measured(report: &TrainReport, place: &Path) -> Result<ClientCost, Failure> {
    let why = if !report.plan.is_null() {
        "was run on storage, which also affects AU"
    } else if report.ending != Ending::Complete {
        "is incomplete"
    } else {
        match cost(report) {
            Some(cost) => return Ok(cost),
            None => "has no AU or no compute time",
        }
    };
    let what = format!("--host-cost: {} {why}", place.display());
    Err(Failure::saying(Cause::Plan, what).with_help(
        "use a report of `stormlp train WORKLOAD --path null`, or set --host-cost-per-step and \
         --host-cost-per-gib",
    ))
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
        ..ClientCost::NONE
    })
}
