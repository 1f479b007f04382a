//! How help lists commands and options: commands in groups; `-h` the dozen options that people use,
//! `--help` all.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command};
use stormlp_core::location::path_only;

use crate::commands::deliver::{Format, formats_without, names_without};

/// The commands by the question that they answer.
const GROUPS: [(&str, &str); 4] = [
    ("Measurement", "gds train checkpoint kvcache gdsio"),
    ("Preparation", "doctor workloads plan datasize datagen calibrate-dlio launch"),
    ("Result", "report compare submission"),
    ("Other", "clean generate"),
];
/// The options that `-h` lists for a command, and [`ALWAYS`].
const USUAL: [(&str, &str); 8] = [
    (
        "gds",
        "targets path op io-size threads queue-depth duration find-knee dir file-size device dry-run output",
    ),
    (
        "train",
        "workload accelerator accelerators epochs closed dir generate path cache \
         find-max dry-run output",
    ),
    ("checkpoint", "model scale closed saves restores verify dir path fsync cache dry-run output"),
    (
        "kvcache mlperf",
        "model mlperf-option closed users duration runs dir capacity mlperf-output dry-run output",
    ),
    (
        "kvcache serving",
        "model concurrency prefix-tokens prefill-rate find-max duration path dir capacity dry-run output",
    ),
    ("kvcache replay", "trace model speed concurrency duration path dir capacity dry-run output"),
    (
        "compare",
        "baseline candidate name resume history min-change force fail-on-regression output",
    ),
    (
        "plan",
        "workload storage accelerator accelerators hosts host client-overhead path checkpoint mtbf output",
    ),
];
/// The commands that run something and save a report.
const LANES: [&str; 6] =
    ["gds", "train", "checkpoint", "kvcache mlperf", "kvcache serving", "kvcache replay"];
/// The commands besides the lanes that show progress.
const WITH_PROGRESS: [&str; 4] = ["plan", "compare", "calibrate-dlio", "datagen"];
/// The commands besides the lanes whose screens can leave something out.
const WITH_DETAILS: [&str; 7] =
    ["plan", "compare", "report", "report show", "doctor", "workloads", "submission check"];
/// Options that `-h` lists wherever a command has them.
const ALWAYS: [&str; 3] = ["quiet", "details", "help"];

/// Arranges the options of the command line for its help.
pub(crate) fn arranged(line: Command) -> Command {
    let groups = groups(&line);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\n\
         Options:\n{{options}}{{after-help}}"
    );
    line.help_template(template).mut_subcommands(|command| {
        let name = command.get_name().to_string();
        let command = command.mut_subcommands(|below| {
            let name = format!("{name} {}", below.get_name());
            arranged_command(below, &name)
        });
        arranged_command(command, &name)
    })
}

/// The commands of `line` with their purpose, group by group.
fn groups(line: &Command) -> String {
    let mut text = String::new();
    for (group, names) in GROUPS {
        text.push_str(&format!("\n{group} commands:\n"));
        for name in names.split(' ') {
            let about = line.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {name:14}  {about}\n"));
        }
    }
    text
}

/// Arranges the options of the command of this name.
fn arranged_command(command: Command, name: &str) -> Command {
    // A URI is not a path; arguments that may name objects have a parser of their own.
    let plain = format!("{:?}", ValueParser::path_buf());
    let mut command = command.mut_args(|option| match format!("{:?}", option.get_value_parser()) {
        parser if parser == plain => option.value_parser(path_only),
        _ => option,
    });
    let is_of_lane = LANES.contains(&name);
    let refused = match name {
        "compare" | "plan" => &Format::OF_REPORTS[..],
        "report" => &[Format::Gdsio, Format::SeriesCsv, Format::Svg],
        _ if is_of_lane && name != "gds" => &[Format::Gdsio],
        _ => &[],
    };
    let has_reports = is_of_lane || ["compare", "plan", "report", "report show"].contains(&name);
    command = command.mut_args(|option| match (option.get_id().as_str(), has_reports) {
        ("format", true) => {
            let listed = names_without(refused);
            let option = option.value_parser(formats_without(refused)).hide_possible_values(true);
            option.help(format!("Output format: {listed} [default: text]"))
        }
        ("format", false) => option.value_name("text|json").hide_possible_values(true),
        _ => option,
    });
    if is_of_lane || WITH_PROGRESS.contains(&name) {
        command = command.arg(flag("quiet", "Hide progress").short('q'));
    }
    if is_of_lane || WITH_DETAILS.contains(&name) {
        command = command.arg(flag("details", "Print all columns, settings and warnings"));
    }
    if is_of_lane {
        // A plan has no result.
        let of_results = ["output", "baseline", "tag"];
        command = command.mut_arg("dry_run", |option| option.conflicts_with_all(of_results));
    }
    let help = Arg::new("help").short('h').long("help").action(ArgAction::Help).help("Print help");
    match USUAL.iter().find(|(usual, _)| *usual == name) {
        Some((_, usual)) => {
            let help = help.help("Print the usual options; --help prints all");
            short(command.disable_help_flag(true).arg(help.long_help("Print help")), usual)
        }
        None if command.is_disable_help_flag_set() => command,
        None => command.disable_help_flag(true).arg(help),
    }
}

/// A flag among the options of results.
fn flag(name: &'static str, help: &'static str) -> Arg {
    let flag = Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    flag.help_heading("Results").display_order(0)
}

/// The name of an option as typed, or the argument's, if it has none.
fn name_of(option: &Arg) -> &str {
    option.get_long().unwrap_or(option.get_id().as_str())
}

/// Leaves all but `usual` options out of `-h`.
fn short(command: Command, usual: &str) -> Command {
    command.mut_args(|option| {
        let name = name_of(&option);
        let is_listed = usual.split(' ').any(|one| one == name) || ALWAYS.contains(&name);
        option.hide_short_help(!is_listed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    /// The help of `stormlp COMMAND -h` or `--help`.
    fn help(command: &str, flag: &str) -> String {
        let words = ["stormlp"].into_iter().chain(command.split(' ')).chain([flag]);
        cli::command().try_get_matches_from(words).unwrap_err().to_string()
    }

    #[test]
    fn every_command_is_in_one_group_on_narrow_lines() {
        let line = cli::command();
        let mut known: Vec<&str> = line.get_subcommands().map(Command::get_name).collect();
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.split(' ')).collect();
        known.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(known, grouped);
        let text = line.clone().render_help().to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("\nMeasurement commands:\n  gds             Measure "), "{text}");
    }

    #[test]
    fn short_help_lists_the_usual_options_and_long_help_all() {
        for (command, usual) in USUAL {
            let line = cli::command();
            let known = command.split(' ').try_fold(&line, |line, name| line.find_subcommand(name));
            let known = known.unwrap();
            for name in usual.split(' ') {
                let is_known = known.get_arguments().any(|option| name_of(option) == name);
                assert!(is_known, "{command} {name}");
            }
            let (short, long) = (help(command, "-h"), help(command, "--help"));
            assert!(short.contains("--output") && !short.contains("--tune"), "{short}");
            assert!(short.lines().count() < long.lines().count(), "{command}: {short}");
            assert!(long.contains("--output"), "{long}");
        }
    }

    #[test]
    fn formats_that_a_command_refuses_are_not_listed() {
        for (command, listed) in
            [("gds", true), ("report show", true), ("report", false), ("train", false)]
        {
            assert_eq!(help(command, "--help").contains("gdsio,"), listed, "{command}");
        }
        for command in ["checkpoint", "compare", "plan"] {
            let long = help(command, "--help");
            assert!(!long.contains("gdsio,") && long.contains("csv, "), "{long}");
        }
        assert!(!help("compare", "--help").contains("svg ["));
    }

    #[test]
    fn no_argument_makes_a_folder_of_a_uri() {
        for words in
            ["train unet3d --results-dir", "gds --resume", "clean", "doctor", "kvcache mlperf -d"]
        {
            let words: Vec<&str> = words.split(' ').chain(["gs://bucket/x"]).collect();
            let line = ["stormlp"].into_iter().chain(words);
            let error = cli::command().try_get_matches_from(line).unwrap_err().to_string();
            assert!(error.contains("gs:// cannot be used here"), "{error}");
        }
    }

    #[test]
    fn old_spellings_are_gone() {
        let gds = help("gds", "--help");
        assert!(!gds.contains("--remove") && !gds.contains("--keep") && gds.contains("--clean"));
    }
}
