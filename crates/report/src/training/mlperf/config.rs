//! The configuration folder: the workload as it ran, and in what it differs from the built-in one.

use serde_json::json;
use stormlp_model::training::catalog;
use stormlp_model::training::plan::TrainPlan;
use stormlp_model::training::workload::Workload;

use super::pretty;

/// Listed whether they differ or not: MLPerf's own launcher always sets them.
const ALWAYS: [&str; 2] = ["dataset.num_files_train", "dataset.data_folder"];

/// What differs from the built-in workload, as Hydra's overrides: checkers of submissions take
/// what is listed here for changed. A workload that is not built in is its own base.
pub(super) fn overrides(plan: &TrainPlan, workload: &Workload) -> String {
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
    // A list of words, quoted where YAML would take them for something else.
    serde_yaml::to_string(&lines).expect("words are YAML")
}

/// What Hydra would say of the job.
pub(super) fn hydra(plan: &TrainPlan, folder: &str) -> String {
    pretty(&json!({"hydra": {
        "job": {"name": "stormlp"},
        "runtime": {
            "output_dir": folder,
            "choices": {"workload": format!("{}_{}", plan.workload, plan.accelerator)},
        },
    }}))
}
