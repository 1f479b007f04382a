//! Writes a workload to a file that the parser can read back.
//!
//! Uses the key names of MLPerf Storage v2.0 for every edition: `record_length_bytes`, a section
//! for the model.

use serde_yaml::{Mapping, Value};

use super::keys::KEYS;
use super::steps::{StepInputs, steps};
use super::workload::Workload;
use crate::plan::train_plan::TrainPlan;
use stormlp_core::workload_file::{line, sections};
use stormlp_dataset::section::DataFormat;

impl Workload {
    /// This workload with the values resolved in `plan`, so that its file yields the same plan
    /// again. Settings outside the workload are omitted: the number of accelerators, runs and
    /// threads, whether the run is cold, and its path beyond `reader.odirect`.
    #[must_use]
    pub fn as_planned(&self, plan: &TrainPlan) -> Self {
        let mut planned = self.clone();
        planned.accelerator.clone_from(&plan.accelerator);
        planned.edition = plan.profile;
        planned.edition_is_known = true;
        let dataset = &mut planned.dataset;
        dataset.num_files_train = plan.data.files;
        if let Some(folder) = &plan.data.folder {
            dataset.data_folder = Some(folder.to_string());
        }
        if !plan.is_null() {
            planned.reader.odirect = !plan.transport.path.uses_page_cache();
        }
        let train = &mut planned.train;
        train.epochs = plan.epochs;
        train.computation_time = plan.compute;
        let all = steps(&StepInputs::of(plan));
        train.total_training_steps = (plan.steps_per_epoch < all).then_some(plan.steps_per_epoch);
        planned.workflow.checkpoint = plan.checkpoint.is_some();
        planned
    }

    /// The workload file, with sections nested below `workload` as in Hydra. Parsing it yields this
    /// workload again, except for keys without effect. It is written as JSON, which is YAML with
    /// every string quoted: Python would read a bare `off` as False.
    ///
    /// # Panics
    /// Never: plain values can always be written as JSON.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let file = Mapping::from_iter([("workload".into(), sections(self.values()).into())]);
        let mut text = serde_json::to_string_pretty(&file).expect("plain values are JSON");
        text.push('\n');
        text
    }

    /// The keys with values that differ from `other`, with this workload's value in one line.
    /// Excludes accelerator and profile, which only stormlp has.
    #[must_use]
    pub fn differing_keys(&self, other: &Self) -> Vec<(String, String)> {
        let theirs = other.values();
        let ours = self.values().into_iter();
        ours.filter(|key| !theirs.contains(key) && !key.0.starts_with("stormlp."))
            .map(|(path, value)| (path.to_string(), line(&value)))
            .collect()
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        let mut values = KEYS.values(self);
        // Only one of the two sizes applies, and the one that DLIO ignores must remain ignored.
        if self.checkpoint.ignored_model_size_bytes.is_some() {
            values.retain(|(path, _)| *path != "model.model_size_bytes");
        }
        if self.dataset.format != DataFormat::Parquet {
            values.retain(|(path, _)| !path.starts_with("dataset.parquet."));
        }
        values
    }
}

#[cfg(test)]
#[path = "write_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
