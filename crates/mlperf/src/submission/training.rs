//! What a training result must have been: the rules of chapter 3, and 6 to 10 of v2.0.

use serde_json::Value;

use super::effective;
use super::figures::{number, shown};
use super::files::whole_ranks;
use super::leaf::{Leaf, LeafKind};
use super::rule::{Official, Outcome, or_passed};
use super::survey::{Division, Edition, Group, Submission};
use stormlp_core::units::{GIB, counted};
use stormlp_training::plan::catalog;
use stormlp_training::plan::datasize::{MEMORY_MULTIPLE, MIN_STEPS, SizeRequest, datasize};
pub(super) use stormlp_training::plan::rules::{Freedom, freedom, prefetch_fault};
use stormlp_training::plan::workload::Workload;

const AS_WRITTEN: &str = "take summary.json, metadata and overrides.yaml as the tool wrote them";

/// The workload that a leaf ran, as its edition has it.
pub(super) fn workload_of(group: &Group, leaf: &Leaf) -> Option<Workload> {
    let accelerator = leaf.accelerator()?;
    let entry = catalog::find(&group.model, Some(&accelerator)).ok()?;
    entry.workload(&[]).ok()
}

/// Files that a leaf was told to use or make.
fn files_of(leaf: &Leaf) -> Option<f64> {
    let summary = leaf.figure("num_files_train");
    let set = || leaf.set("dataset.num_files_train")?.parse().ok();
    let parameter = || number(leaf.parameter("dataset", "num_files_train"));
    summary.filter(|files| *files > 0.0).or_else(set).or_else(parameter)
}

/// The bytes of a sample: as the leaf tells, else as its workload has it.
pub(super) fn record_bytes(group: &Group, leaf: &Leaf) -> Option<f64> {
    let told = number(leaf.parameter("dataset", "record_length_bytes"));
    let usual = || Some(workload_of(group, leaf)?.dataset.record_length_bytes);
    told.filter(|bytes| *bytes > 0.0).or_else(usual)
}

/// Samples in a file: as the leaf tells, else as its workload has it.
pub(super) fn samples_per_file(group: &Group, leaf: &Leaf) -> Option<f64> {
    let key = "num_samples_per_file";
    let told = number(leaf.parameter("dataset", key)).filter(|samples| *samples > 0.0);
    let usual = || Some(workload_of(group, leaf)?.dataset.num_samples_per_file as f64);
    told.or(leaf.figure(key)).or_else(usual)
}

/// 3.1.1: the dataset was sized.
pub(super) fn sized(_: &Submission, group: &Group) -> Vec<Outcome> {
    if let Some(leaf) = group.datasize.first() {
        let files = number(leaf.parameter("dataset", "num_files_train"));
        return vec![match files {
            Some(files) => Outcome::passed(&leaf.path, format!("{files} files")),
            None => Outcome::unknown(
                &leaf.path,
                "its metadata names no dataset.num_files_train",
                "take the metadata as `mlpstorage … datasize` wrote it",
            ),
        }];
    }
    let named =
        group.runs.iter().all(|leaf| !leaf.parameter("dataset", "num_files_train").is_null());
    let why = if named && !group.runs.is_empty() {
        "no sizing is there; the runs name the size of their dataset"
    } else {
        "no sizing is there"
    };
    // Where a package must have one, the folder that is missing is told.
    vec![Outcome::noted(&group.path, why, "add what `mlpstorage … datasize` wrote")]
}

/// 3.1.2: 500 steps an epoch, and five times the memory of all hosts.
pub(super) fn large_enough(submission: &Submission, group: &Group) -> Vec<Outcome> {
    let outcomes = group.runs.iter().map(|leaf| {
        size_needed(submission, group, leaf).unwrap_or_else(|why| {
            Outcome::unknown(&leaf.path, why, "take summary.json and metadata as they were written")
        })
    });
    outcomes.collect()
}

fn size_needed(submission: &Submission, group: &Group, leaf: &Leaf) -> Result<Outcome, String> {
    let workload = workload_of(group, leaf);
    let told = |section: &str, key: &str| number(leaf.parameter(section, key)).filter(|n| *n > 0.0);
    let usual = |get: fn(&Workload) -> f64| workload.as_ref().map(get);
    let need = |value: Option<f64>, what: &str| value.ok_or_else(|| format!("no {what} is told"));
    let batch = told("reader", "batch_size").or(usual(|w| f64::from(w.reader.batch_size)));
    let per_file = samples_per_file(group, leaf);
    let record = record_bytes(group, leaf);
    let memory = need(leaf.memory_gib(), "memory of the hosts")?;
    let accelerators = leaf.figure("num_accelerators").and_then(whole_ranks);
    let accelerators =
        accelerators.ok_or("no number of accelerators that a run can have is told")?;
    let files = need(files_of(leaf), "number of files")?;
    let request = SizeRequest {
        accelerators,
        hosts: 1,
        // Of all hosts together: hosts may differ.
        host_memory_bytes: (memory * GIB as f64).round() as u64,
        batch_size: need(batch, "batch size")? as u64,
        samples_per_file: need(per_file, "number of samples in a file")? as u64,
        sample_bytes: need(record, "length of a record")?,
        profile: submission.edition.profile(),
    };
    let size = datasize(&request).map_err(|error| error.of_files())?;
    let evidence = format!(
        "{} files; {MEMORY_MULTIPLE} × {memory:.1} GiB ask for {}, {MIN_STEPS} steps for {}",
        shown(files),
        size.files_for_memory,
        size.files_for_steps
    );
    let remedy = format!("generate and use at least {} files", size.files);
    Ok(Outcome::of(files >= size.files as f64, &leaf.path, evidence, &remedy))
}

/// 3.2.1: the generation wrote at least what the sizing asked for.
pub(super) fn generated(_: &Submission, group: &Group) -> Vec<Outcome> {
    let Some(generation) = group.datagen.first() else {
        let remedy = "add what `mlpstorage … datagen` wrote";
        return vec![Outcome::noted(&group.path, "no generation is there", remedy)];
    };
    let Some(made) = files_of(generation) else {
        return vec![Outcome::unknown(
            &generation.path,
            "it does not tell how many files it wrote",
            "take metadata and overrides.yaml as the tool wrote them",
        )];
    };
    let asked =
        group.datasize.first().and_then(files_of).or_else(|| group.runs.first().and_then(files_of));
    let path = &generation.path;
    vec![match asked {
        Some(asked) => Outcome::of(
            made >= asked,
            path,
            format!("{} files generated, {} asked for", shown(made), shown(asked)),
            "generate the rest, and run again",
        ),
        None => {
            Outcome::unknown(path, "neither sizing nor run names a number of files", AS_WRITTEN)
        }
    }]
}

/// 3.3.1: the runs used what was sized, of what was generated.
pub(super) fn used(_: &Submission, group: &Group) -> Vec<Outcome> {
    let sized = group.datasize.first().and_then(files_of);
    let made = group.datagen.first().and_then(files_of);
    let mut faults = Vec::new();
    for leaf in &group.runs {
        let Some(files) = files_of(leaf) else {
            faults.push(Outcome::unknown(&leaf.path, "it names no number of files", AS_WRITTEN));
            continue;
        };
        if let Some(sized) = sized.filter(|sized| files < *sized) {
            faults.push(Outcome::failed(
                &leaf.path,
                format!("{} files used, {} by the sizing", shown(files), shown(sized)),
                "run on as many files as the sizing says",
            ));
        }
        if let Some(made) = made.filter(|made| files > *made) {
            faults.push(Outcome::failed(
                &leaf.path,
                format!("{} files used, {} generated", shown(files), shown(made)),
                "the generation that is there is not that of these runs: add the right one",
            ));
        }
    }
    if sized.is_none() && made.is_none() {
        faults.push(Outcome::noted(
            &group.path,
            "neither sizing nor generation is there, or they name no number of files",
            "add what `mlpstorage … datasize` and `datagen` wrote",
        ));
    }
    or_passed(faults, &group.path, || "sizing ≤ run ≤ generation".to_string())
}

/// 3.3.2: AU reaches its threshold in each scored run. It is computed again from the files of the
/// ranks.
pub(super) fn utilisation(_: &Submission, group: &Group) -> Vec<Outcome> {
    let warm_up = usize::from(group.runs.len() > 1);
    let outcomes = group.runs.iter().enumerate().map(|(index, leaf)| {
        let path = &leaf.path;
        let threshold = workload_of(group, leaf).map(|workload| workload.metric.au * 100.0);
        let told = leaf.metric("train_au_mean_percentage");
        let flag = leaf.summary.value()["metric"]["train_au_meet_expectation"].as_str();
        let (Some(au), Some(flag)) = (told, flag) else {
            return Outcome::unknown(path, "summary.json has no AU", "run it to its end");
        };
        let met = flag == "success";
        let evidence = match threshold {
            Some(threshold) => format!("AU {au:.2} %, threshold {threshold:.0} %: {flag}"),
            None => format!("AU {au:.2} %: {flag}"),
        };
        if index < warm_up {
            return match met {
                true => Outcome::passed(path, format!("warm-up: {evidence}")),
                // It is not scored, and the official checker asks it of every run.
                false => Outcome::failed(
                    path,
                    format!("warm-up: {evidence}"),
                    "the warm-up is not scored, but the official checker asks it of all six: \
                     lower the number of accelerators",
                ),
            };
        }
        let contradicts = threshold.is_some_and(|threshold| met != (au >= threshold));
        if contradicts {
            return Outcome::failed(
                path,
                format!("the files contradict each other: {evidence}"),
                "take summary.json as DLIO wrote it",
            )
            .officially(Official::Silent);
        }
        Outcome::of(met, path, evidence, "lower the number of accelerators, and run all six again")
    });
    outcomes.collect()
}

/// 3.3.3: how hard a single host was driven.
pub(super) fn single_host_load(_: &Submission, group: &Group) -> Vec<Outcome> {
    let few = group.runs.iter().find(|leaf| {
        leaf.figure("num_hosts") == Some(1.0)
            && leaf.figure("num_accelerators").is_some_and(|count| count < 4.0)
    });
    match few {
        Some(leaf) => vec![Outcome::noted(
            &leaf.path,
            format!(
                "{} on one host: whether more would have passed cannot be told from here",
                counted(leaf.figure("num_accelerators").unwrap_or(0.0) as u64, "accelerator")
            ),
            "the result is to be the most accelerators that keep AU above its threshold",
        )],
        None => vec![Outcome::passed(&group.path, "four accelerators or more, or several hosts")],
    }
}

/// 3.3.4: hosts of the summary and of the command.
pub(super) fn hosts(_: &Submission, group: &Group) -> Vec<Outcome> {
    let outcomes: Vec<Outcome> = group
        .runs
        .iter()
        .filter_map(|leaf| {
            let ran = leaf.figure("num_hosts")?;
            let named = leaf.argument("hosts").as_array();
            // A run on one host need not name it.
            let named =
                named.map_or((ran == 1.0).then_some(1.0), |list| Some(list.len() as f64))?;
            let evidence = format!("{ran} in summary.json, {named} in the command");
            let remedy = "files of different runs were mixed: take all of one run";
            Some(Outcome::of(ran == named, &leaf.path, evidence, remedy))
        })
        .collect();
    if outcomes.is_empty() {
        vec![Outcome::unknown(
            &group.path,
            "no list of hosts is there",
            "take the metadata as mlpstorage wrote it",
        )]
    } else {
        outcomes
    }
}

/// 3.3.6: as many accelerators on each host.
pub(super) fn even(_: &Submission, group: &Group) -> Vec<Outcome> {
    let outcomes: Vec<Outcome> = group
        .runs
        .iter()
        .filter_map(|leaf| {
            let (count, hosts) = (leaf.figure("num_accelerators")?, leaf.figure("num_hosts")?);
            let evidence = format!("{} accelerators on {} hosts", shown(count), shown(hosts));
            let remedy = "take a multiple of the number of hosts";
            Some(Outcome::of(hosts > 0.0 && count % hosts == 0.0, &leaf.path, evidence, remedy))
        })
        .collect();
    if outcomes.is_empty() {
        vec![Outcome::unknown(&group.path, "no summary names hosts", AS_WRITTEN)]
    } else {
        outcomes
    }
}

/// 3.3.7: hosts are alike.
pub(super) fn alike(_: &Submission, group: &Group) -> Vec<Outcome> {
    let spread = |list: &Value| {
        let values: Vec<f64> = list.as_array()?.iter().filter_map(Value::as_f64).collect();
        let values: Vec<f64> = values.into_iter().filter(|value| *value > 0.0).collect();
        let most = values.iter().copied().reduce(f64::max)?;
        let least = values.iter().copied().reduce(f64::min)?;
        Some(most / least)
    };
    let mut faults = Vec::new();
    for leaf in &group.runs {
        if leaf.figure("num_hosts").is_none_or(|hosts| hosts < 2.0) {
            continue;
        }
        let cores = spread(&leaf.summary.value()["host_cpu_count"]);
        if cores.is_some_and(|factor| factor > 1.1) {
            faults.push(Outcome::noted(
                &leaf.path,
                "the hosts differ by more than 10 % in their processors: the slowest sets the pace",
                "a warning, no fault",
            ));
        }
    }
    or_passed(faults, &group.path, || "hosts are alike, or there is one".to_string())
}

/// 3.6.2 and 3.6.3: what may be set.
pub(super) fn parameters(submission: &Submission, group: &Group) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for leaf in group.runs.iter().chain(&group.datagen) {
        let before = outcomes.len();
        let claims_closed = group.division_of(leaf) == Some(Division::Closed);
        for (key, value) in &leaf.overrides {
            outcomes.extend(parameter(submission, group, leaf, (key, value), claims_closed));
        }
        if leaf.kind == LeafKind::Run {
            outcomes.extend(as_it_ran(submission, group, leaf, claims_closed));
        }
        if outcomes.len() == before {
            let evidence = format!(
                "{} set, all of them free; the rest is the workload's",
                counted(leaf.overrides.len() as u64, "key")
            );
            outcomes.push(if leaf.overrides_file.is_found() || leaf.metadata.is_found() {
                Outcome::passed(&leaf.path, evidence)
            } else {
                let why = "neither overrides nor metadata is there";
                Outcome::unknown(&leaf.path, why, AS_WRITTEN)
            });
        }
    }
    outcomes
}

/// The same of what the run had and no override tells.
fn as_it_ran(
    submission: &Submission,
    group: &Group,
    leaf: &Leaf,
    claims_closed: bool,
) -> Vec<Outcome> {
    let found = effective::parameters(leaf).into_iter();
    let changed = found.filter(|found| {
        let is_told =
            leaf.set(&found.key).is_some_and(|value| effective::alike(value, &found.value));
        // What the workload cannot have, or what changes nothing, has no part in it.
        !is_told
            && with(group, leaf, &found.key, &found.value)
                .is_some_and(|(set, base)| !set.differing_keys(&base).is_empty())
    });
    let outcomes = changed.filter_map(|found| {
        let pair = (found.key.as_str(), found.value.as_str());
        let mut outcome = parameter(submission, group, leaf, pair, claims_closed)?;
        outcome.evidence = format!("{} by {}", outcome.evidence, found.from);
        Some(outcome)
    });
    outcomes.collect()
}

/// What is to be said of a key that was set.
fn parameter(
    submission: &Submission,
    group: &Group,
    leaf: &Leaf,
    (key, value): (&str, &str),
    claims_closed: bool,
) -> Option<Outcome> {
    // mlpstorage and Hydra set these themselves.
    if key.starts_with("storage.") || key.starts_with("hydra.") {
        return None;
    }
    let shown = format!("{key} is {value}");
    match freedom(key) {
        Freedom::Closed if key == "reader.prefetch_size" => {
            let fault = value.parse().map_or(Some(shown), prefetch_fault)?;
            let remedy = "set 0, 1 or 2, and run again";
            // Neither tool looks at the value.
            let outcome = Outcome::failed(&leaf.path, fault, remedy);
            Some(outcome.officially(Official::Silent))
        }
        Freedom::Closed if key == "reader.odirect" && submission.edition == Edition::V2 => {
            let on = value.eq_ignore_ascii_case("true") && group.model != "unet3d";
            let remedy = "leave it out, and run again";
            on.then(|| Outcome::failed(&leaf.path, format!("{shown}: for unet3d only"), remedy))
        }
        Freedom::Closed | Freedom::Tool => None,
        Freedom::Open if claims_closed => Some(Outcome::failed(
            &leaf.path,
            format!("{shown}: it is free in the open division alone"),
            "leave it out and run again, or submit to open",
        )),
        Freedom::Open => Some(Outcome::passed(&leaf.path, format!("{shown}: open")).open()),
        Freedom::Fixed if is_usual(group, leaf, key, value) => None,
        Freedom::Fixed => Some(Outcome::failed(
            &leaf.path,
            format!("{shown}: it is none of the parameters that may be set"),
            "leave it out, and run again",
        )),
    }
}

/// Whether the workload has `key` at `value` anyway.
fn is_usual(group: &Group, leaf: &Leaf, key: &str, value: &str) -> bool {
    with(group, leaf, key, value).is_some_and(|(set, base)| {
        set.differing_keys(&base).is_empty() && set.without_effect == base.without_effect
    })
}

/// The workload with `key` at `value`, and without; `None` where it cannot have it.
fn with(group: &Group, leaf: &Leaf, key: &str, value: &str) -> Option<(Workload, Workload)> {
    let accelerator = leaf.accelerator();
    let entry = catalog::find(&group.model, accelerator.as_deref()).ok()?;
    let set = entry.workload(&[format!("{key}={value}")]).ok()?;
    Some((set, entry.workload(&[]).ok()?))
}

/// v2.0: unet3d writes checkpoints in its runs.
pub(super) fn checkpoint_in_run(_: &Submission, group: &Group) -> Vec<Outcome> {
    let off = group.runs.iter().filter(|leaf| {
        group.model == "unet3d"
            && match leaf.set("workflow.checkpoint") {
                Some(value) => value.eq_ignore_ascii_case("false"),
                None => *leaf.parameter("workflow", "checkpoint") == Value::Bool(false),
            }
    });
    let faults = off.map(|leaf| {
        Outcome::failed(&leaf.path, "workflow.checkpoint is False", "leave it True, and run again")
    });
    or_passed(faults.collect(), &group.path, || "it is as the workload has it".to_string())
}
