//! `--tune KEY=VALUE`: rarely needed settings of a command, one key for each option of a clap struct that
//! `--help` does not list.

use std::ops::{Deref, DerefMut};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde::{Deserialize, Serialize};

use crate::numbers::whole;
use crate::telemetry::Telemetry;
use crate::transport::{Pages, Threading, WaitMode};

/// The name of the option.
const TUNE: &str = "tune";

/// The keys of the lanes that move bytes to GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MachineTune {
    /// Page size of buffers in host memory: huge (if available) or small
    #[arg(long, value_name = "SIZE", default_value = "huge")]
    pub pages: Pages,

    /// How threads wait for a GPU: block (sleep), or spin (microseconds faster, with a whole CPU for
    /// each) [default: block]
    #[arg(long, value_name = "HOW")]
    pub wait: Option<WaitMode>,

    /// Level of cuFile's statistics, which cost time: 0 is off, 3 counts routes [default: routes of
    /// the first transfers only]
    #[arg(long, value_name = "LEVEL", value_parser = whole::<u8>(0..=3))]
    pub cufile_stats: Option<u8>,

    /// Interval of samples of devices, host, network and GPUs: 10ms to 60s, or off
    #[arg(long, value_name = "INTERVAL", default_value = "100ms")]
    #[serde(rename = "telemetry_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub telemetry: Telemetry,

    /// The placement of threads and buffers.
    #[command(flatten)]
    pub threading: Threading,
}

/// The settings `T` of `--tune`: its options are the keys, with their parsers, defaults and help.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Tuned<T>(pub T);

impl<T> Deref for Tuned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Tuned<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Args> Args for Tuned<T> {
    fn augment_args(command: Command) -> Command {
        command.arg(
            Arg::new(TUNE)
                .long(TUNE)
                .value_name("KEY=VALUE")
                .value_delimiter(',')
                .action(ArgAction::Append)
                .help_heading("Results")
                .hide_short_help(true)
                .help("Set a rarely needed key; repeatable; `--tune help` lists them"),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Args> FromArgMatches for Tuned<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let settings = matches.get_many::<String>(TUNE).into_iter().flatten();
        parse(settings.map(String::as_str)).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The keys as options of a separate command.
fn keys<T: Args>() -> Command {
    let help = "{all-args}";
    T::augment_args(Command::new(TUNE).no_binary_name(true).disable_help_flag(true))
        .help_template(help)
        .max_term_width(100)
}

/// Parses `KEY=VALUE` settings.
fn parse<'a, T: Args>(settings: impl Iterator<Item = &'a str>) -> Result<T, clap::Error> {
    let mut joined: Vec<String> = Vec::new();
    for setting in settings {
        match joined.last_mut() {
            // A list of CPUs has commas, too.
            Some(last) if setting.starts_with(|c: char| c.is_ascii_digit()) => {
                *last = format!("{last},{setting}");
            }
            _ => joined.push(setting.to_string()),
        }
    }
    let settings: Vec<&str> = joined.iter().map(String::as_str).collect();
    if settings.contains(&"help") {
        let listed = keys::<T>().render_help().to_string().replace("  --", "  ");
        let page = format!("Keys of --tune KEY=VALUE:\n{}\n", listed.trim_end());
        // A help of clap's own: a raw error would be printed as one, with a usage.
        let asked = Command::new(TUNE).no_binary_name(true).override_help(page);
        asked.try_get_matches_from(["--help"])?;
    }
    if let Some(bare) = settings.iter().find(|setting| !setting.contains('=')) {
        return Err(refused(format!("`{bare}` is not KEY=VALUE"), &keys::<T>()));
    }
    let words = settings.iter().map(|setting| format!("--{setting}"));
    let matches = keys::<T>().try_get_matches_from(words).map_err(|error| {
        let named = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => text.trim_start_matches('-').to_string(),
            _ => String::new(),
        };
        let (key, value) = (named(ContextKind::InvalidArg), named(ContextKind::InvalidValue));
        let key = key.split(['=', ' ']).next().unwrap_or_default();
        let why = std::error::Error::source(&error).map(|why| format!(": {why}"));
        refused(
            match error.kind() {
                ErrorKind::UnknownArgument => format!("`{key}` is not a key"),
                ErrorKind::ArgumentConflict => format!("`{key}` is set twice"),
                _ => format!("{key}={value}{}", why.unwrap_or_default()),
            },
            &keys::<T>(),
        )
    })?;
    T::from_arg_matches(&matches)
}

/// The usage error of settings, with the keys that exist.
fn refused(why: String, keys: &Command) -> clap::Error {
    let names: Vec<&str> = keys.get_arguments().filter_map(Arg::get_long).collect();
    let why = format!("--tune: {why}\n\n  tip: the keys are {}\n", names.join(", "));
    clap::Error::raw(ErrorKind::ValueValidation, why)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Args)]
    struct Keys {
        /// Number of transfers per submission
        #[arg(long, value_name = "N", default_value_t = 4)]
        batch: u32,
        /// Register buffers
        #[arg(long, value_name = "yes|no", default_value_t = true, action = ArgAction::Set,
            value_parser = clap::builder::BoolishValueParser::new())]
        register: bool,
        /// CPUs
        #[arg(long, value_name = "LIST", default_value = "")]
        cpus: String,
    }

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        tune: Tuned<Keys>,
    }

    fn line(words: &[&str]) -> Result<Line, clap::Error> {
        Line::try_parse_from([&["line"], words].concat())
    }

    #[test]
    fn keys_are_parsed_as_options_are() {
        let parsed = line(&["--tune", "batch=8,register=no"]).unwrap();
        assert_eq!((parsed.tune.batch, parsed.tune.register), (8, false));
        let parsed = line(&["--tune", "cpus=0-3,8,batch=2,register=no"]).unwrap();
        assert_eq!(parsed.tune.cpus, "0-3,8");
        let parsed = line(&["--tune", "register=no", "--tune", "batch=2"]).unwrap();
        assert_eq!((parsed.tune.batch, parsed.tune.register), (2, false));
        let parsed = line(&[]).unwrap();
        assert_eq!((parsed.tune.batch, parsed.tune.register), (4, true));
    }

    #[test]
    fn mistakes_name_the_keys() {
        for (words, why) in [
            ("batches=1", "--tune: `batches` is not a key"),
            ("batch", "--tune: `batch` is not KEY=VALUE"),
            ("batch=x", "--tune: batch=x: invalid digit"),
            ("batch=1,batch=2", "--tune: `batch` is set twice"),
        ] {
            let message = line(&["--tune", words]).unwrap_err().to_string();
            assert!(message.contains(why), "{words}: {message}");
            assert!(message.contains("the keys are batch, register, cpus"), "{words}: {message}");
        }
    }

    #[test]
    fn help_lists_the_keys_with_their_defaults() {
        let error = line(&["--tune", "help"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DisplayHelp);
        let text = error.to_string();
        assert!(text.contains("  batch <N>") && text.contains("[default: 4]"), "{text}");
        assert!(!text.contains("--batch"), "{text}");
        assert!(text.starts_with("Keys of --tune KEY=VALUE:\n"), "it is no error: {text}");
    }
}
