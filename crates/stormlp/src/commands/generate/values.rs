//! Argument values for shell completion. clap knows the values of its enums; names that the model
//! parses are added here, only for the script.

use std::collections::BTreeSet;

use clap::Command;
use clap::builder::PossibleValuesParser;
use stormlp_checkpoint::plan::{CheckpointProfile, FsyncPolicy, builtin};
use stormlp_core::cache::CacheChoice;
use stormlp_core::names::VariantNames;
use stormlp_core::operation::Operation;
use stormlp_core::path::{MemoryKind, PathKind};
use stormlp_core::transport::EngineChoice;
use stormlp_kvcache::plan::Model;
use stormlp_matrix::plan::{CacheState, Fill, preset_names};
use stormlp_training::plan::catalog::CATALOG;
use stormlp_training::plan::client::Client;
use stormlp_training::plan::request::NewDataset;

/// Commands (`kvcache/size` is one of a group), an argument of all of them, and its values.
type Offer = (&'static str, &'static str, Vec<&'static str>);

/// Adds the values of its arguments to `command`.
pub(super) fn offer(command: Command) -> Command {
    all().into_iter().fold(command, |command, (commands, argument, values)| {
        commands.split(' ').fold(command, |command, of| {
            let offer = |command: Command| {
                command.mut_arg(argument, |argument| {
                    argument.value_parser(PossibleValuesParser::new(&values))
                })
            };
            match of.split_once('/') {
                Some((of, below)) => {
                    command.mut_subcommand(of, |command| command.mut_subcommand(below, offer))
                }
                None => command.mut_subcommand(of, offer),
            }
        })
    })
}

fn all() -> Vec<Offer> {
    let paths: Vec<_> = PathKind::named().map(PathKind::name).collect();
    let names: BTreeSet<_> = CATALOG.iter().map(|entry| entry.name).collect();
    let accelerators: BTreeSet<_> = CATALOG.iter().map(|entry| entry.accelerator).collect();
    let of_workloads = "train datagen datasize plan";
    vec![
        ("gds", "paths", [&["auto", "all"], &*paths].concat()),
        ("gds", "ops", Operation::VARIANTS.to_vec()),
        ("gds", "preset", preset_names()),
        ("gds", "cache", CacheState::VARIANTS.to_vec()),
        ("gds", "fill", Fill::VARIANTS.to_vec()),
        ("gds", "buffer_memory", MemoryKind::VARIANTS.to_vec()),
        ("gds train checkpoint", "engine", EngineChoice::VARIANTS.to_vec()),
        ("kvcache/serving kvcache/replay", "engine", vec!["auto", "uring", "psync"]),
        ("gds train checkpoint datagen", "checksum", vec!["none", "size", "crc"]),
        ("train checkpoint", "cache", CacheChoice::VARIANTS.to_vec()),
        ("train", "generate", NewDataset::VARIANTS.to_vec()),
        ("train plan", "client_overhead", Client::NAMES.to_vec()),
        ("train", "path", paths),
        (
            "checkpoint kvcache/serving kvcache/replay",
            "path",
            vec!["buffered", "cpu", "page-cache", "cpu-gpu", "gds"],
        ),
        ("datagen", "content", vec!["random", "constant"]),
        ("checkpoint", "model", builtin::names().collect()),
        ("checkpoint", "edition", CheckpointProfile::VARIANTS.to_vec()),
        ("checkpoint", "fsync", FsyncPolicy::VARIANTS.to_vec()),
        (
            "kvcache/mlperf kvcache/serving kvcache/replay kvcache/size",
            "model",
            Model::names().collect(),
        ),
        (of_workloads, "workload", names.into_iter().collect()),
        ("train datasize plan", "accelerator", accelerators.into_iter().collect()),
        (of_workloads, "profile", vec!["1.0", "2.0", "3.0", "native"]),
    ]
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_value_that_is_offered_is_taken() {
        let all = all().into_iter().flat_map(|(commands, argument, values)| {
            commands.split(' ').map(move |command| (command, argument, values.clone()))
        });
        for (command, argument, values) in all {
            let whole = Cli::command();
            let names: Vec<&str> = command.split('/').collect();
            let found = names.iter().try_fold(&whole, |all, name| all.find_subcommand(name));
            let found = found.unwrap().get_arguments();
            let argument = found.into_iter().find(|found| found.get_id() == argument).unwrap();
            for value in values {
                let mut line = vec!["stormlp".to_string()];
                line.extend(names.iter().map(ToString::to_string));
                match argument.get_long() {
                    Some(long) => line.push(format!("--{long}={value}")),
                    None => line.push(value.to_string()),
                }
                let positional =
                    ["train", "datagen", "datasize", "plan", "checkpoint", "kvcache/replay"]
                        .contains(&command);
                if positional && argument.get_long().is_some() {
                    line.push("name".to_string());
                }
                assert!(Cli::try_parse_from(&line).is_ok(), "{line:?}");
            }
        }
    }
}
