//! MLPerf Storage's result files of a checkpoint run, with DLIO's keys and units ("GB" is GiB).

use serde_json::{Map, Value, json};
use stormlp_model::checkpoint::{
    CheckpointProfile, CheckpointReport, CheckpointResult, PhaseSummary,
};
use stormlp_model::units::GIB;

use crate::stamp::iso_after;

/// `summary.json`. Values of phases that did not run are left out.
pub fn summary(report: &CheckpointReport) -> Value {
    let host = &report.head.host;
    let memory_gib = host.memory_bytes as f64 / GIB as f64;
    let mut metric = Map::new();
    let phases = [
        ("save", &report.results.summary.save),
        ("load", &report.results.summary.restore),
    ];
    for (name, phase) in phases {
        if let Some(phase) = phase {
            metric.extend(phase_metrics(report, name, phase));
        }
    }
    let size_gib = report.plan.dlio_counted_bytes as f64 / GIB as f64;
    metric.insert("checkpoint_size_GB".to_string(), size_gib.into());
    json!({
        "start": iso_after(&report.head.started_at, 0.0),
        "num_accelerators": report.plan.scaling.ranks,
        "num_hosts": 1,
        "hostname": host.hostname,
        "metric": metric,
        "num_files_train": 0,
        "num_files_eval": 0,
        "num_samples_per_file": 1,
        "host_cpu_count": [host.cpus],
        "host_processor_name": [host.cpu_model],
        "potential_caching": [0],
        "host_cpuinfo": { "model name": host.cpu_model },
        "host_meminfo": { "MemTotal": format!("{} kB", host.memory_bytes >> 10) },
        "host_memory_GB": [memory_gib],
        "data_size_per_host_GB": 0.0,
        "epochs": 1,
        "end": iso_after(&report.head.started_at, report.results.elapsed_seconds),
        "stormlp": {
            "profile": report.plan.profile,
            "scale": report.plan.scale,
            "scaled": report.plan.is_scaled(),
            "emulated_accelerator_memory": report.plan.save.emulated,
        },
    })
}

/// The four values of a phase.
fn phase_metrics(
    report: &CheckpointReport,
    name: &str,
    phase: &PhaseSummary,
) -> Map<String, Value> {
    let plan = &report.plan;
    // Under ZeRO 2 DLIO divides more bytes than it wrote.
    let counted = plan.dlio_counted_bytes as f64 / plan.total_bytes.max(1) as f64;
    let (values, factor) = match plan.profile {
        CheckpointProfile::V2 | CheckpointProfile::V3 => (phase.dlio, counted),
        CheckpointProfile::Native => (phase.all_ranks, 1.0),
    };
    let entry = |key: &str, value: f64| (format!("{name}_checkpoint_{key}"), json!(value));
    Map::from_iter([
        entry("io_mean_GB_per_second", values.gib_per_second.mean * factor),
        entry(
            "io_stdev_GB_per_second",
            values.gib_per_second.deviation * factor,
        ),
        entry("duration_mean_seconds", values.duration_seconds.mean),
        entry("duration_stdev_seconds", values.duration_seconds.deviation),
    ])
}

/// `0_per_epoch_stats.json`.
pub fn per_epoch_stats(report: &CheckpointReport) -> Value {
    let started = &report.head.started_at;
    let mut epoch = json!({ "start": iso_after(started, 0.0) });
    let phases = [
        ("save", &report.results.saves),
        ("load", &report.results.restores),
    ];
    for (name, results) in phases {
        for (number, result) in (1..).zip(results) {
            epoch[format!("{name}_ckpt{number}")] = phase_stats(started, result);
        }
    }
    let seconds = report.results.elapsed_seconds;
    epoch["end"] = iso_after(started, seconds).into();
    epoch["duration"] = format!("{seconds:.2}").into();
    json!({ "1": epoch })
}

fn phase_stats(started: &str, result: &CheckpointResult) -> Value {
    let (at, seconds) = (result.started_at_seconds, result.duration_seconds.rank0);
    json!({
        "start": iso_after(started, at),
        "end": iso_after(started, at + seconds),
        "duration": seconds,
        "throughput": result.gib_per_second.rank0,
    })
}
