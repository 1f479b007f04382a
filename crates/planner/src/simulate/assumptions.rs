//! The assumptions of a simulation.

use crate::plan::Scenario;
use stormlp_core::units::ByteSize;
use stormlp_training::plan::train_plan::TrainPlan;

use super::reads::Calls;
use super::storage::GROUPS_AT_MOST;

/// The assumptions for `plan` on `scenario`.
pub(super) fn of(plan: &TrainPlan, scenario: &Scenario, calls: &Calls) -> Vec<String> {
    let storage = &scenario.storage;
    let mut notes = vec![match calls.read_ahead {
        Some(bytes) => format!(
            "reads go through the page cache: for each, the kernel reads ahead in requests of {}, \
             two in flight",
            ByteSize(bytes)
        ),
        None => format!(
            "requests of up to {} reach storage unchanged, {} per read in flight",
            ByteSize(calls.most_bytes),
            calls.window
        ),
    }];
    if storage.surface.is_some() {
        notes.push("storage is as fast as measured at the current depth".to_string());
    } else {
        notes.push(
            "devices serve requests in order of arrival; latency does not grow until bandwidth, IOPS \
             or queue are exhausted"
                .to_string(),
        );
    }
    if storage.devices > 1 && storage.surface.is_none() {
        notes.push(format!(
            "files are striped over all devices in units of {}{}",
            ByteSize(storage.stripe_bytes_or_default()),
            if storage.devices > GROUPS_AT_MOST && scenario.shares.storage >= 1.0 {
                format!("; {} devices are simulated in {GROUPS_AT_MOST} groups", storage.devices)
            } else {
                String::new()
            }
        ));
    }
    match storage.cache_bytes.filter(|_| !calls.direct) {
        Some(_) if plan.request.cold => {
            notes.push("files are dropped from the page cache before each epoch".to_string());
        }
        Some(bytes) => notes.push(format!(
            "the page cache starts cold and then keeps the same {} of what its host reads; cache hits \
             take no time",
            ByteSize(bytes)
        )),
        None => {}
    }
    if plan.checkpoint.is_some() && storage.write_bytes_per_second().is_none() {
        notes.push("checkpoints take no time: the write bandwidth is unknown".to_string());
    }
    notes.push(if scenario.sample_stdev_bytes > 0.0 {
        "file sizes are drawn as by DLIO".to_string()
    } else {
        "all files have the same size".to_string()
    });
    notes
}
