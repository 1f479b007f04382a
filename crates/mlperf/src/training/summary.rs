//! `summary.json`: what a run comes down to, under DLIO's keys.

use serde_json::{Value, json};
use stormlp_core::profile::Profile;
use stormlp_core::stats::{self, population_deviation as deviation};
use stormlp_training::plan::metrics;
use stormlp_training::plan::metrics::Rule;
use stormlp_training::report::{EvaluationReport, WrittenCheckpoint};

use super::Run;
use crate::official as mlperf;
use stormlp_show::stamp;

/// The file.
pub(super) fn summary(run: &Run) -> Value {
    let report = run.report;
    let plan = &report.plan;
    let host = &report.head.host;
    let machines = mlperf::machines(report.results.group.as_ref());
    // As many of DLIO's ranks as the first host has accelerators lie on each.
    let of_first = machines.first().map_or(plan.accelerators, |first| {
        let own = first.ranks.iter();
        own.map(|rank| plan.accelerators_of(*rank).len() as u32).sum()
    });
    let share = f64::from(of_first) / f64::from(plan.accelerators.max(1));
    let data_gib = share * gib(plan.data.samples() as f64 * plan.data.sample_bytes);
    let caches = |memory_bytes: u64| i32::from(data_gib < gib(memory_bytes as f64));
    let potential_caching: Vec<i32> = match machines {
        [] => vec![caches(host.memory_bytes)],
        several => several.iter().map(|one| caches(one.memory_bytes)).collect(),
    };
    let mut summary = json!({
        "start": stamp::iso(run.started),
        "num_accelerators": report.results.accelerators,
        "metric": metric(run),
        "num_files_train": plan.data.files,
        "num_files_eval": plan.data.eval_files,
        "num_samples_per_file": plan.data.samples_per_file,
        "potential_caching": potential_caching,
        "data_size_per_host_GB": data_gib,
        "epochs": run.scored().count(),
        "end": stamp::iso(run.started + run.duration),
        "stormlp": run.mark(),
    });
    let of_host = mlperf::hosts(host, machines, report.results.profile == Profile::V3);
    if let Value::Object(entries) = &mut summary {
        entries.extend(of_host);
    }
    summary
}

fn gib(bytes: f64) -> f64 {
    bytes / f64::from(1u32 << 30)
}

fn metric(run: &Run) -> Value {
    let mut metric = json!({});
    let epochs = || run.scored().map(|epoch| &epoch.measures);
    phase(
        run,
        "train",
        &epochs().map(|m| m.au_percent.profile).collect::<Vec<f64>>(),
        &epochs().map(|m| m.samples_per_second).collect::<Vec<f64>>(),
        run.meets_threshold,
        &mut metric,
    );
    let of_epochs = run.epochs.iter().filter_map(|e| e.evaluation.as_ref());
    let evaluations: Vec<&EvaluationReport> =
        of_epochs.filter(|evaluation| evaluation.is_whole(&run.report.plan)).collect();
    if !evaluations.is_empty() {
        let au: Vec<f64> = evaluations.iter().map(|e| e.au_percent).collect();
        let throughput: Vec<f64> = evaluations.iter().map(|e| e.samples_per_second).collect();
        let meets = run.complete && stats::mean(&au) >= run.report.results.threshold_percent;
        phase(run, "eval", &au, &throughput, meets, &mut metric);
    }
    checkpoints(run, &mut metric);
    metric
}

/// AU and throughput of `train` or `eval`, epoch by epoch, with means and population deviations.
fn phase(run: &Run, name: &str, au: &[f64], throughput: &[f64], meets: bool, metric: &mut Value) {
    let rule = Rule::of(&run.report.plan);
    let throughput_mean = stats::mean(throughput);
    let throughput_stdev = deviation(throughput);
    let mut put = |key: &str, value: Value| metric[format!("{name}_{key}")] = value;
    put("au_percentage", au.into());
    put("au_mean_percentage", stats::mean(au).into());
    let verdict = if meets { "success" } else { "fail" };
    put("au_meet_expectation", verdict.into());
    put("au_stdev_percentage", deviation(au).into());
    put("throughput_samples_per_second", throughput.into());
    put("throughput_mean_samples_per_second", throughput_mean.into());
    put("throughput_stdev_samples_per_second", throughput_stdev.into());
    put("io_mean_MB_per_second", metrics::mib(&rule, throughput_mean).into());
    put("io_stdev_MB_per_second", metrics::mib(&rule, throughput_stdev).into());
}

/// Checkpoints that training wrote, by the means of their rates and times; v1.0's DLIO has no
/// such keys.
fn checkpoints(run: &Run, metric: &mut Value) {
    let Some(last) = run.checkpoints.last() else {
        return;
    };
    if run.report.results.profile == Profile::V1 {
        return;
    }
    let written = run.checkpoints.iter();
    let rates: Vec<f64> = written.clone().map(gib_per_second).collect();
    let seconds: Vec<f64> = written.map(|c| c.duration_seconds).collect();
    let mut put = |key: &str, value: f64| metric[key] = value.into();
    let io = "save_checkpoint_io";
    put(&format!("{io}_mean_GB_per_second"), stats::mean(&rates));
    put(&format!("{io}_stdev_GB_per_second"), deviation(&rates));
    let duration = "save_checkpoint_duration";
    put(&format!("{duration}_mean_seconds"), stats::mean(&seconds));
    put(&format!("{duration}_stdev_seconds"), deviation(&seconds));
    put("checkpoint_size_GB", gib(last.bytes as f64));
}

/// GiB/s of one checkpoint; 0 where no time passed.
pub(super) fn gib_per_second(checkpoint: &WrittenCheckpoint) -> f64 {
    if checkpoint.duration_seconds > 0.0 {
        gib(checkpoint.bytes as f64) / checkpoint.duration_seconds
    } else {
        0.0
    }
}
