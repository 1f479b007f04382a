//! Training on several hosts before its first byte: the accelerators of each host, and the fields
//! that must be equal on all.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use crate::plan::request::{RequestedHosts, TrainRequest};
use crate::plan::train_plan::TrainPlan;
use serde::{Deserialize, Serialize};
use stormlp_core::difference::ConsistencyField;
use stormlp_core::units::{ByteSize, counted};
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_dataset::inventory::facts::Inventory;
use stormlp_hosts::members;

use stormlp_core::failure::Failure;
use stormlp_hosts::consistency_fields;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::session::Session;

/// The options of a process.
#[derive(Serialize, Deserialize)]
struct Asks {
    accelerators: u32,
    drawn_seed: u64,
}

/// Fills `request` from the options common to all processes.
///
/// # Errors
/// If there are fewer accelerators than processes, or the processes name different totals.
pub fn ask(peers: &Peers, request: &mut TrainRequest, session: &Session) -> Result<(), Failure> {
    let group = &*session.group;
    if peers.is_alone() {
        request.accelerators = request.accelerators.or(request.accelerators_per_host);
        return Ok(());
    }
    let total = request.accelerators.map_or("none".to_string(), |total| total.to_string());
    peers.same_option("--accelerators", total)?;
    let all = peers.members();
    let accelerators = match (request.accelerators, request.accelerators_per_host) {
        (Some(total), _) => share(total, group.size(), group.rank()),
        (None, Some(of_host)) => {
            share(of_host, peers.processes_here() as u32, peers.rank_here() as u32)
        }
        (None, None) => 1,
    };
    let asks = peers.exchange(&Asks { accelerators, drawn_seed: request.drawn_seed })?;
    let accelerators: Vec<u32> = asks.iter().map(|one| one.accelerators).collect();
    request.drawn_seed = asks.first().map_or(0, |one| one.drawn_seed);
    if accelerators.contains(&0) {
        return Err(too_few(accelerators.iter().sum(), group.size()));
    }
    request.accelerators = Some(accelerators.iter().sum());
    let hosts = all.iter().filter(|member| member.leads_host(all));
    request.hosts = Some(RequestedHosts {
        accelerators,
        rank: group.rank(),
        hosts: hosts.count() as u32,
        memory_bytes: members::memory_bytes(all),
    });
    Ok(())
}

/// Warnings about these hosts for the report.
pub fn warnings(peers: &Peers, plan: &TrainPlan) -> Vec<Warning> {
    let mut warnings = peers.warnings();
    if plan.hosts.iter().any(|count| *count != plan.hosts[0]) {
        warnings.push(Warning::new(
            WarningKind::Hosts,
            "the hosts have different numbers of accelerators, which MLPerf's closed rules do \
             not allow",
            "choose a multiple of the number of hosts for --accelerators",
        ));
    }
    warnings.extend(peers.local_warning("read its own dataset"));
    warnings
}

/// Plan fields that may differ between hosts, in addition to the request, which is compared
/// separately: location of the files, and values derived from the number of CPUs and accelerators.
const APART: [&str; 14] = [
    "request",
    "memory_bytes",
    "data.folder",
    "checkpoint.folder",
    "transport.engine",
    "transport.threads",
    "transport.queue_depth",
    "transport.window",
    "transport.submit_batch",
    "transport.streams",
    "transport.memory",
    "transport.wait",
    "transport.placement",
    "transport.devices",
];
/// Names of plan parts that differ from their keys.
const NAMES: [(&str, &str); 5] = [
    ("client", "option --client-overhead"),
    ("compute", "compute time"),
    ("metric", "parameters metric.*"),
    ("preprocess", "parameter reader.preprocess_time"),
    ("transport", "way the bytes travel (--path, --engine, --device, --tune pages)"),
];

/// Request fields that may differ between hosts: accelerators, location of the files, and fields
/// that are compared by their effect on the plan.
const ASKED_APART: [&str; 6] =
    ["workload", "accelerator", "accelerators", "accelerators_per_host", "params", "dir"];
/// Names of request fields that differ from their keys.
const ASKED_NAMES: [(&str, &str); 2] =
    [("compute", "option --compute-time"), ("keep_step_times", "option --mlperf-output")];

/// The part of `request` that must be equal on all hosts.
pub fn asked(request: &TrainRequest) -> Vec<ConsistencyField> {
    consistency_fields::asked(request, &ASKED_APART, &ASKED_NAMES)
}

/// The part of a run of `plan` over `inventory` that must be equal on all hosts.
pub fn consistency_fields(plan: &TrainPlan, inventory: &Inventory) -> Vec<ConsistencyField> {
    let mut hasher = DefaultHasher::new();
    for file in &inventory.train {
        (&file.name, file.bytes).hash(&mut hasher);
    }
    let data = &plan.data;
    let dataset = format!(
        "{} with {} ({:08x})",
        counted(data.files, "file"),
        ByteSize(data.bytes),
        hasher.finish() as u32
    );
    let mut consistency_fields = consistency_fields::of(plan, &APART, &NAMES);
    consistency_fields.push(("dataset".to_string(), dataset));
    consistency_fields
}

/// The accelerators of one of `processes`: as equal as they can be, with one more on the first.
fn share(total: u32, processes: u32, process: u32) -> u32 {
    total / processes + u32::from(process < total % processes)
}

/// Why a run with fewer accelerators than processes is impossible.
fn too_few(total: u32, processes: u32) -> Failure {
    Failure::usage(format!(
        "{} for {processes} processes: each needs one",
        counted(u64::from(total), "accelerator")
    ))
    .with_help(format!("use --accelerators {processes} or more, or start fewer processes"))
    .of_all()
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_add_up_and_differ_by_one_at_most() {
        for (total, processes) in [(2, 2), (7, 3), (8, 4), (1, 2)] {
            let shares: Vec<u32> = (0..processes).map(|one| share(total, processes, one)).collect();
            assert_eq!(shares.iter().sum::<u32>(), total);
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            assert!(most - least <= 1, "{shares:?}");
        }
    }
}
