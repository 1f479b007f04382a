//! Whether the files of a run say the same, and the runs of a result, too: what no rule asks for, and
//! what results rest on.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::figures::{number, shown};
use super::leaf::{Leaf, LeafKind, plain};
use super::rule::{Outcome, or_passed};
use super::strays;
use super::survey::{Category, Group, Submission, is_elsewhere};
use super::tree::{CODE_HASH, last};

/// Files that cannot be used.
pub(super) fn readable(submission: &Submission) -> Vec<Outcome> {
    // A link may lead anywhere: what it names is no part of the tree.
    let strays: BTreeSet<&str> = strays::paths(submission).into_iter().collect();
    let is_asked_for = |path: &str| {
        let is_known = !is_elsewhere(path) || last(path) == CODE_HASH;
        is_known && !strays.contains(path) && !submission.tree.is_folder(path)
    };
    let paths = submission.tree.iter().map(|(path, _)| path).filter(|path| is_asked_for(path));
    let mut unusable: BTreeMap<&str, &str> =
        paths.filter_map(|path| Some((path, submission.tree.fault(path)?))).collect();
    for (path, why) in submission.leaves().flat_map(|leaf| &leaf.unusable) {
        unusable.insert(path, why);
    }
    let faults = unusable.into_iter().map(|(path, why)| {
        Outcome::failed(
            path,
            format!("it cannot be used: {why}"),
            "copy it again from where it was written",
        )
    });
    or_passed(faults.collect(), "", || "every file that was read is what its name says".to_string())
}

/// Leaves that belong to no result, or to several.
pub(super) fn placed(submission: &Submission) -> Vec<Outcome> {
    let mut faults = copies(submission);
    let others = submission.others.iter().map(|leaf| {
        Outcome::failed(
            &leaf.path,
            "nothing tells what this folder is of",
            "remove it, or put it where mlpstorage wrote it",
        )
    });
    faults.extend(others);
    or_passed(faults, "", || "every folder of a run belongs to one result".to_string())
}

/// Runs that two results of a division rest on. The same runs may be submitted to both divisions.
fn copies(submission: &Submission) -> Vec<Outcome> {
    let mut seen: BTreeMap<(&str, String), (&Group, &Leaf)> = BTreeMap::new();
    let mut faults = Vec::new();
    for group in &submission.groups {
        for leaf in group.runs.iter().filter(|leaf| leaf.span().is_some()) {
            let division = group.division.as_deref().unwrap_or_default();
            let key = (division, leaf.summary.value().to_string());
            let (first, other) = *seen.entry(key).or_insert((group, leaf));
            // Two of one result are told where runs are held against each other.
            if first.path != group.path {
                faults.push(Outcome::failed(
                    &leaf.path,
                    format!("its summary.json is that of {}", other.path),
                    "a run belongs to one result: take the copy out",
                ));
            }
        }
    }
    faults
}

/// What summary, metadata and configuration of each run say of the same, and runs of each other.
pub(super) fn agree(_: &Submission, group: &Group) -> Vec<Outcome> {
    let mut faults = Vec::new();
    for leaf in group.leaves() {
        let said = [files(leaf), ranks(leaf), model(group, leaf), accelerator(group, leaf)];
        let mut told: Vec<String> = said.iter().filter_map(Said::contradiction).collect();
        told.extend(host(leaf));
        told.extend(memory(leaf));
        told.extend(data_folder(leaf));
        told.extend(overrides(leaf));
        if leaf.metadata_names.len() > 1 {
            told.push(format!(
                "{} files of metadata: {}",
                leaf.metadata_names.len(),
                leaf.metadata_names.join(", ")
            ));
        }
        faults.extend(told.into_iter().map(|what| Outcome::failed(&leaf.path, what, ONE_RUN)));
    }
    faults.extend(accelerators(group));
    faults.extend(repeated(group));
    faults.extend(elsewhere(group));
    or_passed(faults, &group.path, || "the files of each run say the same".to_string())
}

const ONE_RUN: &str = "take all files of the run as they were written, from one run";

/// What several files say of one thing.
struct Said {
    what: &'static str,
    by: Vec<(&'static str, Option<String>)>,
}

impl Said {
    /// In words, where they do not say the same.
    fn contradiction(&self) -> Option<String> {
        let known: Vec<(&str, &String)> =
            self.by.iter().filter_map(|(from, value)| Some((*from, value.as_ref()?))).collect();
        let values: BTreeSet<&String> = known.iter().map(|(_, value)| *value).collect();
        let words = known
            .iter()
            .map(|(from, value)| format!("{value} in {from}"))
            .collect::<Vec<String>>()
            .join(", ");
        (values.len() > 1).then(|| format!("{}: {words}", self.what))
    }
}

fn whole(value: Option<f64>) -> Option<String> {
    value.filter(|value| *value > 0.0).map(shown)
}

fn files(leaf: &Leaf) -> Said {
    let key = "num_files_train";
    let metadata = leaf.metadata.value();
    let config = leaf.config.value();
    let of = |workload: &Value| whole(number(&workload["dataset"][key]));
    let set = leaf.set("dataset.num_files_train");
    let told = &metadata["override_parameters"]["dataset.num_files_train"];
    Said {
        what: "files",
        by: vec![
            ("summary.json", whole(leaf.figure(key))),
            ("the overrides", whole(set.and_then(|value| value.parse().ok()))),
            ("overrides of the metadata", whole(number(told))),
            ("parameters of the metadata", of(&metadata["parameters"])),
            ("config.yaml", of(&config["workload"])),
        ],
    }
}

fn ranks(leaf: &Leaf) -> Said {
    let argument = match leaf.kind {
        LeafKind::Run => "num_accelerators",
        _ => "num_processes",
    };
    let ran = matches!(leaf.kind, LeafKind::Run | LeafKind::Checkpoint);
    Said {
        what: "accelerators",
        by: vec![
            ("summary.json", whole(leaf.figure("num_accelerators"))),
            ("the metadata", whole(number(leaf.argument(argument))).filter(|_| ran)),
        ],
    }
}

fn model(group: &Group, leaf: &Leaf) -> Said {
    let named = leaf.model().map(|model| model.replace('_', "-"));
    // Hydra's choice of a checkpoint workload is cut at its first `_`.
    let named = named.filter(|named| {
        group.category == Category::Training
            || leaf.argument("model").is_string() && named.contains('-')
    });
    let folder = Some(group.model.replace('_', "-")).filter(|model| model != "unknown");
    Said { what: "model", by: vec![("its files", named), ("its folder", folder)] }
}

fn accelerator(group: &Group, leaf: &Leaf) -> Said {
    let argument = leaf.argument("accelerator_type").as_str();
    let chosen = leaf.accelerator_of_choice();
    Said {
        what: "accelerator",
        by: vec![
            ("the metadata", argument.map(str::to_ascii_lowercase)),
            // The workload of a generation, `unet3d_datagen`, and those of models name none.
            (
                "the workload of the overrides",
                chosen
                    .filter(|_| group.category == Category::Training && leaf.kind == LeafKind::Run),
            ),
        ],
    }
}

/// A host's name without its domain; `None` for an address.
fn short(host: &str) -> Option<String> {
    let name = host.split(':').next().unwrap_or(host);
    let is_address =
        name.split('.').all(|part| part.parse::<u8>().is_ok()) || host.matches(':').count() > 1;
    let name = name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    (!is_address && !name.is_empty() && name != "localhost").then_some(name)
}

/// The host that wrote the summary is one of those that the command named. Addresses are not looked
/// up, and a host may be reached by a longer name (`n1-ib0`).
fn host(leaf: &Leaf) -> Option<String> {
    let ran = leaf.summary.value()["hostname"].as_str()?;
    let ran_short = short(ran)?;
    let named: Vec<&str> =
        leaf.argument("hosts").as_array()?.iter().filter_map(Value::as_str).collect();
    let names: Option<Vec<String>> = named.iter().map(|host| short(host)).collect();
    let alike =
        |name: &String| name.starts_with(&ran_short) || ran_short.starts_with(name.as_str());
    let differs = names.is_some_and(|names| !names.is_empty() && !names.iter().any(alike));
    differs.then(|| format!("host: {ran} in summary.json, {} in the metadata", named.join(", ")))
}

/// The dataset lies below the folder that the command named.
fn data_folder(leaf: &Leaf) -> Option<String> {
    let named = leaf.argument("data_dir").as_str()?.trim_end_matches('/');
    let used = leaf.set("dataset.data_folder")?;
    let below = used.strip_prefix(named);
    let fits = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    // One of them may be named from where the command ran.
    let comparable = named.starts_with('/') && used.starts_with('/');
    (comparable && !fits)
        .then(|| format!("dataset: data_dir {named} in the metadata, {used} in the overrides"))
}

/// The command names the memory of a host, rounded and in GB; more than this is another host.
const SAME_MEMORY: f64 = 0.25;

/// The memory of a host by the command and by the hosts themselves.
fn memory(leaf: &Leaf) -> Option<String> {
    // What is free for the program, and what the host has, may differ in a rehearsal.
    let told =
        number(leaf.argument("client_host_memory_in_gb")).filter(|_| !leaf.is_of_stormlp())?;
    let hosts = leaf.figure("num_hosts").filter(|hosts| *hosts > 0.0)?;
    let found = leaf.memory_gib()? / hosts;
    let is_far = (told - found).abs() > SAME_MEMORY * told.abs().max(found);
    is_far.then(|| {
        format!(
            "memory of a host: {} GiB in the metadata, {} GiB in summary.json",
            shown(told),
            shown(found)
        )
    })
}

/// Hydra writes the overrides twice.
fn overrides(leaf: &Leaf) -> Option<String> {
    let twice = leaf.hydra.value()["hydra"]["overrides"]["task"].as_array()?;
    let once = leaf.overrides_file.value().as_array()?;
    (once != twice).then(|| "overrides.yaml and hydra.yaml list different overrides".to_string())
}

/// Runs of a training result are of the same hosts, and read what the generation wrote.
fn elsewhere(group: &Group) -> Vec<Outcome> {
    if group.category == Category::Checkpointing {
        // The host that reads may be another than the one that wrote.
        return Vec::new();
    }
    let runs: Vec<&Leaf> = group.runs.iter().collect();
    let with_datagen: Vec<&Leaf> = group.runs.iter().chain(&group.datagen).collect();
    let argument = |leaf: &Leaf, key: &str| {
        let value = leaf.argument(key);
        (!value.is_null()).then(|| plain(value))
    };
    let mut faults = unlike(&runs, "hosts", |leaf| argument(leaf, "hosts"));
    faults.extend(unlike(&runs, "hostname", |leaf| {
        let name = leaf.summary.value()["hostname"].as_str()?;
        Some(name.to_string())
    }));
    faults.extend(unlike(&with_datagen, "data_dir", |leaf| {
        let folder = argument(leaf, "data_dir")?;
        Some(folder.trim_end_matches('/').to_string())
    }));
    faults
}

/// Leaves that say something else of `what` than the first that says anything.
fn unlike(leaves: &[&Leaf], what: &str, fact: impl Fn(&Leaf) -> Option<String>) -> Vec<Outcome> {
    let told: Vec<(&Leaf, String)> =
        leaves.iter().filter_map(|leaf| Some((*leaf, fact(leaf)?))).collect();
    let Some((first, usual)) = told.first() else {
        return Vec::new();
    };
    let others = told.iter().filter(|(_, fact)| fact != usual);
    let faults = others.map(|(leaf, fact)| {
        Outcome::failed(
            &leaf.path,
            format!("{what}: {fact} here, {usual} in {}", first.name()),
            "the runs of a result are the same run six times, on one dataset",
        )
    });
    faults.collect()
}

/// What mlpstorage said of the runs itself.
pub(super) fn verification(_: &Submission, group: &Group) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for leaf in group.leaves().filter(|leaf| !leaf.is_of_stormlp()) {
        let path = leaf.metadata.path().unwrap_or(&leaf.path);
        let Some(said) = leaf.verification() else {
            let ran = matches!(leaf.kind, LeafKind::Run | LeafKind::Checkpoint);
            let found = &leaf.metadata.value()["verification"];
            // A file that is missing or broken is told as such.
            if leaf.metadata.is_found() && (ran || !found.is_null()) {
                outcomes.push(Outcome::unknown(
                    path,
                    format!("its verification is {found}: no word of mlpstorage's"),
                    "take the metadata as mlpstorage wrote it",
                ));
            }
            continue;
        };
        let division = group.division.as_deref();
        outcomes.extend(match (said.as_str(), division) {
            ("invalid", _) => Some(Outcome::failed(
                path,
                "mlpstorage said INVALID of it",
                "its log says why; mend that, and run again",
            )),
            ("open", Some("closed")) => Some(Outcome::failed(
                path,
                "mlpstorage said OPEN of it, and it lies in closed/",
                "submit the result to open, or run again without what made it open",
            )),
            ("open", None) => Some(Outcome::passed(path, "mlpstorage said OPEN of it").open()),
            ("open" | "closed", _) => None,
            (other, _) => Some(Outcome::unknown(
                path,
                format!("its verification is `{}`", other.to_ascii_uppercase()),
                "take the metadata as mlpstorage wrote it",
            )),
        });
    }
    or_passed(outcomes, &group.path, || "mlpstorage said nothing against it".to_string())
}

/// All runs are of the edition that the tree is checked by.
pub(super) fn editions(submission: &Submission) -> Vec<Outcome> {
    let told = submission.leaves().filter_map(|leaf| Some((leaf, leaf.edition()?)));
    let others = told.filter(|(_, (edition, _))| *edition != submission.edition);
    let faults = others.map(|(leaf, (edition, from))| {
        Outcome::failed(
            &leaf.path,
            format!(
                "it is of v{edition} ({from}), and the tree is checked by the rules of v{} ({})",
                submission.edition, submission.edition_from
            ),
            "take it out: results of different editions are different submissions",
        )
    });
    or_passed(faults.collect(), "", || {
        format!("nothing in it is of another edition than v{}", submission.edition)
    })
}

/// Runs of one result are on as many accelerators of one kind.
fn accelerators(group: &Group) -> Option<Outcome> {
    if group.category == Category::Checkpointing {
        return None;
    }
    let of = |leaf: &Leaf| Some((leaf.figure("num_accelerators")?, leaf.accelerator()));
    let first = group.runs.iter().find_map(|leaf| Some((leaf, of(leaf)?)))?;
    let other = group.runs.iter().find(|leaf| of(leaf).is_some_and(|found| found != first.1))?;
    let shown =
        |(count, kind): (f64, Option<String>)| format!("{count} {}", kind.unwrap_or_default());
    Some(Outcome::failed(
        &other.path,
        format!("it ran {}, {} ran {}", shown(of(other)?), first.0.name(), shown(first.1)),
        "the runs of a result are the same run six times",
    ))
}

/// Runs whose summaries are one and the same.
fn repeated(group: &Group) -> Vec<Outcome> {
    let mut faults = Vec::new();
    let mut seen: Vec<(&Value, &Leaf)> = Vec::new();
    for leaf in &group.runs {
        let start = &leaf.summary.value()["start"];
        match seen.iter().find(|(known, _)| !start.is_null() && *known == start) {
            Some((_, other)) => faults.push(Outcome::failed(
                &leaf.path,
                format!("its summary began at the same moment as that of {}", other.name()),
                "a run may be there only once",
            )),
            None => seen.push((start, leaf)),
        }
    }
    faults
}
