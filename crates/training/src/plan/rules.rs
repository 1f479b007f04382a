//! MLPerf Storage's rules for a closed training run.
//!
//! A closed run may set only a few parameters; everything else must match the edition's workload.
//! The check applies to the effective workload, so it does not matter whether an option, `--params`
//! or a file changed it.

use super::catalog;
use super::datasize::{SizeRequest, datasize};
use super::request::{RequestedHosts, TrainRequest};
use super::workload::Workload;
use crate::plan::train_plan::TrainPlan;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Problems;
use stormlp_core::path::PathKind;
use stormlp_core::printable::printable;
use stormlp_core::profile::Profile;
use stormlp_core::transport::EngineChoice;
use stormlp_core::units::counted;
use stormlp_core::workload_file::KeyNote;

/// Scored runs of a closed result; a warm-up run precedes them.
pub const CLOSED_RUNS: u32 = 5;
/// Maximum prefetch of a closed run, in batches.
const MOST_PREFETCH: u32 = 2;
/// Who may set a parameter: keys, or sections that end in a dot. Launchers and DLIO's files set the
/// tool's, which are not part of the workload; no one may set any other.
const FREEDOM: [(&str, Freedom); 26] = [
    ("dataset.num_files_train", Freedom::Closed),
    ("dataset.num_subfolders_train", Freedom::Closed),
    ("dataset.data_folder", Freedom::Closed),
    ("reader.read_threads", Freedom::Closed),
    ("reader.computation_threads", Freedom::Closed),
    ("reader.transfer_size", Freedom::Closed),
    ("reader.odirect", Freedom::Closed),
    ("reader.prefetch_size", Freedom::Closed),
    ("checkpoint.checkpoint_folder", Freedom::Closed),
    ("storage.storage_type", Freedom::Closed),
    ("storage.storage_root", Freedom::Closed),
    ("storage.storage_options", Freedom::Closed),
    ("framework", Freedom::Open),
    ("dataset.format", Freedom::Open),
    ("dataset.num_samples_per_file", Freedom::Open),
    ("reader.data_loader", Freedom::Open),
    ("defaults", Freedom::Tool),
    ("hydra", Freedom::Tool),
    ("model.type", Freedom::Tool),
    ("workflow.", Freedom::Tool),
    ("output.", Freedom::Tool),
    ("profiling.", Freedom::Tool),
    ("dataset.skip_listing", Freedom::Tool),
    ("dataset.listing_validation_interval", Freedom::Tool),
    ("dataset.num_files_generated", Freedom::Tool),
    ("dataset.total_disk_bytes", Freedom::Tool),
];
/// Storage types that are file systems.
const FILES: [&str; 3] = ["local_fs", "parallel_fs", "direct_fs"];

/// References to an edition's rules.
struct EditionRules {
    name: &'static str,
    workloads: &'static [(&'static str, &'static str)],
    of_workloads: &'static str,
    of_parameters: &'static str,
    of_data: &'static str,
    of_runs: &'static str,
    /// Results must be on a different file system than the data; v2.0 has no such rule.
    of_results: Option<&'static str>,
}

const V2: EditionRules = EditionRules {
    name: "v2.0",
    workloads: &[
        ("unet3d", "a100"),
        ("unet3d", "h100"),
        ("resnet50", "a100"),
        ("resnet50", "h100"),
        ("cosmoflow", "a100"),
        ("cosmoflow", "h100"),
    ],
    of_workloads: "2.1",
    of_parameters: "10.1",
    of_data: "7",
    of_runs: "6.6",
    of_results: None,
};

const V3: EditionRules = EditionRules {
    name: "v3.0",
    workloads: &[("unet3d", "b200"), ("retinanet", "b200"), ("retinanet", "mi355")],
    of_workloads: "3.6.2",
    of_parameters: "3.6.2",
    of_data: "3.1.2",
    of_runs: "2.1.17",
    of_results: Some("3.4.1/3.4.2"),
};

/// Who may set a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freedom {
    /// Closed and open runs.
    Closed,
    /// Open runs only.
    Open,
    /// Set by the official tool, outside the workload.
    Tool,
    /// No one.
    Fixed,
}

/// Who may set the parameter `key`.
pub fn freedom(key: &str) -> Freedom {
    let names = |(name, _): &&(&str, Freedom)| {
        key == *name || name.ends_with('.') && key.starts_with(*name)
    };
    FREEDOM.iter().find(names).map_or(Freedom::Fixed, |(_, freedom)| *freedom)
}

/// The error in this prefetch value, if any.
pub fn prefetch_fault(prefetch: u32) -> Option<String> {
    (prefetch > MOST_PREFETCH)
        .then(|| format!("reader.prefetch_size is {prefetch}; it may be 0 to {MOST_PREFETCH}"))
}

/// Models and accelerators of an edition's closed training; empty for profiles that are not
/// editions.
pub fn closed_workloads(profile: Profile) -> impl Iterator<Item = (&'static str, &'static str)> {
    let edition = match profile {
        Profile::V2 => Some(&V2),
        Profile::V3 => Some(&V3),
        Profile::V1 | Profile::Native => None,
    };
    let all = edition.map_or(&[][..], |edition| edition.workloads);
    all.iter().copied()
}

/// Refuses accelerators that are not the same number on each of the hosts.
fn uneven_hosts(hosts: &[u32], problems: &mut Problems) {
    if hosts.iter().all(|count| *count == hosts[0]) {
        return;
    }
    let (total, processes) = (hosts.iter().sum::<u32>(), hosts.len() as u32);
    let fewer = total / processes * processes;
    problems.plan(
        format!("{total} accelerators are not the same number on each of {processes} hosts"),
        format!("use -n {fewer} or -n {}, or run without --closed", fewer + processes),
    );
}

/// Finds the rules that a closed run would break; empty when the run is not closed.
pub(super) fn closed_problems(
    workload: &Workload,
    request: &TrainRequest,
    plan: &TrainPlan,
    host: &HostFacts,
    problems: &mut Problems,
) {
    if !request.closed {
        return;
    }
    let named = (plan.workload.as_str(), plan.accelerator.as_str());
    let edition = match plan.profile {
        Profile::V2 => &V2,
        Profile::V3 => &V3,
        other => {
            problems.plan(
                format!(
                    "--closed follows the rules of 2.0 or 3.0, not edition {}",
                    other.edition()
                ),
                "use --edition 2.0 or 3.0, or run without --closed",
            );
            // The edition that has the workload shows what else is wrong.
            if V2.workloads.contains(&named) { &V2 } else { &V3 }
        }
    };
    uneven_hosts(&plan.hosts, problems);
    let mut broke = |rule: &str, what: String| {
        let fact = format!("rule {rule} of {}: {what}", edition.name);
        problems.plan(fact, "follow the rules, or run without --closed");
    };
    if !edition.workloads.contains(&named) {
        let (model, accelerator) = named;
        let what = format!("{model} on {accelerator} is not one of its closed workloads");
        broke(edition.of_workloads, what);
    }
    for what in parameters(workload, plan).into_iter().chain(transfers(request, plan, edition)) {
        broke(edition.of_parameters, what);
    }
    if let Some(what) = data(plan, host, request.hosts.as_ref()) {
        broke(edition.of_data, what);
    }
    for folder in edition.of_results.iter().flat_map(|_| &request.results_beside_data) {
        let folder = folder.display().to_string();
        let what = format!(
            "results go to {}, which is on the dataset's file system; use another one \
             (--results-dir, --mlperf-output)",
            printable(&folder)
        );
        broke(edition.of_results.unwrap_or_default(), what);
    }
    if plan.runs != CLOSED_RUNS + 1 {
        let what = format!(
            "{} requested; a result needs {CLOSED_RUNS} scored runs after a warm-up (--runs \
             {CLOSED_RUNS})",
            counted(u64::from(request.runs.unwrap_or(1)), "run")
        );
        broke(edition.of_runs, what);
    }
}

/// Parameters that differ from the edition's and must not be set, or not to this value.
fn parameters(workload: &Workload, plan: &TrainPlan) -> Vec<String> {
    let found = catalog::find(&plan.workload, Some(&plan.accelerator)).ok();
    let Some(base) = found.and_then(|entry| entry.workload(&[]).ok()) else {
        return Vec::new();
    };
    let planned = workload.as_planned(plan);
    let theirs = base.differing_keys(&planned);
    let usual = |key: &str| {
        let found = theirs.iter().find(|(other, _)| other == key);
        found.map_or("nothing", |(_, value)| value.as_str())
    };
    let set = planned
        .differing_keys(&base)
        .into_iter()
        .filter(|(key, _)| freedom(key) != Freedom::Closed);
    let mut broken: Vec<String> = set
        .map(|(key, value)| {
            format!("{key} is {value}; it must be {} and may not be changed", usual(&key))
        })
        .collect();
    let vain = workload.without_effect.iter();
    let objects = plan.transport.path == PathKind::S3;
    broken.extend(vain.filter_map(|note| set_in_vain(note, &base, objects)));
    broken.extend(prefetch_fault(planned.reader.prefetch_size));
    broken
}

/// The error for a key that has no effect here but would in the official tool.
fn set_in_vain(note: &KeyNote, base: &Workload, objects: bool) -> Option<String> {
    let KeyNote { key, value, .. } = note;
    if key == "storage.storage_type" && objects == FILES.contains(&value.as_str()) {
        let read = if objects { "the dataset is objects" } else { "the dataset is files" };
        return Some(format!("storage.storage_type is {value}, and {read}"));
    }
    let free = matches!(freedom(key), Freedom::Closed | Freedom::Tool);
    let same = |other: &KeyNote| other.key == *key && other.value == *value;
    (!free && !base.without_effect.iter().any(same))
        .then(|| format!("{key} is set to {value}; it may not be changed"))
}

/// Checks how data is transferred: like the official tool, without tuning.
fn transfers(request: &TrainRequest, plan: &TrainPlan, edition: &EditionRules) -> Vec<String> {
    let path = plan.transport.path;
    // Other profiles have other defaults, which were not requested.
    let is_chosen = matches!(plan.profile, Profile::V2 | Profile::V3) || request.path.is_some();
    let is_v3 = edition.name == V3.name;
    let official = match path {
        PathKind::Buffered => true,
        PathKind::Cpu => is_v3 || plan.workload == "unet3d",
        PathKind::S3 => is_v3,
        _ => false,
    };
    let rules = [
        (plan.is_null(), "--path null reads no dataset".to_string()),
        (
            !plan.is_null() && is_chosen && !official,
            format!(
                "--path {path}; it must be buffered{}",
                if is_v3 { ", cpu (O_DIRECT) or s3" } else { ", or cpu (O_DIRECT) for unet3d" }
            ),
        ),
        (request.engine != EngineChoice::Auto, "--engine may not be set".to_string()),
    ];
    rules.into_iter().filter(|(broken, _)| *broken).map(|(_, what)| what).collect()
}

/// Whether the dataset meets the edition's size requirement on this host.
fn data(plan: &TrainPlan, host: &HostFacts, hosts: Option<&RequestedHosts>) -> Option<String> {
    if plan.data.files == 0 {
        // A missing dataset is reported without a rule.
        return None;
    }
    let mut request = SizeRequest::of_plan(plan, host);
    if let Some(all) = hosts {
        request.hosts = u64::from(all.hosts.max(1));
        request.host_memory_bytes = all.memory_bytes / request.hosts;
    }
    let needed = datasize(&request).ok()?;
    (!plan.is_null() && plan.data.files < needed.files).then(|| {
        let files = counted(plan.data.files, "file");
        let found = if plan.request.makes_dataset {
            format!("there is no whole dataset yet, and a run would first make one of {files}")
        } else {
            format!("{files} in the dataset")
        };
        format!(
            "{found}; five times this host's memory and 500 steps per epoch require {} (use --generate=full; \
             `stormlp datasize` shows the calculation)",
            needed.files
        )
    })
}

#[cfg(test)]
#[path = "rules_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
