//! What a checkpointing result must have been: the rules of chapter 4, and 2.2 of v2.0.

use serde_json::Value;

use super::effective::{self, Parameter};
use super::figures::{number, shown};
use super::files::whole_ranks;
use super::leaf::{Leaf, plain};
use super::moment;
use super::rule::{Official, Outcome, or_passed};
use super::survey::{Division, Edition, Group, Submission};
use stormlp_checkpoint::plan::resolve::HOST_RANKS;
use stormlp_checkpoint::plan::rules::{COUNT, MEMORIES, outgrows_memory};
use stormlp_checkpoint::plan::{CheckpointWorkload, builtin};
use stormlp_core::units::{GIB, counted, format_duration};

/// Seconds that may lie between the invocation that writes and the one that reads.
const HANDOFF_SECONDS: f64 = 30.0;
/// Memory of accelerators in GB. Checkpoint sizes are GiB; the rules hold one against the other.
const ACCELERATOR_GB: [(&str, f64); 4] =
    [("b200", 180.0), ("mi355", 288.0), ("h100", 80.0), ("a100", 80.0)];

/// What is taken where a run names none, as tools before the rule did: none has less.
const LEAST_ACCELERATOR: (&str, f64) = ("the smallest accelerator", 80.0);

fn model(group: &Group) -> Option<CheckpointWorkload> {
    builtin::load(&group.model)
}

fn ranks(leaf: &Leaf) -> Option<u64> {
    let told = leaf.figure("num_accelerators").or_else(|| number(leaf.argument("num_processes")));
    told.and_then(whole_ranks)
}

fn is_subset(leaf: &Leaf) -> bool {
    let set = leaf.set("checkpoint.mode").is_some_and(|mode| mode.eq_ignore_ascii_case("subset"));
    set || leaf.parameter("checkpoint", "mode") == "subset"
}

/// Writes and reads that a run was told to make.
pub(super) fn counts(leaf: &Leaf) -> Option<(i64, i64)> {
    let told = |key: &str| {
        let argument = number(leaf.argument(key));
        let set = || leaf.set(&format!("checkpoint.{key}"))?.parse().ok();
        let parameter = || number(leaf.parameter("checkpoint", key));
        argument.or_else(set).or_else(parameter).map(|count| count as i64)
    };
    Some((told("num_checkpoints_write")?, told("num_checkpoints_read")?))
}

/// A check of each run by itself; those that it has nothing to say of are not told.
fn each(group: &Group, check: impl Fn(&Leaf) -> Option<Outcome>) -> Vec<Outcome> {
    let outcomes: Vec<Outcome> = group.runs.iter().filter_map(check).collect();
    if outcomes.is_empty() {
        vec![Outcome::unknown(
            &group.path,
            "summary and metadata do not tell",
            "take them as the tool wrote them",
        )]
    } else {
        outcomes
    }
}

/// 4.3.1: more is written than three memories, or the cache is cleared.
pub(super) fn beyond_memory(_: &Submission, group: &Group) -> Vec<Outcome> {
    each(group, |leaf| {
        let (size, memory) = (leaf.metric("checkpoint_size_GB")?, leaf.memory_gib()?);
        let bytes = |gib: f64| (gib * GIB as f64) as u64;
        let evidence =
            format!("{COUNT} checkpoints of {size:.1} GiB, {MEMORIES} × {memory:.1} GiB of memory");
        Some(if outgrows_memory(bytes(size), bytes(memory)) {
            Outcome::passed(&leaf.path, evidence)
        } else {
            Outcome::noted(
                &leaf.path,
                format!(
                    "{evidence}: caches are to be cleared before the reads, which no file proves"
                ),
                "write and read in two runs, and clear the caches of the clients in between",
            )
        })
    })
}

/// 4.3.2: each write is synced.
pub(super) fn synced(_: &Submission, group: &Group) -> Vec<Outcome> {
    each(group, |leaf| {
        let fsync = leaf.parameter("checkpoint", "fsync");
        let remedy = "leave checkpoint.fsync at True, and run again";
        match fsync {
            Value::Null => None,
            fsync => Some(Outcome::of(
                *fsync == Value::Bool(true),
                &leaf.path,
                format!("checkpoint.fsync is {fsync}"),
                remedy,
            )),
        }
    })
}

/// 4.3.3: the model is one of four.
pub(super) fn known_model(_: &Submission, group: &Group) -> Vec<Outcome> {
    let known: Vec<&str> = builtin::names().collect();
    let evidence = format!("{}, of {}", group.model, known.join(", "));
    let remedy = "run one of the four models";
    vec![Outcome::of(model(group).is_some(), &group.path, evidence, remedy)]
}

/// 4.3.4: the accelerators together hold the checkpoint.
pub(super) fn fits_accelerators(_: &Submission, group: &Group) -> Vec<Outcome> {
    each(group, |leaf| {
        let (size, ranks) = (leaf.metric("checkpoint_size_GB")?, ranks(leaf)?);
        let accelerator = leaf.argument("accelerator_type").as_str();
        let of_kind = |name: &str| {
            let mut kinds = ACCELERATOR_GB.iter();
            kinds.find(|(kind, _)| *kind == name).map(|(_, gb)| *gb)
        };
        let named = accelerator.and_then(|name| of_kind(name).map(|gb| (name, gb)));
        let (name, gb) = named.unwrap_or(LEAST_ACCELERATOR);
        let together = gb * ranks as f64;
        Some(Outcome::of(
            together >= size,
            &leaf.path,
            format!("{ranks} × {gb} GB of {name} for a checkpoint of {size:.1}"),
            "take an accelerator with more memory",
        ))
    })
}

/// 4.3.5: a subset is one of the smallest model on eight ranks.
pub(super) fn subset(submission: &Submission, group: &Group) -> Vec<Outcome> {
    let smallest = builtin::names().next() == Some(group.model.as_str());
    let mut faults = Vec::new();
    for leaf in group.runs.iter().filter(|leaf| is_subset(leaf)) {
        let count = ranks(leaf).unwrap_or(0);
        let any_model = submission.edition == Edition::V2;
        if count != HOST_RANKS || !smallest && !any_model {
            faults.push(Outcome::failed(
                &leaf.path,
                format!("a subset of {count} ranks of {}", group.model),
                if any_model {
                    "a subset has 8 ranks"
                } else {
                    "subset mode is for the 8B model on 8 ranks"
                },
            ));
        }
    }
    or_passed(faults, &group.path, || "no subset, or one that is allowed".to_string())
}

/// 4.6.1: the number of ranks.
pub(super) fn rank_count(submission: &Submission, group: &Group) -> Vec<Outcome> {
    let Some(model) = model(group) else {
        return Vec::new();
    };
    let all = model.parallelism_of_all_ranks().ranks();
    if of_division(group, Division::Open).count() == group.runs.len() {
        return Vec::new();
    }
    each(group, |leaf| {
        // Results of the open division have a rule of their own.
        let count = ranks(leaf).filter(|_| group.division_of(leaf) != Some(Division::Open))?;
        let part = submission.edition == Edition::V2 && is_subset(leaf) && count == HOST_RANKS;
        let evidence = format!("{}; {} has {all}", counted(count, "rank"), group.model);
        if count == all || part {
            return Some(Outcome::passed(&leaf.path, evidence));
        }
        let step = model.parallelism_of_all_ranks().model_parallel();
        let is_open = group.division_of(leaf).is_none() && count > 0 && count % step == 0;
        Some(if is_open {
            Outcome::passed(&leaf.path, format!("{evidence}: a multiple of {step}, open")).open()
        } else {
            Outcome::failed(&leaf.path, evidence, format!("run {all} processes"))
        })
    })
}

/// The runs that are submitted to `division`.
fn of_division(group: &Group, division: Division) -> impl Iterator<Item = &Leaf> {
    let mine = move |leaf: &&Leaf| group.division_of(leaf) == Some(division);
    group.runs.iter().filter(mine)
}

/// 4.6.4: in the open division, ranks are a multiple of those that hold one copy of the model.
pub(super) fn open_rank_count(_: &Submission, group: &Group) -> Vec<Outcome> {
    let Some(model) = model(group) else {
        return Vec::new();
    };
    let step = model.parallelism_of_all_ranks().model_parallel();
    let outcomes = of_division(group, Division::Open).map(|leaf| {
        let Some(count) = ranks(leaf) else {
            return Outcome::unknown(
                &leaf.path,
                "summary and metadata do not tell how many ranks there were",
                "take them as the tool wrote them",
            );
        };
        let evidence = format!("{}; one copy of the model has {step}", counted(count, "rank"));
        if count > 0 && count % step == 0 {
            Outcome::passed(&leaf.path, evidence).open()
        } else {
            let remedy = format!("run a multiple of {step} processes");
            Outcome::failed(&leaf.path, evidence, remedy)
        }
    });
    outcomes.collect()
}

/// 4.6.2: more than four ranks on each host.
pub(super) fn ranks_of_host(submission: &Submission, group: &Group) -> Vec<Outcome> {
    // The table of v2.0 says four at least, the text of v3.0 more than four.
    let least = match submission.edition {
        Edition::V2 => 4,
        Edition::V3 => 5,
    };
    let is_free = submission.edition == Edition::V3
        && of_division(group, Division::Open).count() == group.runs.len();
    if is_free {
        return Vec::new();
    }
    each(group, |leaf| {
        let hosts = leaf.figure("num_hosts").filter(|hosts| *hosts > 0.0)?;
        let each = ranks(leaf)? as f64 / hosts;
        let evidence = format!(
            "{} on each of {}; at least {least}",
            shown(each),
            counted(hosts as u64, "host")
        );
        let remedy =
            if hosts > 1.0 { "run on fewer hosts" } else { "run the processes that the model has" };
        Some(Outcome::of(each >= f64::from(least), &leaf.path, evidence, remedy))
    })
}

/// 4.6.3: only the folder may be chosen.
pub(super) fn parameters(_: &Submission, group: &Group) -> Vec<Outcome> {
    let free = [
        "checkpoint.checkpoint_folder",
        "checkpoint.num_checkpoints_write",
        "checkpoint.num_checkpoints_read",
        // The tool sets these for a subset.
        "checkpoint.mode",
        "model.parallelism.data",
    ];
    let prefixes = ["workflow.", "output.", "hydra.", "storage.", "profiling"];
    let is_free =
        |key: &str| free.contains(&key) || prefixes.iter().any(|prefix| key.starts_with(prefix));
    let usual = usual_parameters(group);
    let mut faults = Vec::new();
    let mut fault = |leaf: &Leaf, evidence: String| {
        let remedy = "leave it as the model has it, and run again";
        faults.push(match group.division_of(leaf) {
            Some(Division::Open) => Outcome::passed(&leaf.path, format!("{evidence}: open")).open(),
            _ => Outcome::failed(
                &leaf.path,
                format!("{evidence}: only checkpoint.checkpoint_folder may be set"),
                remedy,
            ),
        });
    };
    for leaf in &group.runs {
        let set = leaf.overrides.iter();
        for (key, value) in set.filter(|(key, _)| !is_free(key)) {
            fault(leaf, format!("{key} is {value}"));
        }
        // What no override tells and is not as the model has it.
        for found in effective::parameters(leaf) {
            let own = usual.iter().find(|(key, _)| *key == found.key);
            let Some((_, own)) = own.filter(|_| leaf.set(&found.key).is_none()) else {
                continue;
            };
            if !is_free(&found.key) && !effective::alike(own, &found.value) {
                let Parameter { key, value, from } = found;
                fault(leaf, format!("{key} is {value} by {from}, {own} in the model"));
            }
        }
    }
    or_passed(faults, &group.path, || "nothing but folder and counts is set".to_string())
}

/// The parameters of a model, as its file has them.
fn usual_parameters(group: &Group) -> Vec<(String, String)> {
    let text = builtin::yaml(&group.model).unwrap_or_default();
    let file: Value = serde_yaml::from_str(text).unwrap_or_default();
    let mut found = Vec::new();
    effective::flatten(&file, "", &mut |key, value| {
        // Editions name the models differently, and whether writes are synced is a rule of its own.
        if !["model.name", "checkpoint.fsync"].contains(&key) {
            found.push((key.to_string(), plain(value)));
        }
    });
    found
}

/// 4.7.1: ten writes, then ten reads, in one run or in two close to each other.
pub(super) fn order(submission: &Submission, group: &Group) -> Vec<Outcome> {
    let ten = i64::from(COUNT);
    let mut told: Vec<(&Leaf, (i64, i64))> = Vec::new();
    let mut faults = Vec::new();
    for leaf in &group.runs {
        match counts(leaf) {
            // v2.0's table writes -1 for none, its text 0.
            Some((writes, reads)) => told.push((leaf, (writes.max(0), reads.max(0)))),
            None => faults.push(Outcome::unknown(
                &leaf.path,
                "metadata and overrides do not tell how many writes and reads there were",
                "take them as the tool wrote them",
            )),
        }
    }
    let what = told
        .iter()
        .map(|(_, (writes, reads))| format!("{writes} writes, {reads} reads"))
        .collect::<Vec<String>>()
        .join("; then ");
    let is_open = of_division(group, Division::Open).count() == group.runs.len();
    match told.as_slice() {
        [] => {}
        // As many as one likes.
        _ if is_open && told.len() <= 2 => {}
        [(_, both)] if *both == (ten, ten) => {}
        [(write, (w, 0)), (read, (0, r))] if *w == ten && *r == ten => {
            if submission.edition == Edition::V3 {
                faults.push(handoff(write, read));
            }
        }
        _ => faults.push(Outcome::failed(
            &group.path,
            what.clone(),
            format!("write {ten} checkpoints, then read {ten}, in one run or in two"),
        )),
    }
    or_passed(faults, &group.path, || what)
}

/// When two runs began and ended by one clock, and what tells.
fn spans(first: &Leaf, second: &Leaf) -> Option<([(f64, f64); 2], &'static str)> {
    let invocation = |leaf: &Leaf| {
        let at = |key: &str| moment::seconds(leaf.metadata.value()[key].as_str()?);
        at("invocation_start_time").zip(at("invocation_end_time"))
    };
    if let (Some(first), Some(second)) = (invocation(first), invocation(second)) {
        return Some(([first, second], "invocations in the metadata"));
    }
    let clock = "start and end in summary.json";
    Some(([first.span()?, second.span()?], clock))
}

/// How long it took from the end of the writes to the start of the reads, and by which clock.
fn handoff(write: &Leaf, read: &Leaf) -> Outcome {
    let Some(([(_, end), (start, _)], clock)) = spans(write, read) else {
        let remedy = "take summary.json and metadata as the tool wrote them";
        return Outcome::unknown(&read.path, "no moments are there", remedy);
    };
    let gap = start - end;
    if gap < 0.0 {
        return Outcome::unknown(
            &read.path,
            format!(
                "it began {} before the writes had ended, by {clock}: clocks differ",
                format_duration(-gap)
            ),
            "set the clocks of the hosts by the same source",
        );
    }
    Outcome::of(
        gap <= HANDOFF_SECONDS,
        &read.path,
        format!("{gap:.1} s after the writes, by {clock}; at most {HANDOFF_SECONDS} s"),
        "start the reads from a script, right after the writes",
    )
}

/// 2.1.24: the runs are close to each other, which 4.7.1 asks more of. The official checker allows
/// as long as the longer of them took.
pub(super) fn gap(_: &Submission, group: &Group) -> Vec<Outcome> {
    let [first, second] = group.runs.as_slice() else {
        return vec![Outcome::passed(&group.path, "not two runs: nothing lies between")];
    };
    let Some(([(start, end), (next, after)], clock)) = spans(first, second) else {
        let remedy = "take summary.json and metadata as the tool wrote them";
        let evidence = "no moments of both runs are there";
        return vec![Outcome::unknown(&group.path, evidence, remedy)];
    };
    let gap = next - end;
    let (shorter, longer) = ((end - start).min(after - next), (end - start).max(after - next));
    let evidence = format!(
        "{} between the runs, by {clock}; the shorter took {}, the longer {}",
        format_duration(gap.max(0.0)),
        format_duration(shorter.max(0.0)),
        format_duration(longer.max(0.0))
    );
    let remedy = "run both again, one right after the other";
    let outcome = Outcome::of(gap < shorter, &group.path, evidence, remedy);
    vec![if (shorter..longer).contains(&gap) {
        outcome.officially(Official::Silent)
    } else {
        outcome
    }]
}

/// 4.7.2: how long the test took, from the first write to the last read.
pub(super) fn duration(_: &Submission, group: &Group) -> Vec<Outcome> {
    let told = match group.runs.as_slice() {
        [one] => one.span().map(|span| (span, "start and end in summary.json")),
        [first, second] => {
            spans(first, second).map(|([first, second], clock)| ((first.0, second.1), clock))
        }
        _ => return Vec::new(),
    };
    vec![match told {
        Some(((start, end), clock)) => Outcome::of(
            end > start,
            &group.path,
            format!("{} by {clock}", format_duration((end - start).max(0.0))),
            "it ended before it began: check the clocks, and run again",
        ),
        None => Outcome::unknown(
            &group.path,
            "no moments of all runs are there",
            "take summary.json and metadata as the tool wrote them",
        ),
    }]
}
