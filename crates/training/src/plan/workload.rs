//! A training workload: the content of a workload file, under MLPerf's key names.
//!
//! Only `TrainPlan::resolve` and the dataset generator's resolver read a `Workload`; the run never
//! sees it.

use serde::{Deserialize, Serialize};
use stormlp_dataset::section::DatasetSpec;
use strum::IntoStaticStr;

use super::distribution::Distribution;
use stormlp_core::profile::Profile;
use stormlp_core::workload_file::KeyNote;

/// Default state size of DLIO's training checkpoint in bytes.
pub const DEFAULT_MODEL_BYTES: u64 = 10_240;

/// A training workload with all defaults filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The model's name (`model.name`), which also names the default dataset folder.
    pub name: String,
    /// The emulated accelerator; `custom` when the file does not name one.
    pub accelerator: String,
    /// The edition the file belongs to.
    pub edition: Profile,
    /// Whether the file names or shows its edition; otherwise stormlp's definitions apply.
    pub edition_is_known: bool,
    /// `workflow`: the phases to run.
    pub workflow: Workflow,
    /// Whether the file has dataset settings; otherwise all are DLIO's defaults.
    pub describes_dataset: bool,
    /// `dataset`.
    pub dataset: DatasetSpec,
    /// `reader`.
    pub reader: ReaderSpec,
    /// `train`.
    pub train: TrainSpec,
    /// `checkpoint`, as far as training uses it.
    pub checkpoint: CheckpointSpec,
    /// `metric`.
    pub metric: MetricSpec,
    /// Keys that are accepted but have no effect here, with the reason.
    pub without_effect: Vec<KeyNote>,
}

/// `workflow`: the phases to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workflow {
    /// Whether the training loop runs.
    pub train: bool,
    /// Whether training writes checkpoints.
    pub checkpoint: bool,
}

/// The loader with the emulated concurrency (`reader.data_loader`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DataLoader {
    /// Workers that each read whole batches (also stands in for DALI's external source).
    Pytorch,
    /// tf.data: parallel interleave, shuffle buffer, prefetch.
    Tensorflow,
}

/// How an order is shuffled.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Shuffle {
    /// In order.
    #[default]
    Off,
    /// Reproducibly, from the seed.
    Seed,
    /// Differently in every run.
    Random,
}

/// `reader`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReaderSpec {
    /// `data_loader`.
    pub data_loader: DataLoader,
    /// `batch_size`, per accelerator.
    pub batch_size: u32,
    /// `read_threads`, per accelerator; 0 reads inline without overlap.
    pub read_threads: u32,
    /// `computation_threads`: parallel parse calls of the TensorFlow loader.
    pub computation_threads: u32,
    /// `prefetch_size`.
    pub prefetch_size: u32,
    /// `file_shuffle`.
    pub file_shuffle: Shuffle,
    /// `sample_shuffle`.
    pub sample_shuffle: Shuffle,
    /// `shuffle_size`: records in the TensorFlow loader's shuffle buffer.
    pub shuffle_size: u64,
    /// `transfer_size`: bytes per read of the TensorFlow loader; `None` means its default of 256
    /// KiB, or 1 MiB under O_DIRECT.
    pub transfer_size: Option<u64>,
    /// `preprocess_time`, slept per sample in the reading worker.
    pub preprocess_time: Distribution,
    /// `odirect`.
    pub odirect: bool,
}

/// `train`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainSpec {
    /// `epochs`.
    pub epochs: u32,
    /// `total_training_steps`, per epoch (as DLIO counts); `None` is all.
    pub total_training_steps: Option<u64>,
    /// `computation_time`.
    pub computation_time: Distribution,
    /// `seed`.
    pub seed: u64,
    /// `seed_change_epoch`: whether the epoch is added to the seed.
    pub seed_change_epoch: bool,
}

/// `checkpoint`, as far as training uses it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointSpec {
    /// `checkpoint_folder`.
    pub checkpoint_folder: String,
    /// `checkpoint_after_epoch`: the first epoch followed by a checkpoint.
    pub checkpoint_after_epoch: u32,
    /// `epochs_between_checkpoints`.
    pub epochs_between_checkpoints: u32,
    /// `steps_between_checkpoints`; `None` writes only at ends of epochs.
    pub steps_between_checkpoints: Option<u64>,
    /// State size of one accelerator in bytes. The key it is read from depends on the profile: the
    /// shipped unet3d files set `model_size`, which DLIO does not read.
    pub model_size_bytes: u64,
    /// `model.model_size`, the key that DLIO ignores, kept for the warning.
    pub ignored_model_size_bytes: Option<u64>,
}

/// `metric`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricSpec {
    /// `au`: the target accelerator utilisation, 0 to 1.
    pub au: f64,
    /// `exclude_start_steps`: steps of each block that AU excludes.
    pub exclude_start_steps: u64,
    /// `exclude_end_steps`.
    pub exclude_end_steps: u64,
}

impl MetricSpec {
    /// Steps of each block that AU excludes.
    pub fn excluded_steps(&self) -> u64 {
        self.exclude_start_steps.saturating_add(self.exclude_end_steps)
    }

    /// Steps that a block needs for AU and throughput: one more than the excluded steps, and two
    /// more under v2.0, where throughput counts one step less than it measures.
    pub(super) fn steps_needed(&self, profile: Profile) -> u64 {
        let more = if profile == Profile::V2 { 2 } else { 1 };
        self.excluded_steps().saturating_add(more)
    }
}

impl Workload {
    /// The profile of a run: the requested one, or the workload's edition.
    pub fn profile(&self, asked: Option<Profile>) -> Profile {
        asked.unwrap_or(self.edition)
    }
}

/// DLIO's defaults.
impl Default for Workload {
    fn default() -> Self {
        Self {
            name: String::new(),
            accelerator: "custom".to_string(),
            edition: Profile::Native,
            edition_is_known: false,
            workflow: Workflow { train: true, checkpoint: false },
            describes_dataset: false,
            dataset: DatasetSpec::default(),
            reader: ReaderSpec::default(),
            train: TrainSpec {
                epochs: 1,
                total_training_steps: None,
                computation_time: Distribution::ZERO,
                seed: 123,
                seed_change_epoch: true,
            },
            checkpoint: CheckpointSpec {
                checkpoint_folder: "./checkpoints/".to_string(),
                checkpoint_after_epoch: 1,
                epochs_between_checkpoints: 1,
                steps_between_checkpoints: None,
                model_size_bytes: DEFAULT_MODEL_BYTES,
                ignored_model_size_bytes: None,
            },
            metric: MetricSpec { au: 0.90, exclude_start_steps: 1, exclude_end_steps: 0 },
            without_effect: Vec::new(),
        }
    }
}

impl Default for ReaderSpec {
    fn default() -> Self {
        Self {
            data_loader: DataLoader::Tensorflow,
            batch_size: 1,
            read_threads: 1,
            computation_threads: 1,
            prefetch_size: 2,
            file_shuffle: Shuffle::Off,
            sample_shuffle: Shuffle::Off,
            shuffle_size: 1024,
            transfer_size: None,
            preprocess_time: Distribution::ZERO,
            odirect: false,
        }
    }
}
