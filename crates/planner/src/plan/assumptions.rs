//! The assumptions behind an answer, each with the option that changes it.

use super::case::Sizing;
use super::prediction::StoragePart;
use super::storage::DEFAULT_STRIPE_BYTES;
use stormlp_core::units::{ByteSize, counted, format_duration, short_size};
use stormlp_training::plan::train_plan::TrainPlan;

/// The error of the model for published runs, and how this plan differs from them.
/// docs/validation.md lists the runs.
pub fn model_error(sizing: &Sizing, plan: &TrainPlan, limit: Option<StoragePart>) -> String {
    let storage = &sizing.storage.model;
    let others = [
        (plan.workload != "unet3d", "for another workload"),
        (storage.surface.is_some(), "based on measured storage"),
        (storage.link.is_some(), "over a network"),
        (storage.cache_bytes.is_some(), "with a page cache"),
        (storage.devices > MOST_VALIDATED_DEVICES, "for more drives"),
        (sizing.hosts_of(plan.accelerators) > 1, "for several hosts"),
        (limit != Some(StoragePart::Devices), "not limited by its drives"),
    ];
    let others: Vec<&str> =
        others.into_iter().filter_map(|(differs, what)| differs.then_some(what)).collect();
    let here = match others.as_slice() {
        [] => "this plan is comparable".to_string(),
        others => format!("this plan is {}, which they do not cover", others.join(", ")),
    };
    format!(
        "for 4 published results, all unet3d in one server limited by its 1 to \
         {MOST_VALIDATED_DEVICES} local drives, the largest number of accelerators was predicted to \
         within 1 and throughput to within 5 % (docs/validation.md); {here}"
    )
}

/// Most drives in any of the published results.
const MOST_VALIDATED_DEVICES: u32 = 4;

/// The assumptions for `request` with the run `plan`.
pub fn of(sizing: &Sizing, plan: &TrainPlan) -> Vec<String> {
    let mut notes = vec![
        "everything here is simulated, nothing was measured".to_string(),
        format!(
            "storage is {} ({}), performs the same at any fill level and age, and serves no other clients",
            sizing.storage.model, sizing.storage.source
        ),
    ];
    notes.extend(of_storage(sizing));
    notes.extend(of_hosts(sizing, plan));
    if sizing.checkpoint().is_some() {
        notes.push(
            "checkpoint times are size divided by bandwidth: overhead for files, latency and syncs is not \
             included"
                .to_string(),
        );
    }
    notes.push(format!(
        "read order, read pattern and AU follow profile {} ({})",
        plan.profile,
        plan.profile.describe()
    ));
    notes.push(
        "if one number of accelerators misses the threshold, so do all larger ones".to_string(),
    );
    notes
}

fn of_storage(sizing: &Sizing) -> Vec<String> {
    let storage = &sizing.storage.model;
    let mut notes = Vec::new();
    if let Some(surface) = &storage.surface {
        notes.push(format!(
            "throughput and latency are interpolated logarithmically between the {} measured sizes and \
             depths; outside them the nearest value is used",
            surface.points().len()
        ));
        // Options that cannot be combined with a report are not suggested.
        notes.push(
            "the measurement already includes network and page cache, and adding more of this storage \
             is not extrapolated"
                .to_string(),
        );
        return notes;
    }
    if storage.device.latency_seconds == 0.0 {
        notes.push("reads have no latency: set it with e.g. latency=80us".to_string());
    }
    if storage.device.queue_depth.is_none() {
        notes.push(
            "devices serve any number of requests at a time: set a limit with e.g. queue=1024"
                .to_string(),
        );
    }
    if storage.devices > 1 && storage.stripe_bytes.is_none() {
        notes.push(format!(
            "files are striped over the devices in units of {}: change with stripe=SIZE",
            short_size(DEFAULT_STRIPE_BYTES)
        ));
    }
    if storage.link.is_none() {
        notes.push(
            "there is no network between hosts and storage: add one with e.g. \
             link=25GB/s,round-trip=50us"
                .to_string(),
        );
    }
    if storage.cache_bytes.is_none() {
        notes.push(
            "there is no page cache, so all bytes come from storage: add one with cache=SIZE"
                .to_string(),
        );
    }
    notes
}

fn of_hosts(sizing: &Sizing, plan: &TrainPlan) -> Vec<String> {
    let mut notes = Vec::new();
    notes.push(match plan.client {
        None => "reading, parsing and copying take hosts no time: set --host-cost-per-step and \
                 --host-cost-per-gib, or --client dlio"
            .to_string(),
        Some(cost) => format!(
            "each step costs a host {} in addition to loading and compute, each GiB {} of {}{}",
            format_duration(cost.step_seconds),
            format_duration(cost.cpu_seconds_per_gib),
            counted(u64::from(sizing.host_cpus()), "CPU"),
            if cost.estimated { "; these are estimates from another host" } else { "" }
        ),
    });
    if sizing.asked.barrier_seconds.unwrap_or(0.0) == 0.0 {
        notes.push("the barrier takes no time: set it with --barrier".to_string());
    }
    notes.push(format!(
        "the dataset is as large as MLPerf's rules require for {} of memory per host",
        ByteSize(sizing.host_memory_bytes())
    ));
    notes
}
