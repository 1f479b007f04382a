//! Rules of KV caches: chapter 6. MLCommons' checker has none of them yet; they are held against
//! command lines, summaries and ranks' files.

use std::collections::BTreeMap;

use serde_json::Value;

use super::figures::{number, rounded};
use super::leaf::plain;
use super::other_runs::OtherRun;
use super::rule::{Finding, Official, advice, failed, holds, or_passed, passed_open, wish};
use super::sums::same;
use super::survey::Submission;
use super::tree::{Tree, join};
use stormlp_core::stats::mean;
use stormlp_core::units::counted;

/// Arguments of an option, by their names on the command line: the rules' table KVCache-1.
const TABLE: [(&str, [(&str, &str); 7]); 3] = [
    ("1", option("llama3.1-8b", "200", "0", "16")),
    ("2", option("llama3.1-8b", "100", "4", "16")),
    ("3", option("llama3.1-70b-instruct", "70", "0", "4")),
];
/// What the sequence of a closed run is fixed to, by its name in the metadata's arguments.
const SEQUENCE: [(&str, &str); 3] = [("seed", "42"), ("trials", "3"), ("inter_option_delay", "90")];
const RUN_AGAIN: &str = "run `mlpstorage closed kvcache run` without these, or submit to open";

const fn option(
    model: &'static str,
    users: &'static str,
    cpu_gib: &'static str,
    allocations: &'static str,
) -> [(&'static str, &'static str); 7] {
    [
        ("model", model),
        ("num-users", users),
        ("duration", "300"),
        ("gpu-mem-gb", "0"),
        ("cpu-mem-gb", cpu_gib),
        ("max-concurrent-allocs", allocations),
        ("generation-mode", "none"),
    ]
}

/// Runs of the benchmark that have a summary or metadata.
fn runs(submission: &Submission) -> impl Iterator<Item = &OtherRun> {
    let runs = submission.other_runs.iter();
    runs.filter(|run| run.benchmark == "kv_cache" && run.command == "run")
}

/// What `check` finds in each run; nothing where there is none.
fn of_runs(
    submission: &Submission,
    fact: &str,
    check: impl Fn(&OtherRun, &mut Vec<Finding>),
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for run in runs(submission) {
        let mut faults = Vec::new();
        check(run, &mut faults);
        findings.extend(or_passed(faults, run, fact));
    }
    findings
}

/// A value that closed runs may not have, and open ones may.
fn only_open(run: &OtherRun, fact: String, remedy: &str) -> Finding {
    if run.is_closed() {
        failed(run, fact, remedy)
    } else {
        passed_open(run, format!("{fact}: open"))
    }
}

/// The arguments of a command line, `--num-users 200`, and the option that it ran.
fn command(line: &str) -> Option<(String, BTreeMap<&str, &str>)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let pairs = words.windows(2).filter_map(|pair| Some((pair[0].strip_prefix("--")?, pair[1])));
    let arguments: BTreeMap<&str, &str> = pairs.collect();
    let folder = arguments.get("rank-output-base")?;
    let option = folder.split('/').find_map(|part| part.strip_prefix("option_"))?;
    Some((option.to_string(), arguments))
}

fn alike(a: &str, b: &str) -> bool {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// 6.3.1: each option has the arguments of the table.
pub(super) fn options(submission: &Submission) -> Vec<Finding> {
    of_runs(submission, "its options have the table's arguments", |run, faults| {
        let files = run.metadata.value()["command_output_files"].as_array();
        let lines = files.into_iter().flatten().filter_map(|file| file["command"].as_str());
        let commands: Vec<_> = lines.filter_map(command).collect();
        for (option, wanted) in TABLE {
            let mut ran = commands.iter().filter(|(ran, _)| ran == option).peekable();
            if ran.peek().is_none() {
                let fact = format!("the metadata has no command of option {option}");
                faults.push(advice(run, fact, "copy the metadata again as mlpstorage wrote it"));
            }
            let differs = ran.find_map(|(_, arguments)| {
                let other = wanted.iter().find(|(name, value)| {
                    arguments.get(name).is_some_and(|found| !alike(found, value))
                })?;
                Some((other, arguments.get(other.0)?))
            });
            if let Some(((name, wanted), found)) = differs {
                let fact =
                    format!("option {option} ran with {name} {found}; the table has {wanted}");
                faults.push(only_open(run, fact, RUN_AGAIN));
            }
        }
    })
}

/// 6.3.2 and 6.6.1: seed, trials and pause are fixed; no configuration of one's own, no autoscaling.
pub(super) fn sequence(submission: &Submission) -> Vec<Finding> {
    of_runs(submission, "its sequence is the fixed one", |run, faults| {
        let arguments = &run.metadata.value()["args"];
        for (name, wanted) in SEQUENCE {
            let found = Some(&arguments[name]).filter(|value| !value.is_null()).map(plain);
            if let Some(found) = found.filter(|found| !alike(found, wanted)) {
                faults.push(only_open(run, format!("{name} is {found}, not {wanted}"), RUN_AGAIN));
            }
        }
        if let Some(path) = arguments["config"].as_str() {
            faults.push(only_open(run, format!("--config {path}"), RUN_AGAIN));
        }
        for name in ["enable_autoscaling", "enable_rag", "enable_latency_tracing"] {
            if arguments[name] == true {
                faults.push(only_open(run, format!("{name} is on"), RUN_AGAIN));
            }
        }
        let trials = run.summary.value()["trials_per_option"].as_u64();
        if let Some(trials) = trials.filter(|trials| *trials != 3 && run.is_closed()) {
            let fact = format!("summary.json has {}, not 3", counted(trials, "trial"));
            faults.push(failed(run, fact, RUN_AGAIN));
        }
        let parameters = arguments["mpi_params"].as_array().into_iter().flatten().map(plain);
        let preloads: Vec<String> = parameters.filter(|word| word.contains("LD_PRELOAD")).collect();
        if !preloads.is_empty() {
            let fact = format!("its processes preload libraries: {}", preloads.join(" "));
            faults.push(wish(run, fact, "say so in the description of the system"));
        }
    })
}

/// The ranks' files of an option: trial, rank and content.
fn rank_files<'a>(tree: &'a Tree, run: &OtherRun, option: &str) -> Vec<(String, String, &'a str)> {
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

/// 6.3.3: every rank has a file of its own, and no rank is missing.
pub(super) fn ranks(submission: &Submission) -> Vec<Finding> {
    of_runs(submission, "every rank of every trial has its file", |run, faults| {
        let summary = run.summary.value();
        if summary["partial_failure"] == true {
            let fact = "partial_failure: its figures are of the ranks that were left";
            let fault = failed(run, fact, "run it again, until every rank ends");
            // Such a run was published in open, with a warning.
            faults.push(if run.is_closed() { fault } else { fault.officially(Official::Warns) });
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

/// A figure of a summary, that of each rank, and how ranks and trials are put together.
struct Aggregate {
    key: &'static str,
    of_rank: fn(&Value) -> &Value,
    is_sum: bool,
}

const AGGREGATES: [Aggregate; 4] = [
    Aggregate {
        key: "aggregated_read_bandwidth_gbps",
        of_rank: |summary| &summary["cache_stats"]["tier_storage_read_bandwidth_gbps"],
        is_sum: true,
    },
    Aggregate {
        key: "aggregated_write_bandwidth_gbps",
        of_rank: |summary| &summary["cache_stats"]["tier_storage_write_bandwidth_gbps"],
        is_sum: true,
    },
    Aggregate {
        key: "aggregated_avg_throughput_tokens_per_sec",
        of_rank: |summary| &summary["avg_throughput_tokens_per_sec"],
        is_sum: true,
    },
    Aggregate {
        key: "aggregated_p95_latency_ms",
        of_rank: |summary| &summary["storage_io_latency_ms"]["p95"],
        is_sum: false,
    },
];

/// 6.3.4: the summary's figures are those of the ranks: sums over ranks, means over trials, and the
/// largest of the P95. Ranks that read nothing from storage measure nothing.
pub(super) fn aggregates(submission: &Submission) -> Vec<Finding> {
    of_runs(
        submission,
        "its figures are those of the ranks' files that are there",
        |run, faults| {
            if !run.summary.is_found() {
                let fact = "there is no summary.json; without it, the report has no row";
                let fault =
                    failed(run, fact, "copy it from the results folder that mlpstorage wrote");
                faults.push(fault.officially(Official::Warns));
            }
            let summary = run.summary.value();
            for (option, of_option) in summary["options"].as_object().into_iter().flatten() {
                let count = |key: &str| of_option[key].as_u64().unwrap_or(0);
                let cpu_ranks = of_option["cpu_tier_ranks"].as_array().map_or(0, Vec::len) as u64;
                if cpu_ranks > 0 && cpu_ranks >= count("rank_count") {
                    let fact = format!("option {option}: all ranks were served from memory");
                    faults.push(only_open(
                        run,
                        fact,
                        "use more users or less memory: nothing was read",
                    ));
                }
                let mut trials: BTreeMap<String, Vec<Value>> = BTreeMap::new();
                for (trial, rank, name) in rank_files(&submission.tree, run, option) {
                    let place = format!("{}/option_{option}/{trial}/{rank}/{name}", run.path);
                    let file = submission.tree.json(&place);
                    trials.entry(trial).or_default().push(file.value()["summary"].clone());
                }
                let found: usize = trials.values().map(Vec::len).sum();
                let all = count("rank_count").saturating_mul(count("trial_count"));
                if found as u64 != all || all == 0 {
                    continue;
                }
                faults.extend(AGGREGATES.iter().filter_map(|aggregate| {
                    let stands = number(&of_option[aggregate.key])?;
                    let follows = aggregate.of(&trials)?;
                    let fact = format!(
                        "{} of option {option} is {}; by the ranks' files it is {}",
                        aggregate.key,
                        rounded(stands),
                        rounded(follows)
                    );
                    let remedy = "copy summary.json and the ranks' files again, from one run";
                    (!same(stands, follows)).then(|| failed(run, fact, remedy))
                }));
            }
        },
    )
}

impl Aggregate {
    /// The figure by the summaries of the ranks of each trial.
    fn of(&self, trials: &BTreeMap<String, Vec<Value>>) -> Option<f64> {
        let of_trial = |ranks: &Vec<Value>| {
            let figures: Option<Vec<f64>> =
                ranks.iter().map(|rank| number((self.of_rank)(rank))).collect();
            let figures = figures?;
            Some(if self.is_sum {
                figures.iter().sum::<f64>()
            } else {
                figures.into_iter().fold(0.0, f64::max)
            })
        };
        let trials: Vec<f64> = trials.values().map(of_trial).collect::<Option<_>>()?;
        Some(if self.is_sum { mean(&trials) } else { trials.into_iter().fold(0.0, f64::max) })
    }
}

/// 6.4.1: cache and results have folders of their own.
pub(super) fn folders(submission: &Submission) -> Vec<Finding> {
    of_runs(submission, "cache and results have separate folders", |run, faults| {
        let arguments = &run.metadata.value()["args"];
        let named = ["cache_dir", "results_dir"].map(|key| arguments[key].as_str());
        let [Some(cache), Some(results)] = named else {
            let fact = "the metadata does not name cache_dir and results_dir";
            return faults.push(advice(run, fact, "copy it again as mlpstorage wrote it"));
        };
        let separate = cache.trim_end_matches('/') != results.trim_end_matches('/');
        let fact = format!("cache_dir {cache}, results_dir {results}");
        if !separate {
            faults.push(holds(
                false,
                run,
                fact,
                "choose another folder for results, and run again",
            ));
        }
    })
}
