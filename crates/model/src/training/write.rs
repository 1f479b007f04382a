//! A workload as a file: what the parser reads, written.
//!
//! The names are those of MLPerf Storage v2.0, whatever the edition: `record_length_bytes`, a
//! section for the model.

use serde_yaml::{Mapping, Number, Value};

use super::distribution::Distribution;
use super::edition::EditionFrom;
use super::plan::{ReadPattern, TrainPlan};
use super::request::StorageKind;
use super::resolve::default_transfer_bytes;
use super::steps::{Split, steps};
use super::workload::{DataFormat, ParquetColumn, ParquetSpec, Workload};

impl Workload {
    /// This workload with what `plan` decided, so that its file makes the same plan again. What is
    /// no part of a workload stays behind: how many accelerators, runs and threads there are,
    /// whether the run is cold, and which path it takes beyond `reader.odirect`.
    #[must_use]
    pub fn as_planned(&self, plan: &TrainPlan) -> Self {
        let mut planned = self.clone();
        planned.accelerator.clone_from(&plan.accelerator);
        planned.edition = plan.profile;
        planned.edition_from = EditionFrom::Name;
        let dataset = &mut planned.dataset;
        dataset.num_files_train = plan.data.files;
        dataset.num_samples_per_file = plan.data.samples_per_file;
        if let Some(folder) = &plan.data.folder {
            dataset.data_folder = Some(folder.to_string());
        }
        let reader = &mut planned.reader;
        reader.batch_size = plan.batch_size;
        reader.read_threads = plan.loader.read_threads();
        reader.prefetch_size = plan.loader.prefetch_size();
        if let ReadPattern::Records { transfer_size } = plan.reads {
            let usual = || default_transfer_bytes(plan.path);
            if reader.transfer_size.unwrap_or_else(usual) != transfer_size {
                reader.transfer_size = Some(transfer_size);
            }
        }
        if plan.storage == StorageKind::Real {
            reader.odirect = !plan.path.uses_page_cache();
        }
        let train = &mut planned.train;
        train.epochs = plan.epochs;
        train.computation_time = plan.compute;
        train.seed = plan.shuffle.seed;
        let all = steps(&Split::of(plan));
        train.total_training_steps = (plan.steps_per_epoch < all).then_some(plan.steps_per_epoch);
        if let Some(checkpoint) = &plan.checkpoint {
            planned.checkpoint.checkpoint_folder = checkpoint.folder.to_string();
        }
        planned
    }

    /// The file, its sections below `workload` as Hydra has them. Reading it gives this workload
    /// again, save for the keys that change nothing. It is JSON, which is YAML that quotes every
    /// word: Python would read a bare `off` as False.
    ///
    /// # Panics
    /// Never: plain values are JSON.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let file = section([("workload", self.sections())]);
        let mut text = serde_json::to_string_pretty(&file).expect("plain values are JSON");
        text.push('\n');
        text
    }

    /// The keys whose values are not those of `other`, with this workload's value in one line.
    /// Accelerator and profile, which are keys of stormlp alone, are not among them.
    #[must_use]
    pub fn differing_keys(&self, other: &Self) -> Vec<(String, String)> {
        let mut theirs = Vec::new();
        leaves("", &other.sections(), &mut theirs);
        let mut ours = Vec::new();
        leaves("", &self.sections(), &mut ours);
        ours.retain(|leaf| !theirs.contains(leaf) && !leaf.0.starts_with("stormlp."));
        ours
    }

    fn sections(&self) -> Value {
        section([
            (
                "stormlp",
                section([
                    ("accelerator", text(&self.accelerator)),
                    ("profile", text(self.edition.name())),
                ]),
            ),
            ("framework", text(self.reader.data_loader.into())),
            ("model", self.model()),
            (
                "workflow",
                section([
                    ("generate_data", false.into()),
                    ("train", self.workflow.train.into()),
                    ("evaluation", self.workflow.evaluation.into()),
                    ("checkpoint", self.workflow.checkpoint.into()),
                ]),
            ),
            ("dataset", self.dataset_section()),
            ("reader", self.reader_section()),
            ("train", self.train_section()),
            (
                "evaluation",
                section([
                    ("eval_time", time(self.evaluation.eval_time)),
                    ("eval_after_epoch", self.evaluation.eval_after_epoch.into()),
                    (
                        "epochs_between_evals",
                        self.evaluation.epochs_between_evals.into(),
                    ),
                ]),
            ),
            ("checkpoint", self.checkpoint_section()),
            (
                "metric",
                section([
                    ("au", number(self.metric.au)),
                    (
                        "exclude_start_steps",
                        self.metric.exclude_start_steps.into(),
                    ),
                    ("exclude_end_steps", self.metric.exclude_end_steps.into()),
                ]),
            ),
        ])
    }

    fn model(&self) -> Value {
        // Only one of the two sizes counts, and the one that DLIO does not read must stay unread.
        let (key, bytes) = match self.checkpoint.ignored_model_size_bytes {
            Some(bytes) => ("model_size", bytes),
            None => ("model_size_bytes", self.checkpoint.model_size_bytes),
        };
        section([("name", text(&self.name)), (key, bytes.into())])
    }

    fn dataset_section(&self) -> Value {
        let dataset = &self.dataset;
        let dims = || dataset.record_dims.iter().copied().map(Value::from);
        section([
            ("data_folder", optional(dataset.data_folder.clone())),
            ("format", text(dataset.format.name())),
            ("file_prefix", text(&dataset.file_prefix)),
            ("num_files_train", dataset.num_files_train.into()),
            ("num_files_eval", dataset.num_files_eval.into()),
            ("num_subfolders_train", dataset.num_subfolders_train.into()),
            ("num_subfolders_eval", dataset.num_subfolders_eval.into()),
            ("num_samples_per_file", dataset.num_samples_per_file.into()),
            ("record_length_bytes", number(dataset.record_length_bytes)),
            (
                "record_length_bytes_stdev",
                number(dataset.record_length_bytes_stdev),
            ),
            (
                "record_length_bytes_resize",
                number(dataset.record_length_bytes_resize),
            ),
            (
                "record_dims",
                optional((!dataset.record_dims.is_empty()).then(|| dims().collect::<Vec<Value>>())),
            ),
            ("record_element_bytes", dataset.record_element_bytes.into()),
            (
                "parquet",
                match dataset.format {
                    DataFormat::Parquet => parquet(&dataset.parquet),
                    _ => Value::Null,
                },
            ),
        ])
    }

    fn reader_section(&self) -> Value {
        let reader = &self.reader;
        section([
            ("data_loader", text(reader.data_loader.into())),
            ("batch_size", reader.batch_size.into()),
            ("batch_size_eval", reader.batch_size_eval.into()),
            ("read_threads", reader.read_threads.into()),
            ("computation_threads", reader.computation_threads.into()),
            ("prefetch_size", reader.prefetch_size.into()),
            ("file_shuffle", text(reader.file_shuffle.into())),
            ("sample_shuffle", text(reader.sample_shuffle.into())),
            ("shuffle_size", reader.shuffle_size.into()),
            ("transfer_size", optional(reader.transfer_size)),
            ("preprocess_time", time(reader.preprocess_time)),
            ("odirect", reader.odirect.into()),
        ])
    }

    fn train_section(&self) -> Value {
        let train = &self.train;
        section([
            ("epochs", train.epochs.into()),
            ("total_training_steps", optional(train.total_training_steps)),
            ("computation_time", time(train.computation_time)),
            ("seed", train.seed.into()),
            ("seed_change_epoch", train.seed_change_epoch.into()),
        ])
    }

    fn checkpoint_section(&self) -> Value {
        let checkpoint = &self.checkpoint;
        section([
            ("checkpoint_folder", text(&checkpoint.checkpoint_folder)),
            (
                "checkpoint_after_epoch",
                checkpoint.checkpoint_after_epoch.into(),
            ),
            (
                "epochs_between_checkpoints",
                checkpoint.epochs_between_checkpoints.into(),
            ),
            (
                "steps_between_checkpoints",
                optional(checkpoint.steps_between_checkpoints),
            ),
        ])
    }
}

/// A map of keys and values; a value that is not given leaves its key out.
fn section<const N: usize>(keys: [(&str, Value); N]) -> Value {
    let given = keys.into_iter().filter(|(_, value)| !value.is_null());
    let map: Mapping = given
        .map(|(key, value)| (Value::from(key), value))
        .collect();
    Value::Mapping(map)
}

fn text(text: &str) -> Value {
    Value::String(text.to_string())
}

fn optional<T: Into<Value>>(value: Option<T>) -> Value {
    value.map_or(Value::Null, Into::into)
}

/// A number, without a point where it is whole: sizes are counts to most readers.
fn number(number: f64) -> Value {
    // 2^53: up to there every whole number is exact.
    if number >= 0.0 && number.fract() == 0.0 && number < 9_007_199_254_740_992.0 {
        Value::Number(Number::from(number as u64))
    } else {
        Value::Number(Number::from(number))
    }
}

/// Seconds, or the map with `type` that DLIO takes for what is drawn.
fn time(time: Distribution) -> Value {
    let drawn = |kind: &str, parts: [(&str, f64); 2]| {
        let [first, second] = parts.map(|(name, value)| (name, number(value)));
        section([("type", text(kind)), first, second])
    };
    match time {
        Distribution::Constant { seconds } => number(seconds),
        Distribution::Normal { mean, stdev } => drawn("normal", [("mean", mean), ("stdev", stdev)]),
        Distribution::Uniform { min, max } => drawn("uniform", [("min", min), ("max", max)]),
        Distribution::Gamma { shape, scale } => {
            drawn("gamma", [("shape", shape), ("scale", scale)])
        }
        Distribution::Exponential { scale } => {
            section([("type", text("exponential")), ("scale", number(scale))])
        }
        Distribution::Poisson { lam } => section([("type", text("poisson")), ("lam", number(lam))]),
    }
}

fn parquet(spec: &ParquetSpec) -> Value {
    let column = |column: &ParquetColumn| {
        section([
            ("name", text(&column.name)),
            ("dtype", text(column.dtype.name())),
            ("size", column.size.into()),
            ("read", column.read.into()),
        ])
    };
    section([
        (
            "columns",
            Value::Sequence(spec.columns.iter().map(column).collect()),
        ),
        ("row_group_size", spec.row_group_size.into()),
        ("generation_batch_size", spec.generation_batch_size.into()),
    ])
}

/// Every key of `value` with its dotted path. Times and lists are values, not sections.
fn leaves(path: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Mapping(map) if !map.contains_key("type") => {
            for (key, value) in map {
                let key = key.as_str().unwrap_or_default();
                leaves(&super::keys::join(path, key), value, found);
            }
        }
        Value::String(text) => found.push((path.to_string(), text.clone())),
        // JSON is YAML in one line.
        other => {
            let line = serde_json::to_string(other).expect("plain values are JSON");
            found.push((path.to_string(), line));
        }
    }
}

#[cfg(test)]
#[path = "write_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
