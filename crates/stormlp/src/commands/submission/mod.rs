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
  stormlp submission check results/                 every rule on what mlpstorage or DLIO wrote
  stormlp submission check results/ --format json   for scripts: verdict, rules[]
  stormlp submission describe -o fast.yaml          this machine as a client of the system

Only MLCommons' own tool, mlpstorage, makes submissions: nothing that stormlp writes is one.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Check a tree of results against the rules of MLPerf Storage v3.0
    Check(check::Args),
    /// Describe this machine for v3.0's system description, or check one by field and line
    Describe(describe::Args),
}

/// Runs one step.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Step::Check(args) => check::run(args),
        Step::Describe(args) => describe::run(args),
    }
}
