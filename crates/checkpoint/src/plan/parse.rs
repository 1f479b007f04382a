//! Workload files of checkpoints: the keys of MLPerf and DLIO, and their effect here.
//!
//! Sections that affect a checkpoint are parsed strictly. Other sections of a DLIO file (`dataset`,
//! `reader`, …) are ignored, so that DLIO's files work unchanged.

use serde_yaml::Value;

use super::parallelism::ZeroStage;
use super::workload::CheckpointWorkload;
use stormlp_core::workload_file::Key;
use stormlp_core::workload_file::Key::{Alias, Ignored, OnlyAs, OrMinusOne, SetBy, Used};
use stormlp_core::workload_file::{Field, KeyNote, Table, WorkloadError, count, number, wants};

const TRAINING: &str = "it shapes training";
const UNUSED: &str = "no figure here depends on it";

static KEYS: Table<CheckpointWorkload> =
    Table { keys: ALL, section_aliases: &[("data_reader", "reader"), ("workload", "")] };

const ALL: &[Key<CheckpointWorkload>] = &[
    Used("model.name", |w| &mut w.name),
    OnlyAs("model.type", "transformer", ONLY_TRANSFORMERS),
    Used("model.num_layers", |w| &mut w.architecture.num_layers),
    // The types under `model` override the rest, so they come last.
    Used("checkpoint.model_datatype", |w| &mut w.model_datatype),
    Used("checkpoint.optimizer_datatype", |w| &mut w.optimizer_datatype),
    Used("model.model_datatype", |w| &mut w.model_datatype),
    Used("model.optimizer_datatype", |w| &mut w.optimizer_datatype),
    Used("model.parallelism.tensor", |w| &mut w.tensor),
    Used("model.parallelism.pipeline", |w| &mut w.pipeline),
    OrMinusOne("model.parallelism.data", |w| &mut w.data),
    Used("model.parallelism.zero_stage", |w| &mut w.zero_stage),
    Used("model.transformer.vocab_size", |w| &mut w.architecture.vocab_size),
    Used("model.transformer.hidden_size", |w| &mut w.architecture.hidden_size),
    Used("model.transformer.ffn_hidden_size", |w| &mut w.architecture.ffn_hidden_size),
    Used("model.transformer.num_attention_heads", |w| &mut w.architecture.num_attention_heads),
    Used("model.transformer.num_kv_heads", |w| &mut w.architecture.num_kv_heads),
    Alias("checkpoint.tensor_parallelism", "model.parallelism.tensor"),
    Alias("checkpoint.pipeline_parallelism", "model.parallelism.pipeline"),
    Ignored("model.transformer.num_layers", "DLIO reads model.num_layers"),
    Ignored("model.transformer.model_datatype", "DLIO reads model.model_datatype"),
    Ignored("model.transformer.optimizer_datatype", "DLIO reads model.optimizer_datatype"),
    Ignored("model.model_size", TRAINING),
    Ignored("model.model_size_bytes", TRAINING),
    Ignored("model.optimization_groups", TRAINING),
    Ignored("model.layer_parameters", TRAINING),
    Used("checkpoint.mode", |w| &mut w.mode),
    SetBy("checkpoint.num_checkpoints_write", |w, value| phase(&mut w.writes, value)),
    SetBy("checkpoint.num_checkpoints_read", |w, value| phase(&mut w.reads, value)),
    OrMinusOne("checkpoint.time_between_checkpoints", |w| &mut w.pause_seconds),
    SetBy("checkpoint.fsync", fsync),
    Ignored("checkpoint.checkpoint_folder", "--dir does that"),
    Ignored("checkpoint.recovery_rank_shift", "only runs over several hosts shift, by themselves"),
    Ignored("checkpoint.num_checkpoints", UNUSED),
    Ignored("checkpoint.model_size", TRAINING),
    Ignored("checkpoint.recovery_after_steps", TRAINING),
    Ignored("checkpoint.checkpoint_after_epoch", TRAINING),
    Ignored("checkpoint.epochs_between_checkpoints", TRAINING),
    Ignored("checkpoint.steps_between_checkpoints", TRAINING),
    Ignored("checkpoint.type", UNUSED),
    Ignored("checkpoint.rank_sync", UNUSED),
    Ignored("checkpoint.randomize_tensor", UNUSED),
    Ignored("checkpoint.ksm", UNUSED),
    Ignored("checkpoint.checkpoint_mechanism_classname", UNUSED),
    Ignored("framework", UNUSED),
    Ignored("workflow", UNUSED),
    Ignored("storage", UNUSED),
    Ignored("dataset", TRAINING),
    Ignored("reader", TRAINING),
    Ignored("train", TRAINING),
    Ignored("evaluation", TRAINING),
    Ignored("output", UNUSED),
    Ignored("profiling", UNUSED),
    Ignored("metric", TRAINING),
];

const ONLY_TRANSFORMERS: &str =
    "only `transformer` models have checkpoints whose files follow from the model";

/// Parses the workload file `text`, called `source_name` in error messages.
///
/// # Errors
/// With everything that is wrong with it, line by line, or if it does not describe a transformer.
pub fn parse(text: &str, source_name: &str) -> Result<CheckpointWorkload, WorkloadError> {
    let mut workload = CheckpointWorkload::default();
    let contents = KEYS.read(text, source_name, &[], &mut workload)?;
    if !contents.has("model.type") {
        let message = format!("`model.type` is not given: {ONLY_TRANSFORMERS}");
        return Err(WorkloadError::new(source_name, vec![message]));
    }
    // A file that skips both phases, such as one for training, leaves both counts unset.
    if let (None | Some(0), None | Some(0)) = (workload.writes, workload.reads) {
        (workload.writes, workload.reads) = (None, None);
    }
    workload.without_effect.extend(KEYS.without_effect(&contents));
    Ok(workload)
}

/// Saves are synced by default, so only `false` has no effect.
fn fsync(workload: &mut CheckpointWorkload, value: &Value) -> Result<(), String> {
    let mut is_synced = true;
    is_synced.read(value)?;
    if !is_synced {
        workload.without_effect.push(KeyNote {
            key: "checkpoint.fsync".to_string(),
            value: "false".to_string(),
            reason: "--fsync none does that".to_string(),
        });
    }
    Ok(())
}

/// Number of checkpoints in a phase; DLIO skips a phase with 0 or −1.
fn phase(checkpoints: &mut Option<u32>, value: &Value) -> Result<(), String> {
    if number(value).is_some_and(|n| n < 0.0) {
        *checkpoints = Some(0);
        return Ok(());
    }
    checkpoints.read(value)
}

impl Field for ZeroStage {
    fn read(&mut self, value: &Value) -> Result<(), String> {
        let stage = count(value)
            .and_then(|stage| u8::try_from(stage).ok())
            .ok_or_else(|| wants(value, "use 0, 1, 2 or 3"))?;
        *self = Self::try_from(stage).map_err(|why| format!(": {why}"))?;
        Ok(())
    }

    fn write(&self) -> Value {
        u8::from(*self).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::architecture::DataType;
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
        let workload = parse(OLD_DLIO, "my.yaml").unwrap();
        assert_eq!(workload.name, "llama_70b");
        assert_eq!((workload.tensor, workload.pipeline, workload.data), (8, 4, None));
        assert_eq!(workload.architecture.num_kv_heads, 8);
        let ignored = |key: &str| workload.without_effect.iter().any(|note| note.key == key);
        assert!(ignored("train") && ignored("model.model_size") && !ignored("checkpoint.fsync"));
    }

    #[test]
    fn an_unknown_key_is_named_with_its_place() {
        let text = OLD_DLIO.replace("zero_stage: 1", "zero_stge: 1");
        let message = parse(&text, "my.yaml").unwrap_err().to_string();
        insta::assert_snapshot!(message, @"my.yaml:9:5: unknown key `model.parallelism.zero_stge`; did you mean `model.parallelism.zero_stage`?");
        let error = parse("model:\n  name: x\n  layers: 3\n", "my.yaml").unwrap_err();
        insta::assert_snapshot!(error, @"my.yaml:3:3: unknown key `model.layers`, and no known key is similar");
    }

    #[test]
    fn what_dlio_passes_over_is_passed_over_and_named() {
        let misplaced = OLD_DLIO
            .replace("    vocab_size: 128000", "    vocab_size: 128000\n    model_datatype: bf16");
        let workload = parse(&misplaced.replace("  name: llama_70b\n", ""), "my.yaml").unwrap();
        assert_eq!(workload.name, "default");
        assert_eq!(workload.model_datatype, DataType::Fp16);
        let mut notes = workload.without_effect.iter();
        let note = notes.find(|note| note.key == "model.transformer.model_datatype");
        assert_eq!(note.unwrap().reason, "DLIO reads model.model_datatype");
    }

    #[test]
    fn phases_that_dlio_skips_are_skipped_unless_nothing_is_left() {
        let with = |text: &str| parse(&OLD_DLIO.replace("  fsync: True", text), "my.yaml").unwrap();
        let one = with("  num_checkpoints_write: 3\n  num_checkpoints_read: -1");
        assert_eq!((one.writes, one.reads), (Some(3), Some(0)));
        let other = with("  num_checkpoints_write: 0\n  num_checkpoints_read: 3");
        assert_eq!((other.writes, other.reads), (Some(0), Some(3)));
        let none = with("  num_checkpoints_write: -1\n  num_checkpoints_read: -1");
        assert_eq!((none.writes, none.reads), (None, None));
    }

    #[test]
    fn no_key_is_listed_twice() {
        assert_eq!(KEYS.mistakes(), [""; 0]);
    }

    #[test]
    fn only_transformers_are_read() {
        let said = |text: &str| parse(text, "my.yaml").unwrap_err().to_string();
        insta::assert_snapshot!(said("model: {type: cnn}"), @"my.yaml:1:15: `model.type` is `cnn`: only `transformer` models have checkpoints whose files follow from the model");
        insta::assert_snapshot!(said("train: {epochs: 1}"), @"my.yaml: `model.type` is not given: only `transformer` models have checkpoints whose files follow from the model");
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
            assert!(parse(&text, "my.yaml").is_err(), "{to}");
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "[a-z:\\- \n0-9{}\\[\\]&*!|>]{0,200}") {
            let _ = parse(&text, "my.yaml");
        }
    }
}
