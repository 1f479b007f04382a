//! From values to a [`Workload`]: DLIO's defaults, and what cannot be emulated.

use std::collections::BTreeSet;

use serde_yaml::Value;

use super::distribution::Distribution;
use super::edition::{self, EditionFrom};
use super::keys::{Effect, KEYS};
use super::params;
use super::profile::Profile;
use super::request::{MAX_EPOCHS, MAX_PREFETCH, MAX_READ_THREADS};
use super::values;
use super::workload::{
    CheckpointSpec, DataFormat, DataLoader, DatasetSpec, EvaluationSpec, KeyNote, MetricSpec,
    ParquetColumn, ParquetSpec, ReaderSpec, Shuffle, TrainSpec, Workflow, Workload,
};
use super::yaml::{self, Values, WorkloadError};

/// Bytes of the state that DLIO's training checkpoint has when nothing else is said.
pub const DEFAULT_MODEL_BYTES: u64 = 10_240;

impl Workload {
    /// Reads the workload file `text`; `source_name` is what error messages call it, and names
    /// model and accelerator (`unet3d_h100.yaml`) where the file itself does not. Each of
    /// `params` is a `key=value` that wins over the file.
    ///
    /// # Errors
    /// With everything that is wrong with it, line by line.
    pub fn parse(text: &str, source_name: &str, params: &[String]) -> Result<Self, WorkloadError> {
        let mut contents = yaml::read(text, source_name)?;
        params::set(&mut contents.values, params)?;
        let (stem_name, stem_accelerator) = names_of(source_name);
        Builder {
            values: &contents.values,
            written: &contents.written,
            faults: Vec::new(),
        }
        .workload(&stem_name, stem_accelerator.as_deref())
        .map_err(|messages| WorkloadError::of(source_name, messages))
    }
}

/// Model and accelerator of `…/unet3d_h100.yaml`, and of `…/unet3d_h100_s3.yaml`.
fn names_of(source_name: &str) -> (String, Option<String>) {
    let base = source_name.rsplit('/').next().unwrap_or(source_name);
    let stem = base.rsplit_once('.').map_or(base, |(stem, _)| stem);
    let parts: Vec<&str> = stem.split('_').collect();
    match parts
        .iter()
        .rposition(|part| Profile::of_accelerator(part).is_some())
    {
        Some(at) if at > 0 => (parts[..at].join("_"), Some(parts[at].to_string())),
        _ => (stem.to_string(), None),
    }
}

struct Builder<'a> {
    values: &'a Values,
    written: &'a BTreeSet<&'static str>,
    faults: Vec<String>,
}

impl Builder<'_> {
    fn get(&self, path: &str) -> Option<&Value> {
        self.values.get(path).filter(|value| !value.is_null())
    }

    fn count(&self, path: &str, default: u64) -> u64 {
        self.get(path).and_then(values::count).unwrap_or(default)
    }

    fn small(&mut self, path: &str, default: u32) -> u32 {
        self.up_to(u32::MAX, path, default)
    }

    fn up_to(&mut self, most: u32, path: &str, default: u32) -> u32 {
        let count = self.count(path, u64::from(default));
        match u32::try_from(count) {
            Ok(small) if small <= most => small,
            _ => {
                self.faults
                    .push(format!("`{path}` is {count}: it may be {most} at most"));
                default
            }
        }
    }

    fn number(&self, path: &str, default: f64) -> f64 {
        self.get(path).and_then(values::number).unwrap_or(default)
    }

    fn flag(&self, path: &str, default: bool) -> bool {
        self.get(path).and_then(values::boolean).unwrap_or(default)
    }

    fn text(&self, path: &str) -> Option<String> {
        self.get(path).and_then(values::text)
    }

    fn shuffle(&self, path: &str) -> Shuffle {
        self.get(path).and_then(values::shuffle).unwrap_or_default()
    }

    /// A time, with the older form of a Gaussian: a number and a `_stdev` beside it.
    fn time(&self, path: &str, stdev_path: &str) -> Distribution {
        let found = self
            .get(path)
            .and_then(|value| values::distribution(value).ok())
            .unwrap_or(Distribution::ZERO);
        match (found, self.number(stdev_path, 0.0)) {
            (Distribution::Constant { seconds: mean }, stdev) if stdev > 0.0 => {
                Distribution::Normal { mean, stdev }
            }
            (found, _) => found,
        }
    }

    fn parsed<T: std::str::FromStr<Err = String>>(&mut self, path: &str) -> Option<T> {
        match self.text(path)?.to_ascii_lowercase().parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.faults.push(format!("`{path}`: {error}"));
                None
            }
        }
    }

    fn workload(mut self, name: &str, accelerator: Option<&str>) -> Result<Workload, Vec<String>> {
        let accelerator = self
            .text("stormlp.accelerator")
            .or_else(|| accelerator.map(str::to_string))
            .unwrap_or_else(|| "custom".to_string());
        let dataset = self.dataset();
        let (edition, edition_from) = match self.parsed("stormlp.profile") {
            Some(profile) => (profile, EditionFrom::Name),
            None => edition::of_file(&accelerator, self.written, dataset.format),
        };
        let workload = Workload {
            name: self.name(name),
            accelerator,
            edition,
            edition_from,
            describes_dataset: self.has_section("dataset"),
            workflow: Workflow {
                train: self.flag("workflow.train", true),
                evaluation: self.flag("workflow.evaluation", false),
                checkpoint: self.flag("workflow.checkpoint", false),
            },
            dataset,
            reader: self.reader(),
            train: self.train(),
            evaluation: EvaluationSpec {
                eval_time: self.time("evaluation.eval_time", "evaluation.eval_time_stdev"),
                eval_after_epoch: self.small("evaluation.eval_after_epoch", 1),
                epochs_between_evals: self.small("evaluation.epochs_between_evals", 1),
            },
            checkpoint: self.checkpoint(),
            metric: MetricSpec {
                au: self.number("metric.au", 0.90),
                exclude_start_steps: self.count("metric.exclude_start_steps", 1),
                exclude_end_steps: self.count("metric.exclude_end_steps", 0),
            },
            without_effect: self.notes(),
        };
        if self.faults.is_empty() {
            Ok(workload)
        } else {
            Err(self.faults)
        }
    }

    fn has_section(&self, name: &str) -> bool {
        let mut sections = self.values.keys().filter_map(|path| path.split_once('.'));
        sections.any(|(section, _)| section == name)
    }

    /// The model's name, which becomes part of the names of folders.
    fn name(&mut self, of_file: &str) -> String {
        let name = self
            .text("model.name")
            .unwrap_or_else(|| of_file.to_string());
        let is_one_word = !name.trim_matches('.').is_empty()
            && !name.contains(|c: char| c == '/' || c.is_control());
        if !is_one_word {
            self.faults.push(format!(
                "`model.name` is `{}`: it names folders of datasets and results, so write a word \
                 without `/`",
                name.escape_debug()
            ));
        }
        name
    }

    /// `record_length_bytes`; of parquet with columns their sum, whatever the key says, as v3.0's
    /// DLIO has it.
    fn record_length_bytes(&self, format: DataFormat, columns: &[ParquetColumn]) -> f64 {
        let sum: u64 = columns
            .iter()
            .fold(0, |sum, column| sum.saturating_add(column.row_bytes()));
        if format == DataFormat::Parquet && sum > 0 {
            return sum as f64;
        }
        self.number("dataset.record_length_bytes", 65_536.0)
    }

    fn dataset(&mut self) -> DatasetSpec {
        let element = self.text("dataset.record_element_type");
        let element_bytes = match element.as_deref() {
            None => 1,
            Some(name) => element_bytes(name).unwrap_or_else(|| {
                self.faults.push(format!(
                    "`dataset.record_element_type` is `{name}`: write a numpy type such as uint8 \
                     or float32"
                ));
                1
            }),
        };
        let columns = self
            .get("dataset.parquet.columns")
            .and_then(|value| values::columns(value).ok())
            .unwrap_or_default();
        let format = self
            .parsed("dataset.format")
            .unwrap_or(DataFormat::Tfrecord);
        DatasetSpec {
            data_folder: self.text("dataset.data_folder"),
            format,
            file_prefix: self
                .text("dataset.file_prefix")
                .unwrap_or_else(|| "img".to_string()),
            num_files_train: self.count("dataset.num_files_train", 8),
            num_files_eval: self.count("dataset.num_files_eval", 0),
            num_subfolders_train: self.count("dataset.num_subfolders_train", 0),
            num_subfolders_eval: self.count("dataset.num_subfolders_eval", 0),
            num_samples_per_file: u64::from(self.small("dataset.num_samples_per_file", 1)),
            record_length_bytes: self.record_length_bytes(format, &columns),
            record_length_bytes_stdev: self.number("dataset.record_length_bytes_stdev", 0.0),
            record_length_bytes_resize: self.number("dataset.record_length_bytes_resize", 0.0),
            record_dims: self
                .get("dataset.record_dims")
                .and_then(values::counts)
                .unwrap_or_default(),
            record_element_bytes: self.count("dataset.record_element_bytes", element_bytes),
            parquet: ParquetSpec {
                columns,
                row_group_size: self.count("dataset.parquet.row_group_size", 1024),
                generation_batch_size: self.count("dataset.parquet.generation_batch_size", 0),
            },
        }
    }

    fn reader(&mut self) -> ReaderSpec {
        let loader = self.text("reader.data_loader");
        let data_loader = match loader.as_deref() {
            None | Some("tensorflow") => DataLoader::Tensorflow,
            Some("pytorch" | "dali" | "native_dali") => DataLoader::Pytorch,
            Some("synthetic") => {
                self.faults.push(
                    "`reader.data_loader` is `synthetic`, which reads nothing: leave it out and \
                     run with --storage null"
                        .to_string(),
                );
                DataLoader::Pytorch
            }
            Some(other) => {
                self.faults.push(format!(
                    "`reader.data_loader` is `{other}`: use tensorflow, pytorch or dali"
                ));
                DataLoader::Pytorch
            }
        };
        ReaderSpec {
            data_loader,
            batch_size: self.small("reader.batch_size", 1),
            batch_size_eval: self.small("reader.batch_size_eval", 1),
            read_threads: self.up_to(MAX_READ_THREADS, "reader.read_threads", 1),
            computation_threads: self.small("reader.computation_threads", 1),
            prefetch_size: self.up_to(MAX_PREFETCH, "reader.prefetch_size", 2),
            file_shuffle: self.shuffle("reader.file_shuffle"),
            sample_shuffle: self.shuffle("reader.sample_shuffle"),
            shuffle_size: self.count("reader.shuffle_size", 1024),
            transfer_size: self.get("reader.transfer_size").and_then(values::count),
            preprocess_time: self.time("reader.preprocess_time", "reader.preprocess_time_stdev"),
            odirect: self.flag("reader.odirect", false),
        }
    }

    fn train(&mut self) -> TrainSpec {
        TrainSpec {
            epochs: self.up_to(MAX_EPOCHS, "train.epochs", 1),
            total_training_steps: self
                .get("train.total_training_steps")
                .and_then(values::count)
                .filter(|steps| *steps > 0),
            computation_time: self.time("train.computation_time", "train.computation_time_stdev"),
            seed: self.count("train.seed", 123),
            seed_change_epoch: self.flag("train.seed_change_epoch", true),
        }
    }

    fn checkpoint(&mut self) -> CheckpointSpec {
        CheckpointSpec {
            checkpoint_folder: self
                .text("checkpoint.checkpoint_folder")
                .unwrap_or_else(|| "./checkpoints/".to_string()),
            checkpoint_after_epoch: self.small("checkpoint.checkpoint_after_epoch", 1),
            epochs_between_checkpoints: self.small("checkpoint.epochs_between_checkpoints", 1),
            steps_between_checkpoints: self
                .get("checkpoint.steps_between_checkpoints")
                .and_then(values::count),
            model_size_bytes: self.count("model.model_size_bytes", DEFAULT_MODEL_BYTES),
            ignored_model_size_bytes: self
                .get("model.model_size")
                .and_then(values::count)
                .filter(|_| self.get("model.model_size_bytes").is_none()),
        }
    }

    fn notes(&self) -> Vec<KeyNote> {
        KEYS.iter()
            .filter(|key| self.values.contains_key(key.path))
            .filter_map(|key| match key.effect {
                Effect::Ignored(reason) => Some(KeyNote {
                    key: key.path.to_string(),
                    reason: reason.to_string(),
                }),
                _ => None,
            })
            .collect()
    }
}

/// Bytes of a numpy type by its name.
fn element_bytes(name: &str) -> Option<u64> {
    let bits: String = name.chars().filter(char::is_ascii_digit).collect();
    let letters: String = name.chars().filter(|c| !c.is_ascii_digit()).collect();
    match (letters.as_str(), bits.as_str()) {
        ("uint" | "int", "8") | ("bool", "") => Some(1),
        ("uint" | "int" | "float" | "bfloat", "16") => Some(2),
        ("uint" | "int" | "float", "32") => Some(4),
        ("uint" | "int" | "float", "64") => Some(8),
        _ => None,
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
