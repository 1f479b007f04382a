//! A training on several hosts before its first byte: how many accelerators each has, and what all
//! have to do alike.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use serde::{Deserialize, Serialize};
use stormlp_model::group::memory_bytes;
use stormlp_model::report::Ending;
use stormlp_model::training::barrier::StepBarrier;
use stormlp_model::training::inventory::Inventory;
use stormlp_model::training::plan::TrainPlan;
use stormlp_model::training::report::TrainReport;
use stormlp_model::training::request::{RequestedHosts, TrainRequest};
use stormlp_model::units::{ByteSize, counted};
use stormlp_model::warning::{Warning, WarningKind};

use crate::commands::party::Party;
use crate::exit::Failure;
use crate::hosts;
use crate::session::Session;

/// How the hosts of a run share its work and its data.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Several hosts")]
pub(crate) struct HostsArgs {
    /// Accelerators of all hosts together, as many on each
    #[arg(long, value_name = "N", conflicts_with_all = ["accelerators", "find_max"], value_parser = clap::value_parser!(u32).range(1..))]
    accelerators_total: Option<u32>,

    /// Every host has the dataset in a folder of its own: nothing is said of shared storage then
    #[arg(long, conflicts_with = "find_max")]
    pub(super) local_data: bool,

    /// When accelerators wait for each other, on one host as on several: every-step, as the benchmark
    /// does; epoch lets each go through its steps on its own, up to the end of the epoch; none lets
    /// hosts go through all epochs on their own. AU is then that of each one's own steps, and no
    /// result of the benchmark's
    #[arg(
        long,
        value_name = "WHEN",
        default_value_t,
        hide_default_value = true,
        conflicts_with = "find_max"
    )]
    pub(super) barrier: StepBarrier,
}

/// What a process asks for.
#[derive(Serialize, Deserialize)]
struct Asks {
    accelerators: u32,
    drawn_seed: u64,
}

/// Puts into `request` what all ask for together.
///
/// # Errors
/// When the accelerators cannot be divided.
pub(super) fn ask(
    party: &Party,
    args: &HostsArgs,
    request: &mut TrainRequest,
    session: &Session,
) -> Result<(), Failure> {
    let group = &*session.group;
    if let Some(total) = args.accelerators_total {
        request.accelerators = Some(divided(total, group.size())?);
    }
    if party.is_alone() {
        return Ok(());
    }
    let asks = Asks {
        accelerators: request.accelerators.unwrap_or(1),
        drawn_seed: request.drawn_seed,
    };
    let asks = hosts::exchange(group, &asks)?;
    let accelerators: Vec<u32> = asks.iter().map(|one| one.accelerators).collect();
    request.drawn_seed = asks.first().map_or(0, |one| one.drawn_seed);
    request.accelerators = Some(accelerators.iter().sum());
    let all = party.members();
    let hosts = all.iter().filter(|member| member.leads_host(all));
    request.hosts = Some(RequestedHosts {
        accelerators,
        rank: group.rank(),
        hosts: hosts.count() as u32,
        memory_bytes: memory_bytes(all),
    });
    Ok(())
}

/// What the reader should know of these hosts.
pub(super) fn warnings(party: &Party, plan: &TrainPlan) -> Vec<Warning> {
    let mut warnings = party.warnings();
    if plan.hosts.iter().any(|count| *count != plan.hosts[0]) {
        warnings.push(Warning::new(
            WarningKind::Hosts,
            "the hosts have different numbers of accelerators, which MLPerf's closed rules do \
             not allow",
            "give every host the same --accelerators",
        ));
    }
    if party.has_local_data() {
        warnings.push(Warning::new(
            WarningKind::Hosts,
            "every host read a dataset of its own (--local-data): nothing here is of shared \
             storage",
            "",
        ));
    }
    warnings
}

/// What a run by `plan` over `inventory` does, as far as all have to do the same.
pub(super) fn promises(plan: &TrainPlan, inventory: &Inventory) -> Vec<(String, String)> {
    let mut hasher = DefaultHasher::new();
    for file in inventory.train.iter().chain(&inventory.valid) {
        (&file.name, file.bytes).hash(&mut hasher);
    }
    let data = &plan.data;
    let dataset = format!(
        "{} with {} ({:08x})",
        counted(data.files, "file"),
        ByteSize(data.bytes),
        hasher.finish() as u32
    );
    let shuffle = format!("{:?}", plan.shuffle);
    let cold = match plan.cold {
        true => "--cold",
        false => "no --cold",
    };
    let promises: [(&str, String); 16] = [
        ("workload", plan.workload.clone()),
        ("profile", plan.profile.to_string()),
        ("accelerator", plan.accelerator.clone()),
        ("batch size", plan.batch_size.to_string()),
        ("number of epochs", plan.epochs.to_string()),
        ("number of runs", plan.runs.to_string()),
        ("dataset", dataset),
        ("steps of an epoch", plan.steps_per_epoch.to_string()),
        ("compute time", plan.compute.to_string()),
        ("barrier", plan.barrier.to_string()),
        ("checkpoints", checkpoints(plan)),
        ("loader", format!("{:?}", plan.loader)),
        ("storage", format!("{:?}", plan.storage).to_lowercase()),
        ("path", plan.transport.path.to_string()),
        ("page cache", cold.to_string()),
        ("shuffle", shuffle),
    ];
    let named = promises.into_iter();
    named
        .map(|(what, value)| (what.to_string(), value))
        .collect()
}

/// When checkpoints are written, and how large.
fn checkpoints(plan: &TrainPlan) -> String {
    plan.checkpoint
        .as_ref()
        .map_or("none".to_string(), |rules| {
            let size = ByteSize(rules.bytes);
            match rules.steps_between {
                Some(steps) => format!("{size} every {}", counted(steps, "step")),
                None => format!(
                    "{size} after epoch {}, then every {}",
                    rules.after_epoch.unwrap_or(0),
                    counted(u64::from(rules.epochs_between), "epoch")
                ),
            }
        })
}

/// Says that all fail alike where the run came to its end on all hosts.
pub(super) fn shared_fate(failure: Failure, report: &TrainReport) -> Failure {
    match report.ending == Ending::Complete && !report.results.hosts.is_empty() {
        true => failure.of_all(),
        false => failure,
    }
}

/// The share of each of `processes`.
fn divided(total: u32, processes: u32) -> Result<u32, Failure> {
    match total.is_multiple_of(processes) {
        true => Ok(total / processes),
        false => Err(Failure::usage(format!(
            "--accelerators-total {total} cannot be divided by {processes} processes"
        ))
        .with_help("name a multiple, or how many each has with --accelerators")
        .of_all()),
    }
}
