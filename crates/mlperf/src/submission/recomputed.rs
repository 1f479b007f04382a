//! Figures computed again: means of epochs, ranks and checkpoints, AU from the times of steps, and
//! the report's table from the runs. Rules: 3.3.8, 4.3.6 and stormlp's.

use serde_json::Value;

use super::checkpoints::counts;
use super::figures::{CheckpointTime, EpochFigures, EpochTimes, number, rounded, shown};
use super::leaf::{Leaf, LeafKind};
use super::rule::{COPY_FROM_RESULTS, Finding, failed, or_passed, unknown};
use super::scored::PERCENT;
use super::survey::{Category, RunGroup, Submission};
use super::training::record_bytes;
use super::tree::{join, last};
use stormlp_core::stats::mean;
use stormlp_core::units::counted;
use stormlp_training::plan::metrics::mib_of_samples;

/// Tools round to two decimal places at most.
const ROUNDING: f64 = 0.01;
/// And otherwise compute with 64 bits.
const PRECISION: f64 = 1e-6;
/// Times are in files to a microsecond, or to 10 ms.
const AU_OF_STEPS: f64 = 0.05;
/// MiB/s of training runs in the report's GiB/s.
const MIB_OF_GIB: f64 = 1024.0;
const ONE_RUN: &str = "copy all files of the run again, from one run";
const REPORT_AGAIN: &str = "run `mlpstorage reports reportgen` again on the whole tree";

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING + PRECISION * a.abs().max(b.abs())
}

/// A run's figures follow from their parts.
pub(super) fn figures(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let mut faults = Vec::new();
    for leaf in &group.runs {
        match leaf.kind {
            LeafKind::Run => {
                means(leaf, &mut faults);
                figures_of_ranks(leaf, &mut faults);
                au_of_steps(leaf, &mut faults);
                throughput(group, leaf, &mut faults);
            }
            LeafKind::Checkpoint => checkpoints_of_ranks(leaf, &mut faults),
            LeafKind::Datasize | LeafKind::Datagen | LeafKind::Unknown => {}
        }
        if !leaf.summary.is_found() {
            faults.push(unknown(leaf, "there is no summary.json to compare", COPY_FROM_RESULTS));
        }
    }
    or_passed(faults, group, "means, rates and AU follow from their parts")
}

/// The fault where a figure `stands` in a file and differs from the value that `follows` from its
/// parts.
pub(super) fn differing(what: &str, stands: f64, follows: f64, from: &str) -> Option<String> {
    let (in_file, computed) = (rounded(stands), rounded(follows));
    (!same(stands, follows)).then(|| format!("{what} is {in_file}; by {from} it is {computed}"))
}

fn fault(at: impl AsRef<str>) -> impl Fn(String) -> Finding {
    move |fact| failed(&at, fact, ONE_RUN)
}

/// Means against their lists.
fn means(leaf: &Leaf, faults: &mut Vec<Finding>) {
    let metric = &leaf.summary.value["metric"];
    for (list, of) in [
        ("train_au_percentage", "train_au_mean_percentage"),
        ("train_throughput_samples_per_second", "train_throughput_mean_samples_per_second"),
    ] {
        let values: Vec<f64> =
            metric[list].as_array().into_iter().flatten().filter_map(number).collect();
        if let Some(stands) = number(&metric[of]).filter(|_| !values.is_empty()) {
            faults.extend(differing(of, stands, mean(&values), list).map(fault(leaf)));
        }
    }
}

/// AU and throughput of each epoch against the ranks' files.
fn figures_of_ranks(leaf: &Leaf, faults: &mut Vec<Finding>) {
    let metric = &leaf.summary.value["metric"];
    let listed = metric["train_au_percentage"].as_array().map_or(0, Vec::len);
    // Another rule reports a missing list.
    if listed == 0 {
        return;
    }
    let before = faults.len();
    for (path, epochs) in &leaf.ranks {
        faults.extend(fault_of_rank(epochs, listed).map(fault(path)));
    }
    // Another rule reports missing files.
    let all_there = leaf.figure("num_accelerators") == Some(leaf.ranks.len() as f64);
    if faults.len() > before || !all_there {
        return;
    }
    for epoch in 0..listed {
        let of_epoch = || leaf.ranks.iter().filter_map(|(_, epochs)| epochs.get(epoch));
        let au: Vec<f64> = of_epoch().filter_map(|figures| figures.au_percent).collect();
        let samples = of_epoch().filter_map(|figures| figures.samples_per_second).sum();
        for (key, follows) in
            [("train_au_percentage", mean(&au)), ("train_throughput_samples_per_second", samples)]
        {
            if let Some(stands) = number(&metric[key][epoch]) {
                let what = format!("{key} of epoch {}", epoch + 1);
                let fact = differing(&what, stands, follows, "the ranks' files");
                faults.extend(fact.map(fault(leaf)));
            }
        }
    }
}

/// The fault of one rank's figures, if any: missing epochs, or an impossible AU.
fn fault_of_rank(epochs: &[EpochFigures], listed: usize) -> Option<String> {
    let found = epochs.len();
    if listed != found {
        return Some(format!("{}; the summary has {listed}", counted(found as u64, "epoch")));
    }
    (1..).zip(epochs).find_map(|(number, epoch)| {
        let (Some(au), Some(_)) = (epoch.au_percent, epoch.samples_per_second) else {
            return Some(format!("epoch {number} has no AU and throughput"));
        };
        (!PERCENT.contains(&au))
            .then(|| format!("AU of epoch {number} is {}, not from 0 to 100", shown(au)))
    })
}

/// AU of the ranks against the times of their steps.
fn au_of_steps(leaf: &Leaf, faults: &mut Vec<Finding>) {
    if leaves_out_more(leaf) {
        return;
    }
    for (path, epochs) in &leaf.ranks {
        let stats = path.replace("_output.json", "_per_epoch_stats.json");
        let Some((_, times)) = leaf.stats.iter().find(|(path, _)| *path == stats) else { continue };
        let wrong = (1..).zip(epochs.iter().zip(times)).find_map(|(number, (epoch, times))| {
            let (stands, follows) = (epoch.au_percent?, epoch.au_of_steps(times)?);
            let what = format!("AU of epoch {number}");
            ((stands - follows).abs() > AU_OF_STEPS)
                .then(|| differing(&what, stands, follows, "the times of its steps"))?
        });
        faults.extend(wrong.map(fault(path)));
    }
}

/// Whether AU leaves out more than the first step of a block, which its parameters then say.
fn leaves_out_more(leaf: &Leaf) -> bool {
    let excluded = |key: &str, usual: f64| {
        number(leaf.parameter("metric", key)).is_some_and(|steps| steps != usual)
    };
    excluded("exclude_start_steps", 1.0) || excluded("exclude_end_steps", 0.0)
}

/// MiB/s against samples/s.
fn throughput(group: &RunGroup, leaf: &Leaf, faults: &mut Vec<Finding>) {
    let samples = leaf.metric("train_throughput_mean_samples_per_second");
    let what = "train_io_mean_MB_per_second";
    if let (Some(record), Some(samples), Some(stands)) =
        (record_bytes(group, leaf), samples, leaf.metric(what))
    {
        let follows = mib_of_samples(samples, record);
        let fact = differing(what, stands, follows, "samples/s times the record length");
        faults.extend(fact.map(fault(leaf)));
    }
}

/// The ranks' checkpoints: the number that the run was to make, and the means of rank 0, which DLIO's
/// figures are.
fn checkpoints_of_ranks(leaf: &Leaf, faults: &mut Vec<Finding>) {
    let Some((writes, reads)) = counts(leaf).filter(|_| !leaf.stats.is_empty()) else { return };
    let saves: fn(&EpochTimes) -> &[CheckpointTime] = |epoch| &epoch.saves;
    let loads: fn(&EpochTimes) -> &[CheckpointTime] = |epoch| &epoch.loads;
    for (phase, wanted, times) in [("save", writes, saves), ("load", reads, loads)] {
        let of_rank =
            |epochs: &[EpochTimes]| epochs.iter().flat_map(times).copied().collect::<Vec<_>>();
        let wanted = wanted.max(0) as usize;
        if let Some((path, epochs)) =
            leaf.stats.iter().find(|(_, epochs)| of_rank(epochs).len() != wanted)
        {
            let found = of_rank(epochs).len();
            let fact = format!("it has {found} {phase}_ckpt…, the run was to make {wanted}");
            faults.push(failed(path, fact, ONE_RUN));
            continue;
        }
        let mut first = leaf.stats.iter().filter(|(path, _)| last(path).starts_with("0_"));
        let Some((_, epochs)) = first.next().filter(|_| wanted > 0 && !leaf.made_by_stormlp())
        else {
            continue;
        };
        let list = of_rank(epochs);
        let seconds = list.iter().map(|one| Some(one.seconds)).collect::<Option<Vec<f64>>>();
        let rates = list.iter().map(|one| one.gib_per_second).collect::<Option<Vec<f64>>>();
        for (what, parts) in [("duration_mean_seconds", seconds), ("io_mean_GB_per_second", rates)]
        {
            let what = format!("{phase}_checkpoint_{what}");
            let Some(stands) = leaf.metric(&what) else { continue };
            let fact = match parts {
                Some(parts) => differing(&what, stands, mean(&parts), "the file of rank 0"),
                None => Some(format!("there is a {what}, but rank 0 does not have its parts")),
            };
            faults.extend(fact.map(fault(leaf)));
        }
    }
}

/// 3.3.8 and 4.3.6: the figures of the report's table are the means over the runs.
pub(super) fn table(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let path = join(&group.run_folder(), "results.json");
    let report = submission.tree.json(&path);
    // Another rule reports a missing file.
    if report.path.is_none() || group.runs.is_empty() {
        return Vec::new();
    }
    let rows = report.value.as_array().map_or(&[][..], Vec::as_slice);
    let facts = match (report.fault, rows.iter().find(|row| is_row_of(group, row))) {
        (Some(why), _) => vec![format!("it cannot be used: {why}")],
        (None, Some(row)) => faults_of_row(group, row),
        (None, None) => {
            let (kind, label) = (group.category.name(), label(&group.model));
            vec![format!("none of its {} rows is {kind} of model {label}", rows.len())]
        }
    };
    let faults = facts.into_iter().map(|fact| failed(&path, fact, REPORT_AGAIN));
    or_passed(faults, &path, "its figures are the means over the runs")
}

fn is_row_of(group: &RunGroup, row: &Value) -> bool {
    let is = |column: &str, wanted: &str| {
        row[column].as_str().is_some_and(|found| found.eq_ignore_ascii_case(wanted))
    };
    is("Benchmark Type", group.category.name()) && is("Model", label(&group.model))
}

/// A model's name in the official table.
fn label(model: &str) -> &str {
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

/// Faults of a result under the columns of the official table.
fn faults_of_row(group: &RunGroup, row: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for (column, follows) in columns(group) {
        let Some(follows) = follows else { continue };
        faults.extend(match number(&row[column]) {
            Some(stands) => differing(column, stands, follows, "the summaries"),
            None => {
                Some(format!("`{column}` is blank; by the summaries it is {}", rounded(follows)))
            }
        });
    }
    for (column, value) in row.as_object().into_iter().flatten() {
        let Some(name) = column.strip_prefix("train_mean_of_") else { continue };
        if let Some((stands, follows)) = number(value).zip(mean_of_epochs(group, name)) {
            faults.extend(differing(column, stands, follows, "the summaries"));
        }
    }
    let column = "Training - Accelerator Type";
    let accelerator = group.runs.first().and_then(Leaf::accelerator);
    let in_table = row[column].as_str().filter(|name| !name.is_empty());
    if let (Some(in_table), Some(ran)) = (in_table, accelerator)
        && !in_table.eq_ignore_ascii_case(&ran)
    {
        faults.push(format!("{column} is {in_table}; the runs have {ran}"));
    }
    faults
}

/// The mean over the scored runs of a metric's mean over epochs.
fn mean_of_epochs(group: &RunGroup, name: &str) -> Option<f64> {
    let means = group.scored().map(|leaf| {
        let list = leaf.summary.value["metric"][format!("train_{name}")].as_array()?;
        let figures: Vec<f64> = list.iter().map(number).collect::<Option<_>>()?;
        (!figures.is_empty()).then(|| mean(&figures))
    });
    let means: Vec<f64> = means.collect::<Option<_>>()?;
    (!means.is_empty()).then(|| mean(&means))
}

/// The figures that the official table's columns must have.
fn columns(group: &RunGroup) -> Vec<(&'static str, Option<f64>)> {
    // Over the runs that have the phase: one run of checkpoints may have both.
    let mean_of = |key: &str| {
        let figures: Vec<f64> = group.scored().filter_map(|leaf| leaf.metric(key)).collect();
        (!figures.is_empty()).then(|| mean(&figures))
    };
    match group.category {
        Category::Training => {
            let rate = mean_of("train_io_mean_MB_per_second").map(|mib| mib / MIB_OF_GIB);
            let accelerators = group.runs.first().and_then(|leaf| leaf.figure("num_accelerators"));
            vec![
                ("Training - Read B/W (GiB/s)", rate),
                ("Training - # Simulated Accelerators", accelerators),
            ]
        }
        _ => [
            ("Checkpointing - Write B/W (GiB/s)", "save_checkpoint_io_mean_GB_per_second"),
            ("Checkpointing - Write Duration (secs)", "save_checkpoint_duration_mean_seconds"),
            ("Checkpointing - Read B/W (GiB/s)", "load_checkpoint_io_mean_GB_per_second"),
            ("Checkpointing - Read Duration (secs)", "load_checkpoint_duration_mean_seconds"),
        ]
        .map(|(column, key)| (column, mean_of(key)))
        .to_vec(),
    }
}
