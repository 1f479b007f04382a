//! `stormlp submission`: checks a tree of MLPerf Storage results, and drafts or checks the
//! description of a system. Only the official tool makes submissions.

mod check;
mod describe;

use clap::Subcommand;

use stormlp_core::failure::Failure;

/// Arguments of `stormlp submission`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp submission check results/
  stormlp submission check results/ --format json
  stormlp submission describe -o fast.yaml

Only mlpstorage makes submissions.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Check results against the rules of MLPerf Storage v3.0
    Check(check::Args),
    /// Describe this machine for a submission, or check a description
    Describe(describe::Args),
}

/// Runs one step.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Step::Check(args) => check::run(args),
        Step::Describe(args) => describe::run(args),
    }
}
