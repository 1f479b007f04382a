//! `stormlp datasize`: the required dataset size for a workload and a number of accelerators.

use std::path::Path;

use stormlp_training::plan::datasize::SizeOptions;
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
  stormlp datasize unet3d                     one H100, this host's memory
  stormlp datasize unet3d -n 16 --hosts 2 --host memory=512GiB
  stormlp datasize resnet50 -n 8 --edition 1.0 --format json"
)]
pub(crate) struct Args {
    #[command(flatten)]
    request: SizeOptions,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Prints the required dataset size; the exit code does not depend on whether it fits.
///
/// # Errors
/// With exit code 3 if the workload or a number is invalid, 2 if `--host` lacks the memory.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let Args { request, format } = args;
    let workload =
        workloads::load(&request.workload, request.accelerator.as_deref(), &request.params)?;
    workloads::tell_edition(&workload, request.profile, session);
    let memory = match request.host {
        None => probe::host_facts().usable_memory_bytes(),
        // The same description of a host is for plans, which depend on more of it.
        Some(host) => host.memory_bytes.ok_or_else(|| {
            let fact = "--host: the size of a dataset depends on the memory of hosts";
            Failure::usage(fact).with_help("use --host memory=1TiB")
        })?,
    };
    let free = free_bytes(&request.folder(&workload));
    let answer = SizeAnswer::of(&request, &workload, memory, free).map_err(Failure::no_plan)?;
    format.print(&answer, training::datasize)
}

/// Free bytes on the file system of `folder`, which need not exist.
fn free_bytes(folder: &Path) -> Option<u64> {
    let space = Disk.space(&Disk.nearest(folder).ok()?).ok()?;
    Some(space?.free_bytes)
}
