//! Rules of agreement between the files of a run, and between the runs of a result. No edition has
//! them, but results depend on them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::edition::Edition;
use super::figures::{number, shown};
use super::leaf::{Leaf, LeafKind, plain};
use super::object;
use super::rule::{COPY_METADATA, Finding, ONE_RUN, Official, or_passed, unlike_the_first};
use super::rule::{failed, passed_open, unknown, wish};
use super::strays;
use super::survey::{Category, RunGroup, Submission, is_elsewhere};
use super::tree::{CODE_HASH, last};

/// Files that the rules need can be used.
pub(super) fn readable(submission: &Submission) -> Vec<Finding> {
    // A link may lead anywhere, so a stray one says nothing about the tree.
    let strays: BTreeSet<&str> = strays::paths(submission).into_iter().collect();
    let is_needed = |path: &str| {
        let is_known = !is_elsewhere(path) || last(path) == CODE_HASH;
        is_known && !strays.contains(path) && !submission.tree.is_folder(path)
    };
    let paths = submission.tree.iter().map(|(path, _)| path).filter(|path| is_needed(path));
    let mut unusable: BTreeMap<&str, &str> =
        paths.filter_map(|path| Some((path, submission.tree.fault(path)?))).collect();
    for (path, why) in submission.leaves().flat_map(|leaf| &leaf.unusable) {
        unusable.insert(path, why);
    }
    let faults = unusable.into_iter().map(|(path, why)| {
        failed(path, format!("it cannot be used: {why}"), "copy it again from where it was written")
    });
    or_passed(faults, "", "the content of every file matches its name")
}

/// Every run folder belongs to one result.
pub(super) fn placed(submission: &Submission) -> Vec<Finding> {
    let others = submission.others.iter().map(|leaf| {
        let fact = "no file shows which result this folder belongs to";
        failed(leaf, fact, "remove it, or move it to where mlpstorage wrote it")
    });
    let faults = copies(submission).into_iter().chain(others);
    or_passed(faults, "", "every run folder belongs to one result")
}

/// Runs in two results of a division. The same runs may be submitted to both divisions.
fn copies(submission: &Submission) -> Vec<Finding> {
    let mut seen: BTreeMap<(&str, String), (&RunGroup, &Leaf)> = BTreeMap::new();
    let mut faults = Vec::new();
    for group in &submission.groups {
        for leaf in group.runs.iter().filter(|leaf| leaf.span().is_some()) {
            let division = group.division.as_deref().unwrap_or_default();
            let key = (division, leaf.summary.value().to_string());
            let (first, other) = *seen.entry(key).or_insert((group, leaf));
            // Another rule reports copies within a result.
            if first.path != group.path {
                let fact = format!("its summary.json is that of {}", other.path);
                faults.push(failed(leaf, fact, "a run belongs to one result: remove the copy"));
            }
        }
    }
    faults
}

/// The files of each run agree, and so do the runs.
pub(super) fn agree(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let mut faults = Vec::new();
    for leaf in group.leaves() {
        let facts = [
            files(leaf),
            ranks(leaf),
            model(group, leaf),
            accelerator(group, leaf),
            host(leaf),
            data_folder(leaf),
            access(submission, group, leaf),
            overrides(leaf),
        ];
        faults.extend(facts.into_iter().flatten().map(|fact| failed(leaf, fact, ONE_RUN)));
        // The rules take the memory that was found.
        faults.extend(memory(leaf).map(|fact| wish(leaf, fact, ONE_RUN)));
        let metadata = metadata_files(leaf).map(|fact| failed(leaf, fact, ONE_RUN));
        faults.extend(metadata.map(|fault| fault.officially(Official::Warns)));
    }
    // Checkpoints may be read on another host than they were written on.
    let is_training = group.category == Category::Training;
    faults.extend(accelerators(group).filter(|_| is_training));
    faults.extend(repeated(group));
    if is_training {
        faults.extend(elsewhere(group));
    }
    or_passed(faults, group, "the files of each run agree")
}

/// The contradiction between several sources of one fact.
fn contradiction(what: &str, sources: &[(&str, Option<String>)]) -> Option<String> {
    let known = || sources.iter().filter_map(|(from, value)| Some((*from, value.as_ref()?)));
    let values: BTreeSet<&String> = known().map(|(_, value)| value).collect();
    let words = known().map(|(from, value)| format!("{value} in {from}"));
    let words = words.collect::<Vec<String>>().join(", ");
    (values.len() > 1).then(|| format!("{what}: {words}"))
}

fn whole(value: Option<f64>) -> Option<String> {
    value.filter(|value| *value > 0.0).map(shown)
}

fn files(leaf: &Leaf) -> Option<String> {
    let key = "num_files_train";
    let metadata = leaf.metadata.value();
    let of = |workload: &Value| whole(number(&workload["dataset"][key]));
    let set = leaf.set("dataset.num_files_train").and_then(|value| value.parse().ok());
    let overridden = &metadata["override_parameters"]["dataset.num_files_train"];
    contradiction(
        "files",
        &[
            ("summary.json", whole(leaf.figure(key))),
            ("the overrides", whole(set)),
            ("overrides of the metadata", whole(number(overridden))),
            ("parameters of the metadata", of(&metadata["parameters"])),
            ("config.yaml", of(&leaf.config.value()["workload"])),
        ],
    )
}

fn ranks(leaf: &Leaf) -> Option<String> {
    let argument = match leaf.kind {
        LeafKind::Run => Some("num_accelerators"),
        LeafKind::Checkpoint => Some("num_processes"),
        LeafKind::Datasize | LeafKind::Datagen | LeafKind::Unknown => None,
    };
    let argument = argument.and_then(|argument| whole(number(leaf.argument(argument))));
    let summary = whole(leaf.figure("num_accelerators"));
    contradiction("accelerators", &[("summary.json", summary), ("the metadata", argument)])
}

fn model(group: &RunGroup, leaf: &Leaf) -> Option<String> {
    let named = leaf.model().map(|model| model.replace('_', "-"));
    // Hydra's choice of a checkpoint workload is cut at its first `_`.
    let named = named.filter(|named| {
        group.category == Category::Training
            || leaf.argument("model").is_string() && named.contains('-')
    });
    let folder = Some(group.model.replace('_', "-")).filter(|model| model != "unknown");
    contradiction("model", &[("its files", named), ("its folder", folder)])
}

fn accelerator(group: &RunGroup, leaf: &Leaf) -> Option<String> {
    let argument = leaf.argument("accelerator_type").as_str().map(str::to_ascii_lowercase);
    // The workload of datagen, `unet3d_datagen`, and those of models name none.
    let is_run = group.category == Category::Training && leaf.kind == LeafKind::Run;
    let chosen = leaf.accelerator_of_choice().filter(|_| is_run);
    let sources = [("the metadata", argument), ("the workload of the overrides", chosen)];
    contradiction("accelerator", &sources)
}

/// A host's name without its domain; `None` for an address.
fn short(host: &str) -> Option<String> {
    let name = host.split(':').next().unwrap_or(host);
    let is_address =
        name.split('.').all(|part| part.parse::<u8>().is_ok()) || host.matches(':').count() > 1;
    let name = name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    (!is_address && !name.is_empty() && name != "localhost").then_some(name)
}

/// The host that wrote the summary is one that the command named. Addresses are not looked up, and a
/// host may have a longer name on another network (`n1-ib0`).
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
    // A relative path depends on where the command ran.
    let comparable = named.starts_with('/') && used.starts_with('/');
    (comparable && !fits)
        .then(|| format!("dataset: data_dir {named} in the metadata, {used} in the overrides"))
}

/// A run is on objects if the description of its system says so, else on files.
fn access(submission: &Submission, group: &RunGroup, leaf: &Leaf) -> Option<String> {
    let word = |(access, _): (object::Access, String)| access.to_string();
    let described = object::described(submission, group).map(word);
    let sources = [
        ("the parameters", object::access(leaf).map(word)),
        ("the description of the system (benchmark_API)", described),
    ];
    contradiction("access", &sources)
}

/// The command names the memory of a host, rounded and in GB; a larger difference is another host.
const SAME_MEMORY: f64 = 0.25;

fn memory(leaf: &Leaf) -> Option<String> {
    // A rehearsal's command may name the memory that the program can use.
    let named =
        number(leaf.argument("client_host_memory_in_gb")).filter(|_| !leaf.is_of_stormlp())?;
    let hosts = leaf.figure("num_hosts").filter(|hosts| *hosts > 0.0)?;
    let found = leaf.memory_gib()? / hosts;
    let differs = (named - found).abs() > SAME_MEMORY * named.abs().max(found);
    let (named, found) = (shown(named), shown(found));
    differs.then(|| {
        format!("memory per host: {named} GiB in the metadata, {found} GiB in summary.json")
    })
}

/// Hydra writes the overrides twice.
fn overrides(leaf: &Leaf) -> Option<String> {
    let twice = leaf.hydra.value()["hydra"]["overrides"]["task"].as_array()?;
    let once = leaf.overrides_file.value().as_array()?;
    (once != twice).then(|| "overrides.yaml and hydra.yaml list different overrides".to_string())
}

fn metadata_files(leaf: &Leaf) -> Option<String> {
    let names = &leaf.metadata_names;
    (names.len() > 1).then(|| format!("{} metadata files: {}", names.len(), names.join(", ")))
}

const SAME_RUN: &str = "a result is the same run six times, on one dataset";

/// Runs of a training result have the same hosts, and the dataset of the `datagen` run.
fn elsewhere(group: &RunGroup) -> Vec<Finding> {
    let runs: Vec<&Leaf> = group.runs.iter().collect();
    let with_datagen: Vec<&Leaf> = group.runs.iter().chain(&group.datagen).collect();
    let argument = |leaf: &Leaf, key: &str| {
        let value = leaf.argument(key);
        (!value.is_null()).then(|| plain(value))
    };
    let hosts = |leaf: &Leaf| argument(leaf, "hosts");
    let hostname = |leaf: &Leaf| leaf.summary.value()["hostname"].as_str().map(str::to_string);
    let data_dir =
        |leaf: &Leaf| argument(leaf, "data_dir").map(|dir| dir.trim_end_matches('/').to_string());
    let same = |a: &String, b: &String| a == b;
    let mut faults = unlike_the_first(&runs, ("hosts", SAME_RUN), hosts, same);
    faults.extend(unlike_the_first(&runs, ("hostname", SAME_RUN), hostname, same));
    faults.extend(unlike_the_first(&with_datagen, ("data_dir", SAME_RUN), data_dir, same));
    faults
}

/// mlpstorage's own verdict on each run fits the division.
pub(super) fn verification(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let leaves = group.leaves().filter(|leaf| !leaf.is_of_stormlp());
    let findings = leaves.filter_map(|leaf| {
        let path = leaf.metadata.path().unwrap_or(&leaf.path);
        let Some(verdict) = leaf.verification() else {
            let ran = matches!(leaf.kind, LeafKind::Run | LeafKind::Checkpoint);
            let found = &leaf.metadata.value()["verification"];
            let fact = format!("its verification is {found}, not a verdict of mlpstorage");
            // Another rule reports a file that is missing or broken.
            return (leaf.metadata.is_found() && (ran || !found.is_null()))
                .then(|| unknown(path, fact, COPY_METADATA));
        };
        match (verdict.as_str(), group.division.as_deref()) {
            ("invalid", _) => {
                let remedy = "its log has the reason; fix it, and run again";
                Some(failed(path, "mlpstorage marked it INVALID", remedy))
            }
            ("open", Some("closed")) => {
                let remedy = "submit the result to open, or run again without what made it open";
                Some(failed(path, "mlpstorage marked it OPEN, but it is in closed/", remedy))
            }
            ("open", None) => Some(passed_open(path, "mlpstorage marked it OPEN")),
            ("open" | "closed", _) => None,
            (other, _) => {
                let fact = format!("its verification is `{}`", other.to_ascii_uppercase());
                Some(unknown(path, fact, COPY_METADATA))
            }
        }
    });
    or_passed(findings, group, "mlpstorage's verdicts agree")
}

/// All runs have the tree's edition.
pub(super) fn editions(submission: &Submission) -> Vec<Finding> {
    let is_other = |(edition, _): &(Edition, String)| *edition != submission.edition;
    let others = submission.leaves().filter_map(|leaf| {
        // The files may be of one edition, and the accelerator of another.
        let all = [leaf.edition(), leaf.edition_of_accelerator()].into_iter().flatten();
        Some((leaf, all.into_iter().find(is_other)?))
    });
    let faults = others.map(|(leaf, (edition, from))| {
        let fact = format!(
            "it is a run of v{edition} ({from}), and the tree is checked by v{} ({})",
            submission.edition, submission.edition_from
        );
        failed(leaf, fact, "remove it: different editions are different submissions")
    });
    or_passed(faults, "", format!("all runs are of v{}", submission.edition))
}

/// Runs of a training result have the same number and type of accelerators.
fn accelerators(group: &RunGroup) -> Option<Finding> {
    let of = |leaf: &Leaf| Some((leaf.figure("num_accelerators")?, leaf.accelerator()));
    let (first, usual) = group.runs.iter().find_map(|leaf| Some((leaf, of(leaf)?)))?;
    let known = |leaf| Some((leaf, of(leaf)?));
    let (other, found) = group.runs.iter().filter_map(known).find(|(_, found)| *found != usual)?;
    let [found, usual] =
        [found, usual].map(|(count, kind)| format!("{count} {}", kind.unwrap_or_default()));
    let fact = format!("it ran {found}, {} ran {usual}", first.name());
    Some(failed(other, fact, SAME_RUN))
}

/// Runs whose summaries have the same start.
fn repeated(group: &RunGroup) -> Vec<Finding> {
    let mut faults = Vec::new();
    let mut seen: Vec<(&Value, &Leaf)> = Vec::new();
    for leaf in &group.runs {
        let start = &leaf.summary.value()["start"];
        match seen.iter().find(|(known, _)| !start.is_null() && *known == start) {
            Some((_, other)) => {
                let fact = format!("its summary has the same start as that of {}", other.name());
                faults.push(failed(leaf, fact, "a run may be submitted only once"));
            }
            None => seen.push((start, leaf)),
        }
    }
    faults
}
