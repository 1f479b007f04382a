//! The files of a KV-cache run that MLPerf Storage's tools read, with the keys and the arithmetic
//! of its client ("gbps" is GiB/s): all bytes, those after the window included, over the window.
//! Figures that stormlp does not measure are left out.

use serde_json::{Map, Value, json};
use stormlp_core::stats::mean;
use stormlp_core::units::GIB;
use stormlp_kvcache::plan::Pass;
use stormlp_kvcache::report::{
    KvcacheReport, RequestSeconds, Timed, TimesMs, TrialResult, gib_per_second,
};
use stormlp_show::stamp;

use crate::official::{Metadata, OutputFile, free_folder, pretty, run_moment};
use crate::submission::{AGGREGATES, aggregate};

/// The files of a run. The folder is named after the second in which the run started, or after the
/// next second without a folder in `taken`.
#[must_use]
pub fn files(report: &KvcacheReport, taken: &dyn Fn(&str) -> bool) -> Vec<OutputFile> {
    let started = stamp::unix_seconds(&report.head.started_at);
    let model = report.plan.passes.first().map_or("model", |pass| &pass.model.name);
    let folder = free_folder(&format!("kv_cache/{model}/run"), started, taken);
    let mut files = Vec::new();
    for trial in &report.results.trials {
        let Some(pass) = report.plan.passes.get(trial.pass as usize) else { continue };
        // Its trials are counted from 0.
        let nth = trial.trial.saturating_sub(1);
        let of_trial = format!("{folder}/option_{}/trial_{nth}", option_of(pass));
        let moment = run_moment(started + trial.started_at_seconds);
        for (rank, result) in trial.ranks().enumerate() {
            let path = format!("{of_trial}/rank_{rank}/kvcache_results_{moment}.json");
            let seed = trial.hosts.get(rank).map_or(report.plan.seed, |host| host.seed);
            files.push(OutputFile { path, content: pretty(&rank_file(report, result, seed)) });
        }
    }
    let path = format!("{folder}/summary.json");
    files.push(OutputFile { path, content: pretty(&run_summary(report, started)) });
    let metadata = Metadata {
        benchmark: "kv_cache",
        folder: &folder,
        started_unix_seconds: started,
        runtime_seconds: report.results.elapsed_seconds,
        command: &report.head.command,
        args: args(report),
        overrides: &[],
        config: json!({ "workload": {} }),
        mark: mark(report),
    };
    files.push(metadata.file());
    files
}

/// The name of an option in paths and keys: its number, or `custom` of a pass that is none.
fn option_of(pass: &Pass) -> String {
    pass.option.map_or("custom".to_string(), |number| number.to_string())
}

/// The mark that these are not the results of the official client.
fn mark(report: &KvcacheReport) -> Value {
    json!({
        "version": report.head.host.stormlp_version,
        "workload": report.plan.workload,
        "ending": report.ending,
    })
}

/// The arguments with mlpstorage's names. Arguments of a single pass are absent if there are
/// several.
fn args(report: &KvcacheReport) -> Value {
    let plan = &report.plan;
    let folder = plan.request.run.folder.as_ref().map(ToString::to_string);
    let mut args = json!({
        "mode": "whatif",
        "command": "run",
        "cache_dir": folder,
        "seed": plan.seed,
        "trials": plan.trials,
        "duration": plan.duration_seconds,
    });
    if let [pass] = plan.passes.as_slice() {
        args["model"] = json!(pass.model.name);
        args["num_users"] = json!(pass.users);
        args["max_concurrent_allocs"] = json!(pass.concurrent_writes);
        args["cpu_mem_gb"] = json!(pass.memory_bytes as f64 / GIB as f64);
    }
    args
}

/// The file of a rank, which has this `seed`, for one trial.
fn rank_file(report: &KvcacheReport, trial: &TrialResult, seed: u32) -> Value {
    let lookups = &trial.lookups;
    let mut file = json!({
        "requests_completed": trial.requests.done(),
        "total_tokens_generated": trial.tokens + trial.late_tokens,
        "multi_turn_cache_hits": lookups.other_turn_hits,
        "multi_turn_cache_misses": lookups.other_turn_misses,
        "seed": seed,
        "stormlp": mark(report),
        "summary": summary_of(trial),
    });
    if let Some(requests) = &trial.request_seconds {
        for (name, seconds) in [
            ("end_to_end_latencies", &requests.request),
            ("storage_latencies", &requests.storage),
            // No option computes tokens.
            ("generation_latencies", &vec![0.0; requests.request.len()]),
            ("prefill_latencies", &requests.write),
            ("decode_latencies", &requests.decode),
        ] {
            file[name] = json!(seconds);
        }
    }
    file
}

fn summary_of(trial: &TrialResult) -> Value {
    let (requests, tokens) = (trial.requests.done(), trial.tokens + trial.late_tokens);
    let per_second = |count: u64| count as f64 / trial.window_seconds.max(f64::MIN_POSITIVE);
    let times = |what| trial.times_ms.get(&what).copied();
    let storage_seconds = times(Timed::Storage).map(|one| one.mean * one.count as f64 / 1e3);
    let requests_of = |of: fn(&RequestSeconds) -> &Vec<f64>| trial.request_seconds.as_ref().map(of);
    let lookups = &trial.lookups;
    let found = lookups.other_turn_hits + lookups.other_turn_misses;
    let rate = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    json!({
        "total_requests": requests,
        "total_tokens": tokens,
        "elapsed_time": trial.window_seconds,
        "avg_throughput_tokens_per_sec": per_second(tokens),
        "requests_per_second": per_second(requests),
        "total_storage_io_time": storage_seconds,
        "storage_throughput_tokens_per_sec":
            storage_seconds.filter(|seconds| *seconds > 0.0).map(|seconds| tokens as f64 / seconds),
        "end_to_end_latency_ms": latencies(times(Timed::Request), requests_of(|one| &one.request)),
        "storage_io_latency_ms": latencies(times(Timed::Storage), requests_of(|one| &one.storage)),
        "cache_stats": cache_stats(trial),
        "multi_turn_stats": {
            "cache_hits": lookups.other_turn_hits,
            "cache_misses": lookups.other_turn_misses,
            "hit_rate": rate(lookups.other_turn_hits, found),
        },
    })
}

/// Mean and percentiles. From single times in seconds they equal the client's; otherwise figures
/// with too few samples are missing.
fn latencies(times: Option<TimesMs>, singles: Option<&Vec<f64>>) -> Value {
    if let Some(singles) = singles.filter(|all| !all.is_empty()) {
        let mut ms: Vec<f64> = singles.iter().map(|seconds| seconds * 1e3).collect();
        ms.sort_by(f64::total_cmp);
        let at = |share: f64| between(&ms, share);
        return json!({
            "mean": mean(&ms),
            "p50": at(0.5),
            "p95": at(0.95),
            "p99": at(0.99),
            "p999": at(0.999),
            "p9999": at(0.9999),
        });
    }
    times.map_or(
        Value::Null,
        |times| json!({ "mean": times.mean, "p50": times.p50, "p95": times.p95, "p99": times.p99, "p999": times.p999 }),
    )
}

/// The value below which this `share` of sorted values lies, interpolated between two of them as
/// numpy does.
fn between(sorted: &[f64], share: f64) -> f64 {
    let place = share * sorted.len().saturating_sub(1) as f64;
    let [below, above] = [place.floor(), place.ceil()].map(|place| sorted[place as usize]);
    below + (above - below) * place.fract()
}

fn cache_stats(trial: &TrialResult) -> Value {
    let (read, written) = (trial.read.all_bytes(), trial.written.all_bytes());
    let reads = trial.read.objects + trial.read.late_objects;
    let writes = trial.written.objects + trial.written.late_objects;
    let lookups = &trial.lookups;
    let hits = reads + lookups.memory_hits;
    let misses = lookups.prompt_misses + lookups.other_turn_misses + lookups.own_misses;
    let gib = |bytes: u64| bytes as f64 / GIB as f64;
    let mut stats = json!({
        "cache_hits": hits,
        "cache_misses": misses,
        "cache_hit_rate": hits as f64 / (hits + misses).max(1) as f64,
        "prefill_writes": writes,
        "decode_reads": reads,
        "tier_storage_kv_bytes_read_gb": gib(read),
        "tier_storage_kv_bytes_written_gb": gib(written),
        "tier_storage_read_bandwidth_gbps": gib_per_second(read, trial.window_seconds),
        "tier_storage_write_bandwidth_gbps": gib_per_second(written, trial.window_seconds),
        "total_read_bytes": read,
        "total_write_bytes": written,
        "total_read_gb": gib(read),
        "total_write_gb": gib(written),
        "read_write_ratio": if written == 0 { None } else { Some(gib(read) / gib(written)) },
        "read_iops": reads,
        "write_iops": writes,
    });
    for (name, what) in [
        ("storage_read_device", Timed::Read),
        ("storage_write_device", Timed::Fsync),
        ("storage_write_host", Timed::Write),
    ] {
        let times = latencies(trial.times_ms.get(&what).copied(), None);
        let percentiles = times.as_object().into_iter().flatten();
        for (percentile, ms) in percentiles.filter(|(key, ms)| *key != "mean" && !ms.is_null()) {
            stats[format!("{name}_{percentile}_ms")] = ms.clone();
        }
    }
    stats
}

/// The summary over ranks and trials: sums over ranks, means over trials, the largest P95.
fn run_summary(report: &KvcacheReport, started: f64) -> Value {
    let mut options = Map::new();
    for (index, pass) in report.plan.passes.iter().enumerate() {
        let own = report.results.trials.iter().filter(|trial| trial.pass as usize == index);
        let own: Vec<&TrialResult> = own.collect();
        if !own.is_empty() {
            let summary = option_summary(pass.option, &own, report.plan.trials);
            options.insert(option_of(pass), summary);
        }
    }
    let group = report.results.group.as_ref();
    let ranks = group.map_or(1, |group| group.size as usize);
    let hosts = group.map_or(1, |group| group.machines.len().max(1));
    let is_partial =
        report.results.trials.len() < report.plan.passes.len() * report.plan.trials as usize;
    json!({
        "schema_version": "1.0",
        "run_datetime": run_moment(started),
        "npernode": ranks / hosts,
        "host_count": hosts,
        "total_ranks": ranks,
        "trials_per_option": report.plan.trials,
        "partial_failure": is_partial,
        "options": options,
        "stormlp": mark(report),
    })
}

fn option_summary(option: Option<u32>, trials: &[&TrialResult], planned: u32) -> Value {
    let of_trial = |trial: &&TrialResult| trial.ranks().map(summary_of).collect::<Vec<Value>>();
    let summaries: Vec<Vec<Value>> = trials.iter().map(of_trial).collect();
    let mut summary = json!({ "option": option });
    for (key, place) in AGGREGATES {
        summary[key] = aggregate(&summaries, place).into();
    }
    for (key, value) in [
        ("rank_count", json!(summaries.iter().map(Vec::len).max())),
        ("trial_count", trials.len().into()),
        ("partial_failure", (trials.len() < planned as usize).into()),
        ("missing_files", json!([])),
        ("cpu_tier_ranks", json!([])),
    ] {
        summary[key] = value;
    }
    summary
}

#[cfg(test)]
mod tests {
    use crate::fixtures::kvcache as fixtures;

    use super::*;

    #[test]
    fn files_have_the_keys_and_the_arithmetic_of_the_original() {
        let report = fixtures::report();
        let files = files(&report, &|_| false);
        let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let folder = "kv_cache/llama3.1-8b/run/20260131_235955";
        assert_eq!(
            names,
            [
                &format!("{folder}/option_1/trial_0/rank_0/kvcache_results_20260131_235955.json"),
                &format!("{folder}/option_1/trial_1/rank_0/kvcache_results_20260201_000455.json"),
                &format!("{folder}/summary.json"),
                &format!("{folder}/kv_cache_20260131_235955_metadata.json"),
            ]
        );
        let json = |index: usize| -> Value { serde_json::from_str(&files[index].content).unwrap() };
        let stats = &json(0)["summary"]["cache_stats"];
        // 900 GiB within the window and 20 after it, over 300 s.
        assert_eq!(stats["tier_storage_read_bandwidth_gbps"], 920.0 / 300.0);
        assert_eq!(stats["read_iops"], 920);
        let trial = &report.results.trials[0];
        assert_eq!(
            stats["storage_write_device_p95_ms"],
            trial.times_ms[&Timed::Fsync].p95.unwrap()
        );
        let option = &json(2)["options"]["1"];
        let means = (920.0 + 1220.0) / 600.0;
        let rate = option["aggregated_read_bandwidth_gbps"].as_f64().unwrap();
        assert!((rate - means).abs() < 1e-9, "{rate}");
        assert_eq!(option["trial_count"], 2);
        assert_eq!(json(3)["verification"], "REHEARSAL");
    }

    #[test]
    fn a_run_that_is_no_option_claims_none() {
        let mut report = fixtures::report();
        report.plan.passes[0].option = None;
        report.plan.passes[0].users = 5;
        let files = files(&report, &|_| false);
        assert!(files[0].path.contains("/option_custom/trial_0/rank_0/"), "{}", files[0].path);
        let json = |index: usize| -> Value { serde_json::from_str(&files[index].content).unwrap() };
        let options = json(2)["options"].as_object().unwrap().clone();
        assert_eq!(options.keys().collect::<Vec<_>>(), ["custom"]);
        assert_eq!(options["custom"]["option"], Value::Null);
        let args = &json(3)["args"];
        assert_eq!((&args["model"], &args["num_users"]), (&json!("llama3.1-8b"), &json!(5)));
        assert_eq!(
            (&args["max_concurrent_allocs"], &args["cpu_mem_gb"]),
            (&json!(16), &json!(0.0))
        );
    }

    #[test]
    fn single_requests_are_listed_and_their_percentiles_are_the_clients() {
        let mut report = fixtures::report();
        let seconds = RequestSeconds {
            request: vec![4.0, 1.0, 3.0, 2.0],
            storage: vec![0.4, 0.1, 0.3, 0.2],
            write: vec![0.1; 4],
            decode: vec![0.3],
        };
        report.results.trials[0].request_seconds = Some(seconds);
        let file: Value = serde_json::from_str(&files(&report, &|_| false)[0].content).unwrap();
        assert_eq!(file["end_to_end_latencies"], json!([4.0, 1.0, 3.0, 2.0]));
        assert_eq!(file["decode_latencies"], json!([0.3]));
        assert_eq!(file["generation_latencies"], json!([0.0, 0.0, 0.0, 0.0]));
        // numpy.percentile([1, 2, 3, 4], [50, 95]) in seconds.
        let times = &file["summary"]["end_to_end_latency_ms"];
        assert!((times["p50"].as_f64().unwrap() - 2500.0).abs() < 1e-6, "{times}");
        assert!((times["p95"].as_f64().unwrap() - 3850.0).abs() < 1e-6, "{times}");
    }
}
