//! `--host-cost`: what a host adds, by the saved report of a training run on storage that takes no time.

use std::path::Path;

use crate::any_report::AnyReport;
use stormlp_core::report::{Ending, ReportKind};
use stormlp_core::units::GIB;
use stormlp_training::plan::client::ClientCost;
use stormlp_training::plan::request::StorageKind;
use stormlp_training::report::TrainReport;

use crate::commands::saved;
use crate::exit::Failure;

/// The cost of each step and of each GiB of the run whose report lies in `place`.
///
/// # Errors
/// With exit code 3 where it is another command's, ran on storage, or did not end; 4 where it cannot be
/// read.
pub(super) fn read(place: &Path) -> Result<ClientCost, Failure> {
    let no_use = |why: String| {
        let what = format!("--host-cost: {} {why}", place.display());
        Failure::no_plan(anyhow::anyhow!(what)).with_help(
            "name the report of `stormlp train WORKLOAD --storage null`, or give \
             --host-cost-per-step and --host-cost-per-gib",
        )
    };
    let report = match saved::of_kind(place, ReportKind::Train)? {
        AnyReport::Train(report) => report,
        other => {
            return Err(no_use(format!("is of `stormlp {}`", other.head().kind.name())));
        }
    };
    if report.plan.storage != StorageKind::Null {
        return Err(no_use(
            "was run on storage, so that its AU is not the host's alone".to_string(),
        ));
    }
    if report.ending != Ending::Complete {
        return Err(no_use("did not come to its end".to_string()));
    }
    cost(&report).ok_or_else(|| no_use("has no AU, or no compute to hold it against".to_string()))
}

/// What accelerators did not compute is what a step cost; CPU time goes by the bytes that the samples
/// have, of which the run read none.
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
