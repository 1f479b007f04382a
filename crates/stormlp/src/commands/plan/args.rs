//! What the options of `stormlp plan` name: workload, storage, hosts and checkpoint.

use stormlp_checkpoint::plan::builtin;
use stormlp_core::path::PathKind;
use stormlp_core::units::parse_some_bytes;
use stormlp_planner::plan::storage::DEFAULT_READ_AHEAD_BYTES;
use stormlp_planner::plan::{Sizing, SizingRequest, StorageModel};
use stormlp_training::plan::client::{Client, ClientCost};
use stormlp_training::plan::workload::Workload;
use stormlp_transfer::probe;

use super::host_cost;
use super::storage::{Given, storage};
use crate::commands::workloads;
use stormlp_core::failure::Failure;

/// What `asked` names: its workload, storage, hosts and checkpoint.
///
/// # Errors
/// If the workload, the storage or the checkpoint's model is invalid.
pub(super) fn sizing(asked: SizingRequest) -> Result<Sizing, Failure> {
    // Both are present unless the list of presets was requested.
    let name = asked.workload.as_deref().unwrap_or_default();
    let workload = workloads::load(name, asked.accelerator.as_deref(), &asked.params)?;
    let Given { storage, source: storage_source, hosts: measured_by } =
        storage(asked.storage.as_deref().unwrap_or_default())?;
    let host = probe::host_facts();
    let usual = if workload.reader.odirect { PathKind::Cpu } else { PathKind::Buffered };
    let path = asked.path.unwrap_or(usual);
    if path == PathKind::Null {
        return Err(Failure::usage("--path null does not read from storage: remove --path"));
    }
    check_cache(path, &storage)?;
    check_room(&asked)?;
    if workloads::sets(&asked.params, "dataset.num_files_train") {
        return Err(Failure::usage(
            "--params dataset.num_files_train has no effect: MLPerf's rules determine the dataset \
             size; remove it, and set --host-memory or --steps",
        ));
    }
    let checkpoint = checkpoint(&asked, &workload)?;
    check_mtbf(&asked, checkpoint.is_some())?;
    Ok(Sizing {
        // Storage measured by several hosts feeds as many, unless other hosts are requested.
        hosts: match asked.accelerators_per_host {
            Some(_) => asked.hosts,
            None => asked.hosts.or(measured_by),
        },
        host_memory_bytes: asked.host_memory_bytes.unwrap_or_else(|| host.usable_memory_bytes()),
        host_cpus: asked.host_cpus.unwrap_or(host.cpus),
        client: client_cost(&asked)?,
        path,
        storage,
        storage_source,
        checkpoint,
        host,
        workload,
        asked,
    })
}

/// The client's cost per host; `None` if it has none.
///
/// # Errors
/// If the report cannot be used.
fn client_cost(asked: &SizingRequest) -> Result<Option<ClientCost>, Failure> {
    let measured = asked.host_cost.as_deref().map(host_cost::read).transpose()?;
    let usual = match (measured, asked.client) {
        (Some(measured), _) => measured,
        (None, Client::None) => {
            ClientCost { step_seconds: 0.0, cpu_seconds_per_gib: 0.0, cpus: 1, estimated: false }
        }
        (None, Client::Dlio) => ClientCost::DLIO,
    };
    let (step, gib) = (asked.host_cost_per_step_seconds, asked.host_cost_per_gib_seconds);
    let cost = ClientCost {
        step_seconds: step.unwrap_or(usual.step_seconds),
        cpu_seconds_per_gib: gib.unwrap_or(usual.cpu_seconds_per_gib),
        estimated: usual.estimated && (step.is_none() || gib.is_none()),
        ..usual
    };
    let costs = cost.step_seconds > 0.0 || cost.cpu_seconds_per_gib > 0.0;
    Ok(costs.then_some(cost))
}

/// Description and size of the checkpoint.
fn checkpoint(args: &SizingRequest, workload: &Workload) -> Result<Option<(String, u64)>, Failure> {
    let Some(asked) = &args.checkpoint else {
        // The size the file intends, if DLIO reads a different key than it sets.
        let spec = &workload.checkpoint;
        let bytes = spec.ignored_model_size_bytes.unwrap_or(spec.model_size_bytes);
        let what = || format!("the model of {}", workload.name);
        return Ok(workload.workflow.checkpoint.then(|| (what(), bytes)));
    };
    if let Ok(size) = parse_some_bytes(asked) {
        return Ok(Some(("custom size".to_string(), size)));
    }
    match builtin::load(asked) {
        Some(model) => {
            let layout = model.layout(model.parallelism_of_all_ranks());
            Ok(Some((model.name.clone(), layout.total_bytes())))
        }
        None => {
            let names: Vec<&str> = builtin::names().collect();
            Err(Failure::no_plan(anyhow::anyhow!(
                "--checkpoint: `{asked}` is neither a size nor a model"
            ))
            .with_help(format!("use a size such as 1.2TB, or one of {}", names.join(", "))))
        }
    }
}

/// Rejects page cache settings with direct reads.
fn check_cache(path: PathKind, storage: &StorageModel) -> Result<(), Failure> {
    let read_ahead = storage.read_ahead_bytes != DEFAULT_READ_AHEAD_BYTES;
    if path.wants_direct() && (storage.cache_bytes.is_some() || read_ahead) {
        return Err(Failure::usage(format!(
            "--storage: cache= and readahead= have no effect with path {path}, which bypasses the page \
             cache: remove them, or use --path buffered"
        )));
    }
    Ok(())
}

fn check_room(asked: &SizingRequest) -> Result<(), Failure> {
    let room = asked
        .hosts
        .zip(asked.accelerators_per_host)
        .map(|(hosts, each)| hosts.saturating_mul(each));
    match asked.accelerators.zip(room) {
        Some((asked, room)) if asked > room => Err(Failure::usage(format!(
            "--hosts and --accelerators-per-host have room for {room} accelerators, but -n is {asked}"
        ))),
        _ => Ok(()),
    }
}

fn check_mtbf(asked: &SizingRequest, is_saved: bool) -> Result<(), Failure> {
    match asked.mtbf_seconds {
        Some(0.0) => Err(Failure::usage("--mtbf must be above 0")),
        Some(_) if !is_saved => Err(Failure::usage(
            "--mtbf has no effect: the workload does not write checkpoints; add one with --checkpoint",
        )),
        _ => Ok(()),
    }
}
