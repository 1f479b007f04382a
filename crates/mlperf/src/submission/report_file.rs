//! Whether `results.json` is the report of the runs that it lies above.

use serde_json::Value;

use super::figures::{number, rounded};
use super::leaf::{Leaf, plain};
use super::rule::{Outcome, or_passed};
use super::sums::same;
use super::survey::{Category, Group, Submission};
use super::tree::{Form, Part, join};
use stormlp_core::stats::mean;

const AGAIN: &str = "run `mlpstorage reports reportgen` again on the whole tree";
/// MiB/s of training runs in the unit of the report.
const MIB_OF_GIB: f64 = 1024.0;

/// `results.json` against the runs. v2.0's tool lists each run with its metrics, v3.0's each result
/// under the columns of its table.
pub(super) fn reported(submission: &Submission, group: &Group) -> Vec<Outcome> {
    let path = join(&group.run_folder(), "results.json");
    let entries = match submission.tree.part(&path, Form::Json) {
        // Where it must be is a rule of its own.
        Part::Absent => return Vec::new(),
        Part::Broken { why, .. } => {
            let evidence = format!("it cannot be used: {why}");
            return vec![Outcome::failed(&path, evidence, AGAIN)];
        }
        Part::Found { value, .. } => match value {
            Value::Array(entries) => entries,
            _ => {
                let evidence = "it is no list of results";
                return vec![Outcome::failed(&path, evidence, AGAIN)];
            }
        },
    };
    if group.runs.is_empty() {
        return Vec::new();
    }
    if entries.is_empty() {
        return vec![Outcome::failed(&path, "it lists no result", AGAIN)];
    }
    let is_table = entries.iter().any(|entry| entry["Benchmark Type"].is_string());
    let faults =
        if is_table { of_table(group, &entries, &path) } else { of_list(group, &entries, &path) };
    or_passed(faults, &path, || "its figures are those of the runs".to_string())
}

/// A list of runs, each with its metrics.
fn of_list(group: &Group, entries: &[Value], path: &str) -> Vec<Outcome> {
    let is_of = |entry: &Value, leaf: &Leaf| {
        let id = plain(&entry["run_id"]);
        !leaf.name().is_empty() && id.contains(leaf.name())
    };
    let found = |leaf: &Leaf| entries.iter().find(|entry| is_of(entry, leaf));
    if group.runs.iter().all(|leaf| found(leaf).is_none()) {
        let evidence = format!("none of its {} entries is of a run that lies here", entries.len());
        return vec![Outcome::failed(path, evidence, AGAIN)];
    }
    let mut faults = Vec::new();
    for leaf in &group.runs {
        let Some(entry) = found(leaf) else {
            // A warm-up is not scored, and need not be listed.
            let is_warm_up =
                group.category == Category::Training && leaf.path == group.runs[0].path;
            if !is_warm_up {
                let evidence = format!("it has no entry of the run {}", leaf.name());
                faults.push(Outcome::failed(path, evidence, AGAIN));
            }
            continue;
        };
        let metrics = entry["metrics"].as_object();
        if metrics.is_none_or(serde_json::Map::is_empty) {
            let evidence = format!("its entry of {} has no metrics", leaf.name());
            faults.push(Outcome::failed(path, evidence, AGAIN));
        }
        for (key, value) in metrics.into_iter().flatten() {
            if let (Some(stands), Some(follows)) = (number(value), leaf.metric(key)) {
                let what = format!("{key} of {}", leaf.name());
                faults.extend(differs(path, &what, stands, follows));
            }
        }
    }
    faults
}

fn differs(path: &str, what: &str, stands: f64, follows: f64) -> Option<Outcome> {
    (!same(stands, follows)).then(|| {
        let evidence =
            format!("{what} is {}, by the summary {}", rounded(stands), rounded(follows));
        Outcome::failed(path, evidence, AGAIN)
    })
}

/// Results under the columns of the official table.
fn of_table(group: &Group, entries: &[Value], path: &str) -> Vec<Outcome> {
    let (kind, columns) = match group.category {
        Category::Training => ("training", of_training(group)),
        Category::Checkpointing => ("checkpointing", of_checkpoints(group)),
    };
    let label = label(&group.model);
    let is_mine = |entry: &&Value| {
        let is = |column: &str, wanted: &str| {
            let text = entry[column].as_str().unwrap_or_default();
            text.eq_ignore_ascii_case(wanted)
        };
        is("Benchmark Type", kind) && is("Model", label)
    };
    let Some(row) = entries.iter().find(is_mine) else {
        let evidence =
            format!("none of its {} rows is of {kind} with model {label}", entries.len());
        return vec![Outcome::failed(path, evidence, AGAIN)];
    };
    let mut faults = Vec::new();
    for (column, follows) in columns {
        let Some(follows) = follows else { continue };
        match number(&row[column]) {
            Some(stands) => faults.extend(differs(path, column, stands, follows)),
            None => {
                let evidence =
                    format!("`{column}` is blank; by the summaries it is {}", rounded(follows));
                faults.push(Outcome::failed(path, evidence, AGAIN));
            }
        }
    }
    let column = "Training - Accelerator Type";
    let accelerator = group.runs.first().and_then(Leaf::accelerator);
    let shown = row[column].as_str().filter(|shown| !shown.is_empty());
    if let (Some(shown), Some(follows)) = (shown, accelerator)
        && !shown.eq_ignore_ascii_case(&follows)
    {
        let evidence = format!("{column} is {shown}; the runs are of {follows}");
        faults.push(Outcome::failed(path, evidence, AGAIN));
    }
    faults
}

/// How the official table calls a model.
fn label(model: &str) -> &str {
    match model {
        "llama3-8b" => "8B",
        "llama3-70b" => "70B",
        "llama3-405b" => "405B",
        "llama3-1t" => "1250B",
        other => other,
    }
}

/// What the columns of a training result must hold: means of the scored runs.
fn of_training(group: &Group) -> Vec<(&'static str, Option<f64>)> {
    let scored = group.runs.iter().skip(usize::from(group.runs.len() > 1));
    let rates: Option<Vec<f64>> =
        scored.map(|leaf| leaf.metric("train_io_mean_MB_per_second")).collect();
    let rate = rates.filter(|rates| !rates.is_empty());
    let accelerators = group.runs.first();
    vec![
        ("Training - Read B/W (GiB/s)", rate.map(|rates| mean(&rates) / MIB_OF_GIB)),
        (
            "Training - # Simulated Accelerators",
            accelerators.and_then(|leaf| leaf.figure("num_accelerators")),
        ),
    ]
}

/// What the columns of a checkpointing result must hold.
fn of_checkpoints(group: &Group) -> Vec<(&'static str, Option<f64>)> {
    let columns = [
        ("Checkpointing - Write B/W (GiB/s)", "save_checkpoint_io_mean_GB_per_second"),
        ("Checkpointing - Write Duration (secs)", "save_checkpoint_duration_mean_seconds"),
        ("Checkpointing - Read B/W (GiB/s)", "load_checkpoint_io_mean_GB_per_second"),
        ("Checkpointing - Read Duration (secs)", "load_checkpoint_duration_mean_seconds"),
    ];
    let of_runs = |key: &str| group.runs.iter().find_map(|leaf| leaf.metric(key));
    let columns = columns.iter().map(|(column, key)| (*column, of_runs(key)));
    columns.collect()
}
