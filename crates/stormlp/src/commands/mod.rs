//! One module per command: its arguments, and the few lines that turn them into a plan, run it and
//! render the report. They neither measure nor format.

pub(crate) mod calibrate;
pub(crate) mod checkpoint;
pub(crate) mod clean;
pub(crate) mod compare;
pub(crate) mod datagen;
pub(crate) mod datasize;
pub(crate) mod deliver;
pub(crate) mod doctor;
mod doctor_objects;
mod driver;
pub(crate) mod gds;
pub(crate) mod gdsio;
pub(crate) mod generate;
pub(crate) mod hang;
mod idle;
pub(crate) mod kvcache;
pub(crate) mod launch;
pub(crate) mod plan;
mod process;
pub(crate) mod report;
mod saved;
mod seed;
pub(crate) mod submission;
pub(crate) mod train;
pub(crate) mod workloads;

use crate::cli::{self, Command};
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// Runs a command.
///
/// # Errors
/// With the exit code and the advice of the failed command.
pub(crate) fn run(command: Command, session: &Session) -> Result<(), Failure> {
    match command {
        Command::Gds(args) => gds::run(*args, session),
        Command::Gdsio(args) => gdsio::run(args, session),
        Command::Train(args) => train::run(*args, session),
        Command::Checkpoint(args) => checkpoint::run(*args, session),
        Command::Kvcache(args) => kvcache::run(*args, session),
        Command::Plan(args) => plan::run(*args, session),
        Command::CalibrateDlio(args) => calibrate::run(args, session),
        Command::Datasize(args) => datasize::run(args, session),
        Command::Datagen(args) => datagen::run(args, session),
        Command::Workloads(args) => workloads::run(args, session),
        Command::Doctor(args) => doctor::run(args, session),
        Command::Launch(args) => launch::run(&args),
        Command::Report(args) => report::run(args, session),
        Command::Compare(args) => compare::run(args, session),
        Command::Submission(args) => submission::run(&args),
        Command::Clean(args) => clean::run(args, session),
        Command::Generate(args) => generate::run(args, cli::command(), session),
    }
}
