//! Whether the files of a run say the same: what no rule asks for, and what results rest on.

use std::collections::BTreeSet;

use serde_json::Value;

use super::figures::number;
use super::leaf::{Leaf, LeafKind, plain};
use super::rule::{Outcome, or_passed};
use super::survey::{Category, Group, Submission};
use super::tree::{Form, join, last};
use crate::stats::mean;
use crate::training::metrics::mib_of_samples;

/// How far figures may be apart that are the same: they were rounded when they were written.
const ROUNDING: f64 = 0.005;

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING * a.abs().max(b.abs()) + 0.005
}

/// Files that cannot be used.
pub(super) fn readable(submission: &Submission) -> Vec<Outcome> {
    let unusable = submission.leaves().flat_map(|leaf| &leaf.unusable);
    let faults = unusable.map(|(path, why)| {
        Outcome::failed(
            path,
            format!("it cannot be used: {why}"),
            "copy it again from where it was written",
        )
    });
    or_passed(faults.collect(), "", || {
        "every file that was read is what its name says".to_string()
    })
}

/// Leaves that belong to no result.
pub(super) fn placed(submission: &Submission) -> Vec<Outcome> {
    let faults = submission.others.iter().map(|leaf| {
        Outcome::failed(
            &leaf.path,
            "nothing tells what this folder is of",
            "remove it, or put it where mlpstorage wrote it",
        )
    });
    or_passed(faults.collect(), "", || {
        "every folder of a run belongs to a result".to_string()
    })
}

/// Figures of a summary against those of its ranks and of themselves.
pub(super) fn sums(_: &Submission, group: &Group) -> Vec<Outcome> {
    let mut faults = Vec::new();
    for leaf in &group.runs {
        let told = faults.len();
        means(leaf, &mut faults);
        of_ranks(leaf, &mut faults);
        throughput(leaf, &mut faults);
        if faults.len() == told && !leaf.summary.is_found() {
            let why = "there is no summary.json to compare";
            faults.push(Outcome::unknown(&leaf.path, why, ""));
        }
    }
    or_passed(faults, &group.path, || {
        "means and sums agree with what they are of".to_string()
    })
}

fn disagree(leaf: &Leaf, what: &str, stands: f64, follows: f64, from: &str) -> Outcome {
    Outcome::failed(
        &leaf.path,
        format!("{what} is {stands:.4}; {from} come to {follows:.4}"),
        "take all files of the run as they were written, from one run",
    )
}

/// Means against their lists.
fn means(leaf: &Leaf, faults: &mut Vec<Outcome>) {
    let metric = &leaf.summary.value()["metric"];
    for (list, of) in [
        ("train_au_percentage", "train_au_mean_percentage"),
        (
            "train_throughput_samples_per_second",
            "train_throughput_mean_samples_per_second",
        ),
    ] {
        let values: Vec<f64> = metric[list]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(number)
            .collect();
        if let Some(stands) = number(&metric[of])
            && !values.is_empty()
            && !same(stands, mean(&values))
        {
            faults.push(disagree(leaf, of, stands, mean(&values), list));
        }
    }
}

/// AU and throughput against the files of the ranks.
fn of_ranks(leaf: &Leaf, faults: &mut Vec<Outcome>) {
    if leaf.ranks.is_empty() || leaf.kind != LeafKind::Run {
        return;
    }
    let count = leaf.figure("num_accelerators");
    if let Some(count) = count.filter(|count| *count != leaf.ranks.len() as f64) {
        faults.push(Outcome::failed(
            &leaf.path,
            format!(
                "{count} accelerators, and files N_output.json of {} ranks",
                leaf.ranks.len()
            ),
            "add the files of every rank",
        ));
        return;
    }
    let metric = &leaf.summary.value()["metric"];
    let epochs = leaf
        .ranks
        .iter()
        .map(|(_, rank)| rank.epochs.len())
        .min()
        .unwrap_or(0);
    for epoch in 0..epochs {
        let of_epoch = || leaf.ranks.iter().map(|(_, rank)| rank.epochs[epoch]);
        let au = mean(
            &of_epoch()
                .map(|figures| figures.au_percent)
                .collect::<Vec<f64>>(),
        );
        let samples: f64 = of_epoch().map(|figures| figures.samples_per_second).sum();
        for (key, follows) in [
            ("train_au_percentage", au),
            ("train_throughput_samples_per_second", samples),
        ] {
            if let Some(stands) = number(&metric[key][epoch])
                && !same(stands, follows)
            {
                let what = format!("{key} of epoch {}", epoch + 1);
                faults.push(disagree(
                    leaf,
                    &what,
                    stands,
                    follows,
                    "the files of the ranks",
                ));
            }
        }
    }
}

/// MiB/s against samples a second.
fn throughput(leaf: &Leaf, faults: &mut Vec<Outcome>) {
    let record =
        number(leaf.parameter("dataset", "record_length_bytes")).filter(|bytes| *bytes > 0.0);
    let samples = leaf.metric("train_throughput_mean_samples_per_second");
    let stands = leaf.metric("train_io_mean_MB_per_second");
    if let (Some(record), Some(samples), Some(stands)) = (record, samples, stands)
        && !same(stands, mib_of_samples(samples, record))
    {
        let follows = mib_of_samples(samples, record);
        let from = "samples a second times the record length";
        faults.push(disagree(
            leaf,
            "train_io_mean_MB_per_second",
            stands,
            follows,
            from,
        ));
    }
}

/// What summary, metadata and overrides say of the same.
pub(super) fn agree(_: &Submission, group: &Group) -> Vec<Outcome> {
    let mut faults = Vec::new();
    for leaf in group.leaves() {
        let mut differ = |what: &str, said: &[(&str, Option<String>)]| {
            let known: Vec<(&str, &String)> = said
                .iter()
                .filter_map(|(from, value)| Some((*from, value.as_ref()?)))
                .collect();
            let values: BTreeSet<&String> = known.iter().map(|(_, value)| *value).collect();
            if values.len() > 1 {
                let words = known
                    .iter()
                    .map(|(from, value)| format!("{value} in {from}"));
                let words = words.collect::<Vec<String>>().join(", ");
                let remedy = "take all files of the run as they were written, from one run";
                faults.push(Outcome::failed(
                    &leaf.path,
                    format!("{what}: {words}"),
                    remedy,
                ));
            }
        };
        let whole = |value: Option<f64>| value.filter(|v| *v > 0.0).map(|v| v.to_string());
        let set = |key: &str| leaf.set(key).and_then(|value| value.parse().ok());
        differ(
            "files",
            &[
                ("summary.json", whole(leaf.figure("num_files_train"))),
                ("overrides.yaml", whole(set("dataset.num_files_train"))),
            ],
        );
        let processes = match leaf.kind {
            LeafKind::Run => number(leaf.argument("num_accelerators")),
            _ => number(leaf.argument("num_processes")),
        };
        if matches!(leaf.kind, LeafKind::Run | LeafKind::Checkpoint) {
            differ(
                "accelerators",
                &[
                    ("summary.json", whole(leaf.figure("num_accelerators"))),
                    ("the metadata", whole(processes)),
                ],
            );
        }
        let named = leaf.model().map(|model| model.replace('_', "-"));
        let folder = Some(group.model.replace('_', "-")).filter(|model| model != "unknown");
        // Hydra's choice of a checkpoint workload is cut at its first `_`.
        let named = named.filter(|named| {
            group.category == Category::Training
                || leaf.argument("model").is_string() && named.contains('-')
        });
        differ("model", &[("its files", named), ("its folder", folder)]);
    }
    faults.extend(accelerators(group));
    faults.extend(repeated(group));
    or_passed(faults, &group.path, || {
        "the files of each run say the same".to_string()
    })
}

/// Runs of one result are on as many accelerators of one kind.
fn accelerators(group: &Group) -> Option<Outcome> {
    if group.category == Category::Checkpointing {
        return None;
    }
    let of = |leaf: &Leaf| Some((leaf.figure("num_accelerators")?, leaf.accelerator()));
    let first = group.runs.iter().find_map(|leaf| Some((leaf, of(leaf)?)))?;
    let other = group
        .runs
        .iter()
        .find(|leaf| of(leaf).is_some_and(|found| found != first.1))?;
    let shown =
        |(count, kind): (f64, Option<String>)| format!("{count} {}", kind.unwrap_or_default());
    Some(Outcome::failed(
        &other.path,
        format!(
            "it ran {}, {} ran {}",
            shown(of(other)?),
            first.0.name(),
            shown(first.1)
        ),
        "the runs of a result are the same run six times",
    ))
}

/// Runs whose summaries are one and the same.
fn repeated(group: &Group) -> Vec<Outcome> {
    let mut faults = Vec::new();
    let mut seen: Vec<(&Value, &Leaf)> = Vec::new();
    for leaf in &group.runs {
        let start = &leaf.summary.value()["start"];
        match seen
            .iter()
            .find(|(known, _)| !start.is_null() && *known == start)
        {
            Some((_, other)) => faults.push(Outcome::failed(
                &leaf.path,
                format!(
                    "its summary began at the same moment as that of {}",
                    other.name()
                ),
                "a run may be there only once",
            )),
            None => seen.push((start, leaf)),
        }
    }
    faults
}

/// `results.json` against the runs that it is of.
pub(super) fn reported(submission: &Submission, group: &Group) -> Vec<Outcome> {
    let path = join(&group.run_folder(), "results.json");
    let file = submission.tree.part(&path, Form::Json);
    let Some(entries) = file.value().as_array() else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    for entry in entries {
        let id = plain(&entry["run_id"]);
        let Some(leaf) = group
            .runs
            .iter()
            .find(|leaf| !leaf.name().is_empty() && id.contains(leaf.name()))
        else {
            continue;
        };
        let metrics = entry["metrics"].as_object();
        for (key, value) in metrics.into_iter().flatten() {
            if let (Some(stands), Some(follows)) = (number(value), leaf.metric(key))
                && !same(stands, follows)
            {
                faults.push(Outcome::failed(
                    &path,
                    format!(
                        "{key} of {} is {stands:.4}, in its summary {follows:.4}",
                        leaf.name()
                    ),
                    "run `mlpstorage reports reportgen` again",
                ));
            }
        }
    }
    or_passed(faults, &path, || {
        "its figures are those of the runs".to_string()
    })
}

/// 3.4.1 and 4.4.1: data and results go to different folders.
pub(super) fn paths(_: &Submission, group: &Group) -> Vec<Outcome> {
    let key = match group.category {
        Category::Training => "data_dir",
        Category::Checkpointing => "checkpoint_folder",
    };
    let outcomes = group.runs.iter().map(|leaf| {
        let (data, results) = (leaf.argument(key), leaf.argument("results_dir"));
        match (data.as_str(), results.as_str()) {
            (Some(data), Some(results)) => Outcome::of(
                data.trim_end_matches('/') != results.trim_end_matches('/'),
                &leaf.path,
                format!("{key} {data}, results_dir {results}"),
                "put the results elsewhere, and run again",
            ),
            _ => Outcome::unknown(
                &leaf.path,
                format!("the metadata does not name both {key} and results_dir"),
                "take the metadata as the tool wrote it",
            ),
        }
    });
    outcomes.collect()
}

/// 3.4.2 and 4.4.2: and on different file systems.
pub(super) fn file_systems(_: &Submission, group: &Group) -> Vec<Outcome> {
    let outcomes = group.runs.iter().map(|leaf| {
        let told = &leaf.separation.value()["same_filesystem"];
        match told.as_bool() {
            Some(same) => Outcome::of(
                !same,
                &leaf.path,
                format!("fs_separation.json: same_filesystem is {same}"),
                "put the results on another file system, and run again",
            ),
            None => Outcome::unknown(
                &leaf.path,
                "no fs_separation.json tells; a table of df in the log is not read",
                "take fs_separation.json as mlpstorage wrote it",
            ),
        }
    });
    outcomes.collect()
}

/// PROV-01: a stamp is there where one was promised, and names the image of its run.
pub(super) fn provenance(_: &Submission, group: &Group) -> Vec<Outcome> {
    let mut faults = Vec::new();
    for leaf in group.leaves() {
        let promised = leaf.metadata.value()["provenance_file"].as_str();
        if let Some(name) = promised.filter(|_| !leaf.provenance.is_found()) {
            faults.push(Outcome::failed(
                &join(&leaf.path, last(name)),
                "the metadata names it, and it is not there",
                "copy it from the results folder that mlpstorage wrote",
            ));
        }
        let stamp = leaf.provenance.value();
        if leaf.provenance.is_found() && stamp["schema"] != "mlps-run-provenance/1" {
            let schema = plain(&stamp["schema"]);
            let is_ours = leaf.is_of_stormlp().is_some();
            if !is_ours {
                faults.push(Outcome::failed(
                    leaf.provenance.path().unwrap_or(&leaf.path),
                    format!("its schema is {schema}"),
                    "take it as mlpstorage wrote it",
                ));
            }
        }
    }
    or_passed(faults, &group.path, || {
        "stamps are there where one was promised".to_string()
    })
}
