//! The command line: global options and the list of commands.
//!
//! Each command defines its arguments in `commands/`; this file only lists the commands in the
//! order in which `--help` shows them.

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use stormlp_core::impairment::{Fault, Throttle};
use stormlp_core::printable::printable;
use strum::IntoStaticStr;

use crate::commands::{
    calibrate, checkpoint, clean, compare, datagen, datasize, doctor, gds, gdsio, generate,
    kvcache, launch, plan, report, submission, train, workloads,
};
use crate::hosts::Needs;
use crate::options;
use stormlp_core::failure::Failure;
use stormlp_core::verify::Verify;

/// The version, the commit it was built from, and the optional features it has.
const VERSION: &str = if cfg!(feature = "tokio-uring") {
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("STORMLP_COMMIT"), ", features: tokio-uring)")
} else {
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("STORMLP_COMMIT"), ", no optional features)")
};

/// Benchmark storage for AI clusters: data paths, MLPerf Storage workloads, sizing.
#[derive(Debug, Parser)]
#[command(
    name = "stormlp",
    version = VERSION,
    max_term_width = 100,
    after_help = EXAMPLES,
    after_long_help = [EXAMPLES, EXIT_CODES].concat()
)]
pub(crate) struct Cli {
    /// Whether progress is hidden: `--quiet`, of the commands that show some.
    #[arg(skip)]
    pub(crate) quiet: bool,

    /// Whether text shows everything: `--details`, and all text of commands without it.
    #[arg(skip)]
    pub(crate) details: bool,

    /// Limit storage: read=500MB/s,write=200MB/s,latency=1ms,iops=4000.
    #[arg(long, global = true, hide = true)]
    pub(crate) throttle: Option<Throttle>,

    /// Make a storage operation fail: read:17:EIO of a run on its data, or nth=17 of all calls of
    /// this process, with call=read of those calls, with errno=EIO (default), KILL or short; once
    /// per option.
    #[arg(long, global = true, hide = true)]
    pub(crate) inject_fault: Vec<Fault>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Rejects arguments that are not UTF-8: plans and reports store every path and the command line as
/// text, and a run without a saved report is useless.
///
/// # Errors
/// With exit code 3.
pub(crate) fn check_text(mut words: impl Iterator<Item = OsString>) -> Result<(), Failure> {
    match words.find(|word| word.to_str().is_none()) {
        None => Ok(()),
        Some(word) => Err(Failure::no_plan(anyhow::anyhow!(
            "`{}` is not UTF-8, and reports store paths as text",
            word.to_string_lossy()
        ))
        .with_help("rename it, or use a link with a UTF-8 name")),
    }
}

/// The command line with its options as help shows them.
pub(crate) fn command() -> clap::Command {
    options::arranged(Cli::command())
}

impl Cli {
    /// Parses the command line.
    ///
    /// # Errors
    /// The usage error, safe to print, or the requested help.
    pub(crate) fn typed() -> Result<Self, clap::Error> {
        Self::parsed(std::env::args_os()).map_err(|error| {
            // The error quotes arguments, which must not send control sequences to a terminal.
            let words =
                std::env::args_os().map(|word| printable(&word.to_string_lossy()).into_owned());
            Self::parsed(words).err().unwrap_or(error)
        })
    }

    /// Parses the `words` of a command line.
    ///
    /// # Errors
    /// As [`Self::typed`].
    pub(crate) fn parsed<W: Into<OsString> + Clone>(
        words: impl IntoIterator<Item = W>,
    ) -> Result<Self, clap::Error> {
        let matches = command().try_get_matches_from(words)?;
        let parsed = Self::from_arg_matches(&matches)?;
        let mut of_command = &matches;
        while let Some((_, below)) = of_command.subcommand() {
            of_command = below;
        }
        let flag = |id| of_command.try_get_one::<bool>(id).ok().flatten().copied();
        let (quiet, details) = (flag("quiet"), flag("details"));
        let (quiet, details) = (quiet.unwrap_or_default(), details.unwrap_or(true));
        Ok(Self { quiet, details, ..parsed })
    }

    /// Rejects storage impairment for a command that does no I/O on storage, and for a resumed
    /// matrix: its report could not say which of its cells were impaired.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.throttle.is_none() && self.inject_fault.iter().all(|fault| fault.everywhere) {
            return Ok(());
        }
        let refused = match &self.command {
            Command::Gds(args) if args.resume.is_some() => "cannot be combined with --resume",
            Command::Gds(_) | Command::Train(_) | Command::Checkpoint(_) | Command::Kvcache(_) => {
                return Ok(());
            }
            _ => "are for gds, train, checkpoint and kvcache",
        };
        Err(Failure::usage(format!("--throttle and --inject-fault {refused}")))
    }
}

/// The commands, as `--help` lists them.
#[derive(Debug, Subcommand, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Command {
    /// Measure storage to GPU or host memory, path by path.
    Gds(Box<gds::Args>),
    /// Run gdsio's command lines and job files.
    Gdsio(gdsio::Args),
    /// Run an MLPerf Storage training workload: does storage keep up?
    Train(Box<train::Args>),
    /// Save and restore checkpoints as MLPerf Storage does.
    Checkpoint(Box<checkpoint::Args>),
    /// Measure storage for KV caches: MLPerf, serving engines, traces.
    Kvcache(Box<kvcache::Args>),
    /// Predict how many accelerators a storage system feeds.
    Plan(Box<plan::Args>),
    /// Measure the overhead of the DLIO client on this host.
    CalibrateDlio(calibrate::Args),
    /// Calculate the dataset size that a workload needs.
    Datasize(datasize::Args),
    /// Write the dataset of a workload.
    Datagen(datagen::Args),
    /// List the built-in workloads and models, or print one.
    Workloads(workloads::Args),
    /// Show what runs on this machine, and how to enable the rest.
    Doctor(doctor::Args),
    /// Print how to start stormlp on several hosts.
    Launch(launch::Args),
    /// List saved reports, or show them in any format.
    Report(report::Args),
    /// Compare saved reports, or two commands run in turns.
    Compare(compare::Args),
    /// Check MLPerf Storage results, or describe a system for them.
    Submission(submission::Args),
    /// Delete data that stormlp created.
    Clean(clean::Args),
    /// Write shell completions or manual pages.
    Generate(generate::Args),
}

impl Command {
    /// How the command deals with other processes started with it.
    pub(crate) fn needs(&self) -> Needs {
        match self {
            Self::Doctor(args) => args.needs(),
            Self::Launch(_) => Needs::Nobody,
            Self::Train(args) => args.needs(),
            Self::Gds(_) | Self::Checkpoint(_) => Needs::Group,
            Self::Datagen(args) => args.needs(),
            Self::Kvcache(args) => args.needs(),
            _ => Needs::OneProcess(self.name()),
        }
    }

    /// How the command moves objects.
    pub(crate) fn verify_objects(&self) -> Verify {
        match self {
            Self::Gds(args) => args.matrix.checksum,
            Self::Train(args) => args.request.checksum,
            Self::Checkpoint(args) => args.request.checksum,
            Self::Datagen(args) => args.request.checksum,
            _ => Verify::default(),
        }
    }

    /// The name of the command on the command line.
    pub(crate) fn name(&self) -> &'static str {
        self.into()
    }

    /// The settings that all cooperating processes must share: the command name, and whether only
    /// the plan is printed.
    pub(crate) fn to_text(&self) -> &'static str {
        match self {
            Self::Train(args) if args.dry_run => "train --dry-run",
            Self::Checkpoint(args) if args.request.dry_run => "checkpoint --dry-run",
            _ => self.name(),
        }
    }

    /// Whether a signal lets the command end with partial results; other commands have none.
    pub(crate) fn keeps_what_it_has(&self) -> bool {
        match self {
            Self::Gds(_) | Self::Gdsio(_) | Self::Train(_) | Self::Datagen(_) => true,
            Self::CalibrateDlio(_) | Self::Checkpoint(_) => true,
            Self::Compare(args) => args.keeps_what_it_has(),
            Self::Kvcache(args) => args.keeps_what_it_has(),
            _ => false,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  stormlp gds --dir /mnt/nvme       storage, path by path
  stormlp train unet3d              does storage keep a GPU busy?
  stormlp checkpoint llama3-8b      how fast are checkpoints saved and restored?";

const EXIT_CODES: &str = "

Exit codes: 0 done, 1 bug, 2 wrong usage, 3 no valid plan, 4 this machine lacks something,
5 storage or device failed, 6 missed its target, 7 a comparison found a regression, 130 stopped
by a signal.";

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use clap::Parser as _;

    use super::{Cli, Command, command};

    /// The integer options of `command` and its subcommands, each with the arguments before it.
    fn numbers(command: &clap::Command, before: &[String], found: &mut Vec<Vec<String>>) {
        let kinds = [
            TypeId::of::<u8>(),
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
        ];
        for option in command.get_arguments() {
            let kind = option.get_value_parser().type_id();
            // Sizes are integers of bytes, but are given with units.
            let is_size =
                option.get_value_names().is_some_and(|names| names.iter().any(|one| one == "SIZE"));
            // A flag may stand for a number.
            let is_flag = option.get_num_args().is_some_and(|count| !count.takes_values());
            let takes = option.get_action().takes_values() && !is_size && !is_flag;
            let long = option.get_long().filter(|_| takes && kinds.iter().any(|one| kind == *one));
            found.extend(long.map(|long| [before, &[format!("--{long}=few")]].concat()));
        }
        for below in command.get_subcommands() {
            let before = [before, &[below.get_name().to_string()]].concat();
            numbers(below, &before, found);
        }
    }

    #[test]
    fn invalid_numbers_are_rejected_with_an_example() {
        let mut found = Vec::new();
        numbers(&command(), &["stormlp".to_string()], &mut found);
        assert!(found.len() > 38, "{found:?}");
        for words in found {
            let message = Cli::try_parse_from(&words).unwrap_err().to_string();
            assert!(message.contains("`few` is not a whole number"), "{words:?}: {message}");
            assert!(message.contains("use one such as "), "{words:?}: {message}");
        }
    }

    /// The examples in the help of `command` and its subcommands, each from `stormlp` to what follows
    /// the command.
    fn examples(command: &clap::Command, found: &mut Vec<String>) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let help: String = help.split("\\\n").map(str::trim_start).collect();
        let lines = help.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        for line in lines {
            let Some(at) = line.find("stormlp ") else { continue };
            let ends =
                ["  ", " > ", " && "].into_iter().filter_map(|end| line[at..].find(end)).min();
            found.push(line[at..][..ends.unwrap_or(line.len() - at)].to_string());
        }
        command.get_subcommands().for_each(|below| examples(below, found));
    }

    /// The words of a command line; a quoted part is one word.
    fn words(line: &str) -> Vec<String> {
        let parts = line.split('\'').enumerate();
        let words = parts.flat_map(|(nth, part)| match nth % 2 {
            0 => part.split_whitespace().map(str::to_string).collect(),
            _ => vec![part.to_string()],
        });
        words.collect()
    }

    #[test]
    fn examples_of_the_help_are_understood() {
        let mut found = Vec::new();
        examples(&command(), &mut found);
        assert!(found.len() > 50, "{found:#?}");
        let wrong = found.iter().filter_map(|line| Some((line, Cli::parsed(words(line)).err()?)));
        let wrong: Vec<String> = wrong.map(|(line, error)| format!("{line}: {error}")).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn no_option_of_train_swallows_the_workload() {
        for words in ["--generate unet3d", "--generate=full unet3d", "--params a=b unet3d"] {
            let line = format!("stormlp train {words}");
            match Cli::try_parse_from(line.split(' ')).unwrap().command {
                Command::Train(args) => assert_eq!(args.request.workload, "unet3d", "{words}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_mistaken_key_of_tune_shows_the_keys_and_no_usage_of_another_command() {
        let error = Cli::parsed(["stormlp", "gds", "--tune", "submit-batch=x"]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("submit-batch=x") && text.contains("the keys are"), "{text}");
        assert!(!text.contains("Usage"), "{text}");
    }

    #[test]
    fn the_command_line_definition_is_consistent() {
        command().debug_assert();
    }
}
