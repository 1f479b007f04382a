//! `stormlp submission plan`: sizes, runs, time, disk and command lines of a campaign.

use std::collections::BTreeSet;

use stormlp_checkpoint::plan::builtin;
use stormlp_core::numbers::whole;
use stormlp_core::units::parse_some_bytes;
use stormlp_mlperf::show as submission;
use stormlp_mlperf::submission::Edition;
use stormlp_mlperf::submission::plan::{PlanRequest, Planned, plan, usual_accelerator};
use stormlp_transfer::probe;

use crate::commands::workloads;
use crate::output::Format;
use stormlp_core::failure::Failure;

/// Arguments of `stormlp submission plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp submission plan unet3d -n 8                           one result of v3.0 on this host
  stormlp submission plan unet3d llama3-8b -n 8 --hosts h1,h2 --host-memory 512G --write-rate 10G
                          --read-rate 20G                       two results, with a time estimate
  stormlp submission plan resnet50 --edition 2.0 --format json  keys: results, steps, disk_bytes, …

Nothing is run, written or measured. The commands are those of mlpstorage, which alone makes
submissions.")]
pub(crate) struct Args {
    /// Training workloads and checkpoint models: unet3d, retinanet, llama3-8b, …
    #[arg(value_name = "WORKLOAD", required = true)]
    workloads: Vec<String>,

    /// Rules: 2.0 or 3.0
    #[arg(long, value_name = "EDITION", default_value_t = Edition::V3)]
    edition: Edition,

    /// Accelerator to emulate [default: h100 in 2.0, b200 in 3.0]
    #[arg(long, value_name = "NAME")]
    accelerator: Option<String>,

    /// Total number of accelerators of a training run
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..))]
    accelerators: u32,

    /// Client hosts
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "127.0.0.1")]
    hosts: Vec<String>,

    /// Memory per client [default: this host's]
    #[arg(long, value_name = "SIZE", value_parser = parse_some_bytes)]
    host_memory: Option<u64>,

    /// Write bandwidth of the storage, for the time estimate
    #[arg(long, value_name = "SIZE", value_parser = parse_some_bytes)]
    write_rate: Option<u64>,

    /// Read bandwidth of the storage, for the time estimate
    #[arg(long, value_name = "SIZE", value_parser = parse_some_bytes)]
    read_rate: Option<u64>,

    /// Folder for datasets, on the storage under test, or s3://bucket/prefix (v3.0)
    #[arg(long, value_name = "DIR", default_value = "/mnt/storage/data")]
    data_dir: String,

    /// Folder for checkpoints, on the storage under test, or s3://bucket/prefix (v3.0)
    #[arg(long, value_name = "DIR", default_value = "/mnt/storage/checkpoints")]
    checkpoint_folder: String,

    /// Folder for results, on another file system
    #[arg(long, value_name = "DIR", default_value = "/mnt/results")]
    results_dir: String,

    /// Organisation
    #[arg(long, value_name = "NAME", default_value = "ORGANISATION")]
    organisation: String,

    /// System name
    #[arg(long, value_name = "NAME", default_value = "SYSTEM")]
    system: String,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Plans the campaign.
///
/// # Errors
/// With exit code 3 if the edition does not have a workload.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let hosts: BTreeSet<&String> = args.hosts.iter().collect();
    if hosts.len() != args.hosts.len() || args.hosts.iter().any(String::is_empty) {
        return Err(Failure::usage("--hosts names a host twice, or one without a name"));
    }
    let usual = usual_accelerator(args.edition);
    let accelerator = args.accelerator.as_deref().unwrap_or(usual).to_ascii_lowercase();
    let planned: Vec<Planned> = args
        .workloads
        .iter()
        .map(|name| match builtin::load(name) {
            Some(model) => Ok(Planned::Checkpointing(Box::new(model))),
            None => {
                let workload = workloads::load(name, Some(&accelerator), &[])?;
                Ok(Planned::Training(Box::new(workload)))
            }
        })
        .collect::<Result<_, Failure>>()?;
    let memory = || probe::host_facts().usable_memory_bytes();
    let rate = |rate: Option<u64>| rate.map(|rate| rate as f64);
    let request = PlanRequest {
        edition: args.edition,
        accelerators: args.accelerators,
        hosts: args.hosts.clone(),
        host_memory_bytes: args.host_memory.unwrap_or_else(memory),
        write_bytes_per_second: rate(args.write_rate),
        read_bytes_per_second: rate(args.read_rate),
        data: args.data_dir.clone(),
        checkpoints: args.checkpoint_folder.clone(),
        results: args.results_dir.clone(),
        organisation: args.organisation.clone(),
        system: args.system.clone(),
        checkpoint_accelerator: accelerator,
    };
    let campaign = plan(&planned, &request)?;
    args.format.print(&campaign, submission::plan)
}
