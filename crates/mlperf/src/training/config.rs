//! The configuration folder: the workload as it ran, and in what it differs from the built-in one.

use serde_json::{Value, json};
use stormlp_core::units::GIB;
use stormlp_training::plan::catalog;
use stormlp_training::plan::train_plan::TrainPlan;
use stormlp_training::plan::workload::Workload;

use super::Run;
use crate::official as mlperf;

/// Listed whether they differ or not: MLPerf's own launcher always sets them.
const ALWAYS: [&str; 2] = ["dataset.num_files_train", "dataset.data_folder"];

/// What differs from the built-in workload, as Hydra's overrides: checkers of submissions take
/// what is listed here for changed. A workload that is not built in is its own base.
pub(super) fn overrides(plan: &TrainPlan, workload: &Workload) -> Vec<String> {
    let mut lines = vec![format!("workload={}_{}", plan.workload, plan.accelerator)];
    let built_in = catalog::find(&plan.workload, Some(&plan.accelerator)).ok();
    let own = built_in.and_then(|entry| entry.workload(&[]).ok());
    let mut base = own.unwrap_or_else(|| workload.clone());
    if plan.data.folder.is_some() {
        base.dataset.data_folder = None;
    }
    base.dataset.num_files_train = 0;
    let planned = workload.as_planned(plan);
    let mut differing = planned.differing_keys(&base);
    differing.sort_by_key(|(key, _)| !ALWAYS.contains(&key.as_str()));
    let set = |(key, value)| format!("++workload.{key}={value}");
    lines.extend(differing.into_iter().map(set));
    lines
}

/// The run as mlpstorage's options would say it.
pub(super) fn args(run: &Run) -> Value {
    let (plan, host) = (&run.report.plan, &run.report.head.host);
    let hosts = mlperf::names(host, run.report.results.group.as_ref());
    json!({
        "command": "run",
        "model": plan.workload,
        "accelerator_type": plan.accelerator,
        "num_accelerators": plan.accelerators,
        "num_processes": plan.accelerators,
        "hosts": hosts,
        "num_client_hosts": hosts.len(),
        "client_host_memory_in_gb": host.memory_bytes / GIB,
        "data_dir": plan.data.folder,
        "checkpoint_folder": plan.checkpoint.as_ref().map(|checkpoint| &checkpoint.folder),
    })
}
