//! What an answer takes for granted, in sentences that say how to take something else.

use super::request::SizingRequest;
use super::storage::DEFAULT_STRIPE_BYTES;
use crate::training::plan::TrainPlan;
use crate::units::{ByteSize, counted, format_duration, short_size};

/// How far the model was from published and measured runs; docs/validation.md has them one by one.
pub const MODEL_ERROR: &str = "of the published rows that drives limit (docs/validation.md), the largest number of \
     accelerators was foretold to within 1 and throughput to within 5 %; where a client limits, the \
     model knows no more than the host cost that it is given";

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
    } else {
        if storage.device.latency_seconds == 0.0 {
            told.push("reads have no latency: give latency=80us or what the drive has".to_string());
        }
        if storage.device.queue_depth.is_none() {
            told.push(
                "a device takes any number of requests at a time: give queue=1024".to_string(),
            );
        }
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
            if cost.estimated {
                "; these are estimates from another host"
            } else {
                ""
            }
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
