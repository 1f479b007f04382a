//! Whether each run has what its result is made of. Where a figure is missing, rules about it have
//! nothing to look at; that must not pass for keeping them.

use serde_json::Value;

use super::checkpointing::counts;
use super::leaf::Leaf;
use super::moment;
use super::rule::{Outcome, or_passed};
use super::survey::{Category, Group, Submission};
use super::tree::join;

/// Numbers that the summary of every run has.
const OF_A_RUN: [&str; 2] = ["num_accelerators", "num_hosts"];
/// Metrics of a training run.
const OF_TRAINING: [&str; 3] = [
    "train_au_mean_percentage",
    "train_throughput_mean_samples_per_second",
    "train_io_mean_MB_per_second",
];

/// Every figure that a result is made of is there.
pub(super) fn complete(_: &Submission, group: &Group) -> Vec<Outcome> {
    let mut faults = Vec::new();
    for leaf in &group.runs {
        let of_stormlp = leaf.is_of_stormlp();
        let mut lacks = |path: &str, missing: &[String]| {
            if missing.is_empty() {
                return;
            }
            faults.push(Outcome::lacking(
                of_stormlp,
                path,
                format!("it has no {}", missing.join(", no ")),
                "take it as the tool wrote it; if the run was not finished, run again",
            ));
        };
        let summary = join(&leaf.path, "summary.json");
        match leaf.summary.is_found() {
            true => lacks(&summary, &of_summary(group.category, leaf)),
            // One that cannot be read is told as such.
            false if leaf.summary.path().is_some() => {}
            false => faults.push(Outcome::lacking(
                of_stormlp,
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
        "every figure that the result is made of is there".to_string()
    })
}

/// What a summary lacks.
fn of_summary(category: Category, leaf: &Leaf) -> Vec<String> {
    let summary = leaf.summary.value();
    let mut missing = Vec::new();
    let mut need = |holds: bool, what: &str| {
        if !holds {
            missing.push(what.to_string());
        }
    };
    for key in ["start", "end"] {
        let moment = summary[key].as_str().and_then(moment::seconds);
        need(moment.is_some(), &format!("moment `{key}`"));
    }
    for key in OF_A_RUN {
        let count = leaf.figure(key);
        need(count.is_some_and(|count| count > 0.0), key);
    }
    need(leaf.memory_gib().is_some(), "host_memory_GB");
    match category {
        Category::Training => {
            let files = leaf.figure("num_files_train");
            need(files.is_some_and(|files| files > 0.0), "num_files_train");
            for key in OF_TRAINING {
                need(leaf.metric(key).is_some(), &format!("metric.{key}"));
            }
            let flag = &summary["metric"]["train_au_meet_expectation"];
            need(flag.is_string(), "metric.train_au_meet_expectation");
        }
        Category::Checkpointing => {
            let size = leaf.metric("checkpoint_size_GB");
            let what = "metric.checkpoint_size_GB";
            need(size.is_some_and(|size| size > 0.0), what);
            // Without the counts nothing tells which of them there must be.
            let (writes, reads) = counts(leaf).unwrap_or((0, 0));
            for (phase, count) in [("save", writes), ("load", reads)] {
                for what in ["io_mean_GB_per_second", "duration_mean_seconds"] {
                    let key = format!("{phase}_checkpoint_{what}");
                    need(
                        count <= 0 || leaf.metric(&key).is_some(),
                        &format!("metric.{key}"),
                    );
                }
            }
        }
    }
    missing
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
