//! `stormlp datasize`: the required dataset size for a workload and a number of accelerators.

use std::path::{Path, PathBuf};

use stormlp_core::numbers::whole;
use stormlp_core::profile::Profile;
use stormlp_core::units::parse_some_bytes;
use stormlp_training::plan::datasize::{SizeRequest, datasize};
use stormlp_training::show as training;
use stormlp_training::show::SizeAnswer;
use stormlp_transfer::probe;
use stormlp_transfer::storage::{Disk, Storage as _};

use super::workloads;
use crate::output::Format;
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp datasize`.
#[derive(Debug, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  stormlp datasize unet3d                                      one H100, this host's memory
  stormlp datasize unet3d --accelerator b200 -n 16 --hosts 2 --host-memory 512G
  stormlp datasize resnet50 -n 8 --profile v1 --format json    keys: files, bytes, fits, …"
)]
pub(crate) struct Args {
    /// A built-in workload (see `stormlp workloads`), or a YAML file in MLPerf Storage or DLIO
    /// format
    #[arg(value_name = "WORKLOAD")]
    workload: String,

    /// Accelerator to emulate [default: h100, or the workload's]
    #[arg(long, value_name = "NAME")]
    accelerator: Option<String>,

    /// Total number of accelerators
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..))]
    accelerators: u32,

    /// Number of hosts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..))]
    hosts: u32,

    /// Memory per host [default: this host's, or its cgroup limit if lower]
    #[arg(long, visible_alias = "memory", value_name = "SIZE", value_parser = parse_some_bytes)]
    host_memory: Option<u64>,

    /// Rounding rules: v1 and v2 round down, v3 and native up [default: the workload's edition]
    #[arg(long, value_name = "v1|v2|v3|native")]
    profile: Option<Profile>,

    /// Samples per step and accelerator
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..))]
    batch_size: Option<u32>,

    /// Samples per file
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..))]
    samples_per_file: Option<u32>,

    /// Intended dataset folder; nothing is written [default: ./stormlp-data/WORKLOAD]
    #[arg(long, value_name = "DIR", value_parser = workloads::parse_folder)]
    data_dir: Option<PathBuf>,

    /// Workload parameters to override, as in mlpstorage: reader.batch_size=8
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    params: Vec<String>,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Prints the required dataset size; the exit code does not depend on whether it fits.
///
/// # Errors
/// With exit code 3 if the workload or a number is invalid.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let answer = answer(&args, session)?;
    args.format.print(&answer, training::datasize)
}

fn answer(args: &Args, session: &Session) -> Result<SizeAnswer, Failure> {
    let workload = workloads::load(&args.workload, args.accelerator.as_deref(), &args.params)?;
    workloads::tell_edition(&workload, args.profile, session);
    let profile = workload.profile(args.profile);
    let host_memory_bytes =
        args.host_memory.unwrap_or_else(|| probe::host_facts().usable_memory_bytes());
    let mut request = SizeRequest {
        hosts: u64::from(args.hosts),
        host_memory_bytes,
        ..SizeRequest::of(&workload, profile, u64::from(args.accelerators))
    };
    request.batch_size = args.batch_size.map_or(request.batch_size, u64::from);
    request.samples_per_file = args.samples_per_file.map_or(request.samples_per_file, u64::from);
    let size = datasize(&request).map_err(Failure::no_plan)?;
    let folder =
        args.data_dir.clone().unwrap_or_else(|| Path::new("stormlp-data").join(&workload.name));
    let free_bytes = free_bytes(&folder);
    let steps = size.steps_per_epoch as f64 * f64::from(workload.train.epochs);
    Ok(SizeAnswer {
        workload: workload.name,
        accelerator: workload.accelerator,
        accelerators: u64::from(args.accelerators),
        hosts: u64::from(args.hosts),
        host_memory_bytes,
        profile,
        size,
        run_seconds: steps * workload.train.computation_time.mean_seconds(),
        folder: folder.display().to_string(),
        free_bytes,
        fits: free_bytes.map(|free| size.bytes <= free),
    })
}

/// Free bytes on the file system of `folder`, which need not exist.
fn free_bytes(folder: &Path) -> Option<u64> {
    let space = Disk.space(&Disk.nearest(folder)).ok()?;
    Some(space.free_bytes)
}
