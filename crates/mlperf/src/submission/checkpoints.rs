//! Rules of a checkpointing result: chapter 4.

use serde_json::Value;

use super::effective;
use super::figures::{number, shown};
use super::files::whole_ranks;
use super::leaf::{Leaf, plain};
use super::rule::{COPY_FILES, Finding, Official, each_run, or_passed};
use super::rule::{advice, failed, holds, passed, passed_open, unknown};
use super::survey::{RunGroup, Submission};
use super::timestamp;
use stormlp_checkpoint::plan::HOST_RANKS;
use stormlp_checkpoint::plan::rules::COUNT;
use stormlp_checkpoint::plan::{CheckpointWorkload, builtin};
use stormlp_core::units::{counted, format_duration};

/// The longest time between the end of the writes and the start of the reads.
const HANDOFF_SECONDS: f64 = 30.0;
/// Memory of accelerators in GB: the rules' table 3. Checkpoint sizes are GiB; the rules compare the
/// two as they are.
const ACCELERATOR_GB: [(&str, f64); 2] = [("b200", 180.0), ("mi355", 288.0)];

fn model(group: &RunGroup) -> Option<CheckpointWorkload> {
    builtin::load(&group.model)
}

fn ranks(leaf: &Leaf) -> Option<u64> {
    let ranks = leaf.figure("num_accelerators").or_else(|| number(leaf.argument("num_processes")));
    ranks.and_then(whole_ranks)
}

fn is_subset(leaf: &Leaf) -> bool {
    let set = leaf.set("checkpoint.mode").is_some_and(|mode| mode.eq_ignore_ascii_case("subset"));
    set || leaf.parameter("checkpoint", "mode") == "subset"
}

fn is_open(group: &RunGroup, leaf: &Leaf) -> bool {
    group.division_of(leaf) == Some("open")
}

fn all_open(group: &RunGroup) -> bool {
    group.runs.iter().all(|leaf| is_open(group, leaf))
}

/// The checkpoints that a run was to write and to read.
pub(super) fn counts(leaf: &Leaf) -> Option<(i64, i64)> {
    let count = |key: &str| {
        let argument = number(leaf.argument(key));
        let set = || leaf.set(&format!("checkpoint.{key}"))?.parse().ok();
        let parameter = || number(leaf.parameter("checkpoint", key));
        argument.or_else(set).or_else(parameter).map(|count| count as i64)
    };
    Some((count("num_checkpoints_write")?, count("num_checkpoints_read")?))
}

/// 4.3.2: writes are synced.
pub(super) fn synced(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    each_run(group, |leaf| {
        let fsync = Some(leaf.parameter("checkpoint", "fsync")).filter(|fsync| !fsync.is_null())?;
        let fact = format!("checkpoint.fsync is {fsync}");
        Some(holds(fsync == true, leaf, fact, "leave checkpoint.fsync at True, and run again"))
    })
}

/// 4.3.4: the accelerators' memory holds the checkpoint.
pub(super) fn fits(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    each_run(group, |leaf| {
        let (size, ranks) = (leaf.metric("checkpoint_size_GB")?, ranks(leaf)?);
        let accelerator = leaf.named_accelerator();
        let Some(name) = accelerator.as_deref() else {
            let remedy = "run with --accelerator-type b200 or mi355";
            let fault = failed(leaf, "the metadata names no accelerator", remedy);
            // No result published in v3.0 names one: tools that write no stamp did not ask for it.
            let is_asked = leaf.provenance.is_found() && !leaf.made_by_stormlp();
            return Some(if is_asked { fault } else { fault.officially(Official::Warns) });
        };
        let Some((_, gb)) = ACCELERATOR_GB.into_iter().find(|(kind, _)| *kind == name) else {
            let fact = format!("{name} is not in the rules' table of accelerators: b200, mi355");
            return Some(failed(leaf, fact, "run with --accelerator-type b200 or mi355"));
        };
        let fact = format!("{ranks} × {gb} GB of {name} for a checkpoint of {size:.1}");
        let fits = gb * ranks as f64 >= size;
        Some(holds(fits, leaf, fact, "choose an accelerator with more memory"))
    })
}

/// 4.3.5: a subset is of the smallest model, on eight ranks.
pub(super) fn subset(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let is_smallest = builtin::names().next() == Some(group.model.as_str());
    let subsets = group.runs.iter().filter(|leaf| is_subset(leaf));
    let faults = subsets.filter_map(|leaf| {
        let count = ranks(leaf).unwrap_or(0);
        let fact = format!("a subset of {count} ranks of {}", group.model);
        let remedy = "subset mode is for the 8B model on 8 ranks";
        (count != HOST_RANKS || !is_smallest).then(|| failed(leaf, fact, remedy))
    });
    or_passed(faults, group, "no subset, or an allowed one")
}

/// 4.6.1: as many ranks as the model has. Open results have a separate rule.
pub(super) fn rank_count(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let Some(model) = model(group).filter(|_| !all_open(group)) else { return Vec::new() };
    let parallelism = model.parallelism_of_all_ranks();
    let (all, copy) = (parallelism.ranks(), parallelism.model_parallel());
    each_run(group, |leaf| {
        let count = ranks(leaf).filter(|_| !is_open(group, leaf))?;
        let fact = format!("{}; {} has {all}", counted(count, "rank"), group.model);
        Some(if count != all && group.division_of(leaf).is_none() && count % copy == 0 {
            passed_open(leaf, format!("{fact}: a multiple of {copy}, open"))
        } else {
            holds(count == all, leaf, fact, format!("run {all} processes"))
        })
    })
}

/// 4.6.4: in the open division, a multiple of the ranks that hold one copy of the model.
pub(super) fn open_ranks(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let Some(model) = model(group) else { return Vec::new() };
    let copy = model.parallelism_of_all_ranks().model_parallel();
    let open = group.runs.iter().filter(|leaf| is_open(group, leaf));
    let findings = open.map(|leaf| match ranks(leaf) {
        Some(count) if count % copy == 0 => passed_open(leaf, counted(count, "rank")),
        count => {
            let fact = format!("{} ranks; one copy of the model has {copy}", count.unwrap_or(0));
            failed(leaf, fact, format!("run a multiple of {copy} processes"))
        }
    });
    findings.collect()
}

/// 4.6.2: the minimum number of ranks on each host by the rules' table.
const LEAST_HOST_RANKS: f64 = 4.0;

/// 4.6.2: enough ranks on each host; the rules do not ask this of open results.
pub(super) fn host_ranks(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    if all_open(group) {
        return Vec::new();
    }
    each_run(group, |leaf| {
        let hosts = leaf.figure("num_hosts").filter(|hosts| *hosts > 0.0)?;
        let each = ranks(leaf)? as f64 / hosts;
        let on = counted(hosts as u64, "host");
        let fact = format!("{} on each of {on}; at least {LEAST_HOST_RANKS}", shown(each));
        let remedy =
            if hosts > 1.0 { "run on fewer hosts" } else { "run the processes that the model has" };
        Some(holds(each >= LEAST_HOST_RANKS, leaf, fact, remedy))
    })
}

/// 4.6.3: only the folder may be set.
pub(super) fn parameters(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    const FREE: [&str; 5] = [
        "checkpoint.checkpoint_folder",
        "checkpoint.num_checkpoints_write",
        "checkpoint.num_checkpoints_read",
        // The tool sets these for a subset.
        "checkpoint.mode",
        "model.parallelism.data",
    ];
    const FREE_BELOW: [&str; 5] = ["workflow.", "output.", "hydra.", "storage.", "profiling"];
    let is_free =
        |key: &str| FREE.contains(&key) || FREE_BELOW.iter().any(|above| key.starts_with(above));
    let usual = usual_parameters(group);
    let differs = |key: &str, value: &str| {
        usual.iter().any(|(known, own)| known == key && !effective::alike(own, value))
    };
    let findings = group.runs.iter().flat_map(|leaf| {
        let judge = |key: &str, value: &str| {
            let fact = format!("{key} is {value}");
            Some(if is_free(key) {
                return None;
            } else if is_open(group, leaf) {
                passed_open(leaf, format!("{fact}: open"))
            } else {
                let fact = format!("{fact}: only checkpoint.checkpoint_folder may be set");
                failed(leaf, fact, "leave it as the model has it, and run again")
            })
        };
        effective::findings(leaf, judge, differs)
    });
    or_passed(findings, group, "only folder and counts are set")
}

fn usual_parameters(group: &RunGroup) -> Vec<(String, String)> {
    let text = builtin::yaml(&group.model).unwrap_or_default();
    let file: Value = serde_yaml::from_str(text).unwrap_or_default();
    let mut found = Vec::new();
    effective::flatten(&file, "", &mut |key, value| {
        // Editions name the models differently, and syncing has a separate rule.
        if !["model.name", "checkpoint.fsync"].contains(&key) {
            found.push((key.to_string(), plain(value)));
        }
    });
    found
}

/// 4.7.1: ten writes, then ten reads, in one run or in two that follow each other.
pub(super) fn order(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let ten = i64::from(COUNT);
    let mut known: Vec<(&Leaf, (i64, i64))> = Vec::new();
    let mut faults = Vec::new();
    for leaf in &group.runs {
        match counts(leaf) {
            Some(counts) => known.push((leaf, counts)),
            None => {
                let fact = "metadata and overrides do not have the number of writes and reads";
                faults.push(unknown(leaf, fact, COPY_FILES));
            }
        }
    }
    let all = known.iter().map(|(_, (writes, reads))| format!("{writes} writes, {reads} reads"));
    let fact = all.collect::<Vec<String>>().join("; then ");
    match known.as_slice() {
        [] => {}
        // Open results may have any number.
        _ if all_open(group) && known.len() <= 2 => {}
        [(_, both)] if *both == (ten, ten) => {}
        [(write, (w, 0)), (read, (0, r))] if *w == ten && *r == ten => {
            faults.push(handoff(write, read));
        }
        _ => {
            let remedy = format!("write {ten} checkpoints, then read {ten}, in one run or in two");
            faults.push(failed(group, &fact, remedy));
        }
    }
    or_passed(faults, group, fact)
}

/// Start and end of two runs by one clock, and which clock that is.
fn spans(first: &Leaf, second: &Leaf) -> Option<([(f64, f64); 2], &'static str)> {
    let invocation = |leaf: &Leaf| {
        let at = |key: &str| timestamp::seconds(leaf.metadata.value[key].as_str()?);
        at("invocation_start_time").zip(at("invocation_end_time"))
    };
    if let (Some(first), Some(second)) = (invocation(first), invocation(second)) {
        return Some(([first, second], "invocations in the metadata"));
    }
    Some(([first.span()?, second.span()?], "start and end in summary.json"))
}

/// The time from the end of the writes to the start of the reads.
fn handoff(write: &Leaf, read: &Leaf) -> Finding {
    let Some(([(_, end), (start, _)], clock)) = spans(write, read) else {
        return unknown(read, "start and end are missing", COPY_FILES);
    };
    let gap = start - end;
    if gap < 0.0 {
        let early = format_duration(-gap);
        let fact = format!("it began {early} before the writes ended, by {clock}: clocks differ");
        let fault = failed(read, fact, "synchronise the hosts' clocks (NTP)");
        return fault.officially(Official::Warns);
    }
    let fact = format!("{gap:.1} s after the writes, by {clock}; at most {HANDOFF_SECONDS} s");
    let remedy = "start the reads from a script, right after the writes";
    holds(gap <= HANDOFF_SECONDS, read, fact, remedy)
}

/// 4.7.3: half as much time as the system needs lies between writes and reads.
pub(super) fn remapped(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let capabilities = &submission.description(group)["solution"]["capabilities"];
    let Some(declared) = number(&capabilities["remap_time_in_seconds"]) else {
        // The system's description lacks it, which is reported there, or is not in the tree.
        return Vec::new();
    };
    if declared == 0.0 {
        return vec![passed(group, "remap_time_in_seconds is 0: reads may follow writes at once")];
    }
    let needs = format!("remap_time_in_seconds is {}", shown(declared));
    let [write, read] = group.runs.as_slice() else {
        let fact =
            format!("{needs}, and one run writes and reads: the time between is not recorded");
        // The official checker compares pairs of runs alone.
        let advice = advice(group, fact, "write and read in two runs");
        return vec![advice.officially(Official::Silent)];
    };
    let Some(((_, end), (start, _))) = write.span().zip(read.span()) else {
        return vec![unknown(read, "start or end of a run is missing", COPY_FILES)];
    };
    let fact = format!("{:.1} s between writes and reads; {needs}", start - end);
    let remedy = "correct the system's description, or let as much time pass before the reads";
    vec![holds(start - end >= 0.5 * declared, read, fact, remedy)]
}

/// 4.7.2: the duration of the test, from the first write to the last read.
pub(super) fn duration(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let test = match group.runs.as_slice() {
        [one] => one.span().map(|span| (span, "start and end in summary.json")),
        [first, second] => {
            spans(first, second).map(|([(start, _), (_, end)], clock)| ((start, end), clock))
        }
        _ => return Vec::new(),
    };
    let Some(((start, end), clock)) = test else {
        return vec![unknown(group, "start or end of a run is missing", COPY_FILES)];
    };
    let fact = format!("{} by {clock}", format_duration((end - start).max(0.0)));
    let remedy = "it ended before it began: check the clocks, and run again";
    vec![holds(end > start, group, fact, remedy)]
}
