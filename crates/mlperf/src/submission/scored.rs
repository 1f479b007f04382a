//! Rule of scored figures: each run has the figures that make its result. Rules about a figure have
//! no finding if it is missing, and that must not count as passed.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::checkpoints::counts;
use super::figures::{number, shown};
use super::leaf::Leaf;
use super::rule::{COPY_FILES, Finding, failed, or_passed};
use super::survey::{Category, RunGroup, Submission};
use super::timestamp;
use super::tree::join;
use stormlp_core::units::counted;

/// Possible figures: whether one is, and the text of the requirement.
type Bounds = (fn(f64) -> bool, &'static str);

/// No run counts more of anything.
const MOST: f64 = 1e12;
/// With the rounding of floating point.
pub(super) const PERCENT: RangeInclusive<f64> = 0.0..=100.01;
const COUNT: Bounds =
    (|figure| (1.0..=MOST).contains(&figure) && figure.fract() == 0.0, "a whole number from 1");
const SHARE: Bounds = (|figure| PERCENT.contains(&figure), "from 0 to 100");
/// A rate, a size or a duration.
const POSITIVE: Bounds = (|figure| figure > 0.0, "above 0");

/// Lists of metrics, epoch by epoch.
const AU: &str = "train_au_percentage";
const RATES: &str = "train_throughput_samples_per_second";

/// Every figure that makes the result exists and is possible.
pub(super) fn complete(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let mut faults = Vec::new();
    for leaf in &group.runs {
        let summary = join(&leaf.path, "summary.json");
        if leaf.summary.is_found() {
            let remedy = "copy it again as the tool wrote it; if the run did not finish, run again";
            let FigureFaults { missing, impossible, .. } = faults_of_summary(group.category, leaf);
            if !missing.is_empty() {
                let fact = format!("it has no {}", missing.join(", no "));
                faults.push(failed(&summary, fact, remedy));
            }
            if !impossible.is_empty() {
                faults.push(failed(&summary, impossible.join("; "), remedy));
            }
        } else if leaf.summary.path.is_none() {
            // Another rule reports one that cannot be read.
            let fact = "it is missing, and with it every figure of the run";
            let remedy =
                "copy it from the results folder that the tool wrote; without it, run again";
            faults.push(failed(summary, fact, remedy));
        }
        let missing = missing_in_metadata(group.category, leaf);
        if !missing.is_empty() {
            let place = leaf.metadata.path.as_deref().unwrap_or(&leaf.path);
            let fact = format!("metadata and overrides do not name {}", missing.join(", "));
            faults.push(failed(place, fact, COPY_FILES));
        }
    }
    or_passed(faults, group, "every figure of the result exists and is plausible")
}

/// Figures by their places in a summary.
const OF_EVERY_RUN: [(&str, Bounds); 2] = [("/num_accelerators", COUNT), ("/num_hosts", COUNT)];
const OF_TRAINING: [(&str, Bounds); 4] = [
    ("/num_files_train", COUNT),
    ("/metric/train_au_mean_percentage", SHARE),
    ("/metric/train_throughput_mean_samples_per_second", POSITIVE),
    ("/metric/train_io_mean_MB_per_second", POSITIVE),
];

/// Figures of a summary that are missing, and those that no run can have.
struct FigureFaults<'a> {
    summary: &'a Value,
    missing: Vec<String>,
    impossible: Vec<String>,
}

impl FigureFaults<'_> {
    fn need(&mut self, exists: bool, what: &str) {
        if !exists {
            self.missing.push(what.to_string());
        }
    }

    fn figures(&mut self, figures: &[(&str, Bounds)]) {
        for (place, (is_possible, wanted)) in figures {
            let what = place.trim_start_matches('/').replace('/', ".");
            match self.summary.pointer(place).and_then(number) {
                None => self.missing.push(what),
                Some(figure) if !is_possible(figure) => {
                    let figure = shown(figure);
                    self.impossible.push(format!("{what} is {figure}, and must be {wanted}"));
                }
                Some(_) => {}
            }
        }
    }
}

fn faults_of_summary(category: Category, leaf: &Leaf) -> FigureFaults<'_> {
    let summary = &leaf.summary.value;
    let mut faults = FigureFaults { summary, missing: Vec::new(), impossible: Vec::new() };
    for key in ["start", "end"] {
        let time = summary[key].as_str().and_then(timestamp::seconds);
        faults.need(time.is_some(), &format!("time `{key}`"));
    }
    faults.figures(&OF_EVERY_RUN);
    memory(leaf, &mut faults);
    match category {
        Category::Training => training(summary, &mut faults),
        _ => checkpoints(leaf, &mut faults),
    }
    faults
}

/// The memory of each host, which sizes of datasets and checkpoints are compared to.
fn memory(leaf: &Leaf, faults: &mut FigureFaults<'_>) {
    let key = "host_memory_GB";
    let list = leaf.summary.value[key].as_array();
    faults.need(list.is_some(), key);
    let Some((list, hosts)) = list.zip(leaf.figure("num_hosts")) else { return };
    if list.len() as f64 != hosts {
        let (entries, hosts) = (counted(list.len() as u64, "number"), shown(hosts));
        faults.impossible.push(format!("{key} has {entries}, num_hosts is {hosts}"));
    } else if leaf.memory_gib().is_none() {
        faults.impossible.push(format!("{key} has a number that is not a size"));
    }
}

fn training(summary: &Value, faults: &mut FigureFaults<'_>) {
    let metric = &summary["metric"];
    faults.figures(&OF_TRAINING);
    let [au, rates] = [(AU, SHARE), (RATES, POSITIVE)].map(|(key, bounds)| {
        let epochs = metric[key].as_array().map_or(0, Vec::len);
        faults.need(epochs > 0, &format!("metric.{key}"));
        for epoch in 0..epochs {
            faults.figures(&[(&format!("/metric/{key}/{epoch}"), bounds)]);
        }
        epochs
    });
    if au != rates && au > 0 && rates > 0 {
        let epochs = counted(au as u64, "epoch");
        faults.impossible.push(format!("metric.{AU} has {epochs}, metric.{RATES} {rates}"));
    }
    let flag = "train_au_meet_expectation";
    faults.need(metric[flag].is_string(), &format!("metric.{flag}"));
}

fn checkpoints(leaf: &Leaf, faults: &mut FigureFaults<'_>) {
    faults.figures(&[("/metric/checkpoint_size_GB", POSITIVE)]);
    // Only the counts show which phases must have figures.
    let (writes, reads) = counts(leaf).unwrap_or((0, 0));
    for (phase, count) in [("save", writes), ("load", reads)] {
        for what in ["io_mean_GB_per_second", "duration_mean_seconds"] {
            let key = format!("{phase}_checkpoint_{what}");
            if count > 0 || !leaf.summary.value["metric"][&key].is_null() {
                faults.figures(&[(&format!("/metric/{key}"), POSITIVE)]);
            }
        }
    }
}

/// Facts that neither metadata nor overrides have.
fn missing_in_metadata(category: Category, leaf: &Leaf) -> Vec<&'static str> {
    let needed = match category {
        Category::Training => {
            vec![(leaf.accelerator().is_some(), "the accelerator (args.accelerator_type)")]
        }
        _ => vec![
            (counts(leaf).is_some(), "num_checkpoints_write and num_checkpoints_read"),
            (!leaf.parameter("checkpoint", "fsync").is_null(), "checkpoint.fsync"),
        ],
    };
    let needed = [(leaf.model().is_some(), "the model")].into_iter().chain(needed);
    needed.filter(|(exists, _)| !exists).map(|(_, what)| what).collect()
}
