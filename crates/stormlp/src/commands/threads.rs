//! The options for the threads of a run: how they wait and where they are.

use stormlp_core::path::PathKind;
use stormlp_core::placement::{CpuList, NumaChoice};
use stormlp_core::transport::{Threading, WaitMode};

use crate::exit::Failure;

/// How threads wait, and where they and their buffers are.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Threads")]
pub(crate) struct ThreadArgs {
    /// How threads wait for a GPU: block (sleep, so CPU time is that of actual work) or spin (some
    /// microseconds faster, but one CPU per thread) [default: block]
    #[arg(long, value_name = "HOW")]
    wait: Option<WaitMode>,

    /// NUMA node for threads and their buffers in host memory: auto (that of the GPU, else of the
    /// drives), off, or a number [default: auto]
    #[arg(long, value_name = "NODE")]
    numa: Option<NumaChoice>,

    /// CPUs to bind threads to, such as 0-15,32 [default: those of the NUMA node]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
}

impl ThreadArgs {
    /// What is asked of the threads; `ends_in_accelerator` says whether a transfer can.
    ///
    /// # Errors
    /// With exit code 2 when an option has no effect.
    pub(crate) fn threading(&self, ends_in_accelerator: bool) -> Result<Threading, Failure> {
        if self.wait.is_some() && !ends_in_accelerator {
            return Err(Failure::usage(
                "--wait has no effect with a --path that ends in host memory: leave out one of them",
            ));
        }
        Ok(Threading {
            wait: self.wait,
            numa: self.numa.unwrap_or_default(),
            cpus: self.cpus.clone(),
        })
    }
}

/// Refuses options of cuFile's paths where `path` is none of them.
///
/// # Errors
/// With exit code 2.
pub(crate) fn check_cufile(
    path: PathKind,
    require_gds: bool,
    cufile_stats: Option<u8>,
) -> Result<(), Failure> {
    let option = match (require_gds, cufile_stats) {
        _ if path.needs_cufile() => return Ok(()),
        (true, _) => "--require-gds",
        (false, Some(_)) => "--cufile-stats",
        (false, None) => return Ok(()),
    };
    Err(Failure::usage(format!(
        "{option} has no effect with --path {path}, which is none of cuFile's: leave out one of them"
    )))
}
