//! Rule of scored figures: each run has the figures that make its result. Rules about a figure find
//! nothing where it is missing, and that must not count as passed.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::checkpointing::counts;
use super::figures::{number, shown};
use super::leaf::Leaf;
use super::rule::{COPY_FILES, Finding, failed, lacking, or_passed};
use super::survey::{Category, RunGroup, Submission};
use super::timestamp;
use super::tree::join;
use stormlp_core::units::counted;

/// What a figure of a run can be.
#[derive(Clone, Copy)]
enum Bounds {
    Count,
    Percent,
    /// A rate, a size or a duration.
    Positive,
}

/// Counts in the summary of every run.
const OF_A_RUN: [&str; 2] = ["num_accelerators", "num_hosts"];
/// Metrics of a training run.
const OF_TRAINING: [(&str, Bounds); 3] = [
    ("train_au_mean_percentage", Bounds::Percent),
    ("train_throughput_mean_samples_per_second", Bounds::Positive),
    ("train_io_mean_MB_per_second", Bounds::Positive),
];
/// Lists of metrics, epoch by epoch.
const OF_EPOCHS: [(&str, Bounds); 2] = [
    ("train_au_percentage", Bounds::Percent),
    ("train_throughput_samples_per_second", Bounds::Positive),
];
/// No run counts more of anything.
const MOST: f64 = 1e12;
/// With the rounding of floating point.
pub(super) const PERCENT: RangeInclusive<f64> = 0.0..=100.01;

/// Every figure that makes the result exists and is possible.
pub(super) fn complete(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let mut faults = Vec::new();
    for leaf in &group.runs {
        let of_stormlp = leaf.is_of_stormlp();
        let summary = join(&leaf.path, "summary.json");
        if leaf.summary.is_found() {
            let remedy = "copy it again as the tool wrote it; if the run did not finish, run again";
            let found = of_summary(group.category, leaf);
            if !found.missing.is_empty() {
                let fact = format!("it has no {}", found.missing.join(", no "));
                faults.push(failed(&summary, fact, remedy));
            }
            if !found.impossible.is_empty() {
                let fact = found.impossible.join("; ");
                faults.push(lacking(leaf.is_short_rehearsal(), &summary, fact, remedy));
            }
        } else if leaf.summary.path().is_none() {
            // Another rule reports one that cannot be read.
            let fact = "it is missing, and with it every figure of the run";
            let remedy =
                "copy it from the results folder that the tool wrote; without it, run again";
            faults.push(failed(summary, fact, remedy));
        }
        let missing = of_metadata(group.category, leaf);
        if !missing.is_empty() {
            let place = leaf.metadata.path().unwrap_or(&leaf.path);
            let fact = format!("metadata and overrides do not name {}", missing.join(", "));
            faults.push(lacking(of_stormlp, place, fact, COPY_FILES));
        }
    }
    or_passed(faults, group, "every figure of the result exists and is plausible")
}

impl Bounds {
    fn hold(self, figure: f64) -> bool {
        match self {
            Self::Count => (1.0..=MOST).contains(&figure) && figure.fract() == 0.0,
            Self::Percent => PERCENT.contains(&figure),
            Self::Positive => figure > 0.0 && figure.is_finite(),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Count => "a whole number from 1",
            Self::Percent => "from 0 to 100",
            Self::Positive => "above 0",
        }
    }
}

/// Figures of a summary that are missing, and those that no run can have.
#[derive(Default)]
struct FigureFaults {
    missing: Vec<String>,
    impossible: Vec<String>,
}

impl FigureFaults {
    fn need(&mut self, exists: bool, what: impl Into<String>) {
        if !exists {
            self.missing.push(what.into());
        }
    }

    fn figure(&mut self, what: &str, value: &Value, bounds: Bounds) {
        match number(value) {
            None => self.missing.push(what.to_string()),
            Some(figure) if !bounds.hold(figure) => {
                let (figure, words) = (shown(figure), bounds.words());
                self.impossible.push(format!("{what} is {figure}, and must be {words}"));
            }
            Some(_) => {}
        }
    }

    /// A figure of each epoch.
    fn list(&mut self, what: &str, list: &Value, bounds: Bounds) {
        let list = list.as_array().map_or(&[][..], Vec::as_slice);
        self.need(!list.is_empty(), what);
        for (number, value) in (1..).zip(list) {
            self.figure(&format!("{what} of epoch {number}"), value, bounds);
        }
    }
}

fn of_summary(category: Category, leaf: &Leaf) -> FigureFaults {
    let summary = leaf.summary.value();
    let mut figures = FigureFaults::default();
    for key in ["start", "end"] {
        let time = summary[key].as_str().and_then(timestamp::seconds);
        figures.need(time.is_some(), format!("time `{key}`"));
    }
    for key in OF_A_RUN {
        figures.figure(key, &summary[key], Bounds::Count);
    }
    memory(leaf, &mut figures);
    match category {
        Category::Training => of_training(summary, &mut figures),
        Category::Checkpointing => of_checkpoints(leaf, &mut figures),
    }
    figures
}

/// The memory of each host, which sizes of datasets and checkpoints are compared to.
fn memory(leaf: &Leaf, figures: &mut FigureFaults) {
    let key = "host_memory_GB";
    let list = leaf.summary.value()[key].as_array();
    figures.need(list.is_some(), key);
    let (Some(list), Some(hosts)) = (list, leaf.figure("num_hosts")) else {
        return;
    };
    if list.len() as f64 != hosts {
        let (entries, hosts) = (counted(list.len() as u64, "number"), shown(hosts));
        figures.impossible.push(format!("{key} has {entries}, num_hosts is {hosts}"));
    } else if leaf.memory_gib().is_none() {
        figures.impossible.push(format!("{key} has a number that is not a size"));
    }
}

fn of_training(summary: &Value, figures: &mut FigureFaults) {
    figures.figure("num_files_train", &summary["num_files_train"], Bounds::Count);
    let metric = &summary["metric"];
    for (key, bounds) in OF_TRAINING {
        figures.figure(&format!("metric.{key}"), &metric[key], bounds);
    }
    for (key, bounds) in OF_EPOCHS {
        figures.list(&format!("metric.{key}"), &metric[key], bounds);
    }
    let lengths = OF_EPOCHS.map(|(key, _)| metric[key].as_array().map_or(0, Vec::len));
    if lengths[0] != lengths[1] && !lengths.contains(&0) {
        let [au, rates] = OF_EPOCHS.map(|(key, _)| key);
        let epochs = counted(lengths[0] as u64, "epoch");
        figures.impossible.push(format!("metric.{au} has {epochs}, metric.{rates} {}", lengths[1]));
    }
    let flag = &metric["train_au_meet_expectation"];
    figures.need(flag.is_string(), "metric.train_au_meet_expectation");
}

fn of_checkpoints(leaf: &Leaf, figures: &mut FigureFaults) {
    let metric = &leaf.summary.value()["metric"];
    let size = "checkpoint_size_GB";
    figures.figure(&format!("metric.{size}"), &metric[size], Bounds::Positive);
    // Only the counts show which phases must have figures.
    let (writes, reads) = counts(leaf).unwrap_or((0, 0));
    for (phase, count) in [("save", writes), ("load", reads)] {
        for what in ["io_mean_GB_per_second", "duration_mean_seconds"] {
            let key = format!("{phase}_checkpoint_{what}");
            if count > 0 || !metric[&key].is_null() {
                figures.figure(&format!("metric.{key}"), &metric[&key], Bounds::Positive);
            }
        }
    }
}

/// What metadata and overrides lack.
fn of_metadata(category: Category, leaf: &Leaf) -> Vec<&'static str> {
    let needed = match category {
        Category::Training => {
            vec![(leaf.accelerator().is_some(), "the accelerator (args.accelerator_type)")]
        }
        Category::Checkpointing => vec![
            (counts(leaf).is_some(), "num_checkpoints_write and num_checkpoints_read"),
            (!leaf.parameter("checkpoint", "fsync").is_null(), "checkpoint.fsync"),
        ],
    };
    let needed = [(leaf.model().is_some(), "the model")].into_iter().chain(needed);
    needed.filter(|(exists, _)| !exists).map(|(_, what)| what).collect()
}
