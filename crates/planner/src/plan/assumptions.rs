//! The assumptions behind an answer, each with the option that changes it.

use super::case::Sizing;
use super::storage::{Connections, DEFAULT_STRIPE_BYTES, StorageModel};
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::units::{ByteSize, GIB, counted, format_duration, short_size};
use stormlp_training::plan::client::{KNOWN_HOST, unknown_cost};
use stormlp_training::plan::train_plan::TrainPlan;

/// The error over all published rows: docs/validation.md, which a test compares.
const PUBLISHED_ERROR: &str = "the range held 28 of 29 published results (13 of 14 drive-bound), N \
     was off by 12 % (median), at most 32 %";

/// Most drives in any of the published results.
const MOST_VALIDATED_DEVICES: u32 = 8;

/// The error of the model for published runs, and how this plan differs from them.
/// docs/validation.md lists the runs.
pub fn model_error(sizing: &Sizing, plan: &TrainPlan) -> String {
    let (storage, asked) = (&sizing.storage.model, &sizing.asked);
    let has_cost = asked.host_cost_per_step_seconds.or(asked.host_cost_per_gib_seconds).is_some();
    let is_validated = ["unet3d", "resnet50", "cosmoflow"].contains(&plan.workload.as_str());
    let others = [
        (!is_validated, "for another workload"),
        (storage.surface.is_some(), "based on measured storage"),
        (storage.link.is_some(), "over a network"),
        (sizing.path() == PathKind::S3, "on objects"),
        (storage.cache_bytes.is_some(), "with a given page cache"),
        (storage.devices > MOST_VALIDATED_DEVICES, "for more drives"),
        (storage.device.latency_seconds > 0.0, "with a given latency"),
        (sizing.hosts_of(plan.accelerators) > 1, "for several hosts"),
        (sizing.is_uncached(), "past the page cache"),
        (asked.client.is_some(), "with a given client"),
        (sizing.host_cost.is_some() || has_cost, "with a given host cost"),
        (asked.host_rate.is_some(), "with a given host rate"),
        (asked.host_cpus.is_some(), "with a given number of CPUs"),
    ];
    let others: Vec<&str> =
        others.into_iter().filter_map(|(differs, what)| differs.then_some(what)).collect();
    let here = match others.as_slice() {
        [] => "this plan is comparable".to_string(),
        others => format!("this plan is {}, which they do not cover", others.join(", ")),
    };
    format!("{PUBLISHED_ERROR}; {here} (docs/validation.md)")
}

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
        let included = if storage.has_objects() { "the caches of the store" } else { "page cache" };
        notes.push(format!(
            "the measurement already includes network and {included}, and adding more of this storage \
             is not extrapolated"
        ));
        return notes;
    }
    if let Some(connections) = storage.connections {
        return of_store(storage, connections);
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
    if storage.is_per_host {
        notes.push("each host's drives hold all files that it reads".to_string());
    } else if storage.link.is_none() {
        notes.push(
            "there is no network between hosts and storage: add one with e.g. \
             link=25GB/s,round-trip=50us"
                .to_string(),
        );
    }
    if storage.link.is_some() && storage.read_ahead_bytes.is_none() {
        notes.push(format!(
            "the file system reads {} ahead, as parallel ones do: set what its clients do with \
             readahead=SIZE",
            short_size(storage.read_ahead_bytes_or_default())
        ));
    }
    if storage.cache_bytes.is_none() {
        notes.push(
            "there is no page cache, so all bytes come from storage: add one with cache=SIZE"
                .to_string(),
        );
    }
    notes
}

fn of_store(storage: &StorageModel, connections: Connections) -> Vec<String> {
    let of_host = match connections.number {
        Some(number) => format!(
            "each host has {}, and a request takes one until its last byte",
            counted(u64::from(number), "connection")
        ),
        None => {
            "hosts have a connection for each request: set their number with e.g. connections=64"
                .to_string()
        }
    };
    let mut notes = vec![
        of_host,
        "each request takes the time of latency=, then that of its bytes on a connection"
            .to_string(),
    ];
    if storage.link.is_none() {
        notes.push("the network of hosts is no limit: set it with e.g. link=12.5GB/s".to_string());
    }
    notes
}

fn of_hosts(sizing: &Sizing, plan: &TrainPlan) -> Vec<String> {
    let mut notes = Vec::new();
    notes.push(match plan.client {
        None => format!(
            "parsing, copying and the client's steps take hosts no time: set --host-cost-per-step \
             and --host-cost-per-gib{}",
            match unknown_cost(plan.data.format) {
                None => ", or --client dlio".to_string(),
                Some(why) => format!(" ({why})"),
            }
        ),
        Some(cost) => format!(
            "each step costs a host {:.0} us in addition to loading and compute, each GiB {} of {}{}",
            cost.step_seconds_of(plan.batch_size) * 1e6,
            format_duration(cost.worker_seconds(
                GIB as f64 / plan.data.read_sample_bytes.max(1.0),
                plan.data.read_sample_bytes
            )),
            match sizing.asked.host_cpus {
                Some(cpus) => counted(u64::from(cpus), "CPU"),
                None => format!(
                    "a CPU that its reader has alone ({:.1} CPUs are busy with reading in all; if hosts \
                     have fewer, set --host-cpus)",
                    cost.worker_seconds(
                        plan.demand_samples_per_second() * plan.passes(),
                        plan.data.read_sample_bytes
                    )
                ),
            },
            if cost.estimated { format!("; measured on {KNOWN_HOST}") } else { String::new() }
        ),
    });
    let slept = plan.client.and_then(|cost| cost.oversleep_seconds);
    if let Some(seconds) = slept.filter(|_| plan.profile != Profile::V1) {
        notes.push(format!(
            "each compute takes {:.0} us too long, as it did where the client was calibrated, and AU \
             counts that: storage that limits may feed more accelerators than without a client",
            seconds * 1e6
        ));
    }
    if let Some(rate) = sizing.host_rate() {
        let published = "about what published hosts with the official client read; set \
                         --host-rate, or --client none for storage alone";
        notes.push(format!(
            "a host reads at most {}/s, {}",
            ByteSize(rate as u64),
            if sizing.asked.host_rate.is_some() { "as given" } else { published }
        ));
    }
    if sizing.asked.barrier_seconds.unwrap_or(0.0) == 0.0 {
        notes.push("the barrier takes no time: set it with --barrier".to_string());
    }
    notes.push(format!(
        "the dataset is as large as MLPerf's rules require for {} of memory per host",
        ByteSize(sizing.host_memory_bytes())
    ));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_error_is_that_of_the_validation() {
        let page = include_str!("../../../../docs/validation.md");
        let line = page.lines().find(|line| line.starts_with("- all: ")).unwrap_or_default();
        assert!(line.contains(PUBLISHED_ERROR), "{line}");
    }
}
