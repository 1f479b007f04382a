//! Rule of `results.json`: it reports the runs that it lies above.

use serde_json::Value;

use super::figures::{number, rounded};
use super::leaf::{Leaf, plain};
use super::rule::{Finding, failed, or_passed};
use super::sums::same;
use super::survey::{Category, RunGroup, Submission};
use super::tree::{Parsed, join};
use stormlp_core::stats::mean;

/// MiB/s of training runs in the report's GiB/s.
const MIB_OF_GIB: f64 = 1024.0;

/// `results.json` against the runs: v2.0's tool lists each run with its metrics, v3.0's each result
/// under the columns of its table.
pub(super) fn reported(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let path = join(&group.run_folder(), "results.json");
    let facts = match submission.tree.json(&path) {
        // Another rule reports a missing file.
        Parsed::Absent => return Vec::new(),
        Parsed::Broken { why, .. } => vec![format!("it cannot be used: {why}")],
        Parsed::Found { value, .. } => match value.as_array().map(Vec::as_slice) {
            None => vec!["it is not a list of results".to_string()],
            _ if group.runs.is_empty() => return Vec::new(),
            Some([]) => vec!["it lists no result".to_string()],
            Some(entries) if is_table(entries) => match row_of(group, entries) {
                Some(_) => Vec::new(),
                None => {
                    let (kind, label) = (group.category.name(), label(&group.model));
                    vec![format!("none of its {} rows is {kind} of model {label}", entries.len())]
                }
            },
            Some(entries) => of_list(group, entries),
        },
    };
    let remedy = "run `mlpstorage reports reportgen` again on the whole tree";
    let faults = facts.into_iter().map(|fact| failed(&path, fact, remedy));
    or_passed(faults, &path, "its figures are those of the runs")
}

/// What is wrong with a list of runs, each with its metrics.
fn of_list(group: &RunGroup, entries: &[Value]) -> Vec<String> {
    let is_of = |entry: &Value, leaf: &Leaf| {
        let id = plain(&entry["run_id"]);
        !leaf.name().is_empty() && id.contains(leaf.name())
    };
    let found = |leaf: &Leaf| entries.iter().find(|entry| is_of(entry, leaf));
    if group.runs.iter().all(|leaf| found(leaf).is_none()) {
        return vec![format!("none of its {} entries is a run of this folder", entries.len())];
    }
    let mut faults = Vec::new();
    for (index, leaf) in group.runs.iter().enumerate() {
        let name = leaf.name();
        let Some(entry) = found(leaf) else {
            // A warm-up is not scored, and need not be listed.
            if index > 0 || group.category == Category::Checkpointing {
                faults.push(format!("it has no entry of the run {name}"));
            }
            continue;
        };
        let metrics = entry["metrics"].as_object();
        if metrics.is_none_or(serde_json::Map::is_empty) {
            faults.push(format!("its entry of {name} has no metrics"));
        }
        for (key, value) in metrics.into_iter().flatten() {
            if let (Some(stands), Some(follows)) = (number(value), leaf.metric(key)) {
                faults.extend(differs(&format!("{key} of {name}"), stands, follows));
            }
        }
    }
    faults
}

fn differs(what: &str, stands: f64, follows: f64) -> Option<String> {
    let is_same = same(stands, follows);
    let (stands, follows) = (rounded(stands), rounded(follows));
    (!is_same).then(|| format!("{what} is {stands}; by the summary it is {follows}"))
}

/// 3.3.8 and 4.3.6: the figures of the table are the means over the runs. Only v3.0 has a table.
pub(super) fn aggregated(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let path = join(&group.run_folder(), "results.json");
    let file = submission.tree.json(&path);
    let entries = file.value().as_array().map_or(&[][..], Vec::as_slice);
    let Some(row) = row_of(group, entries).filter(|_| !group.runs.is_empty()) else {
        return Vec::new();
    };
    let remedy = "run `mlpstorage reports reportgen` again on the whole tree";
    let faults = of_row(group, row).into_iter().map(|fact| failed(&path, fact, remedy));
    or_passed(faults, &path, "its figures are the means over the runs")
}

fn is_table(entries: &[Value]) -> bool {
    entries.iter().any(|entry| entry["Benchmark Type"].is_string())
}

/// The row of a result in the official table.
fn row_of<'a>(group: &RunGroup, entries: &'a [Value]) -> Option<&'a Value> {
    let (kind, label) = (group.category.name(), label(&group.model));
    entries.iter().find(|entry| {
        [("Benchmark Type", kind), ("Model", label)].iter().all(|(column, wanted)| {
            entry[*column].as_str().unwrap_or_default().eq_ignore_ascii_case(wanted)
        })
    })
}

/// What is wrong with a result under the columns of the official table.
fn of_row(group: &RunGroup, row: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for (column, follows) in columns(group) {
        let Some(follows) = follows else { continue };
        faults.extend(match number(&row[column]) {
            Some(stands) => differs(column, stands, follows),
            None => {
                Some(format!("`{column}` is blank; by the summaries it is {}", rounded(follows)))
            }
        });
    }
    for (column, value) in row.as_object().into_iter().flatten() {
        let Some(name) = column.strip_prefix("train_mean_of_") else { continue };
        if let (Some(stands), Some(follows)) = (number(value), mean_of_epochs(group, name)) {
            faults.extend(differs(column, stands, follows));
        }
    }
    let column = "Training - Accelerator Type";
    let accelerator = group.runs.first().and_then(Leaf::accelerator);
    let shown = row[column].as_str().filter(|shown| !shown.is_empty());
    if let (Some(shown), Some(follows)) = (shown, accelerator)
        && !shown.eq_ignore_ascii_case(&follows)
    {
        faults.push(format!("{column} is {shown}; the runs have {follows}"));
    }
    faults
}

/// The mean over the scored runs of a metric's mean over epochs.
fn mean_of_epochs(group: &RunGroup, name: &str) -> Option<f64> {
    let means = scored(group).map(|leaf| {
        let list = leaf.summary.value()["metric"][format!("train_{name}")].as_array()?;
        let figures: Vec<f64> = list.iter().map(number).collect::<Option<_>>()?;
        (!figures.is_empty()).then(|| mean(&figures))
    });
    let means: Vec<f64> = means.collect::<Option<_>>()?;
    (!means.is_empty()).then(|| mean(&means))
}

/// The runs that count: all but the warm-up.
fn scored(group: &RunGroup) -> impl Iterator<Item = &Leaf> {
    group.runs.iter().skip(usize::from(group.runs.len() > 1))
}

/// A model's name in the official table.
pub(crate) fn label(model: &str) -> &str {
    match model {
        "unet3d" => "Unet3D",
        "retinanet" => "RetinaNet",
        "llama3-8b" => "8B",
        "llama3-70b" => "70B",
        "llama3-405b" => "405B",
        "llama3-1t" => "1250B",
        other => other,
    }
}

/// The figures that the official table's columns must have.
fn columns(group: &RunGroup) -> Vec<(&'static str, Option<f64>)> {
    if group.category == Category::Checkpointing {
        // Over the runs that have the phase; one run has both.
        let of_runs = |key: &str| {
            let figures: Vec<f64> = group.runs.iter().filter_map(|leaf| leaf.metric(key)).collect();
            (!figures.is_empty()).then(|| mean(&figures))
        };
        let columns = [
            ("Checkpointing - Write B/W (GiB/s)", "save_checkpoint_io_mean_GB_per_second"),
            ("Checkpointing - Write Duration (secs)", "save_checkpoint_duration_mean_seconds"),
            ("Checkpointing - Read B/W (GiB/s)", "load_checkpoint_io_mean_GB_per_second"),
            ("Checkpointing - Read Duration (secs)", "load_checkpoint_duration_mean_seconds"),
        ];
        return columns.map(|(column, key)| (column, of_runs(key))).to_vec();
    }
    let rates: Option<Vec<f64>> =
        scored(group).map(|leaf| leaf.metric("train_io_mean_MB_per_second")).collect();
    let rate = rates.filter(|rates| !rates.is_empty()).map(|rates| mean(&rates) / MIB_OF_GIB);
    let accelerators = group.runs.first().and_then(|leaf| leaf.figure("num_accelerators"));
    vec![
        ("Training - Read B/W (GiB/s)", rate),
        ("Training - # Simulated Accelerators", accelerators),
    ]
}
