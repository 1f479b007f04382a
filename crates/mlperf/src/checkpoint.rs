//! The files of a checkpoint run that MLPerf Storage's tools read, with DLIO's keys and units ("GB"
//! is GiB).

use std::path::Path;

use serde_json::{Map, Value, json};
use stormlp_checkpoint::plan::{CheckpointPlan, CheckpointProfile, FsyncPolicy, host_of};
use stormlp_checkpoint::report::{
    CheckpointReport, CheckpointResult, PhaseSummary, gib_per_second,
};
use stormlp_core::group::Machine;
use stormlp_core::names::file_name;
use stormlp_core::path::PathKind;
use stormlp_core::units::GIB;

use crate::official::{self, Metadata, OutputFile, free_folder, pretty};
use stormlp_show::stamp::{self, iso_after};

/// The files of a run, in the layout of its edition. The folder is named after the second in which
/// the run started, or after the next second without a folder in `taken`. They are for `folder`,
/// which their metadata names.
#[must_use]
pub fn files(
    report: &CheckpointReport,
    folder: &Path,
    taken: &dyn Fn(&str) -> bool,
) -> Vec<OutputFile> {
    let (plan, host) = (&report.plan, &report.head.host);
    let machines = official::machines(host, report.results.group.as_ref());
    let started = stamp::unix_seconds(&report.head.started_at);
    let runs = format!("checkpointing/{}", file_name(&plan.model, "model"));
    let leaf = free_folder(&official::parent(is_v3(plan), host, &runs), started, taken);
    let config = config(plan);
    // JSON is YAML that quotes every word.
    let text = pretty(&config);
    let metadata = Metadata {
        benchmark: "checkpointing",
        folder: &leaf,
        started_unix_seconds: started,
        runtime_seconds: report.results.elapsed_seconds,
        command: &report.head.command,
        args: args(report, folder, &machines),
        overrides: &overrides(plan),
        config,
        mark: mark(report),
    };
    let ranks = (0..plan.scaling.ranks)
        .map(|rank| [per_epoch_stats(report, rank), output(report, rank, &machines)]);
    metadata.dlio_files(&plan.model, &summary(report, &machines), ranks, text)
}

fn is_v3(plan: &CheckpointPlan) -> bool {
    plan.profile == CheckpointProfile::V3
}

/// The workload as it ran, with DLIO's keys.
fn config(plan: &CheckpointPlan) -> Value {
    let (shape, spread) = (&plan.layout.architecture, &plan.layout.parallelism);
    json!({"workload": {
        "framework": "pytorch",
        "workflow": {"generate_data": false, "train": false, "checkpoint": true},
        "model": {
            "name": plan.model,
            "type": "transformer",
            "num_layers": shape.num_layers,
            "model_datatype": plan.layout.model_datatype,
            "optimizer_datatype": plan.layout.optimizer_datatype,
            "parallelism": {
                "tensor": spread.tensor,
                "pipeline": spread.pipeline,
                "data": spread.data,
                "zero_stage": spread.zero_stage,
            },
            "transformer": {
                "vocab_size": shape.vocab_size,
                "hidden_size": shape.hidden_size,
                "ffn_hidden_size": shape.ffn_hidden_size,
                "num_attention_heads": shape.num_attention_heads,
                "num_kv_heads": shape.num_kv_heads,
            },
        },
        "checkpoint": {
            "checkpoint_folder": plan.request.folders.first(),
            "mode": plan.mode,
            "fsync": plan.fsync != FsyncPolicy::None,
            "num_checkpoints_write": plan.writes,
            "num_checkpoints_read": plan.restores.len(),
            "time_between_checkpoints": plan.pause_seconds,
        },
    }})
}

/// The keys of the model's file that mlpstorage sets.
fn overrides(plan: &CheckpointPlan) -> Vec<String> {
    let folder = plan.request.folders.first().map(ToString::to_string);
    let set = |key: &str, value: String| format!("++workload.checkpoint.{key}={value}");
    let mut lines = vec![
        format!("workload={}", plan.model.replace('-', "_")),
        set("checkpoint_folder", folder.unwrap_or_default()),
        set("num_checkpoints_write", plan.writes.to_string()),
        set("num_checkpoints_read", plan.restores.len().to_string()),
    ];
    if plan.path() == PathKind::S3 {
        lines.push(official::OBJECT_STORAGE.to_string());
    }
    lines
}

/// The run as mlpstorage's arguments.
fn args(report: &CheckpointReport, results: &Path, machines: &[Machine]) -> Value {
    let (plan, host) = (&report.plan, &report.head.host);
    json!({
        "command": "run",
        "model": plan.model,
        "num_processes": plan.scaling.ranks,
        "hosts": official::names(machines),
        "client_host_memory_in_gb": host.memory_bytes / GIB,
        "checkpoint_folder": plan.request.folders.first(),
        "results_dir": official::results_dir(results),
        "num_checkpoints_write": plan.writes,
        "num_checkpoints_read": plan.restores.len(),
    })
}

/// The mark that tells stormlp's files from the official tool's.
fn mark(report: &CheckpointReport) -> Value {
    let mut mark = json!({
        "version": report.head.host.stormlp_version,
        "profile": report.plan.profile,
        "scale": report.plan.scaling.factor,
        "scaled": report.plan.is_scaled(),
        "held_to_closed_rules": report.plan.request.closed,
        "emulated_accelerator_memory": report.plan.save.emulated,
    });
    if let Some(client) = &report.plan.client {
        mark["client"] = json!({
            "save_seconds_per_gib": client.save_seconds_per_gib,
            "restore_seconds_per_gib": client.restore_seconds_per_gib,
        });
    }
    mark
}

/// `summary.json`, without phases that did not run.
fn summary(report: &CheckpointReport, machines: &[Machine]) -> Value {
    let mut metric = Map::new();
    let phases =
        [("save", &report.results.summary.save), ("load", &report.results.summary.restore)];
    for (name, phase) in phases {
        if let Some(phase) = phase {
            metric.extend(phase_metrics(report, name, phase));
        }
    }
    let size_gib = report.plan.dlio_counted_bytes as f64 / GIB as f64;
    metric.insert("checkpoint_size_GB".to_string(), size_gib.into());
    let summary = json!({
        "start": iso_after(&report.head.started_at, 0.0),
        "num_accelerators": report.plan.scaling.ranks,
        "metric": metric,
        "num_files_train": 0,
        "num_files_eval": 0,
        "num_samples_per_file": 1,
        "potential_caching": vec![0; machines.len()],
        "data_size_per_host_GB": 0.0,
        "epochs": 1,
        "end": iso_after(&report.head.started_at, report.results.elapsed_seconds),
        "stormlp": mark(report),
    });
    official::with_hosts(summary, machines, is_v3(&report.plan))
}

fn phase_metrics(
    report: &CheckpointReport,
    name: &str,
    phase: &PhaseSummary,
) -> Map<String, Value> {
    let factor = counted_share(&report.plan);
    let values = match report.plan.profile {
        CheckpointProfile::V2 | CheckpointProfile::V3 => phase.dlio,
        CheckpointProfile::Native => phase.all_ranks,
    };
    let entry = |key: &str, value: f64| (format!("{name}_checkpoint_{key}"), json!(value));
    Map::from_iter([
        entry("io_mean_GB_per_second", values.gib_per_second.mean * factor),
        entry("io_stdev_GB_per_second", values.gib_per_second.deviation * factor),
        entry("duration_mean_seconds", values.duration_seconds.mean),
        entry("duration_stdev_seconds", values.duration_seconds.deviation),
    ])
}

/// The share of the written bytes that DLIO counts; under ZeRO 2 it divides more bytes.
fn counted_share(plan: &CheckpointPlan) -> f64 {
    match plan.profile {
        CheckpointProfile::V2 | CheckpointProfile::V3 => {
            plan.dlio_counted_bytes as f64 / plan.total_bytes.max(1) as f64
        }
        CheckpointProfile::Native => 1.0,
    }
}

/// `RANK_per_epoch_stats.json`: every rank divides the size of the whole checkpoint by the time
/// that it needed.
fn per_epoch_stats(report: &CheckpointReport, rank: u64) -> Value {
    let started = &report.head.started_at;
    let mut epoch = json!({ "start": iso_after(started, 0.0) });
    let phases = [("save", &report.results.saves), ("load", &report.results.restores)];
    for (name, results) in phases {
        for (number, result) in (1..).zip(results) {
            let own = result.ranks.iter().find(|own| own.rank == rank);
            if let Some(own) = own {
                let seconds = own.duration_seconds;
                epoch[format!("{name}_ckpt{number}")] = phase_stats(report, result, seconds);
            }
        }
    }
    let seconds = report.results.elapsed_seconds;
    epoch["end"] = iso_after(started, seconds).into();
    epoch["duration"] = format!("{seconds:.2}").into();
    json!({ "1": epoch })
}

fn phase_stats(report: &CheckpointReport, result: &CheckpointResult, seconds: f64) -> Value {
    let (started, at) = (&report.head.started_at, result.started_at_seconds);
    json!({
        "start": iso_after(started, at),
        "end": iso_after(started, at + seconds),
        "duration": seconds,
        "throughput": gib_per_second(result.bytes, seconds) * counted_share(&report.plan),
    })
}

/// `RANK_output.json`: the host, and lists of steps, which are empty without training.
fn output(report: &CheckpointReport, rank: u64, machines: &[Machine]) -> Value {
    let group = report.results.group.as_ref();
    let processes = group.map_or(1, |group| group.size as usize);
    let nth = report.plan.ranks.iter().position(|own| own.rank == rank);
    let process = nth.map_or(0, |nth| host_of(nth, processes, report.plan.ranks.len()));
    let mut all = official::host_of(process as u32, machines, is_v3(&report.plan));
    let started = &report.head.started_at;
    all["1"] = json!({
        "start": iso_after(started, 0.0),
        "load": {}, "proc": {}, "throughput": {}, "au": {}, "compute": {},
        "end": iso_after(started, report.results.elapsed_seconds),
    });
    all
}

#[cfg(test)]
mod tests {
    use crate::fixtures::checkpoint::report;

    use super::*;

    #[test]
    fn the_summary_has_the_times_of_rank_0() {
        let report = report(1.0);
        let summary = summary(&report, &official::machines(&report.head.host, None));
        let metric = &summary["metric"];
        assert_eq!(metric["save_checkpoint_duration_mean_seconds"], 1.0);
        assert_eq!(metric["save_checkpoint_io_mean_GB_per_second"], 2.0);
        assert!(metric.get("load_checkpoint_io_mean_GB_per_second").is_none());
        assert_eq!(summary["start"], "2026-01-31T23:59:55.000000");
        assert_eq!(summary["end"], "2026-02-01T00:00:15.000000");
        let stats = per_epoch_stats(&report, 0);
        assert_eq!(stats["1"]["save_ckpt2"]["throughput"], 2.0);
        assert_eq!(stats["1"]["duration"], "20.00");
        // Each rank divides all bytes by its time.
        let stats = per_epoch_stats(&report, 1);
        assert_eq!(stats["1"]["save_ckpt2"]["duration"], 4.0);
        assert_eq!(stats["1"]["save_ckpt2"]["throughput"], 0.5);
    }

    #[test]
    fn files_name_the_host_of_each_rank() {
        let mut report = report(1.0);
        let members = [stormlp_fixtures::member(0, "h1"), stormlp_fixtures::member(1, "h2")];
        report.results.group = Some(stormlp_fixtures::group(&members));
        let files = files(&report, Path::new("/out"), &|_| false);
        let json = |end: &str| -> serde_json::Value {
            let file = files.iter().find(|file| file.path.ends_with(end));
            serde_json::from_str(&file.expect("a file").content).expect("JSON")
        };
        let summary = json("/summary.json");
        assert_eq!(summary["num_hosts"], 2);
        assert_eq!(summary["potential_caching"], serde_json::json!([0, 0]));
        assert_eq!(json("_metadata.json")["args"]["hosts"], serde_json::json!(["h1", "h2"]));
        for (rank, host) in ["h1", "h1", "h2", "h2"].into_iter().enumerate() {
            let output = json(&format!("/{rank}_output.json"));
            assert_eq!((&output["hostname"], &output["num_hosts"]), (&host.into(), &2.into()));
        }
    }
}
