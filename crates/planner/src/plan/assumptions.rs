//! The assumptions behind an answer, each with the option that changes it.

use super::case::Sizing;
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::units::{ByteSize, GIB, counted, format_duration, short_size};
use stormlp_training::plan::client::{ClientCost, KNOWN_HOST, unknown_cost};
use stormlp_training::plan::train_plan::TrainPlan;

/// The error over all published rows of drives: docs/validation.md, which a test compares.
const ERROR_OF_DRIVES: &str =
    "the range held 28 of 29 published results, N was off by 12 % (median), at most 32 %";
/// The same over a network, of one client.
const ERROR_OF_NETWORKS: &str =
    "the range held 29 of 34 published results, N was off by 56 % (median), at most 480 %";

/// Maximum number of drives in the published results.
const MOST_VALIDATED_DEVICES: u32 = 8;

/// The kinds of this plan that no published run is of.
pub fn not_validated(sizing: &Sizing, plan: &TrainPlan) -> Vec<&'static str> {
    let storage = &sizing.storage.model;
    let is_validated = ["unet3d", "resnet50", "cosmoflow"].contains(&plan.workload.as_str());
    let kinds = [
        (!is_validated, "this workload"),
        (storage.surface.is_some(), "measured storage"),
        (sizing.path() == PathKind::S3, "objects"),
        (storage.link.is_none() && storage.devices > MOST_VALIDATED_DEVICES, "so many drives"),
        (sizing.hosts_of(plan.accelerators) > 1, "several hosts"),
        (sizing.is_uncached(), "reads past the page cache"),
    ];
    kinds.into_iter().filter_map(|(differs, what)| differs.then_some(what)).collect()
}

/// The error of the model for published runs, and how this plan differs from them.
/// docs/validation.md lists the runs.
pub fn model_error(sizing: &Sizing, plan: &TrainPlan) -> String {
    let (storage, host) = (&sizing.storage.model, sizing.asked.host_spec());
    let figures = [
        (storage.cache_bytes.is_some(), "a given page cache"),
        (storage.device.latency_seconds > 0.0, "a given latency"),
        (sizing.asked.client_overhead.is_some(), "a given client overhead"),
        (host.read_bytes_per_second.is_some(), "a given host rate"),
        (host.cpus.is_some(), "a given number of CPUs"),
    ];
    let mut others = not_validated(sizing, plan);
    others.extend(figures.into_iter().filter_map(|(differs, what)| differs.then_some(what)));
    let here = match others.as_slice() {
        [] => "this plan is like them".to_string(),
        others => format!("none of them covers {}", others.join(", ")),
    };
    let error = if storage.link.is_some() { ERROR_OF_NETWORKS } else { ERROR_OF_DRIVES };
    format!("{error}; {here}")
}

/// The assumptions for `request` with the run `plan`.
pub fn of(sizing: &Sizing, plan: &TrainPlan) -> Vec<String> {
    let mut notes = vec![
        "all of this is simulated, not measured".to_string(),
        format!(
            "storage is {} ({}), performs the same at any fill level and age, and serves no other clients",
            sizing.storage.model, sizing.storage.source
        ),
    ];
    notes.extend(of_storage(sizing));
    notes.extend(of_hosts(sizing, plan));
    if sizing.checkpoint().is_some() {
        notes.push(
            "checkpoints take their size divided by the write bandwidth, and no time where write= is not \
             set"
                .to_string(),
        );
    }
    notes.push(format!(
        "read order, read pattern and AU follow edition {} ({})",
        plan.profile.edition(),
        plan.profile.describe()
    ));
    notes.push(
        "if one number of accelerators misses the threshold, so do all larger ones".to_string(),
    );
    notes
}

fn of_storage(sizing: &Sizing) -> Vec<String> {
    let storage = &sizing.storage.model;
    if let Some(surface) = &storage.surface {
        let included = if storage.has_objects() { "the caches of the store" } else { "page cache" };
        return vec![format!(
            "throughput and latency are interpolated between the {} measured sizes and depths, which \
             include network and {included}; more of this storage is not extrapolated",
            surface.points().len()
        )];
    }
    let has_objects = storage.connections.is_some();
    let connections = storage.connections.and_then(|all| all.number);
    let reads_files = !has_objects && !sizing.is_uncached();
    let stripe = short_size(storage.stripe_bytes_or_default());
    let ahead = short_size(storage.read_ahead_bytes_or_default());
    let notes = [
        connections.map(|number| {
            let all = counted(u64::from(number), "connection");
            format!("each host has {all}, and a request takes one until its last byte")
        }),
        (has_objects && connections.is_none())
            .then(|| "hosts have a connection for each request: set connections=64".to_string()),
        (!has_objects && storage.device.latency_seconds == 0.0)
            .then(|| "reads have no latency: set latency=80us".to_string()),
        (!has_objects && storage.device.queue_depth.is_none())
            .then(|| "devices serve any number of requests at a time: set queue=1024".to_string()),
        (storage.devices > 1 && !has_objects)
            .then(|| format!("files are striped over the devices in units of {stripe} (stripe=)")),
        storage.is_per_host.then(|| "each host's drives hold all files that it reads".to_string()),
        (storage.link.is_none() && !storage.is_per_host).then(|| {
            "the network is no limit: set its bandwidth and latency, link=25GB/s,round-trip=50us"
                .to_string()
        }),
        reads_files.then(|| format!("the file system reads {ahead} ahead (readahead=)")),
        reads_files.then(|| match storage.cache_bytes {
            None => {
                "there is no page cache, so all bytes come from storage: set cache=".to_string()
            }
            Some(_) => "the page cache starts cold, and hits take no time".to_string(),
        }),
    ];
    notes.into_iter().flatten().collect()
}

fn of_hosts(sizing: &Sizing, plan: &TrainPlan) -> Vec<String> {
    let mut notes = vec![match plan.client {
        None => format!(
            "parsing, copying and the client's steps take hosts no time: set --client-overhead {}",
            match unknown_cost(plan.data.format) {
                None => "dlio, or step=0.7ms,gib=0.9s".to_string(),
                Some(why) => format!("step=0.7ms,gib=0.9s ({why})"),
            }
        ),
        Some(cost) => client_cost(sizing, plan, cost),
    }];
    let slept = plan.client.and_then(|cost| cost.oversleep_seconds);
    if let Some(seconds) = slept.filter(|_| plan.profile != Profile::V1) {
        notes.push(format!(
            "each compute takes {:.0} us too long, as it did where the client was calibrated, and AU \
             counts that: storage that limits may feed more accelerators than without a client",
            seconds * 1e6
        ));
    }
    if let Some(rate) = sizing.host_rate() {
        let published = "about what published hosts with the official client read: set --host \
                         read=, or --client-overhead none for storage alone";
        let is_given = sizing.asked.host_spec().read_bytes_per_second.is_some();
        notes.push(format!(
            "a host reads at most {}/s, {}",
            ByteSize(rate as u64),
            if is_given { "as given" } else { published }
        ));
    }
    if sizing.asked.host_spec().barrier_seconds.is_none() {
        notes.push("the barrier takes no time: set --host barrier=50us".to_string());
    }
    notes
}

fn client_cost(sizing: &Sizing, plan: &TrainPlan, cost: ClientCost) -> String {
    let sample = plan.data.read_sample_bytes;
    let of_gib = cost.worker_seconds(GIB as f64 / sample.max(1.0), sample);
    let busy = cost.worker_seconds(plan.demand_samples_per_second() * plan.passes(), sample);
    let cpus = match sizing.asked.host_spec().cpus {
        Some(cpus) => counted(u64::from(cpus), "CPU"),
        None => format!(
            "a CPU that its reader has alone ({busy:.1} CPUs are busy with reading in all; if hosts have \
             fewer, set --host cpus=)"
        ),
    };
    format!(
        "each step costs a host {:.0} us in addition to loading and compute, each GiB {} of {cpus}{}",
        cost.step_seconds_of(plan.batch_size) * 1e6,
        format_duration(of_gib),
        if cost.estimated { format!("; measured on {KNOWN_HOST}") } else { String::new() }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_error_is_that_of_the_validation() {
        let page = include_str!("../../../../docs/validation.md");
        for (name, error) in [("drives", ERROR_OF_DRIVES), ("networks", ERROR_OF_NETWORKS)] {
            let start = format!("- {name}: ");
            let line = page.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
            assert!(line.contains(error), "{line}");
        }
    }
}
