//! The command line: arguments in, exit code out.
//!
//! `main` is a sentence: read the arguments, arm the signals, run one command, say how it ended.
//! Every command lives in its own module under `commands/` and knows its own arguments only.

mod cli;
mod commands;
mod exit;
mod output;
mod progress;
mod session;
mod signals;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use crate::session::Session;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = signals::arm()
        .map(|stop| Session::new(stop, cli.quiet))
        .and_then(|session| commands::run(cli.command, &session));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
