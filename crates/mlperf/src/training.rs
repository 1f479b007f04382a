//! The files of a training run that MLPerf Storage's tools read: DLIO's `summary.json`, the times
//! of each epoch and step, and the configuration folder, in the layout of v2.0 or v3.0.
//!
//! One run is one folder. "MB" and "GB" in DLIO's key names are MiB and GiB.

use std::path::Path;

use serde_json::{Value, json};
use stormlp_core::group::Machine;
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::stats::{self, population_deviation as deviation};
use stormlp_core::units::{GIB, gib_per_second};
use stormlp_show::stamp;
use stormlp_training::plan::catalog;
use stormlp_training::plan::metrics::{self, Rule};
use stormlp_training::plan::train_plan::TrainPlan;
use stormlp_training::plan::workload::Workload;
use stormlp_training::report::{
    AcceleratorEpoch, BlockSums, EpochReport, RunReport, StepLists, TrainReport, WrittenCheckpoint,
};

use crate::official::{self, Metadata, OutputFile, free_folder};

/// A run of a report.
struct OneRun<'a> {
    report: &'a TrainReport,
    /// Its part of the report.
    own: RunReport,
    steps: &'a [StepLists],
    machines: &'a [Machine],
}

/// The files of every run of `report`. `steps` are the times of every step, run by run; a run
/// without them has no `load`, `proc` and `compute` lists. A run's folder is named after the second
/// in which it started, or after the next second without a folder in `taken`. They are for
/// `folder`, which their metadata names.
#[must_use]
pub fn files(
    report: &TrainReport,
    workload: &Workload,
    steps: &[Vec<StepLists>],
    folder: &Path,
    taken: &dyn Fn(&str) -> bool,
) -> Vec<OutputFile> {
    let host = &report.head.host;
    let machines = official::machines(host, report.results.group.as_ref());
    let runs = format!("training/{}/run", report.plan.workload);
    let parent = official::parent(is_v3(&report.plan), host, &runs);
    let mut files = Vec::new();
    let mut folders: Vec<String> = Vec::new();
    for (index, own) in report.results.all_runs(&report.plan).into_iter().enumerate() {
        let is_taken = |name: &str| taken(name) || folders.iter().any(|folder| folder == name);
        let free = free_folder(&parent, own.started_unix_seconds, is_taken);
        let steps = steps.get(index).map_or(&[][..], Vec::as_slice);
        let run = OneRun { report, own, steps, machines: &machines };
        files.extend(run_files(&run, workload, (folder, &free)));
        folders.push(free);
    }
    files
}

fn is_v3(plan: &TrainPlan) -> bool {
    plan.profile == Profile::V3
}

impl OneRun<'_> {
    /// The mark that tells stormlp's files from the official tool's.
    fn mark(&self) -> Value {
        json!({
            "version": self.report.head.host.stormlp_version,
            "profile": self.report.plan.profile,
            "run": self.own.run,
            "warm_up": self.own.warm_up,
            "held_to_closed_rules": self.report.plan.request.closed,
            "client": self.report.plan.client.map(|client| json!({
                "step_seconds": client.step_seconds,
                "step_seconds_per_sample": client.step_seconds_per_sample,
                "cpu_seconds_per_sample": client.cpu_seconds_per_sample,
                "cpu_seconds_per_gib": client.cpu_seconds_per_gib,
                "oversleep_seconds": client.oversleep_seconds,
                "estimated": client.estimated,
            })),
        })
    }

    /// The complete epochs.
    fn scored(&self) -> impl Iterator<Item = &EpochReport> {
        let plan = &self.report.plan;
        self.own.epochs.iter().filter(|epoch| epoch.is_whole(plan))
    }
}

fn run_files(
    run: &OneRun,
    workload: &Workload,
    (results, folder): (&Path, &str),
) -> Vec<OutputFile> {
    let plan = &run.report.plan;
    let config = workload.as_planned(plan).to_yaml();
    let metadata = Metadata {
        benchmark: "training",
        folder,
        started_unix_seconds: run.own.started_unix_seconds,
        runtime_seconds: run.own.duration_seconds,
        command: &run.report.head.command,
        args: args(run, results),
        overrides: &overrides(plan, workload),
        // It was written just now, so it can be read.
        config: serde_yaml::from_str(&config).unwrap_or_default(),
        mark: run.mark(),
    };
    let name = format!("{}_{}", plan.workload, plan.accelerator);
    let ranks = (0..plan.accelerators).map(|rank| [per_epoch(run, rank), output(run, rank)]);
    metadata.dlio_files(&name, &summary(run), ranks, config)
}

/// `summary.json`, with DLIO's keys.
fn summary(run: &OneRun) -> Value {
    let report = run.report;
    let plan = &report.plan;
    // DLIO counts the first host's ranks for every host.
    let own = run.machines[0].ranks.iter();
    let of_first: u32 = own.map(|rank| plan.accelerators_of(*rank).len() as u32).sum();
    let share = f64::from(of_first) / f64::from(plan.accelerators.max(1));
    let data_gib = share * (plan.data.samples() as f64 * plan.data.sample_bytes / GIB as f64);
    let caches = |machine: &Machine| i32::from(data_gib < machine.memory_bytes as f64 / GIB as f64);
    let started = run.own.started_unix_seconds;
    let summary = json!({
        "start": stamp::iso(started),
        "num_accelerators": report.plan.accelerators,
        "metric": metric(run),
        "num_files_train": plan.data.files,
        "num_files_eval": 0,
        "num_samples_per_file": plan.data.samples_per_file,
        "potential_caching": run.machines.iter().map(caches).collect::<Vec<i32>>(),
        "data_size_per_host_GB": data_gib,
        "epochs": run.scored().count(),
        "end": stamp::iso(started + run.own.duration_seconds),
        "stormlp": run.mark(),
    });
    official::with_hosts(summary, run.machines, is_v3(plan))
}

/// AU and throughput epoch by epoch, with means and population deviations.
fn metric(run: &OneRun) -> Value {
    let rule = Rule::of(&run.report.plan);
    let epochs = || run.scored().map(|epoch| &epoch.measures);
    let au: Vec<f64> = epochs().map(|m| m.au_percent.profile).collect();
    let throughput: Vec<f64> = epochs().map(|m| m.samples_per_second).collect();
    let throughput_mean = stats::mean(&throughput);
    let throughput_stdev = deviation(&throughput);
    let mut metric = json!({
        "train_au_percentage": au,
        "train_au_mean_percentage": stats::mean(&au),
        "train_au_meet_expectation": if run.own.meets_threshold { "success" } else { "fail" },
        "train_au_stdev_percentage": deviation(&au),
        "train_throughput_samples_per_second": throughput,
        "train_throughput_mean_samples_per_second": throughput_mean,
        "train_throughput_stdev_samples_per_second": throughput_stdev,
        "train_io_mean_MB_per_second": metrics::mib(&rule, throughput_mean),
        "train_io_stdev_MB_per_second": metrics::mib(&rule, throughput_stdev),
    });
    checkpoints(run, &mut metric);
    metric
}

/// Means of rates and times of checkpoints during training; v1.0's DLIO has no such keys.
fn checkpoints(run: &OneRun, metric: &mut Value) {
    let Some(last) = run.own.checkpoints.last() else {
        return;
    };
    if run.report.plan.profile == Profile::V1 {
        return;
    }
    let written = run.own.checkpoints.iter();
    let rates: Vec<f64> =
        (written.clone()).map(|c| gib_per_second(c.bytes, c.duration_seconds)).collect();
    let seconds: Vec<f64> = written.map(|c| c.duration_seconds).collect();
    let mut put = |key: &str, value: f64| metric[key] = value.into();
    let io = "save_checkpoint_io";
    put(&format!("{io}_mean_GB_per_second"), stats::mean(&rates));
    put(&format!("{io}_stdev_GB_per_second"), deviation(&rates));
    let duration = "save_checkpoint_duration";
    put(&format!("{duration}_mean_seconds"), stats::mean(&seconds));
    put(&format!("{duration}_stdev_seconds"), deviation(&seconds));
    put("checkpoint_size_GB", last.bytes as f64 / GIB as f64);
}

/// The blocks of accelerator `rank`; it may have none in an incomplete phase.
fn blocks(accelerators: &[AcceleratorEpoch], rank: u32) -> &[BlockSums] {
    let own = accelerators.iter().find(|one| one.accelerator == rank);
    own.map_or(&[], |accelerator| &accelerator.blocks)
}

fn span(run: &OneRun, started: f64, seconds: f64) -> Value {
    json!({
        "start": stamp::iso(run.own.started_unix_seconds + started),
        "end": stamp::iso(run.own.started_unix_seconds + started + seconds),
        // DLIO writes durations of blocks and epochs as text.
        "duration": format!("{seconds:.2}"),
    })
}

/// `N_per_epoch_stats.json`: start and end of each epoch, block and checkpoint.
fn per_epoch(run: &OneRun, rank: u32) -> Value {
    let mut all = json!({});
    for epoch in &run.own.epochs {
        let mut entry = span(run, epoch.started_seconds, epoch.duration_seconds);
        for (index, block) in blocks(&epoch.accelerators, rank).iter().enumerate() {
            entry[format!("block{}", index + 1)] = span(run, block.started_seconds, block.seconds);
        }
        let written = run.own.checkpoints.iter().filter(|c| c.epoch == epoch.epoch);
        for (index, checkpoint) in written.enumerate() {
            let (name, saved) = saved(run, checkpoint);
            entry[format!("{name}{}", index + 1)] = saved;
        }
        all[epoch.epoch.to_string()] = entry;
    }
    all
}

/// A checkpoint's key and times; v1.0 times it like a block.
fn saved(run: &OneRun, checkpoint: &WrittenCheckpoint) -> (&'static str, Value) {
    let seconds = checkpoint.duration_seconds;
    let mut entry = span(run, checkpoint.started_seconds, seconds);
    if run.report.plan.profile == Profile::V1 {
        return ("ckpt", entry);
    }
    entry["duration"] = seconds.into();
    entry["throughput"] = gib_per_second(checkpoint.bytes, seconds).into();
    ("save_ckpt", entry)
}

/// `N_output.json`: the times of every step, and AU and throughput of every block.
fn output(run: &OneRun, rank: u32) -> Value {
    let report = run.report;
    let rule = Rule::of(&report.plan);
    let process = (0..)
        .take(report.plan.hosts.len())
        .find(|process| report.plan.accelerators_of(*process).contains(&rank));
    let mut all = official::host_of(process.unwrap_or(0), run.machines, is_v3(&report.plan));
    for epoch in &run.own.epochs {
        let lists = run.steps.iter().find(|lists| lists.epoch == epoch.epoch);
        let mut steps = lists.and_then(|lists| lists.steps.get(rank as usize)).map(Vec::as_slice);
        let mut entry = json!({"load": {}, "proc": {}, "compute": {}, "throughput": {}, "au": {}});
        for (index, block) in blocks(&epoch.accelerators, rank).iter().enumerate() {
            let of_block = steps.map(|all| all.split_at((block.steps as usize).min(all.len())));
            steps = of_block.map(|(_, rest)| rest);
            let au = metrics::block_au(&rule, block).profile;
            let throughput = metrics::block_throughput(&rule, block);
            let times = of_block.map(|(own, _)| own);
            put(&mut entry, &format!("block{}", index + 1), au, throughput, times);
        }
        let start = run.own.started_unix_seconds + epoch.started_seconds;
        entry["start"] = stamp::iso(start).into();
        entry["end"] = stamp::iso(start + epoch.duration_seconds).into();
        all[epoch.epoch.to_string()] = entry;
    }
    all
}

/// Adds a block to an epoch; without `times` it has no lists.
fn put(entry: &mut Value, name: &str, au: f64, throughput: f64, times: Option<&[(f32, f32)]>) {
    entry["au"][name] = au.into();
    entry["throughput"][name] = throughput.into();
    let Some(times) = times else { return };
    let list = |get: fn(&(f32, f32)) -> f32| -> Value {
        times.iter().map(get).collect::<Vec<f32>>().into()
    };
    entry["load"][name] = list(|step| step.0);
    entry["compute"][name] = list(|step| step.1);
    entry["proc"][name] = list(|step| step.0 + step.1);
}

/// Listed even if they do not differ: mlpstorage always sets them.
const ALWAYS: [&str; 2] = ["dataset.num_files_train", "dataset.data_folder"];

/// Differences from the built-in workload as Hydra's overrides, which submission checkers read as
/// changes. A workload that is not built in is the base itself.
fn overrides(plan: &TrainPlan, workload: &Workload) -> Vec<String> {
    let mut lines = vec![format!("workload={}_{}", plan.workload, plan.accelerator)];
    let built_in = catalog::find(&plan.workload, Some(&plan.accelerator)).ok();
    let own = built_in.and_then(|entry| entry.workload(&[]).ok());
    let mut base = own.unwrap_or_else(|| workload.clone());
    if plan.data.folder.is_some() {
        base.dataset.data_folder = None;
    }
    base.dataset.num_files_train = 0;
    let planned = workload.as_planned(plan);
    let mut differing = planned.differing_keys(&base);
    differing.sort_by_key(|(key, _)| !ALWAYS.contains(&key.as_str()));
    let set = |(key, value)| format!("++workload.{key}={value}");
    lines.extend(differing.into_iter().map(set));
    if plan.transport.path == PathKind::S3 {
        lines.push(official::OBJECT_STORAGE.to_string());
    }
    lines
}

/// The run as mlpstorage's arguments.
fn args(run: &OneRun, results: &Path) -> Value {
    let (plan, host) = (&run.report.plan, &run.report.head.host);
    let hosts = official::names(run.machines);
    json!({
        "command": "run",
        "model": plan.workload,
        "accelerator_type": plan.accelerator,
        "num_accelerators": plan.accelerators,
        "num_processes": plan.accelerators,
        "hosts": hosts,
        "num_client_hosts": hosts.len(),
        "client_host_memory_in_gb": host.memory_bytes / GIB,
        "data_dir": plan.data.folder,
        "results_dir": official::results_dir(results),
        "checkpoint_folder": plan.checkpoint.as_ref().map(|checkpoint| &checkpoint.folder),
    })
}

#[cfg(test)]
mod tests;
