//! What an answer takes for granted, in sentences that say how to take something else.

use super::prediction::StoragePart;
use super::request::SizingRequest;
use super::storage::DEFAULT_STRIPE_BYTES;
use stormlp_core::units::{ByteSize, counted, format_duration, short_size};
use stormlp_training::plan::train_plan::TrainPlan;

/// How far the model was from published runs, and how far this one is from those;
/// docs/validation.md has them one by one.
pub fn model_error(
    request: &SizingRequest,
    plan: &TrainPlan,
    limit: Option<StoragePart>,
) -> String {
    let storage = &request.storage;
    let others = [
        (plan.workload != "unet3d", "of another workload"),
        (storage.surface.is_some(), "of storage that was measured"),
        (storage.link.is_some(), "over a network"),
        (storage.cache_bytes.is_some(), "with a page cache"),
        (storage.devices > MOST_VALIDATED_DEVICES, "of more drives"),
        (request.hosts_of(plan.accelerators) > 1, "of several hosts"),
        (limit != Some(StoragePart::Devices), "of another limit"),
    ];
    let others: Vec<&str> =
        others.into_iter().filter_map(|(differs, what)| differs.then_some(what)).collect();
    let here = match others.as_slice() {
        [] => "this plan is of their kind".to_string(),
        others => format!("this plan is {}, for which they show nothing", others.join(", ")),
    };
    format!(
        "held against 4 published rows, all unet3d in one server with 1 to {MOST_VALIDATED_DEVICES} \
         local drives that limit, the largest number of accelerators was predicted to within 1 and \
         throughput to within 5 % (docs/validation.md); {here}"
    )
}

/// Drives of the published rows, at most.
const MOST_VALIDATED_DEVICES: u32 = 4;

/// The sentences for `request`, whose run is `plan`.
pub fn of(request: &SizingRequest, plan: &TrainPlan) -> Vec<String> {
    let mut told = vec![
        "everything here is simulated, nothing was measured".to_string(),
        format!(
            "storage is {} ({}), keeps its figures at any fill and age, and serves nobody else",
            request.storage, request.storage_source
        ),
    ];
    told.extend(of_storage(request));
    told.extend(of_hosts(request, plan));
    if request.checkpoint.is_some() {
        told.push(
            "a checkpoint takes its bytes over the bandwidth: what its files, latency and syncs take \
             comes on top"
                .to_string(),
        );
    }
    told.push(format!(
        "read order, read pattern and AU are those of profile {} ({})",
        plan.profile,
        plan.profile.describe()
    ));
    told.push(
        "a number of accelerators above one that misses the threshold misses it, too".to_string(),
    );
    told
}

fn of_storage(request: &SizingRequest) -> Vec<String> {
    let storage = &request.storage;
    let mut told = Vec::new();
    if let Some(surface) = &storage.surface {
        told.push(format!(
            "between the {} sizes and depths that were measured, throughput and latency follow their \
             logarithms; beyond them the nearest holds",
            surface.points().len()
        ));
        // Options that a report does not take are no advice.
        told.push(
            "what the network and the page cache are to be is in what was measured, and more of this \
             storage is not guessed"
                .to_string(),
        );
        return told;
    }
    if storage.device.latency_seconds == 0.0 {
        told.push("reads have no latency: give latency=80us or what the drive has".to_string());
    }
    if storage.device.queue_depth.is_none() {
        told.push("a device takes any number of requests at a time: give queue=1024".to_string());
    }
    if storage.devices > 1 && storage.stripe_bytes.is_none() {
        told.push(format!(
            "files lie in stripes of {} over the devices: give stripe=SIZE",
            short_size(DEFAULT_STRIPE_BYTES)
        ));
    }
    if storage.link.is_none() {
        told.push("no network bounds the hosts: give link=25GB/s,round-trip=50us".to_string());
    }
    if storage.cache_bytes.is_none() {
        told.push(
            "no page cache keeps the dataset, so all bytes come from storage: give cache=SIZE"
                .to_string(),
        );
    }
    told
}

fn of_hosts(request: &SizingRequest, plan: &TrainPlan) -> Vec<String> {
    let mut told = Vec::new();
    told.push(match plan.client {
        None => "hosts read, parse and copy in no time: give --host-cost-per-step and \
                 --host-cost-per-gib, or --client dlio"
            .to_string(),
        Some(cost) => format!(
            "each step costs a host {} beside loading and compute, each GiB {} of {}{}",
            format_duration(cost.step_seconds),
            format_duration(cost.cpu_seconds_per_gib),
            counted(u64::from(request.host_cpus), "CPU"),
            if cost.estimated { "; these are estimates from another host" } else { "" }
        ),
    });
    if request.barrier_seconds == 0.0 {
        told.push("the barrier of a step takes no time: give --barrier".to_string());
    }
    told.push(format!(
        "the dataset is as large as MLPerf's rules ask for with {} of memory in each host",
        ByteSize(request.host_memory_bytes)
    ));
    told
}
