//! What a simulation takes for granted, in sentences.

use crate::plan::Scenario;
use stormlp_core::units::ByteSize;
use stormlp_training::plan::train_plan::TrainPlan;

use super::reads::Calls;
use super::storage::GROUPS_AT_MOST;

/// What was assumed of `plan` on `scenario`.
pub(super) fn of(plan: &TrainPlan, scenario: &Scenario, calls: &Calls) -> Vec<String> {
    let storage = &scenario.storage;
    let mut told = vec![match calls.read_ahead {
        Some(bytes) => format!(
            "readers go through the page cache: the kernel reads ahead of each in requests of {}, \
             two under way",
            ByteSize(bytes)
        ),
        None => format!(
            "requests of up to {} reach storage as they are made, {} of a read under way",
            ByteSize(calls.most_bytes),
            calls.window
        ),
    }];
    if storage.surface.is_some() {
        told.push("storage is as fast as it was measured at the depth there is".to_string());
    } else {
        told.push(
            "each device serves requests in the order in which they come; latency does not grow \
             before its bandwidth, operations or queue are used up"
                .to_string(),
        );
    }
    if storage.devices > 1 && storage.surface.is_none() {
        told.push(format!(
            "files lie over all devices in stripes of {}{}",
            ByteSize(storage.stripe_bytes_or_default()),
            if storage.devices > GROUPS_AT_MOST && scenario.shares.storage >= 1.0 {
                format!("; {} devices are simulated in {GROUPS_AT_MOST} groups", storage.devices)
            } else {
                String::new()
            }
        ));
    }
    match storage.cache_bytes.filter(|_| !calls.direct) {
        Some(_) if plan.cold => {
            told.push("files are dropped from the page cache before each epoch".to_string());
        }
        Some(bytes) => told.push(format!(
            "the page cache is cold at first and then keeps the same {} of what its host reads; what \
             it has takes no time",
            ByteSize(bytes)
        )),
        None => {}
    }
    if plan.checkpoint.is_some() && storage.write_bytes_per_second().is_none() {
        told.push("checkpoints take no time: no write bandwidth is given".to_string());
    }
    told.push(if scenario.sample_stdev_bytes > 0.0 {
        "files are as large as DLIO draws them".to_string()
    } else {
        "all files are of one size".to_string()
    });
    told
}
