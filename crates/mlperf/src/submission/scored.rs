//! Whether each run has what its result is made of. Where a figure is missing, rules about it have
//! nothing to look at; that must not pass for keeping them.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::checkpointing::counts;
use super::figures::{number, shown};
use super::leaf::Leaf;
use super::moment;
use super::rule::{Outcome, or_passed};
use super::survey::{Category, Group, Submission};
use super::tree::join;
use stormlp_core::units::counted;

/// Numbers that the summary of every run has.
const OF_A_RUN: [&str; 2] = ["num_accelerators", "num_hosts"];
/// Metrics of a training run.
const OF_TRAINING: [(&str, Bounds); 3] = [
    ("train_au_mean_percentage", Bounds::Percent),
    ("train_throughput_mean_samples_per_second", Bounds::Positive),
    ("train_io_mean_MB_per_second", Bounds::Positive),
];
/// Lists of them, epoch by epoch, that the means are of.
const OF_EPOCHS: [(&str, Bounds); 2] = [
    ("train_au_percentage", Bounds::Percent),
    ("train_throughput_samples_per_second", Bounds::Positive),
];

/// Every figure that a result is made of is there, and is one that a run can have.
pub(super) fn complete(_: &Submission, group: &Group) -> Vec<Outcome> {
    let mut faults = Vec::new();
    for leaf in &group.runs {
        let of_stormlp = leaf.is_of_stormlp();
        let summary = join(&leaf.path, "summary.json");
        let again = "take it as the tool wrote it; if the run was not finished, run again";
        match leaf.summary.is_found() {
            true => {
                let found = of_summary(group.category, leaf);
                if !found.missing.is_empty() {
                    let evidence = format!("it has no {}", found.missing.join(", no "));
                    faults.push(Outcome::failed(&summary, evidence, again));
                }
                if !found.impossible.is_empty() {
                    let evidence = found.impossible.join("; ");
                    // Formulas of editions make figures of very short runs that mean nothing.
                    faults.push(Outcome::lacking(of_stormlp, &summary, evidence, again));
                }
            }
            // One that cannot be read is told as such.
            false if leaf.summary.path().is_some() => {}
            false => faults.push(Outcome::failed(
                &summary,
                "it is not there, and with it every figure of the run",
                "copy it from the results folder that the tool wrote; without it, run again",
            )),
        }
        let missing = of_metadata(group.category, leaf);
        let metadata = leaf.metadata.path().unwrap_or(&leaf.path).to_string();
        if !missing.is_empty() {
            faults.push(Outcome::lacking(
                of_stormlp,
                &metadata,
                format!("neither it nor overrides name {}", missing.join(", ")),
                "take metadata and overrides.yaml as the tool wrote them",
            ));
        }
    }
    or_passed(faults, &group.path, || {
        "every figure that the result is made of is there, and possible".to_string()
    })
}

/// What a figure of a run may be.
#[derive(Clone, Copy)]
enum Bounds {
    /// How many of something there are.
    Count,
    /// A part of a whole.
    Percent,
    /// A rate, a size or a duration.
    Positive,
}

/// No run has more of anything that is counted.
const MOST: f64 = 1e12;
/// Nothing to all of it, rounded as floating point does.
pub(super) const PERCENT: RangeInclusive<f64> = 0.0..=100.01;

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

/// What is wrong with the figures of a summary.
#[derive(Default)]
struct Faults {
    /// Figures that are not there.
    missing: Vec<String>,
    /// Figures that no run can have.
    impossible: Vec<String>,
}

impl Faults {
    fn need(&mut self, is_there: bool, what: impl Into<String>) {
        if !is_there {
            self.missing.push(what.into());
        }
    }

    /// A figure that must be there, within its bounds.
    fn figure(&mut self, what: &str, value: &Value, bounds: Bounds) {
        match number(value) {
            None => self.missing.push(what.to_string()),
            Some(figure) if !bounds.hold(figure) => {
                let (figure, words) = (shown(figure), bounds.words());
                let what = format!("{what} is {figure}, and must be {words}");
                self.impossible.push(what);
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

/// What is wrong with a summary.
fn of_summary(category: Category, leaf: &Leaf) -> Faults {
    let summary = leaf.summary.value();
    let mut faults = Faults::default();
    for key in ["start", "end"] {
        let moment = summary[key].as_str().and_then(moment::seconds);
        faults.need(moment.is_some(), format!("moment `{key}`"));
    }
    for key in OF_A_RUN {
        faults.figure(key, &summary[key], Bounds::Count);
    }
    memory(leaf, &mut faults);
    match category {
        Category::Training => of_training(summary, &mut faults),
        Category::Checkpointing => of_checkpoints(leaf, &mut faults),
    }
    faults
}

/// The memory of each host, which the size of datasets and checkpoints is held against.
fn memory(leaf: &Leaf, faults: &mut Faults) {
    let key = "host_memory_GB";
    let list = leaf.summary.value()[key].as_array();
    faults.need(list.is_some(), key);
    let (Some(list), Some(hosts)) = (list, leaf.figure("num_hosts")) else {
        return;
    };
    if list.len() as f64 != hosts {
        let (entries, hosts) = (counted(list.len() as u64, "number"), shown(hosts));
        let what = format!("{key} has {entries}, num_hosts is {hosts}");
        faults.impossible.push(what);
    } else if leaf.memory_gib().is_none() {
        let what = format!("{key} has a number that is no size");
        faults.impossible.push(what);
    }
}

fn of_training(summary: &Value, faults: &mut Faults) {
    faults.figure("num_files_train", &summary["num_files_train"], Bounds::Count);
    let metric = &summary["metric"];
    for (key, bounds) in OF_TRAINING {
        faults.figure(&format!("metric.{key}"), &metric[key], bounds);
    }
    for (key, bounds) in OF_EPOCHS {
        faults.list(&format!("metric.{key}"), &metric[key], bounds);
    }
    let lengths = OF_EPOCHS.map(|(key, _)| metric[key].as_array().map_or(0, Vec::len));
    if lengths[0] != lengths[1] && !lengths.contains(&0) {
        let [au, rates] = OF_EPOCHS.map(|(key, _)| key);
        let what = format!(
            "metric.{au} has {}, metric.{rates} {}",
            counted(lengths[0] as u64, "epoch"),
            lengths[1]
        );
        faults.impossible.push(what);
    }
    let flag = &metric["train_au_meet_expectation"];
    faults.need(flag.is_string(), "metric.train_au_meet_expectation");
}

fn of_checkpoints(leaf: &Leaf, faults: &mut Faults) {
    let metric = &leaf.summary.value()["metric"];
    let size = "checkpoint_size_GB";
    faults.figure(&format!("metric.{size}"), &metric[size], Bounds::Positive);
    // Without the counts nothing tells which of them there must be.
    let (writes, reads) = counts(leaf).unwrap_or((0, 0));
    for (phase, count) in [("save", writes), ("load", reads)] {
        for what in ["io_mean_GB_per_second", "duration_mean_seconds"] {
            let key = format!("{phase}_checkpoint_{what}");
            if count > 0 || !metric[&key].is_null() {
                faults.figure(&format!("metric.{key}"), &metric[&key], Bounds::Positive);
            }
        }
    }
}

/// What metadata and overrides lack.
fn of_metadata(category: Category, leaf: &Leaf) -> Vec<&'static str> {
    let mut missing = Vec::new();
    if leaf.model().is_none() {
        missing.push("the model");
    }
    match category {
        Category::Training if leaf.accelerator().is_none() => {
            missing.push("the accelerator (args.accelerator_type)");
        }
        Category::Training => {}
        Category::Checkpointing => {
            if counts(leaf).is_none() {
                missing.push("num_checkpoints_write and num_checkpoints_read");
            }
            if *leaf.parameter("checkpoint", "fsync") == Value::Null {
                missing.push("checkpoint.fsync");
            }
        }
    }
    missing
}
