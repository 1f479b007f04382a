//! Workload files under MLPerf's and DLIO's keys.
//!
//! The sections a checkpoint follows from are read strictly: an unknown key is an error with its
//! line and column. The other sections of a DLIO file (`dataset`, `reader`, …) are let through
//! unread, so that DLIO's own files run unchanged.

use serde::Deserialize;

use super::architecture::{Architecture, DataType};
use super::parallelism::ZeroStage;
use super::workload::{CheckpointWorkload, Mode};

/// A workload file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// It is no YAML, has an unknown key, or a value of the wrong type; the text has the place.
    #[error("{0}")]
    Malformed(String),
    /// It describes no transformer.
    #[error(
        "`model.type` is {0}; only `transformer` models have checkpoints whose files follow \
         from the model"
    )]
    NoTransformer(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSpec {
    model: ModelSpec,
    #[serde(default)]
    checkpoint: Option<CheckpointSpec>,
    #[serde(default)]
    workflow: Option<serde_yaml::Value>,
    #[serde(default)]
    framework: Option<serde_yaml::Value>,
    #[serde(default)]
    storage: Option<serde_yaml::Value>,
    #[serde(default)]
    dataset: Option<serde_yaml::Value>,
    #[serde(default)]
    reader: Option<serde_yaml::Value>,
    #[serde(default)]
    data_reader: Option<serde_yaml::Value>,
    #[serde(default)]
    train: Option<serde_yaml::Value>,
    #[serde(default)]
    evaluation: Option<serde_yaml::Value>,
    #[serde(default)]
    output: Option<serde_yaml::Value>,
    #[serde(default)]
    profiling: Option<serde_yaml::Value>,
    #[serde(default)]
    metric: Option<serde_yaml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelSpec {
    #[serde(default = "unnamed")]
    name: String,
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default = "one")]
    num_layers: u64,
    #[serde(default)]
    model_datatype: Option<DataType>,
    #[serde(default)]
    optimizer_datatype: Option<DataType>,
    #[serde(default)]
    parallelism: ParallelismSpec,
    #[serde(default)]
    transformer: TransformerSpec,
    #[serde(default)]
    model_size: Option<serde_yaml::Value>,
    #[serde(default)]
    model_size_bytes: Option<serde_yaml::Value>,
    #[serde(default)]
    optimization_groups: Option<serde_yaml::Value>,
    #[serde(default)]
    layer_parameters: Option<serde_yaml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ParallelismSpec {
    tensor: u64,
    pipeline: u64,
    data: i64,
    zero_stage: ZeroStage,
}

impl Default for ParallelismSpec {
    fn default() -> Self {
        Self {
            tensor: 1,
            pipeline: 1,
            data: -1,
            zero_stage: ZeroStage::Zero,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TransformerSpec {
    vocab_size: u64,
    hidden_size: u64,
    ffn_hidden_size: u64,
    num_attention_heads: u64,
    num_kv_heads: u64,
    // DLIO reads these one level up, under `model`, and passes over them here.
    num_layers: Option<serde_yaml::Value>,
    model_datatype: Option<serde_yaml::Value>,
    optimizer_datatype: Option<serde_yaml::Value>,
}

impl Default for TransformerSpec {
    fn default() -> Self {
        Self {
            vocab_size: 32_000,
            hidden_size: 2048,
            ffn_hidden_size: 8192,
            num_attention_heads: 32,
            num_kv_heads: 8,
            num_layers: None,
            model_datatype: None,
            optimizer_datatype: None,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CheckpointSpec {
    checkpoint_folder: Option<String>,
    mode: Mode,
    num_checkpoints_write: Option<i64>,
    num_checkpoints_read: Option<i64>,
    time_between_checkpoints: Option<f64>,
    fsync: Option<bool>,
    recovery_rank_shift: bool,
    model_datatype: Option<DataType>,
    optimizer_datatype: Option<DataType>,
    // Accepted as DLIO accepts them; they shape training, or nothing at all.
    num_checkpoints: Option<serde_yaml::Value>,
    model_size: Option<serde_yaml::Value>,
    recovery_after_steps: Option<serde_yaml::Value>,
    checkpoint_after_epoch: Option<serde_yaml::Value>,
    epochs_between_checkpoints: Option<serde_yaml::Value>,
    steps_between_checkpoints: Option<serde_yaml::Value>,
    #[serde(rename = "type")]
    kind: Option<serde_yaml::Value>,
    rank_sync: Option<serde_yaml::Value>,
    randomize_tensor: Option<serde_yaml::Value>,
    ksm: Option<serde_yaml::Value>,
    checkpoint_mechanism_classname: Option<serde_yaml::Value>,
}

fn one() -> u64 {
    1
}

/// What DLIO calls a model without a name.
fn unnamed() -> String {
    "default".to_string()
}

/// Reads a workload file.
///
/// # Errors
/// When the text is no YAML, has an unknown key in a section that matters, a value of the wrong
/// type, or describes something else than a transformer.
pub fn parse(text: &str) -> Result<CheckpointWorkload, YamlError> {
    let file: FileSpec =
        serde_yaml::from_str(text).map_err(|error| YamlError::Malformed(error.to_string()))?;
    match file.model.kind.as_deref() {
        Some("transformer") => {}
        Some(other) => return Err(YamlError::NoTransformer(format!("`{other}`"))),
        None => return Err(YamlError::NoTransformer("not given".to_string())),
    }
    let without_effect = file.without_effect();
    let (model, checkpoint) = (file.model, file.checkpoint.unwrap_or_default());
    let (writes, reads) = counts(&checkpoint);
    let shape = &model.transformer;
    Ok(CheckpointWorkload {
        name: model.name,
        architecture: Architecture {
            vocab_size: shape.vocab_size,
            hidden_size: shape.hidden_size,
            ffn_hidden_size: shape.ffn_hidden_size,
            num_layers: model.num_layers,
            num_attention_heads: shape.num_attention_heads,
            num_kv_heads: shape.num_kv_heads,
        },
        tensor: model.parallelism.tensor,
        pipeline: model.parallelism.pipeline,
        data: u64::try_from(model.parallelism.data).ok(),
        zero_stage: model.parallelism.zero_stage,
        model_datatype: model
            .model_datatype
            .or(checkpoint.model_datatype)
            .unwrap_or(DataType::Fp16),
        optimizer_datatype: model
            .optimizer_datatype
            .or(checkpoint.optimizer_datatype)
            .unwrap_or(DataType::Fp32),
        mode: checkpoint.mode,
        writes,
        reads,
        pause_seconds: checkpoint
            .time_between_checkpoints
            .filter(|seconds| *seconds >= 0.0),
        fsync: checkpoint.fsync,
        folder: checkpoint.checkpoint_folder,
        rank_shift: checkpoint.recovery_rank_shift,
        without_effect,
    })
}

/// How many checkpoints the file says to save and to restore. DLIO skips what is 0 or −1; a file
/// that skips both, as one for training does, says nothing about them.
fn counts(checkpoint: &CheckpointSpec) -> (Option<u32>, Option<u32>) {
    let count =
        |value: Option<i64>| value.map(|value| u32::try_from(value.max(0)).unwrap_or(u32::MAX));
    match (
        count(checkpoint.num_checkpoints_write),
        count(checkpoint.num_checkpoints_read),
    ) {
        (None | Some(0), None | Some(0)) => (None, None),
        counts => counts,
    }
}

impl FileSpec {
    /// Keys of the file that change nothing about a checkpoint run.
    fn without_effect(&self) -> Vec<String> {
        let checkpoint = self.checkpoint.as_ref();
        let shape = &self.model.transformer;
        let of = |pick: fn(&CheckpointSpec) -> &Option<serde_yaml::Value>| {
            checkpoint.is_some_and(|spec| pick(spec).is_some())
        };
        [
            ("framework", self.framework.is_some()),
            ("workflow", self.workflow.is_some()),
            ("storage", self.storage.is_some()),
            ("dataset", self.dataset.is_some()),
            (
                "reader",
                self.reader.is_some() || self.data_reader.is_some(),
            ),
            ("train", self.train.is_some()),
            ("evaluation", self.evaluation.is_some()),
            ("output", self.output.is_some()),
            ("profiling", self.profiling.is_some()),
            ("metric", self.metric.is_some()),
            ("model.model_size", self.model.model_size.is_some()),
            (
                "model.model_size_bytes",
                self.model.model_size_bytes.is_some(),
            ),
            (
                "model.optimization_groups",
                self.model.optimization_groups.is_some(),
            ),
            (
                "model.layer_parameters",
                self.model.layer_parameters.is_some(),
            ),
            (
                "model.transformer.num_layers (DLIO reads model.num_layers)",
                shape.num_layers.is_some(),
            ),
            (
                "model.transformer.model_datatype (DLIO reads model.model_datatype)",
                shape.model_datatype.is_some(),
            ),
            (
                "model.transformer.optimizer_datatype (DLIO reads model.optimizer_datatype)",
                shape.optimizer_datatype.is_some(),
            ),
            (
                "checkpoint.num_checkpoints",
                of(|spec| &spec.num_checkpoints),
            ),
            ("checkpoint.model_size", of(|spec| &spec.model_size)),
            (
                "checkpoint.recovery_after_steps",
                of(|spec| &spec.recovery_after_steps),
            ),
            (
                "checkpoint.checkpoint_after_epoch",
                of(|spec| &spec.checkpoint_after_epoch),
            ),
            (
                "checkpoint.epochs_between_checkpoints",
                of(|spec| &spec.epochs_between_checkpoints),
            ),
            (
                "checkpoint.steps_between_checkpoints",
                of(|spec| &spec.steps_between_checkpoints),
            ),
            ("checkpoint.type", of(|spec| &spec.kind)),
            ("checkpoint.rank_sync", of(|spec| &spec.rank_sync)),
            (
                "checkpoint.randomize_tensor",
                of(|spec| &spec.randomize_tensor),
            ),
            ("checkpoint.ksm", of(|spec| &spec.ksm)),
            (
                "checkpoint.checkpoint_mechanism_classname",
                of(|spec| &spec.checkpoint_mechanism_classname),
            ),
        ]
        .into_iter()
        .filter(|(_, given)| *given)
        .map(|(key, _)| key.to_string())
        .collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OLD_DLIO: &str = "\
model:\x20
  name: llama_70b
  type: transformer
  model_size: 30102
  num_layers: 80
  parallelism:\x20
    tensor: 8
    pipeline: 4
    zero_stage: 1
  transformer:\x20
    vocab_size: 128000
    hidden_size: 8192
    ffn_hidden_size: 28672

framework: pytorch

workflow:
  generate_data: True
  train: True
  checkpoint: True

dataset:\x20
  data_folder: data/llama_70b/
  format: mmap_indexed_binary

reader:\x20
  data_loader: pytorch

train:
  epochs: 1

checkpoint:
  checkpoint_folder: checkpoints/llama_70b
  steps_between_checkpoints: 1
  model_datatype: fp16
  optimizer_datatype: fp32
  fsync: True
";

    #[test]
    fn files_written_for_dlio_run_unchanged() {
        let workload = parse(OLD_DLIO).unwrap();
        assert_eq!(workload.name, "llama_70b");
        assert_eq!(
            (workload.tensor, workload.pipeline, workload.data),
            (8, 4, None)
        );
        assert_eq!(workload.architecture.num_kv_heads, 8);
        assert_eq!(workload.fsync, Some(true));
        assert!(workload.without_effect.contains(&"train".to_string()));
        assert!(
            workload
                .without_effect
                .contains(&"model.model_size".to_string())
        );
    }

    #[test]
    fn an_unknown_key_is_named_with_its_place() {
        let text = OLD_DLIO.replace("zero_stage: 1", "zero_stge: 1");
        let message = parse(&text).unwrap_err().to_string();
        assert!(message.contains("zero_stge"), "{message}");
        assert!(message.contains("line 9 column 5"), "{message}");
        let message = parse("model:\n  name: x\n  layers: 3\n")
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("layers") && message.contains("line 3"),
            "{message}"
        );
    }

    #[test]
    fn what_dlio_passes_over_is_passed_over_and_named() {
        let misplaced = OLD_DLIO.replace(
            "    vocab_size: 128000",
            "    vocab_size: 128000\n    model_datatype: bf16",
        );
        let workload = parse(&misplaced.replace("  name: llama_70b\n", "")).unwrap();
        assert_eq!(workload.name, "default");
        assert_eq!(workload.model_datatype, DataType::Fp16);
        let named = |key: &&String| key.starts_with("model.transformer.model_datatype");
        assert_eq!(workload.without_effect.iter().filter(named).count(), 1);
    }

    #[test]
    fn phases_that_dlio_skips_are_skipped_unless_nothing_is_left() {
        let with = |text: &str| parse(&OLD_DLIO.replace("  fsync: True", text)).unwrap();
        let one = with("  num_checkpoints_write: 3\n  num_checkpoints_read: -1");
        assert_eq!((one.writes, one.reads), (Some(3), Some(0)));
        let other = with("  num_checkpoints_write: 0\n  num_checkpoints_read: 3");
        assert_eq!((other.writes, other.reads), (Some(0), Some(3)));
        let none = with("  num_checkpoints_write: -1\n  num_checkpoints_read: -1");
        assert_eq!((none.writes, none.reads), (None, None));
    }

    #[test]
    fn values_that_make_no_sense_are_refused() {
        for (from, to) in [
            ("zero_stage: 1", "zero_stage: 4"),
            ("tensor: 8", "tensor: many"),
            ("model_datatype: fp16", "model_datatype: fp17"),
            ("type: transformer", "type: cnn"),
        ] {
            let text = OLD_DLIO.replace(from, to);
            assert!(parse(&text).is_err(), "{to}");
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "[a-z:\\- \n0-9{}\\[\\]&*!|>]{0,200}") {
            let _ = parse(&text);
        }
    }
}
