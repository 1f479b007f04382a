//! Rules of a training result: chapter 3.

use super::effective;
use super::figures::{number, shown};
use super::files::whole_ranks;
use super::leaf::{Leaf, LeafKind};
use super::rule::{COPY_FILES, COPY_METADATA, Finding, Official, each_run};
use super::rule::{advice, failed, holds, passed, passed_open, unknown, wish};
use super::survey::{RunGroup, Submission};
use stormlp_core::profile::Profile;
use stormlp_core::units::{GIB, counted};
use stormlp_training::plan::catalog;
use stormlp_training::plan::datasize::{MEMORY_MULTIPLE, MIN_STEPS, SizeRequest, datasize};
use stormlp_training::plan::rules::{Freedom, freedom, prefetch_fault};
use stormlp_training::plan::workload::Workload;

/// How many objects a reader of v3.0 requests ahead. Closed runs may set it, without a maximum.
const PREFETCH_WINDOW: &str = "storage.storage_options.prefetch_window";

/// The workload that a leaf ran, as the edition defines it.
fn workload_of(group: &RunGroup, leaf: &Leaf) -> Option<Workload> {
    let accelerator = leaf.accelerator()?;
    let entry = catalog::find(&group.model, Some(&accelerator)).ok()?;
    entry.workload(&[]).ok()
}

/// Files that a leaf used or generated.
pub(super) fn file_count(leaf: &Leaf) -> Option<f64> {
    let summary = leaf.figure("num_files_train");
    let set = || leaf.set("dataset.num_files_train")?.parse().ok();
    let parameter = || number(leaf.parameter("dataset", "num_files_train"));
    summary.filter(|files| *files > 0.0).or_else(set).or_else(parameter)
}

/// A parameter of a leaf by its files, otherwise by its workload.
fn parameter_or(
    group: &RunGroup,
    leaf: &Leaf,
    (section, key): (&str, &str),
    usual: fn(&Workload) -> f64,
) -> Option<f64> {
    let own = number(leaf.parameter(section, key)).filter(|own| *own > 0.0);
    own.or_else(|| workload_of(group, leaf).as_ref().map(usual))
}

/// Bytes of a sample.
pub(super) fn record_bytes(group: &RunGroup, leaf: &Leaf) -> Option<f64> {
    let key = ("dataset", "record_length_bytes");
    parameter_or(group, leaf, key, |workload| workload.dataset.record_length_bytes)
}

/// 3.1.1: `datasize` was used.
pub(super) fn sized(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let Some(leaf) = group.datasize.first() else {
        // In a package another rule reports the missing folder.
        let remedy = "add the folder that `mlpstorage … datasize` wrote";
        return vec![advice(group, "there is no datasize run", remedy)];
    };
    vec![match number(leaf.parameter("dataset", "num_files_train")) {
        Some(files) => passed(leaf, format!("{files} files")),
        None => unknown(leaf, "its metadata has no dataset.num_files_train", COPY_METADATA),
    }]
}

/// 3.1.2: at least 500 steps an epoch, and five times the memory of all hosts.
pub(super) fn large_enough(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let findings = group.runs.iter().map(|leaf| {
        let found = size_needed(group, leaf);
        found.unwrap_or_else(|fact| unknown(leaf, fact, COPY_FILES))
    });
    findings.collect()
}

fn size_needed(group: &RunGroup, leaf: &Leaf) -> Result<Finding, String> {
    let need = |value: Option<f64>, what: &str| value.ok_or_else(|| format!("{what} is missing"));
    let memory = need(leaf.memory_gib(), "the hosts' memory")?;
    let accelerators = leaf.figure("num_accelerators").and_then(whole_ranks);
    let files = need(file_count(leaf), "the number of files")?;
    let batch_size = parameter_or(group, leaf, ("reader", "batch_size"), |workload| {
        f64::from(workload.reader.batch_size)
    });
    let samples = leaf.figure("num_samples_per_file").or_else(|| {
        parameter_or(group, leaf, ("dataset", "num_samples_per_file"), |workload| {
            workload.dataset.num_samples_per_file as f64
        })
    });
    let request = SizeRequest {
        accelerators: accelerators.ok_or("a possible number of accelerators is missing")?,
        hosts: 1,
        // Of all hosts together: hosts may differ.
        host_memory_bytes: (memory * GIB as f64).round() as u64,
        batch_size: need(batch_size, "the batch size")? as u64,
        samples_per_file: need(samples, "the number of samples in a file")? as u64,
        sample_bytes: need(record_bytes(group, leaf), "the record length")?,
        profile: Profile::V3,
    };
    let size = datasize(&request).map_err(|error| error.to_string())?;
    // The first releases for v3.0 rounded down as those for v2.0 do, and such results were published.
    let least = datasize(&SizeRequest { profile: Profile::V2, ..request })
        .map_or(size.files, |rounded_down| rounded_down.files.min(size.files));
    let fact = format!(
        "{} files; {MEMORY_MULTIPLE} × {memory:.1} GiB require {}, {MIN_STEPS} steps require {}",
        shown(files),
        size.files_for_memory,
        size.files_for_steps
    );
    let remedy = format!("generate and use at least {} files", size.files);
    Ok(holds(files >= least as f64, leaf, fact, remedy))
}

/// 3.2.1: `datagen` wrote at least as many files as `datasize` requires.
pub(super) fn generated(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let Some(leaf) = group.datagen.first() else {
        let remedy = "add the folder that `mlpstorage … datagen` wrote";
        return vec![advice(group, "there is no datagen run", remedy)];
    };
    let Some(made) = file_count(leaf) else {
        return vec![unknown(leaf, "its files do not have the number of files", COPY_FILES)];
    };
    let sized = group.datasize.first().and_then(file_count);
    let Some(needed) = sized.or_else(|| group.runs.first().and_then(file_count)) else {
        let fact = "neither datasize nor a run has the number of files";
        return vec![unknown(leaf, fact, COPY_FILES)];
    };
    let fact = format!("{} files generated, {} required", shown(made), shown(needed));
    vec![holds(made >= needed, leaf, fact, "generate the rest, and run again")]
}

/// 3.3.2: AU reaches its threshold in every scored run.
pub(super) fn utilisation(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let warm_up = usize::from(group.runs.len() > 1);
    let findings = group.runs.iter().enumerate().map(|(index, leaf)| {
        let flag = leaf.summary.value["metric"]["train_au_meet_expectation"].as_str();
        let (Some(au), Some(flag)) = (leaf.metric("train_au_mean_percentage"), flag) else {
            return unknown(leaf, "summary.json states no AU", "run it to its end");
        };
        let threshold = workload_of(group, leaf).map(|workload| workload.metric.au * 100.0);
        let met = flag == "success";
        let of = threshold.map_or(String::new(), |percent| format!(", threshold {percent:.0} %"));
        let fact = format!("AU {au:.2} %{of}: {flag}");
        if index < warm_up {
            let (fact, remedy) = (format!("warm-up: {fact}"), "it is not scored");
            return if met { passed(leaf, fact) } else { wish(leaf, fact, remedy) };
        }
        if threshold.is_some_and(|threshold| met != (au >= threshold)) {
            let fact = format!("AU and flag contradict each other: {fact}");
            let remedy = "copy summary.json again as DLIO wrote it";
            return failed(leaf, fact, remedy).officially(Official::Silent);
        }
        holds(met, leaf, fact, "use fewer accelerators, and repeat all six runs")
    });
    findings.collect()
}

/// 3.3.4: summary and command have the same number of hosts.
pub(super) fn hosts(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    each_run(group, |leaf| {
        let ran = leaf.figure("num_hosts")?;
        let named = leaf.argument("hosts").as_array().map(|list| list.len() as f64);
        // A run on one host need not name it.
        let named = named.or((ran == 1.0).then_some(1.0))?;
        let fact = format!("{ran} in summary.json, {named} in the command");
        Some(holds(ran == named, leaf, fact, "files of different runs are mixed: copy one run's"))
    })
}

/// 3.3.6: each host has the same number of accelerators.
pub(super) fn even(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    each_run(group, |leaf| {
        let (count, hosts) = (leaf.figure("num_accelerators")?, leaf.figure("num_hosts")?);
        let fact = format!("{} accelerators on {} hosts", shown(count), shown(hosts));
        let is_even = hosts > 0.0 && count % hosts == 0.0;
        Some(holds(is_even, leaf, fact, "use a multiple of the number of hosts"))
    })
}

/// 3.6.2 and 3.6.3: only allowed parameters are set.
pub(super) fn parameters(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let mut findings = Vec::new();
    for leaf in group.runs.iter().chain(&group.datagen) {
        // Keys that the workload does not have, or that have no effect, do not count.
        let differs = |key: &str, value: &str| {
            leaf.kind == LeafKind::Run
                && with(group, leaf, key, value)
                    .is_some_and(|(set, base)| !set.differing_keys(&base).is_empty())
        };
        let of_leaf =
            effective::findings(leaf, |key, value| parameter(group, leaf, key, value), differs);
        let is_known = leaf.overrides_file.is_found() || leaf.metadata.is_found();
        findings.extend(match of_leaf.is_empty() {
            false => of_leaf,
            true if is_known => {
                let count = counted(leaf.overrides.len() as u64, "key");
                let fact = format!("{count} set, all allowed; the rest is the workload's");
                vec![passed(leaf, fact)]
            }
            true => vec![unknown(leaf, "overrides and metadata are missing", COPY_FILES)],
        });
    }
    findings
}

/// The finding on a key that was set.
fn parameter(group: &RunGroup, leaf: &Leaf, key: &str, value: &str) -> Option<Finding> {
    if key == PREFETCH_WINDOW {
        let is_whole = value.trim().parse::<u64>().is_ok_and(|window| window > 0);
        let fact = format!("{key} is {value}, not a number of objects");
        return (!is_whole).then(|| failed(leaf, fact, "set a whole number, and run again"));
    }
    // mlpstorage and Hydra set these themselves.
    if key.starts_with("storage.") || key.starts_with("hydra.") {
        return None;
    }
    let shown = format!("{key} is {value}");
    match freedom(key) {
        Freedom::Closed if key == "reader.prefetch_size" => {
            let fact = value.parse().map_or(Some(shown), prefetch_fault)?;
            // Neither tool checks the value.
            let fault = failed(leaf, fact, "set 0, 1 or 2, and run again");
            Some(fault.officially(Official::Silent))
        }
        Freedom::Closed | Freedom::Tool => None,
        Freedom::Open if group.division_of(leaf) == Some("closed") => {
            let fact = format!("{shown}: allowed in the open division alone");
            Some(failed(leaf, fact, "leave it out and run again, or submit to open"))
        }
        Freedom::Open => Some(passed_open(leaf, format!("{shown}: open"))),
        Freedom::Fixed if is_usual(group, leaf, key, value) => None,
        Freedom::Fixed => {
            let fact = format!("{shown}: not one of the parameters that may be set");
            Some(failed(leaf, fact, "leave it out, and run again"))
        }
    }
}

/// Whether the workload has `key` at `value` anyway.
fn is_usual(group: &RunGroup, leaf: &Leaf, key: &str, value: &str) -> bool {
    with(group, leaf, key, value).is_some_and(|(set, base)| {
        set.differing_keys(&base).is_empty() && set.without_effect == base.without_effect
    })
}

/// The workload with `key` at `value`, and without; `None` where that is not possible.
fn with(group: &RunGroup, leaf: &Leaf, key: &str, value: &str) -> Option<(Workload, Workload)> {
    let accelerator = leaf.accelerator();
    let entry = catalog::find(&group.model, accelerator.as_deref()).ok()?;
    let set = entry.workload(&[format!("{key}={value}")]).ok()?;
    Some((set, entry.workload(&[]).ok()?))
}
