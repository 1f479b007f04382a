//! The options of `stormlp plan`, and their conversion to a request.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use stormlp_checkpoint::plan::builtin;
use stormlp_core::numbers::whole;
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::units::{ByteSize, parse_duration};
use stormlp_planner::plan::request::MAX_ACCELERATORS;
use stormlp_planner::plan::storage::DEFAULT_READ_AHEAD_BYTES;
use stormlp_planner::plan::{SizingRequest, StorageModel};
use stormlp_training::plan::client::{Client, ClientCost};
use stormlp_training::plan::distribution::Distribution;
use stormlp_training::plan::request::TrainRequest;
use stormlp_training::plan::workload::Workload;
use stormlp_transfer::probe;

use super::host_cost;
use super::storage::storage;
use crate::commands::train::parse_compute;
use crate::commands::workload_args::{ReaderArgs, StepArgs};
use crate::commands::workloads::{self, parse_some_bytes};
use stormlp_core::failure::Failure;

/// The workload options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workload")]
pub(super) struct WorkloadArgs {
    /// A built-in workload (see `stormlp workloads`), or a YAML file in MLPerf Storage or DLIO format
    #[arg(value_name = "WORKLOAD", required_unless_present = "list_storage")]
    workload: Option<String>,

    /// Figures such as read=14.5GB/s,latency=80us, a preset name, or a saved `stormlp gds` report
    #[arg(long, value_name = "STORAGE", required_unless_present = "list_storage")]
    storage: Option<String>,

    /// Accelerator to emulate [default: h100, or the workload's]
    #[arg(long, value_name = "NAME")]
    accelerator: Option<String>,

    /// Total number of accelerators [default: the most that reach the threshold]
    #[arg(short = 'n', long, value_name = "N", value_parser = whole::<u32>(1..=u64::from(MAX_ACCELERATORS)))]
    accelerators: Option<u32>,

    /// Rules for read order, read pattern and metrics [default: the workload's edition]
    #[arg(long, value_name = "v1|v2|v3|native")]
    profile: Option<Profile>,

    /// Emulated compute time per step, such as 162ms, or in DLIO's format
    #[arg(long, value_name = "TIME", value_parser = parse_compute)]
    compute_time: Option<Distribution>,

    #[command(flatten)]
    steps: StepArgs,

    #[command(flatten)]
    reader: ReaderArgs,

    /// Read path: buffered uses the page cache, cpu and gds bypass it
    /// [default: buffered, or cpu if the workload sets odirect]
    #[arg(long, value_name = "PATH")]
    path: Option<PathKind>,

    /// Seed for shuffling and all random values
    #[arg(long, value_name = "N", value_parser = whole::<u64>(..))]
    seed: Option<u64>,

    /// Workload parameters to override, as in mlpstorage: reader.batch_size=8
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    params: Vec<String>,
}

/// The host options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Hosts")]
pub(super) struct HostArgs {
    /// Number of hosts [default: 1, or as many as --accelerators-per-host requires]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u64::from(MAX_ACCELERATORS)))]
    hosts: Option<u32>,

    /// Maximum number of accelerators per host
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u64::from(MAX_ACCELERATORS)))]
    accelerators_per_host: Option<u32>,

    /// Memory per host, which determines the dataset size
    /// [default: this host's, or its cgroup limit if lower]
    #[arg(long, value_name = "SIZE", value_parser = parse_some_bytes)]
    host_memory: Option<ByteSize>,

    /// CPUs per host, which share the CPU cost of reading [default: this host's]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=65_536))]
    host_cpus: Option<u32>,

    /// Duration of each step's barrier [default: 0]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    barrier: Option<Duration>,

    /// Measured host cost: a saved report of `stormlp train WORKLOAD --storage null` on such a host;
    /// the two options below override it
    #[arg(long, value_name = "REPORT", conflicts_with = "client")]
    host_cost: Option<PathBuf>,

    /// Time per step besides loading and compute, as shown by `stormlp train --storage null`
    /// [default: 0, or DLIO's with --client dlio]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    host_cost_per_step: Option<Duration>,

    /// CPU time of reader threads per GiB [default: 0, or DLIO's with --client dlio]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    host_cost_per_gib: Option<Duration>,

    /// Add the cost of the official client, unless set by the two options above: dlio or none
    #[arg(long, value_name = "dlio|none", default_value = "none")]
    client: Client,
}

/// The checkpoint options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Checkpoints")]
pub(super) struct CheckpointArgs {
    /// Checkpoint size, or a model such as llama3-70b [default: the workload's checkpoint, if any]
    #[arg(long, value_name = "SIZE|MODEL")]
    checkpoint: Option<String>,

    /// Mean time between failures of the whole job, such as 12h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    mtbf: Option<Duration>,
}

/// Converts the options to a request.
///
/// # Errors
/// If the workload, the storage or the checkpoint's model is invalid.
pub(super) fn request(
    args: &WorkloadArgs,
    hosts: &HostArgs,
    checkpoint: &CheckpointArgs,
) -> Result<SizingRequest, Failure> {
    // Both are present unless the list of presets was requested.
    let name = args.workload.as_deref().unwrap_or_default();
    let workload = workloads::load(name, args.accelerator.as_deref(), &args.params)?;
    let given = storage(args.storage.as_deref().unwrap_or_default())?;
    let (storage, storage_source) = (given.storage, given.source);
    let host = probe::host_facts();
    let usual = if workload.reader.odirect { PathKind::Cpu } else { PathKind::Buffered };
    let path = args.path.unwrap_or(usual);
    if path == PathKind::Null {
        return Err(Failure::usage("--path null does not read from storage: remove --path"));
    }
    check_cache(path, &storage)?;
    check_room(hosts, args.accelerators)?;
    if workloads::sets(&args.params, "dataset.num_files_train") {
        return Err(Failure::usage(
            "--params dataset.num_files_train has no effect: MLPerf's rules determine the dataset \
             size; remove it, and set --host-memory or --steps",
        ));
    }
    let checkpoint_of = of_checkpoint(checkpoint, &workload)?;
    check_mtbf(checkpoint, checkpoint_of.is_some())?;
    Ok(SizingRequest {
        train: TrainRequest {
            workload: args.workload.clone(),
            profile: args.profile,
            batch_size: args.steps.batch_size,
            epochs: args.steps.epochs,
            steps: args.steps.steps,
            read_threads: args.reader.read_threads,
            prefetch: args.reader.prefetch,
            compute: args.compute_time,
            seed: args.seed,
            ..TrainRequest::default()
        },
        accelerators: args.accelerators,
        // Storage measured by several hosts feeds as many, unless other hosts are requested.
        hosts: match hosts.accelerators_per_host {
            Some(_) => hosts.hosts,
            None => hosts.hosts.or(given.hosts),
        },
        accelerators_per_host: hosts.accelerators_per_host,
        host_memory_bytes: hosts
            .host_memory
            .map_or_else(|| host.usable_memory_bytes(), ByteSize::bytes),
        host_cpus: hosts.host_cpus.unwrap_or(host.cpus),
        client: hosts.client_cost()?,
        barrier_seconds: hosts.barrier.unwrap_or_default().as_secs_f64(),
        path,
        storage,
        storage_source,
        checkpoint: checkpoint_of,
        mtbf_seconds: checkpoint.mtbf.map(|time| time.as_secs_f64()),
        host,
        workload,
    })
}

impl HostArgs {
    /// The client's cost per host; `None` if it has none.
    ///
    /// # Errors
    /// If the report cannot be used.
    fn client_cost(&self) -> Result<Option<ClientCost>, Failure> {
        let measured = self.host_cost.as_deref().map(host_cost::read).transpose()?;
        let usual = match (measured, self.client) {
            (Some(measured), _) => measured,
            (None, Client::None) => ClientCost {
                step_seconds: 0.0,
                cpu_seconds_per_gib: 0.0,
                cpus: 1,
                estimated: false,
            },
            (None, Client::Dlio) => ClientCost::DLIO,
        };
        let (step, gib) = (self.host_cost_per_step, self.host_cost_per_gib);
        let cost = ClientCost {
            step_seconds: step.map_or(usual.step_seconds, |time| time.as_secs_f64()),
            cpu_seconds_per_gib: gib.map_or(usual.cpu_seconds_per_gib, |time| time.as_secs_f64()),
            estimated: usual.estimated && (step.is_none() || gib.is_none()),
            ..usual
        };
        let costs = cost.step_seconds > 0.0 || cost.cpu_seconds_per_gib > 0.0;
        Ok(costs.then_some(cost))
    }
}

/// Description and size of the checkpoint.
fn of_checkpoint(
    args: &CheckpointArgs,
    workload: &Workload,
) -> Result<Option<(String, u64)>, Failure> {
    let Some(asked) = &args.checkpoint else {
        // The size the file intends, if DLIO reads a different key than it sets.
        let spec = &workload.checkpoint;
        let bytes = spec.ignored_model_size_bytes.unwrap_or(spec.model_size_bytes);
        let what = || format!("the model of {}", workload.name);
        return Ok(workload.workflow.checkpoint.then(|| (what(), bytes)));
    };
    if let Ok(size) = parse_some_bytes(asked) {
        return Ok(Some(("custom size".to_string(), size.bytes())));
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

fn check_room(hosts: &HostArgs, asked: Option<u32>) -> Result<(), Failure> {
    let room = hosts
        .hosts
        .zip(hosts.accelerators_per_host)
        .map(|(hosts, each)| hosts.saturating_mul(each));
    match asked.zip(room) {
        Some((asked, room)) if asked > room => Err(Failure::usage(format!(
            "--hosts and --accelerators-per-host have room for {room} accelerators, but -n is {asked}"
        ))),
        _ => Ok(()),
    }
}

fn check_mtbf(args: &CheckpointArgs, is_saved: bool) -> Result<(), Failure> {
    match args.mtbf {
        Some(time) if time.is_zero() => Err(Failure::usage("--mtbf must be above 0")),
        Some(_) if !is_saved => Err(Failure::usage(
            "--mtbf has no effect: the workload does not write checkpoints; add one with --checkpoint",
        )),
        _ => Ok(()),
    }
}
