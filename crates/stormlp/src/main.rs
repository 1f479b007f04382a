//! The command line: arguments in, exit code out.
//!
//! `main` reads the arguments, installs the signal handlers, runs one command and reports the
//! outcome. Every command lives in a module under `commands/` and knows only its arguments. One
//! internal mode is not for users: the cuFile probe starts this executable again as its child.

#![forbid(unsafe_code)]

mod any_report;
mod cli;
mod commands;
mod hosts;
mod options;
mod other_tools;
mod output;
mod progress;
mod signals;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use stormlp_core::failure::Failure;
use stormlp_transfer::cufile::probe;
use stormlp_transfer::signals::gave_up;
use stormlp_transfer::storage;

use crate::cli::Cli;
use crate::hosts::GroupSettings;
use crate::progress::Progress;
use stormlp_hosts::session::{Screen, Session};

/// The text of a panic.
fn panicked(panic: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let text = format!("thread '{}' {panic}", thread.name().unwrap_or("without a name"));
    match Backtrace::capture() {
        trace if trace.status() == BacktraceStatus::Captured => format!("{text}\n{trace}"),
        _ => text,
    }
}

/// Prints the requested help or version, or the usage error.
fn usage_error(mut error: clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match output::help(&error) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => output::report(&failure),
        };
    }
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    if let Some(command) = other_tools::command_in(&words) {
        other_tools::suggest(&mut error, &command, &words);
    }
    // If stderr is closed, it cannot be read.
    hosts::refuse(error.exit_code() as u8, |of_many| {
        let text = error.render().to_string();
        // clap's print is coloured, and leaves it to the terminal to break words.
        if of_many || !output::fits(&text) {
            output::say_page(&text);
        } else {
            drop(error.print());
        }
    })
}

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| output::say_page(&panicked(panic))));
    // Plans depend on the limit of open files, which may be higher than the inherited one.
    stormlp_transfer::limits::raise_open_files();
    stormlp_transfer::limits::refuse_large_files();
    stormlp_transfer::cuda::number_devices_by_bus();
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == probe::ARGUMENT) {
        probe::child_main(words.next().as_deref().map(Path::new));
        return ExitCode::SUCCESS;
    }
    let refused =
        |failure: Failure| hosts::refuse(failure.cause().exit_code(), |_| output::report(&failure));
    if let Err(failure) = cli::check_text(std::env::args_os()) {
        return refused(failure);
    }
    let cli = match Cli::typed() {
        Ok(cli) => cli,
        Err(error) => return usage_error(error),
    };
    output::arrange(cli.details, cli.quiet);
    storage::inject(&cli.inject_fault);
    commands::hang::arm();
    let needs = cli.command.needs();
    let armed = cli.check().and_then(|()| {
        let settings = GroupSettings::of_process()?;
        hosts::allow(&settings, needs)?;
        Ok((settings, signals::arm(cli.command.keeps_what_it_has())?))
    });
    let (settings, stop) = match armed {
        Ok(armed) => armed,
        Err(failure) => return refused(failure),
    };
    let group = match hosts::join(&settings, needs, &stop) {
        Ok(group) => group,
        Err(failure) => return output::report(&failure),
    };
    let session = Session::new(
        stop,
        cli.quiet,
        (cli.throttle, &cli.inject_fault),
        cli.command.verify_objects(),
        (cli.command.to_text(), Arc::new(group)),
        Screen { say: |line| output::say(line), progress: |quiet| Box::new(Progress::new(quiet)) },
    );
    let outcome = commands::run(cli.command, &session).map_err(|failure| match gave_up() {
        true => Failure::stopped("stopped: the endpoint did not answer"),
        false => failure,
    });
    for line in storage::injected() {
        output::say(format!("warning: --inject-fault: {line}"));
    }
    hosts::part(&session.group, outcome)
}
