//! `stormlp submission`: the plan of an MLPerf Storage submission, a rehearsal of it, and a check
//! of the result. Only the official tool makes submissions.

mod check;
mod plan;
mod system_yaml;

use clap::Subcommand;

use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp submission`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp submission plan unet3d llama3-8b -n 8     what a campaign takes, and its commands
  stormlp submission check results/                 every rule on what mlpstorage or DLIO wrote
  stormlp submission check results/ --json          for scripts: verdict, rules[]
  stormlp submission system-yaml --output fast.yaml this machine as a client of the system

Only MLCommons' own tool, mlpstorage, makes submissions: nothing that stormlp writes is one.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Show what a submission takes: sizes, runs, time, disk, and mlpstorage's commands in order
    Plan(Box<plan::Args>),
    /// Check a tree of results against the rules of MLPerf Storage v2.0 or v3.0
    Check(check::Args),
    /// Describe this machine for v3.0's system description, or check one by field and line
    SystemYaml(system_yaml::Args),
}

/// Runs one step.
pub(crate) fn run(args: Args, _session: &Session) -> Result<(), Failure> {
    match args.command {
        Step::Plan(args) => plan::run(&args),
        Step::Check(args) => check::run(&args),
        Step::SystemYaml(args) => system_yaml::run(&args),
    }
}
