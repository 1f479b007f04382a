//! Argument values for shell completion. clap knows the values of its own enums; names that the
//! model parses are added here, only for the script.

use clap::Command;
use clap::builder::PossibleValuesParser;
use stormlp_checkpoint::plan::{CheckpointProfile, FsyncPolicy, Mode, builtin};
use stormlp_core::names::VariantNames;
use stormlp_core::operation::Operation;
use stormlp_core::path::{MemoryKind, PathKind};
use stormlp_core::profile::Profile;
use stormlp_core::transport::EngineChoice;
use stormlp_core::verify::Verify;
use stormlp_kvcache::plan::{End, Layout, Model};
use stormlp_matrix::plan::{CacheState, Fill, preset_names};
use stormlp_training::plan::catalog::CATALOG;
use stormlp_training::plan::client::Client;

/// An argument of a command and its values.
type Offer = (&'static str, &'static str, Vec<&'static str>);

/// Adds the values of its arguments to `command`.
pub(super) fn offer(command: Command) -> Command {
    all().fold(command, |command, (of, argument, values)| {
        command.mut_subcommand(of, |command| {
            command.mut_arg(argument, |argument| {
                argument.value_parser(PossibleValuesParser::new(values))
            })
        })
    })
}

fn all() -> impl Iterator<Item = Offer> {
    gds().into_iter().chain(training()).chain(checkpoint()).chain(kvcache())
}

fn path_names() -> Vec<&'static str> {
    PathKind::named().map(PathKind::name).collect()
}

fn gds() -> Vec<Offer> {
    let columns = || vec!["standard", "study-a", "study-b"];
    let mut paths = vec!["auto", "all"];
    paths.extend(path_names());
    vec![
        ("gds", "paths", paths),
        ("gds", "ops", Operation::VARIANTS.to_vec()),
        ("gds", "preset", preset_names()),
        ("gds", "cache", CacheState::VARIANTS.to_vec()),
        ("gds", "fill", Fill::VARIANTS.to_vec()),
        ("gds", "memory", MemoryKind::VARIANTS.to_vec()),
        ("gds", "engine", EngineChoice::VARIANTS.to_vec()),
        ("gds", "verify", Verify::VARIANTS.to_vec()),
        ("gds", "columns", columns()),
        ("report", "columns", columns()),
    ]
}

fn training() -> Vec<Offer> {
    let mut offers = vec![
        ("train", "path", path_names()),
        ("train", "engine", EngineChoice::VARIANTS.to_vec()),
        ("train", "verify", vec!["none", "size", "crc"]),
        ("train", "storage", vec!["real", "null"]),
        ("datagen", "engine", EngineChoice::VARIANTS.to_vec()),
        ("datagen", "verify_objects", vec!["none", "size", "crc"]),
        ("datagen", "content", vec!["random", "constant"]),
    ];
    offers.push(("plan", "client", Client::NAMES.to_vec()));
    for command in ["train", "datagen", "datasize", "plan"] {
        let names = each_once(CATALOG.iter().map(|entry| entry.name));
        offers.push((command, "workload", names));
        let accelerators = each_once(CATALOG.iter().map(|entry| entry.accelerator));
        offers.push((command, "accelerator", accelerators));
        offers.push((command, "profile", Profile::VARIANTS.to_vec()));
    }
    offers
}

fn checkpoint() -> Vec<Offer> {
    vec![
        ("checkpoint", "model", builtin::names().collect()),
        ("checkpoint", "mode", Mode::VARIANTS.to_vec()),
        ("checkpoint", "profile", CheckpointProfile::VARIANTS.to_vec()),
        ("checkpoint", "fsync", FsyncPolicy::VARIANTS.to_vec()),
        ("checkpoint", "path", vec!["buffered", "cpu", "page-cache", "cpu-gpu", "gds"]),
        ("checkpoint", "engine", EngineChoice::VARIANTS.to_vec()),
        ("checkpoint", "verify", Verify::VARIANTS.to_vec()),
    ]
}

fn kvcache() -> Vec<Offer> {
    vec![
        ("kvcache", "model", Model::names().collect()),
        // A trace has the third.
        ("kvcache", "profile", vec!["mlperf-v3", "serving"]),
        ("kvcache", "end", End::VARIANTS.to_vec()),
        ("kvcache", "layout", Layout::VARIANTS.to_vec()),
        ("kvcache", "path", vec!["buffered", "cpu", "page-cache", "cpu-gpu", "gds"]),
        ("kvcache", "engine", vec!["auto", "uring", "psync"]),
    ]
}

fn each_once(names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut once = Vec::new();
    for name in names {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_value_that_is_offered_is_taken() {
        for (command, argument, values) in all() {
            let whole = Cli::command();
            let found = whole.find_subcommand(command).unwrap().get_arguments();
            let argument = found.into_iter().find(|found| found.get_id() == argument).unwrap();
            for value in values {
                let mut line = vec!["stormlp".to_string(), command.to_string()];
                match argument.get_long() {
                    Some(long) => line.push(format!("--{long}={value}")),
                    None => line.push(value.to_string()),
                }
                let positional =
                    ["train", "datagen", "datasize", "plan", "checkpoint"].contains(&command);
                if positional && argument.get_long().is_some() {
                    line.push("name".to_string());
                }
                if command == "plan" {
                    line.push("--storage=read=1GB/s".to_string());
                }
                assert!(Cli::try_parse_from(&line).is_ok(), "{line:?}");
            }
        }
    }
}
