//! The keys of a workload file: every one that DLIO and MLPerf Storage know, with what it does
//! here.
//!
//! One table serves the parser, `--params` and the documentation. A key that is missing here is
//! an error with the nearest key that is not.

use crate::names::distance;

/// What a key's value may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `True`, `False`, and YAML 1.1's `yes`, `no`, `on`, `off`.
    Bool,
    /// A whole number from 0.
    Count,
    /// A whole number; a negative one means "not set".
    OptionalCount,
    /// A number from 0.
    Number,
    /// Text.
    Text,
    /// Seconds: a number from 0, or a distribution.
    Time,
    /// `off`, `seed` or `random`.
    Shuffle,
    /// A list of whole numbers.
    Counts,
    /// A list of parquet columns.
    Columns,
    /// Anything, unread.
    Any,
}

/// What a key does here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// What DLIO does with it.
    Used,
    /// The same as another key.
    Alias(&'static str),
    /// Nothing, for this reason.
    Ignored(&'static str),
    /// The value says what cannot be emulated here, whatever it is, unless it is the one given.
    OnlyAs(&'static str, &'static str),
}

/// One key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its path, `reader.batch_size`.
    pub path: &'static str,
    /// What its value may be.
    pub kind: Kind,
    /// What it does.
    pub effect: Effect,
}

const PYTHON: &str = "it chooses a Python framework or plug-in; stormlp has none";
const CHECKPOINT: &str = "it shapes checkpoint runs; training writes one file of the model's size";
const GENERATE: &str = "it is the generator's; `stormlp datagen` decides it by its own options";
const OBJECT: &str = "it is about object storage; stormlp reads files";
const OUTPUT: &str = "reports go where --results-dir and --mlperf-output say";
const PROFILER: &str = "device and CPU figures are in every report";
const UNREAD: &str = "DLIO's own files have it, but DLIO does not read it";
const AUTO: &str = "stormlp always lists the folder";

const fn used(path: &'static str, kind: Kind) -> Key {
    Key {
        path,
        kind,
        effect: Effect::Used,
    }
}

const fn alias(path: &'static str, kind: Kind, of: &'static str) -> Key {
    Key {
        path,
        kind,
        effect: Effect::Alias(of),
    }
}

const fn ignored(path: &'static str, why: &'static str) -> Key {
    Key {
        path,
        kind: Kind::Any,
        effect: Effect::Ignored(why),
    }
}

/// Other names of whole sections.
pub const SECTION_ALIASES: [(&str, &str); 2] = [("data_reader", "reader"), ("workload", "")];

/// Every key.
pub const KEYS: &[Key] = &[
    used("stormlp.accelerator", Kind::Text),
    used("stormlp.profile", Kind::Text),
    used("model.name", Kind::Text),
    ignored("model.type", CHECKPOINT),
    used("model.model_size_bytes", Kind::Count),
    used("model.model_size", Kind::Count),
    ignored("model.model_datatype", CHECKPOINT),
    ignored("model.optimizer_datatype", CHECKPOINT),
    ignored("model.optimization_groups", CHECKPOINT),
    ignored("model.layer_parameters", CHECKPOINT),
    ignored("model.num_layers", CHECKPOINT),
    ignored("model.parallelism", CHECKPOINT),
    ignored("model.transformer", CHECKPOINT),
    ignored("framework", PYTHON),
    ignored("workflow.do_eval", UNREAD),
    ignored("dataset.eval_num_samples_per_file", UNREAD),
    ignored("train.total_eval_steps", UNREAD),
    ignored("evaluation.total_eval_steps", UNREAD),
    ignored("checkpoint.optimization_groups", CHECKPOINT),
    ignored("checkpoint.layer_parameters", CHECKPOINT),
    ignored("checkpoint.num_layers", CHECKPOINT),
    ignored("workflow.generate_data", GENERATE),
    used("workflow.train", Kind::Bool),
    used("workflow.evaluation", Kind::Bool),
    used("workflow.checkpoint", Kind::Bool),
    ignored("workflow.profiling", PROFILER),
    ignored("workflow.debug", PYTHON),
    ignored("storage.storage_type", OBJECT),
    ignored("storage.storage_root", OBJECT),
    ignored("storage.storage_options", OBJECT),
    ignored("storage.storage_library", OBJECT),
    ignored("storage.post_generation_settle_seconds", OBJECT),
    ignored("storage.endpoint_uris", OBJECT),
    ignored("storage.load_balance_strategy", OBJECT),
    ignored("storage.use_mpi_endpoint_distribution", OBJECT),
    used("dataset.data_folder", Kind::Text),
    used("dataset.format", Kind::Text),
    used("dataset.file_prefix", Kind::Text),
    used("dataset.num_files_train", Kind::Count),
    used("dataset.num_files_eval", Kind::Count),
    used("dataset.num_subfolders_train", Kind::Count),
    used("dataset.num_subfolders_eval", Kind::Count),
    used("dataset.num_samples_per_file", Kind::Count),
    used("dataset.record_length_bytes", Kind::Number),
    used("dataset.record_length_bytes_stdev", Kind::Number),
    used("dataset.record_length_bytes_resize", Kind::Number),
    alias(
        "dataset.record_length",
        Kind::Number,
        "dataset.record_length_bytes",
    ),
    alias(
        "dataset.record_length_stdev",
        Kind::Number,
        "dataset.record_length_bytes_stdev",
    ),
    alias(
        "dataset.record_length_resize",
        Kind::Number,
        "dataset.record_length_bytes_resize",
    ),
    // DLIO 1.0.0 had them here; later they moved to `reader`.
    alias("dataset.batch_size", Kind::Count, "reader.batch_size"),
    alias(
        "dataset.batch_size_eval",
        Kind::Count,
        "reader.batch_size_eval",
    ),
    ignored("dataset.file_access", "DLIO ignores it too"),
    ignored("dataset.record-length", UNREAD),
    used("dataset.record_dims", Kind::Counts),
    used("dataset.record_element_type", Kind::Text),
    used("dataset.record_element_bytes", Kind::Count),
    ignored("dataset.generation_buffer_size", GENERATE),
    ignored(
        "dataset.compression",
        "npz files are stored whatever it says, parquet is written uncompressed",
    ),
    ignored("dataset.compression_level", "DLIO's npz files are stored"),
    ignored("dataset.enable_chunking", "it is about HDF5"),
    ignored("dataset.chunk_size", "it is about HDF5"),
    ignored("dataset.hdf5", "it is about HDF5"),
    ignored("dataset.keep_files", "`stormlp clean` removes datasets"),
    ignored("dataset.skip_listing", AUTO),
    ignored("dataset.listing_validation_interval", AUTO),
    ignored("dataset.num_files_generated", AUTO),
    ignored("dataset.total_disk_bytes", AUTO),
    ignored("dataset.data_gen_method", GENERATE),
    used("dataset.parquet.columns", Kind::Columns),
    used("dataset.parquet.row_group_size", Kind::Count),
    used("dataset.parquet.generation_batch_size", Kind::Count),
    ignored("dataset.parquet.partition_by", GENERATE),
    ignored("dataset.parquet.use_s3dlio_gen", GENERATE),
    ignored("dataset.parquet.read_mode", "DLIO ignores it too"),
    ignored(
        "dataset.parquet.compression",
        "row groups are stored uncompressed",
    ),
    used("reader.data_loader", Kind::Text),
    used("reader.batch_size", Kind::Count),
    used("reader.batch_size_eval", Kind::Count),
    used("reader.read_threads", Kind::Count),
    used("reader.computation_threads", Kind::Count),
    used("reader.prefetch_size", Kind::Count),
    used("reader.file_shuffle", Kind::Shuffle),
    used("reader.sample_shuffle", Kind::Shuffle),
    used("reader.shuffle_size", Kind::Count),
    used("reader.transfer_size", Kind::Count),
    used("reader.preprocess_time", Kind::Time),
    used("reader.preprocess_time_stdev", Kind::Number),
    used("reader.odirect", Kind::Bool),
    Key {
        path: "reader.read_type",
        kind: Kind::Text,
        effect: Effect::OnlyAs("on_demand", "samples are always read on demand"),
    },
    ignored("reader.file_access", "DLIO ignores it too"),
    ignored("reader.data_loader_classname", PYTHON),
    ignored("reader.data_loader_sampler", PYTHON),
    ignored("reader.reader_classname", PYTHON),
    ignored("reader.dont_use_mmap", PYTHON),
    ignored("reader.pin_memory", PYTHON),
    ignored("reader.multiprocessing_context", PYTHON),
    ignored("reader.transformed_record_dims", PYTHON),
    ignored("reader.transformed_record_element_type", PYTHON),
    ignored("reader.write_threads", GENERATE),
    ignored("reader.data_loader_root", UNREAD),
    ignored("reader.shuffle", UNREAD),
    ignored("reader.checkpoint_folder", UNREAD),
    ignored("reader.seed", UNREAD),
    ignored("reader.protocol", OBJECT),
    ignored("reader.storage_type", OBJECT),
    ignored("reader.storage_root", OBJECT),
    ignored("reader.storage_options", OBJECT),
    ignored("reader.storage_library", OBJECT),
    ignored("reader.endpoint_uris", OBJECT),
    ignored("reader.load_balance_strategy", OBJECT),
    ignored("reader.use_mpi_endpoint_distribution", OBJECT),
    used("train.epochs", Kind::Count),
    used("train.total_training_steps", Kind::OptionalCount),
    used("train.computation_time", Kind::Time),
    used("train.computation_time_stdev", Kind::Number),
    used("train.seed", Kind::Count),
    used("train.seed_change_epoch", Kind::Bool),
    used("evaluation.eval_time", Kind::Time),
    used("evaluation.eval_time_stdev", Kind::Number),
    used("evaluation.eval_after_epoch", Kind::Count),
    used("evaluation.epochs_between_evals", Kind::Count),
    ignored("evaluation.steps_between_evals", UNREAD),
    used("checkpoint.checkpoint_folder", Kind::Text),
    used("checkpoint.checkpoint_after_epoch", Kind::OptionalCount),
    used("checkpoint.epochs_between_checkpoints", Kind::OptionalCount),
    used("checkpoint.steps_between_checkpoints", Kind::OptionalCount),
    alias("checkpoint.model_size", Kind::Count, "model.model_size"),
    alias(
        "checkpoint.model_size_bytes",
        Kind::Count,
        "model.model_size_bytes",
    ),
    ignored("checkpoint.num_checkpoints_write", CHECKPOINT),
    ignored("checkpoint.num_checkpoints_read", CHECKPOINT),
    ignored("checkpoint.num_checkpoints", CHECKPOINT),
    ignored("checkpoint.time_between_checkpoints", CHECKPOINT),
    ignored("checkpoint.mode", CHECKPOINT),
    ignored("checkpoint.type", CHECKPOINT),
    ignored("checkpoint.fsync", CHECKPOINT),
    ignored("checkpoint.rank_sync", CHECKPOINT),
    ignored("checkpoint.recovery_rank_shift", CHECKPOINT),
    ignored("checkpoint.recovery_after_steps", CHECKPOINT),
    ignored("checkpoint.randomize_tensor", CHECKPOINT),
    ignored("checkpoint.ksm", CHECKPOINT),
    ignored("checkpoint.model_datatype", CHECKPOINT),
    ignored("checkpoint.optimizer_datatype", CHECKPOINT),
    ignored("checkpoint.checkpoint_mechanism_classname", PYTHON),
    used("metric.au", Kind::Number),
    used("metric.exclude_start_steps", Kind::Count),
    used("metric.exclude_end_steps", Kind::Count),
    alias(
        "output.metric.exclude_start_steps",
        Kind::Count,
        "metric.exclude_start_steps",
    ),
    alias(
        "output.metric.exclude_end_steps",
        Kind::Count,
        "metric.exclude_end_steps",
    ),
    ignored("output.folder", OUTPUT),
    ignored("output.log_file", OUTPUT),
    ignored("profiling.profiler", PROFILER),
    ignored("profiling.iostat_devices", PROFILER),
    ignored("data_loader", UNREAD),
    ignored("generator", UNREAD),
    ignored("logging", UNREAD),
    ignored("defaults", "stormlp composes no files"),
    ignored("hydra", "stormlp has no Hydra"),
];

/// What a name in a section stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A section, by its path.
    Section(String),
    /// A key.
    Leaf(&'static Key),
}

/// Looks up `name` in `section`.
pub(super) fn look_up(section: &str, name: &str) -> Option<Target> {
    if section.is_empty()
        && let Some((_, target)) = SECTION_ALIASES.iter().find(|(alias, _)| *alias == name)
    {
        return Some(Target::Section((*target).to_string()));
    }
    let path = join(section, name);
    if let Some(key) = KEYS.iter().find(|key| key.path == path) {
        return Some(Target::Leaf(key));
    }
    KEYS.iter()
        .any(|key| {
            key.path
                .strip_prefix(&path)
                .is_some_and(|rest| rest.starts_with('.'))
        })
        .then_some(Target::Section(path))
}

/// The key at a dotted path, as `--params` has it; Hydra's `++workload.` in front is allowed.
pub(super) fn by_path(path: &str) -> Option<&'static Key> {
    let path = path.trim_start_matches('+');
    let path = path.strip_prefix("workload.").unwrap_or(path);
    let path = match path.split_once('.') {
        Some((section, rest)) => {
            let section = SECTION_ALIASES
                .iter()
                .find(|(alias, _)| *alias == section)
                .map_or(section, |(_, target)| target);
            join(section, rest)
        }
        None => path.to_string(),
    };
    KEYS.iter().find(|key| key.path == path)
}

/// The path of `name` in `section`.
pub(super) fn join(section: &str, name: &str) -> String {
    if section.is_empty() {
        name.to_string()
    } else {
        format!("{section}.{name}")
    }
}

/// The known key that `path` was probably meant to be: by edits of its last part, those of the
/// same section first. `None` where every key is too far away to have been meant.
pub(super) fn nearest(path: &str) -> Option<&'static str> {
    let (section, name) = path.rsplit_once('.').unwrap_or(("", path));
    let used = KEYS
        .iter()
        .filter(|key| !matches!(key.effect, Effect::Alias(_)));
    let keys = used.filter_map(|key| {
        let (of, last) = key.path.rsplit_once('.').unwrap_or(("", key.path));
        let section_cost = if of == section { 0 } else { 2 };
        Some((distance(name, last)? + section_cost, key.path))
    });
    // Sections count as well, so that `readr` finds `reader`.
    let sections = KEYS
        .iter()
        .filter_map(|key| key.path.split_once('.').map(|(first, _)| first))
        .filter(|_| section.is_empty())
        .filter_map(|first| Some((distance(name, first)?, first)));
    sections
        .chain(keys)
        .min_by_key(|(cost, _)| *cost)
        .map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_lead_to_keys_that_are_used() {
        for key in KEYS {
            if let Effect::Alias(of) = key.effect {
                let target = KEYS.iter().find(|other| other.path == of);
                assert_eq!(target.map(|t| t.effect), Some(Effect::Used), "{}", key.path);
            }
        }
    }

    #[test]
    fn the_nearest_key_is_what_was_meant() {
        for (typed, meant) in [
            ("reader.batchsize", "reader.batch_size"),
            ("readr", "reader"),
            ("train.compute_time", "train.computation_time"),
            ("dataset.num_file_train", "dataset.num_files_train"),
            ("train.batch_size", "reader.batch_size"),
            ("reader.batch", "reader.batch_size"),
        ] {
            assert_eq!(nearest(typed), Some(meant), "{typed}");
        }
    }

    #[test]
    fn a_key_that_is_like_none_is_given_no_meaning() {
        for typed in ["dataset.colour", "version", "handlers", "root", "x"] {
            assert_eq!(nearest(typed), None, "{typed}");
        }
    }
}
