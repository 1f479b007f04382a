//! This host's ceiling: the same workload on infinitely fast storage.

use std::sync::Arc;

use crate::plan::request::TrainRequest;
use crate::plan::train_plan::TrainPlan;
use crate::report::Measures;
use stormlp_core::event::Silent;
use stormlp_core::facts::HostFacts;
use stormlp_core::report::Ending;
use stormlp_core::telemetry::Telemetry;
use stormlp_core::tune::{MachineTune, Tuned};
use stormlp_dataset::inventory::facts::Inventory;
use stormlp_transfer::AcceleratorSet;
use stormlp_transfer::storage::{Disk, Storage};

use super::measure::Distributions;
use super::together::Others;
use super::{epochs, prepare};
use stormlp_transfer::run_context::RunContext;

/// Duration of the calibration.
const SECONDS: f64 = 3.0;

/// This host's result for the plan's workload on infinitely fast storage, measured for a few
/// seconds; `None` when the user stopped it or no epoch finished.
pub(super) fn ceiling(
    plan: &TrainPlan,
    host: &HostFacts,
    accelerators: &AcceleratorSet,
    surroundings: &RunContext<'_>,
) -> Result<Option<Measures>, String> {
    let plan = on_null_storage(plan, host);
    let own = 0..plan.accelerators;
    let order = prepare::order(surroundings.storage, &plan, &Inventory::default(), &own);
    // Deliberate throttling of storage would throttle null storage as well.
    let storage: Arc<dyn Storage> = Arc::new(Disk);
    let silent = RunContext { storage: &storage, observer: &Silent, ..*surroundings };
    let mut unwanted = Distributions::default();
    let measured = epochs::run(
        &plan,
        &order,
        accelerators,
        Others::default(),
        &silent,
        &mut unwanted,
        &mut |_, _, _| {},
    )
    .map_err(|error| error.to_string())?;
    match measured.ending {
        Ending::Complete => {}
        Ending::Stopped | Ending::Unfinished => return Ok(None),
        Ending::Failed(note) => return Err(note.fact),
    }
    let mut epochs = measured.report.epochs.iter();
    let whole = epochs.find(|epoch| epoch.is_whole(&plan));
    Ok(whole.map(|epoch| epoch.measures))
}

/// One epoch of `plan` on null storage, with as many steps as fit in the time.
fn on_null_storage(plan: &TrainPlan, host: &HostFacts) -> TrainPlan {
    let step = plan.compute.mean_seconds().max(1e-4);
    let most = (SECONDS / step).ceil() as u64;
    TrainPlan {
        transport: plan.transport_without_storage(host),
        hosts: Vec::new(),
        epochs: 1,
        runs: 1,
        steps_per_epoch: plan.steps_per_epoch.min(most.max(4)),
        checkpoint: None,
        request: TrainRequest {
            cache: None,
            keep_step_times: false,
            tune: Tuned(MachineTune { telemetry: Telemetry::Off, ..plan.request.tune.0.clone() }),
            ..plan.request.clone()
        },
        ..plan.clone()
    }
}
