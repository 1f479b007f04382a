//! Rules of vector databases: chapter 5.

use std::collections::BTreeSet;

use serde_json::Value;

use super::figures::number;
use super::leaf::plain;
use super::other_runs::OtherRun;
use super::rule::{Finding, Official, failed, or_passed, passed_open};
use super::survey::Submission;
use super::tree::{join, last};
use stormlp_core::units::counted;

/// Runs of a result.
const RUNS: usize = 5;
/// Indexes of closed results.
const INDEXES: [&str; 3] = ["DISKANN", "HNSW", "AISAQ"];
/// Further databases and indexes of open results.
const OPEN_DATABASES: [&str; 3] = ["milvus", "elasticsearch", "pgvector"];
/// What every run reports.
const METRICS: [&str; 5] =
    ["throughput_qps", "mean_latency_ms", "p95_latency_ms", "p99_latency_ms", "p999_latency_ms"];
const COPY_SUMMARY: &str = "copy summary.json again as mlpstorage wrote it";

fn leaves<'a>(submission: &'a Submission, command: &str) -> impl Iterator<Item = &'a OtherRun> {
    let runs = submission.other_runs.iter().filter(|run| run.benchmark == "vector_database");
    runs.filter(move |run| run.command == command)
}

/// What `check` finds in each run that has a summary.
fn of_summaries(
    submission: &Submission,
    command: &str,
    fact: &str,
    check: impl Fn(&OtherRun, &Value) -> Option<Finding>,
) -> Vec<Finding> {
    let runs: Vec<&OtherRun> = leaves(submission, command).collect();
    let summaries = runs.iter().filter(|run| run.summary.is_found());
    let faults: Vec<Finding> =
        summaries.filter_map(|run| check(run, run.summary.value())).collect();
    match runs.first() {
        None => faults,
        Some(first) => or_passed(faults, &first.result, fact),
    }
}

/// 5.1.1 and 5.3.4: summaries have the scale and all metrics. Published runs without a summary have
/// their figures in other files.
pub(super) fn metrics(submission: &Submission) -> Vec<Finding> {
    let mut findings =
        of_summaries(submission, "run", "scale and metrics are there", |run, summary| {
            let wanted = ["num_vectors", "dimension"].into_iter().chain(METRICS);
            let missing: Vec<&str> =
                wanted.filter(|key| number(&summary[*key]).is_none()).collect();
            let fact = format!("summary.json has no {}", missing.join(", no "));
            (!missing.is_empty()).then(|| failed(run, fact, COPY_SUMMARY))
        });
    let without = leaves(submission, "run").filter(|run| !run.summary.is_found());
    findings.extend(without.map(|run| {
        let fault = failed(join(&run.path, "summary.json"), "it is missing", COPY_SUMMARY);
        fault.officially(Official::Warns)
    }));
    findings
}

/// 5.1.2 and 5.2.2: the runs read what `datagen` loaded: its dimension and its index.
pub(super) fn loaded(submission: &Submission) -> Vec<Finding> {
    of_summaries(submission, "run", "dimension and index are those of datagen", |run, summary| {
        let mut loads = leaves(submission, "datagen").filter(|load| load.result == run.result);
        loads.find_map(|load| {
            let loaded = load.summary.value();
            let differs = ["dimension", "index_type"].into_iter().find(|key| {
                let both = [&loaded[*key], &summary[*key]];
                both.iter().all(|value| !value.is_null()) && both[0] != both[1]
            })?;
            let (then, now) = (plain(&loaded[differs]), plain(&summary[differs]));
            let fact = format!("{differs} is {now}; {} loaded {then}", last(&load.path));
            Some(failed(run, fact, "run on the collection that datagen loaded"))
        })
    })
}

/// 5.2.1: every vector was inserted.
pub(super) fn populated(submission: &Submission) -> Vec<Finding> {
    of_summaries(submission, "datagen", "every vector was inserted", |load, summary| {
        let count = |key: &str| number(&summary[key]);
        let (Some(inserted), Some(wanted)) = (count("inserted_vectors"), count("num_vectors"))
        else {
            let fact = "summary.json has no inserted_vectors and num_vectors";
            return Some(failed(load, fact, COPY_SUMMARY));
        };
        let fact = format!("{inserted} of {wanted} vectors were inserted");
        (inserted < wanted).then(|| failed(load, fact, "load the rest, and run again"))
    })
}

/// 5.3.1: five runs.
pub(super) fn run_count(submission: &Submission) -> Vec<Finding> {
    let results: BTreeSet<&str> =
        leaves(submission, "run").map(|run| run.result.as_str()).collect();
    let findings = results.into_iter().flat_map(|result| {
        let found = leaves(submission, "run").filter(|run| run.result == result).count();
        let fact = format!("{}; a result has {RUNS}", counted(found as u64, "run"));
        let remedy = "keep five runs, or run the rest";
        let fault = (found != RUNS).then(|| failed(result, fact, remedy));
        or_passed(fault, result, "five runs")
    });
    findings.collect()
}

/// 5.3.2 and 5.3.5: recall is reported, and was measured against all vectors.
pub(super) fn recall(submission: &Submission) -> Vec<Finding> {
    of_summaries(submission, "run", "recall is above 0, against the whole truth", |run, summary| {
        let file = |name: &str| submission.tree.json(&join(&run.path, name));
        let stats = file("recall_stats.json");
        let reported = Some(&summary["recall"]).filter(|recall| !recall.is_null());
        let Some(recall) = reported.or_else(|| stats.is_found().then(|| stats.value())) else {
            let fact = "neither summary.json nor recall_stats.json has a recall";
            return Some(failed(run, fact, COPY_SUMMARY));
        };
        let keys = ["max_recall", "mean_recall", "recall_at_k", "recall"];
        let value = number(recall).or_else(|| keys.iter().find_map(|key| number(&recall[*key])));
        if value.is_some_and(|recall| recall <= 0.0) {
            let fact = "recall is 0: no query found what it should";
            return Some(failed(run, fact, "build index and ground truth again, and run again"));
        }
        let truth = file("result_verdict.json");
        if !truth.is_found() {
            let fact = "there is no result_verdict.json: the ground truth may be incomplete";
            let fault = failed(run, fact, "run again with a tool that writes it");
            // The tools of the published results, which wrote no stamp, did not write it.
            let is_newer = run.provenance.is_found();
            return Some(if is_newer { fault } else { fault.officially(Official::Warns) });
        }
        let setup = &truth.value()["flat_setup"];
        let is_partial = number(&setup["coverage"]).is_some_and(|coverage| coverage < 1.0);
        let fact = "recall was not measured against all vectors (flat_setup)";
        (setup["ok"] == false || is_partial)
            .then(|| failed(run, fact, "build the ground truth again, and run again"))
    })
}

/// 5.4.1: data and results have separate folders.
pub(super) fn folders(submission: &Submission) -> Vec<Finding> {
    let runs = leaves(submission, "run").filter(|run| run.metadata.is_found());
    let faults = runs.filter_map(|run| {
        let arguments = &run.metadata.value()["args"];
        let is_object = arguments["data_access_protocol"] == "object";
        let named = ["storage_root", "results_dir"].map(|key| arguments[key].as_str());
        let fact = match named {
            _ if is_object => return None,
            [Some(data), Some(results)] => {
                let alike = data.trim_end_matches('/') == results.trim_end_matches('/');
                alike.then(|| format!("storage_root and results_dir are both {data}"))?
            }
            _ => "args has no storage_root and results_dir; both must be set".to_string(),
        };
        let fault = failed(run, fact, "set both, and run again");
        // As of the ground truth.
        let is_newer = run.provenance.is_found();
        Some(if is_newer { fault } else { fault.officially(Official::Warns) })
    });
    faults.collect()
}

/// 5.6.2, 5.6.3 and 5.6.5: databases and indexes of the divisions.
pub(super) fn backend(submission: &Submission) -> Vec<Finding> {
    let findings = leaves(submission, "run").filter_map(|run| {
        let summary = run.summary.value();
        let index = summary["index_type"].as_str().unwrap_or(last(&run.result));
        let is_closed = run.model == "milvus" && INDEXES.contains(&index);
        let fact = format!("{} with {index}", run.model);
        if is_closed {
            None
        } else if !OPEN_DATABASES.contains(&run.model.as_str()) {
            let remedy = format!("run one of {}", OPEN_DATABASES.join(", "));
            Some(failed(run, fact, remedy))
        } else if run.is_closed() {
            let fact = format!("{fact}: closed has milvus with {}", INDEXES.join(", "));
            Some(failed(run, fact, "run one of these, or submit to open"))
        } else {
            Some(passed_open(run, format!("{fact}: open")))
        }
    });
    findings.collect()
}
