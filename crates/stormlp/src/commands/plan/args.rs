//! The options of `stormlp plan`, and the request that they make.

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
use crate::exit::Failure;

/// What is asked.
#[derive(Debug, Args)]
#[command(next_help_heading = "The workload")]
pub(super) struct WorkloadArgs {
    /// A built-in workload (see `stormlp workloads`) or a YAML file of MLPerf Storage or DLIO
    #[arg(value_name = "WORKLOAD", required_unless_present = "list_storage")]
    workload: Option<String>,

    /// Figures such as read=14.5GB/s,latency=80us, a drive's name, or a saved report of
    /// `stormlp gds`
    #[arg(long, value_name = "STORAGE", required_unless_present = "list_storage")]
    storage: Option<String>,

    /// Which accelerator is emulated [default: h100, or the one the workload has]
    #[arg(long, value_name = "NAME")]
    accelerator: Option<String>,

    /// Accelerators in all [default: as many as reach the threshold]
    #[arg(short = 'n', long, value_name = "N", value_parser = whole::<u32>(1..=u64::from(MAX_ACCELERATORS)))]
    accelerators: Option<u32>,

    /// Whose order, read pattern and formulas [default: the workload's own edition]
    #[arg(long, value_name = "v1|v2|v3|native")]
    profile: Option<Profile>,

    /// Emulated compute of a step: a time such as 162ms, or DLIO's form
    #[arg(long, value_name = "TIME", value_parser = parse_compute)]
    compute_time: Option<Distribution>,

    #[command(flatten)]
    steps: StepArgs,

    #[command(flatten)]
    reader: ReaderArgs,

    /// The path of reads: buffered goes through the page cache, cpu and gds do not
    /// [default: buffered, or cpu where the workload sets odirect]
    #[arg(long, value_name = "PATH")]
    path: Option<PathKind>,

    /// Seed of the shuffles and of all that is drawn
    #[arg(long, value_name = "N", value_parser = whole::<u64>(..))]
    seed: Option<u64>,

    /// A key of the workload to set, as mlpstorage takes them: reader.batch_size=8
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    params: Vec<String>,
}

/// The hosts.
#[derive(Debug, Args)]
#[command(next_help_heading = "The hosts")]
pub(super) struct HostArgs {
    /// Hosts that train together [default: 1, or as many as --accelerators-per-host asks for]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u64::from(MAX_ACCELERATORS)))]
    hosts: Option<u32>,

    /// Accelerators that a host has room for
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u64::from(MAX_ACCELERATORS)))]
    accelerators_per_host: Option<u32>,

    /// Memory of one host, which the dataset's size follows from
    /// [default: this host's, or its control group's limit when lower]
    #[arg(long, value_name = "SIZE", value_parser = parse_some_bytes)]
    host_memory: Option<ByteSize>,

    /// CPUs of one host, which share what bytes cost it [default: this host's]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=65_536))]
    host_cpus: Option<u32>,

    /// What the barrier of each step takes [default: nothing]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    barrier: Option<Duration>,

    /// What a host adds to each step and each GiB, by the saved report of `stormlp train WORKLOAD
    /// --storage null` on such a host; the two options below go before it
    #[arg(long, value_name = "REPORT", conflicts_with = "client")]
    host_cost: Option<PathBuf>,

    /// Time of each step that is neither loading nor compute; `stormlp train --storage null` shows
    /// it [default: nothing, or DLIO's with --client dlio]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    host_cost_per_step: Option<Duration>,

    /// CPU time that a reading worker spends on each GiB [default: nothing, or DLIO's with
    /// --client dlio]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    host_cost_per_gib: Option<Duration>,

    /// Adds what the official client costs, as far as the two options above do not say: dlio, or
    /// none
    #[arg(long, value_name = "dlio|none", default_value = "none")]
    client: Client,
}

/// Checkpoints.
#[derive(Debug, Args)]
#[command(next_help_heading = "Checkpoints")]
pub(super) struct CheckpointArgs {
    /// What a checkpoint is of: a size, or a model such as llama3-70b [default: the workload's, where
    /// it writes any]
    #[arg(long, value_name = "SIZE|MODEL")]
    checkpoint: Option<String>,

    /// Mean time between failures of the whole job, such as 12h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    mtbf: Option<Duration>,
}

/// The request that the options make.
///
/// # Errors
/// When the workload, storage or a checkpoint's model cannot be used.
pub(super) fn request(
    args: &WorkloadArgs,
    hosts: &HostArgs,
    checkpoint: &CheckpointArgs,
) -> Result<SizingRequest, Failure> {
    // Both are there, or the list of drives was asked for.
    let name = args.workload.as_deref().unwrap_or_default();
    let workload = workloads::load(name, args.accelerator.as_deref(), &args.params)?;
    let given = storage(args.storage.as_deref().unwrap_or_default())?;
    let (storage, storage_source) = (given.storage, given.source);
    let host = probe::host_facts();
    let usual = if workload.reader.odirect { PathKind::Cpu } else { PathKind::Buffered };
    let path = args.path.unwrap_or(usual);
    if path == PathKind::Null {
        return Err(Failure::usage(
            "--path null reads nothing, so no storage limits it: leave --path out",
        ));
    }
    check_cache(path, &storage)?;
    check_room(hosts, args.accelerators)?;
    if workloads::sets(&args.params, "dataset.num_files_train") {
        return Err(Failure::usage(
            "--params dataset.num_files_train has no effect: the dataset is as large as MLPerf's rules \
             ask for; leave it out, and give --host-memory or --steps",
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
        // What several hosts measured together feeds as many, unless other hosts are asked about.
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
    /// What the client costs a host; `None` where it costs nothing.
    ///
    /// # Errors
    /// When the report that says so is of no use.
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

/// What is saved, and its bytes.
fn of_checkpoint(
    args: &CheckpointArgs,
    workload: &Workload,
) -> Result<Option<(String, u64)>, Failure> {
    let Some(asked) = &args.checkpoint else {
        // What the file means, where DLIO reads another key than it sets.
        let spec = &workload.checkpoint;
        let bytes = spec.ignored_model_size_bytes.unwrap_or(spec.model_size_bytes);
        let what = || format!("the model of {}", workload.name);
        return Ok(workload.workflow.checkpoint.then(|| (what(), bytes)));
    };
    if let Ok(size) = parse_some_bytes(asked) {
        return Ok(Some(("a checkpoint of that size".to_string(), size.bytes())));
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

/// Direct reads go past the page cache.
fn check_cache(path: PathKind, storage: &StorageModel) -> Result<(), Failure> {
    let read_ahead = storage.read_ahead_bytes != DEFAULT_READ_AHEAD_BYTES;
    if path.wants_direct() && (storage.cache_bytes.is_some() || read_ahead) {
        return Err(Failure::usage(format!(
            "--storage: cache= and readahead= have no effect on path {path}, which goes past the page \
             cache: leave them out, or give --path buffered"
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
            "--hosts and --accelerators-per-host have room for {room} accelerators, -n asks for {asked}"
        ))),
        _ => Ok(()),
    }
}

fn check_mtbf(args: &CheckpointArgs, is_saved: bool) -> Result<(), Failure> {
    match args.mtbf {
        Some(time) if time.is_zero() => Err(Failure::usage("--mtbf is 0: it must be above 0")),
        Some(_) if !is_saved => Err(Failure::usage(
            "--mtbf has no effect: the workload writes no checkpoint; name one with --checkpoint",
        )),
        _ => Ok(()),
    }
}
