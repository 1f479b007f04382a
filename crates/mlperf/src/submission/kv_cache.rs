//! Rules of KV caches: chapter 6. MLCommons' checker has none of them yet; they are held against
//! command lines, summaries and ranks' files.

use std::collections::BTreeMap;

use serde_json::Value;

use super::effective::alike;
use super::figures::number;
use super::leaf::{Leaf, plain};
use super::recomputed::differing;
use super::rule::{COPY_FROM_RESULTS, COPY_METADATA, Finding, Official};
use super::rule::{advice, failed, or_passed, passed_open, wish};
use super::survey::{RunGroup, Submission};
use super::tree::{Tree, join, last};
use stormlp_core::stats::mean;
use stormlp_core::units::counted;

/// Arguments of an option on its command line: the rules' table KVCache-1.
const TABLE: [(&str, &str); 3] = [
    (
        "1",
        "--model llama3.1-8b --num-users 200 --duration 300 --gpu-mem-gb 0 --cpu-mem-gb 0 \
         --max-concurrent-allocs 16 --generation-mode none",
    ),
    (
        "2",
        "--model llama3.1-8b --num-users 100 --duration 300 --gpu-mem-gb 0 --cpu-mem-gb 4 \
         --max-concurrent-allocs 16 --generation-mode none",
    ),
    (
        "3",
        "--model llama3.1-70b-instruct --num-users 70 --duration 300 --gpu-mem-gb 0 --cpu-mem-gb 0 \
         --max-concurrent-allocs 4 --generation-mode none",
    ),
];
/// The fixed arguments of a closed run, by their name in the metadata's arguments.
const SEQUENCE: [(&str, &str); 7] = [
    ("seed", "42"),
    ("trials", "3"),
    ("inter_option_delay", "90"),
    ("config", "none"),
    ("enable_autoscaling", "false"),
    ("enable_rag", "false"),
    ("enable_latency_tracing", "false"),
];
const RUN_AGAIN: &str = "run `mlpstorage closed kvcache run` without these, or submit to open";

/// The findings of `check` in each run.
fn check_runs(
    group: &RunGroup,
    fact: &str,
    check: impl Fn(&Leaf, &mut Vec<Finding>),
) -> Vec<Finding> {
    let of_run = |run| {
        let mut faults = Vec::new();
        check(run, &mut faults);
        or_passed(faults, run, fact)
    };
    group.runs.iter().flat_map(of_run).collect()
}

fn is_closed(group: &RunGroup) -> bool {
    group.division.as_deref() == Some("closed")
}

/// A value that closed runs may not have, and open ones may.
fn only_open(group: &RunGroup, run: &Leaf, fact: String, remedy: &str) -> Finding {
    if is_closed(group) {
        failed(run, fact, remedy)
    } else {
        passed_open(run, format!("{fact}: open"))
    }
}

/// LEAF-01: a run has one metadata file, the only file that identifies it.
pub(super) fn identified(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    check_runs(group, "one metadata file", |run, faults| {
        let names = &run.metadata_names;
        let fact = match names.len() {
            1 => return,
            0 => "it has no metadata; the report drops the run".to_string(),
            several => format!("{several} metadata files: {}", names.join(", ")),
        };
        let remedy = format!(
            "keep kv_cache_{}_metadata.json alone, as mlpstorage wrote it",
            last(&run.path)
        );
        faults.push(failed(run, fact, remedy));
    })
}

/// The arguments of a command line, `--num-users 200`.
fn arguments(line: &str) -> BTreeMap<&str, &str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).filter_map(|pair| Some((pair[0].strip_prefix("--")?, pair[1]))).collect()
}

/// 6.3.1: each option has the arguments of the table.
pub(super) fn options(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    check_runs(group, "its options have the table's arguments", |run, faults| {
        let files = run.metadata.value["command_output_files"].as_array();
        let lines = files.into_iter().flatten().filter_map(|file| file["command"].as_str());
        let commands: Vec<_> = lines.map(arguments).collect();
        for (option, wanted) in TABLE {
            let folder = format!("option_{option}");
            let is_its = |arguments: &&BTreeMap<&str, &str>| {
                let base = arguments.get("rank-output-base");
                base.is_some_and(|base| base.split('/').any(|part| part == folder))
            };
            let mut ran = commands.iter().filter(is_its).peekable();
            if ran.peek().is_none() {
                let fact = format!("the metadata has no command of option {option}");
                faults.push(advice(run, fact, COPY_METADATA));
            }
            let wanted = arguments(wanted);
            let differs = ran.find_map(|ran| {
                let mut all =
                    wanted.iter().filter_map(|(name, wanted)| Some((name, wanted, ran.get(name)?)));
                all.find(|(_, wanted, found)| !alike(found, wanted))
            });
            if let Some((name, wanted, found)) = differs {
                let fact =
                    format!("option {option} ran with {name} {found}; the table has {wanted}");
                faults.push(only_open(group, run, fact, RUN_AGAIN));
            }
        }
    })
}

/// 6.3.2 and 6.6.1: seed, trials and pause are fixed; no custom configuration, no autoscaling.
pub(super) fn sequence(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    check_runs(group, "its sequence is the fixed one", |run, faults| {
        let arguments = &run.metadata.value["args"];
        for (name, wanted) in SEQUENCE {
            let found = Some(&arguments[name]).filter(|value| !value.is_null()).map(plain);
            if let Some(found) = found.filter(|found| !alike(found, wanted)) {
                faults.push(only_open(
                    group,
                    run,
                    format!("{name} is {found}, not {wanted}"),
                    RUN_AGAIN,
                ));
            }
        }
        let trials = run.summary.value["trials_per_option"].as_u64();
        if let Some(trials) = trials.filter(|trials| *trials != 3 && is_closed(group)) {
            let fact = format!("summary.json has {}, not 3", counted(trials, "trial"));
            faults.push(failed(run, fact, RUN_AGAIN));
        }
    })
}

/// The ranks' files of an option: trial, rank and content.
fn rank_files<'a>(tree: &'a Tree, run: &Leaf, option: &str) -> Vec<(String, String, &'a str)> {
    let folder = join(&run.path, &format!("option_{option}"));
    let mut found = Vec::new();
    for trial in tree.folders(&folder) {
        let folder = join(&folder, trial);
        for rank in tree.folders(&folder) {
            let folder = join(&folder, rank);
            let files = tree.files(&folder).into_iter();
            let files = files.filter(|name| name.starts_with("kvcache_results_"));
            found.extend(files.map(|name| (trial.to_string(), rank.to_string(), name)));
        }
    }
    found
}

/// 6.3.3: every rank has a file, and no rank is missing.
pub(super) fn ranks(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    check_runs(group, "every rank of every trial has its file", |run, faults| {
        let summary = &run.summary.value;
        if summary["partial_failure"] == true {
            let fact = "partial_failure: its figures are of the ranks that were left";
            let fault = failed(run, fact, "run it again, until every rank ends");
            // Such a run was published in open, with a warning.
            faults.push(if is_closed(group) { fault } else { fault.officially(Official::Warns) });
        }
        let total = summary["total_ranks"].as_u64();
        for (option, _) in TABLE {
            let mut files: BTreeMap<(String, String), u64> = BTreeMap::new();
            for (trial, rank, _) in rank_files(&submission.tree, run, option) {
                *files.entry((trial, rank)).or_default() += 1;
            }
            if let Some(((trial, rank), count)) = files.iter().find(|(_, count)| **count > 1) {
                let fact = format!("option {option}: {trial}/{rank} has {count} files of results");
                faults.push(failed(run, fact, "keep the file that the rank wrote last"));
            }
            let wanted = total.zip(summary["trials_per_option"].as_u64());
            let wanted = wanted.map(|(ranks, trials)| ranks.saturating_mul(trials));
            let found = files.len() as u64;
            if let Some(wanted) = wanted.filter(|wanted| found < *wanted) {
                let fact = format!("option {option}: {found} of {wanted} ranks' files");
                faults.push(wish(run, fact, "add the files of every rank"));
            }
        }
    })
}

/// Figures of an option in the summary, and their place in a rank's file.
pub(crate) const AGGREGATES: [(&str, &str); 5] = [
    ("aggregated_read_bandwidth_gbps", "/cache_stats/tier_storage_read_bandwidth_gbps"),
    ("aggregated_write_bandwidth_gbps", "/cache_stats/tier_storage_write_bandwidth_gbps"),
    ("aggregated_avg_throughput_tokens_per_sec", "/avg_throughput_tokens_per_sec"),
    ("aggregated_storage_throughput_tokens_per_sec", "/storage_throughput_tokens_per_sec"),
    ("aggregated_p95_latency_ms", "/storage_io_latency_ms/p95"),
];

/// 6.3.4: the summary combines the figures of the ranks: sums over ranks, means over trials, and
/// the maximum P95. Ranks that did not read from storage have no figures.
pub(super) fn aggregates(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let fact = "figures match the rank files found";
    check_runs(group, fact, |run, faults| {
        if !run.summary.is_found() {
            let fact = "without summary.json, the report shows no row";
            let fault = failed(run, fact, COPY_FROM_RESULTS);
            faults.push(fault.officially(Official::Warns));
        }
        for (option, summary) in run.summary.value["options"].as_object().into_iter().flatten() {
            let count = |key: &str| summary[key].as_u64().unwrap_or(0);
            let cpu_ranks = summary["cpu_tier_ranks"].as_array().map_or(0, Vec::len) as u64;
            if cpu_ranks > 0 && cpu_ranks >= count("rank_count") {
                let fact = format!("option {option}: all ranks were served from memory");
                let remedy = "use more users or less memory: no object was read";
                faults.push(only_open(group, run, fact, remedy));
            }
            let mut trials: BTreeMap<String, Vec<Value>> = BTreeMap::new();
            for (trial, rank, name) in rank_files(&submission.tree, run, option) {
                let place = format!("{}/option_{option}/{trial}/{rank}/{name}", run.path);
                let file = submission.tree.json(&place);
                trials.entry(trial).or_default().push(file.value["summary"].clone());
            }
            let found = trials.values().map(Vec::len).sum::<usize>() as u64;
            if found != count("rank_count").saturating_mul(count("trial_count")) || found == 0 {
                continue;
            }
            let trials: Vec<Vec<Value>> = trials.into_values().collect();
            for (key, place) in AGGREGATES {
                let follows = aggregate(&trials, place);
                if let Some((stands, follows)) = number(&summary[key]).zip(follows) {
                    let what = format!("{key} of option {option}");
                    let fact = differing(&what, stands, follows, "the ranks' files");
                    let remedy = "copy summary.json and the ranks' files again, from one run";
                    faults.extend(fact.map(|fact| failed(run, fact, remedy)));
                }
            }
        }
    })
}

/// The figure at `place` of the ranks' summaries, put together over the ranks of each trial.
pub(crate) fn aggregate(trials: &[Vec<Value>], place: &str) -> Option<f64> {
    let figures = trials.iter().map(|ranks| {
        ranks.iter().map(|rank| number(rank.pointer(place)?)).collect::<Option<Vec<f64>>>()
    });
    let figures: Vec<Vec<f64>> = figures.collect::<Option<_>>()?;
    if place.ends_with("/p95") {
        return figures.into_iter().flatten().reduce(f64::max);
    }
    let sums: Vec<f64> = figures.iter().map(|ranks| ranks.iter().sum()).collect();
    Some(mean(&sums))
}
