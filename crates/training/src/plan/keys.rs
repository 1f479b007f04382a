//! The keys of a training workload file: every key that DLIO and MLPerf Storage know, with its
//! effect here.
//!
//! An unknown key is an error that names the nearest known key.

use super::fields::{add_stdev, element_type};
use super::request::{MAX_EPOCHS, MAX_PREFETCH, MAX_READ_THREADS};
use super::workload::Workload;
use stormlp_core::workload_file::Key;
use stormlp_core::workload_file::Key::{
    Alias, ForOthers, Ignored, OnlyAs, OrMinusOne, SetBy, Used, Within,
};
use stormlp_core::workload_file::{Field as _, Table};

const PYTHON: &str = "it chooses a Python framework or plug-in; stormlp has none";
const CHECKPOINT: &str = "it only affects checkpoint runs; training writes one file of the \
                          model's size";
/// The largest number of things that one file, step or accelerator has.
const COUNT: f64 = u32::MAX as f64;
const GENERATE: &str = "it is for the generator; use the options of `stormlp datagen`";
const OBJECT: &str = "it is for object storage, which --dir s3://BUCKET/PREFIX names";
const OUTPUT: &str = "--results-dir and --mlperf-output determine where reports are saved";
const PROFILER: &str = "device and CPU figures are in every report";
const EVALUATION: &str = "stormlp only trains: AU does not include evaluations";
const UNREAD: &str = "DLIO's own files have it, but DLIO does not read it";
const HDF5: &str = "only HDF5 files without chunks are supported";
const DAOS: &str = "stormlp reads folders and s3:// objects; --dir names a mounted container";
const AUTO: &str = "stormlp always lists the folder";

/// The keys. DLIO before 1.0 called the reader `data_reader`, and Hydra nests everything below
/// `workload`.
pub(super) static KEYS: Table<Workload> =
    Table { keys: ALL, section_aliases: &[("data_reader", "reader"), ("workload", "")] };

const ALL: &[Key<Workload>] = &[
    Used("stormlp.accelerator", |w| &mut w.accelerator),
    Used("stormlp.profile", |w| &mut w.edition),
    ForOthers("framework", PYTHON, |w| w.reader.data_loader.write()),
    // Up to v1.0 `model` was a plain name.
    Alias("model", "model.name"),
    Used("model.name", |w| &mut w.name),
    Ignored("model.type", CHECKPOINT),
    Used("model.model_size_bytes", |w| &mut w.checkpoint.model_size_bytes),
    Used("model.model_size", |w| &mut w.checkpoint.ignored_model_size_bytes),
    Ignored("model.model_datatype", CHECKPOINT),
    Ignored("model.optimizer_datatype", CHECKPOINT),
    Ignored("model.optimization_groups", CHECKPOINT),
    Ignored("model.layer_parameters", CHECKPOINT),
    Ignored("model.num_layers", CHECKPOINT),
    Ignored("model.parallelism", CHECKPOINT),
    Ignored("model.transformer", CHECKPOINT),
    ForOthers("workflow.evaluation", EVALUATION, |_| false.into()),
    Ignored("workflow.do_eval", UNREAD),
    Ignored("workflow.evaluate", EVALUATION),
    Ignored("dataset.eval_num_samples_per_file", UNREAD),
    Ignored("train.total_eval_steps", UNREAD),
    Ignored("evaluation", EVALUATION),
    Ignored("checkpoint.optimization_groups", CHECKPOINT),
    Ignored("checkpoint.layer_parameters", CHECKPOINT),
    Ignored("checkpoint.num_layers", CHECKPOINT),
    Ignored("checkpoint.tensor_parallelism", CHECKPOINT),
    Ignored("checkpoint.pipeline_parallelism", CHECKPOINT),
    ForOthers("workflow.generate_data", GENERATE, |_| false.into()),
    Used("workflow.train", |w| &mut w.workflow.train),
    Used("workflow.checkpoint", |w| &mut w.workflow.checkpoint),
    Ignored("workflow.profiling", PROFILER),
    Ignored("workflow.debug", PYTHON),
    Ignored("storage.storage_type", OBJECT),
    Ignored("storage.storage_root", OBJECT),
    Ignored("storage.storage_options", OBJECT),
    Ignored("storage.storage_library", OBJECT),
    Ignored("storage.post_generation_settle_seconds", OBJECT),
    Ignored("storage.endpoint_uris", OBJECT),
    Ignored("storage.s3_force_path_style", OBJECT),
    Ignored("storage.s3_max_attempts", OBJECT),
    Ignored("storage.s3_region", OBJECT),
    Ignored("storage.fsspec_plugin", PYTHON),
    Ignored("storage.fsspec_extra_params", PYTHON),
    Ignored("storage.load_balance_strategy", OBJECT),
    Ignored("storage.use_mpi_endpoint_distribution", OBJECT),
    Used("dataset.data_folder", |w| &mut w.dataset.data_folder),
    Used("dataset.format", |w| &mut w.dataset.format),
    Used("dataset.file_prefix", |w| &mut w.dataset.file_prefix),
    Used("dataset.num_files_train", |w| &mut w.dataset.num_files_train),
    Used("dataset.num_files_eval", |w| &mut w.dataset.num_files_eval),
    Used("dataset.num_subfolders_train", |w| &mut w.dataset.num_subfolders_train),
    Used("dataset.num_subfolders_eval", |w| &mut w.dataset.num_subfolders_eval),
    Within("dataset.num_samples_per_file", 1.0, COUNT, |w| &mut w.dataset.num_samples_per_file),
    Within("dataset.record_length_bytes", 0.01, 1e15, |w| &mut w.dataset.record_length_bytes),
    Within("dataset.record_length_bytes_stdev", 0.0, 1e15, |w| {
        &mut w.dataset.record_length_bytes_stdev
    }),
    Used("dataset.record_length_bytes_resize", |w| &mut w.dataset.record_length_bytes_resize),
    Alias("dataset.record_length", "dataset.record_length_bytes"),
    Alias("dataset.record_length_stdev", "dataset.record_length_bytes_stdev"),
    Alias("dataset.record_length_resize", "dataset.record_length_bytes_resize"),
    // DLIO 1.0.0 had them here; later they moved to `reader`.
    Alias("dataset.batch_size", "reader.batch_size"),
    Ignored("dataset.batch_size_eval", EVALUATION),
    Ignored("dataset.file_access", "DLIO ignores it too"),
    Ignored("dataset.record-length", UNREAD),
    Used("dataset.record_dims", |w| &mut w.dataset.record_dims),
    SetBy("dataset.record_element_type", element_type),
    Used("dataset.record_element_bytes", |w| &mut w.dataset.record_element_bytes),
    Ignored("dataset.generation_buffer_size", GENERATE),
    Ignored("dataset.compression", "npz files are always stored uncompressed, as is parquet"),
    Ignored("dataset.compression_level", "DLIO's npz files are uncompressed"),
    Ignored("dataset.enable_chunking", HDF5),
    Ignored("dataset.chunk_size", HDF5),
    Ignored("dataset.hdf5", HDF5),
    Ignored("dataset.keep_files", "`stormlp clean` removes datasets"),
    Ignored("dataset.skip_listing", AUTO),
    Ignored("dataset.listing_validation_interval", AUTO),
    Ignored("dataset.num_files_generated", AUTO),
    Ignored("dataset.files_pre_sharded", AUTO),
    Ignored("dataset.daos_pool", DAOS),
    Ignored("dataset.daos_cont", DAOS),
    Ignored("dataset.total_disk_bytes", AUTO),
    Ignored("dataset.data_gen_method", GENERATE),
    Used("dataset.parquet.columns", |w| &mut w.dataset.parquet.columns),
    Used("dataset.parquet.row_group_size", |w| &mut w.dataset.parquet.row_group_size),
    Used("dataset.parquet.generation_batch_size", |w| &mut w.dataset.parquet.generation_batch_size),
    Ignored("dataset.parquet.partition_by", GENERATE),
    Ignored("dataset.parquet.use_s3dlio_gen", GENERATE),
    Ignored("dataset.parquet.read_mode", "DLIO ignores it too"),
    Ignored("dataset.parquet.compression", "row groups are stored uncompressed"),
    Used("reader.data_loader", |w| &mut w.reader.data_loader),
    Within("reader.batch_size", 1.0, COUNT, |w| &mut w.reader.batch_size),
    Ignored("reader.batch_size_eval", EVALUATION),
    Within("reader.read_threads", 0.0, MAX_READ_THREADS as f64, |w| &mut w.reader.read_threads),
    Used("reader.computation_threads", |w| &mut w.reader.computation_threads),
    Within("reader.prefetch_size", 0.0, MAX_PREFETCH as f64, |w| &mut w.reader.prefetch_size),
    Used("reader.file_shuffle", |w| &mut w.reader.file_shuffle),
    Used("reader.sample_shuffle", |w| &mut w.reader.sample_shuffle),
    Used("reader.shuffle_size", |w| &mut w.reader.shuffle_size),
    Within("reader.transfer_size", 1.0, 1e15, |w| &mut w.reader.transfer_size),
    Used("reader.preprocess_time", |w| &mut w.reader.preprocess_time),
    SetBy("reader.preprocess_time_stdev", |w, value| {
        add_stdev(&mut w.reader.preprocess_time, value)
    }),
    Used("reader.odirect", |w| &mut w.reader.odirect),
    OnlyAs("reader.read_type", "on_demand", "samples are always read on demand; leave it out"),
    Ignored("reader.file_access", "DLIO ignores it too"),
    Ignored("reader.data_loader_classname", PYTHON),
    Ignored("reader.data_loader_sampler", PYTHON),
    Ignored("reader.reader_classname", PYTHON),
    Ignored("reader.dont_use_mmap", PYTHON),
    Ignored("reader.pin_memory", PYTHON),
    Ignored("reader.multiprocessing_context", PYTHON),
    Ignored("reader.transformed_record_dims", PYTHON),
    Ignored("reader.transformed_record_element_type", PYTHON),
    Ignored("reader.write_threads", GENERATE),
    Ignored("reader.data_loader_root", UNREAD),
    Ignored("reader.shuffle", UNREAD),
    Ignored("reader.checkpoint_folder", UNREAD),
    Ignored("reader.seed", UNREAD),
    Ignored("reader.protocol", OBJECT),
    Ignored("reader.storage_type", OBJECT),
    Ignored("reader.storage_root", OBJECT),
    Ignored("reader.storage_options", OBJECT),
    Ignored("reader.storage_library", OBJECT),
    Ignored("reader.endpoint_uris", OBJECT),
    Ignored("reader.load_balance_strategy", OBJECT),
    Ignored("reader.use_mpi_endpoint_distribution", OBJECT),
    Within("train.epochs", 1.0, MAX_EPOCHS as f64, |w| &mut w.train.epochs),
    OrMinusOne("train.total_training_steps", |w| &mut w.train.total_training_steps),
    Used("train.computation_time", |w| &mut w.train.computation_time),
    SetBy("train.computation_time_stdev", |w, value| {
        add_stdev(&mut w.train.computation_time, value)
    }),
    Used("train.seed", |w| &mut w.train.seed),
    Used("train.seed_change_epoch", |w| &mut w.train.seed_change_epoch),
    Used("checkpoint.checkpoint_folder", |w| &mut w.checkpoint.checkpoint_folder),
    OrMinusOne("checkpoint.checkpoint_after_epoch", |w| &mut w.checkpoint.checkpoint_after_epoch),
    OrMinusOne("checkpoint.epochs_between_checkpoints", |w| {
        &mut w.checkpoint.epochs_between_checkpoints
    }),
    OrMinusOne("checkpoint.steps_between_checkpoints", |w| {
        &mut w.checkpoint.steps_between_checkpoints
    }),
    Alias("checkpoint.model_size", "model.model_size"),
    Alias("checkpoint.model_size_bytes", "model.model_size_bytes"),
    Ignored("checkpoint.num_checkpoints_write", CHECKPOINT),
    Ignored("checkpoint.num_checkpoints_read", CHECKPOINT),
    Ignored("checkpoint.num_checkpoints", CHECKPOINT),
    Ignored("checkpoint.time_between_checkpoints", CHECKPOINT),
    Ignored("checkpoint.mode", CHECKPOINT),
    Ignored("checkpoint.type", CHECKPOINT),
    Ignored("checkpoint.fsync", CHECKPOINT),
    Ignored("checkpoint.rank_sync", CHECKPOINT),
    Ignored("checkpoint.recovery_rank_shift", CHECKPOINT),
    Ignored("checkpoint.recovery_after_steps", CHECKPOINT),
    Ignored("checkpoint.randomize_tensor", CHECKPOINT),
    Ignored("checkpoint.ksm", CHECKPOINT),
    Ignored("checkpoint.model_datatype", CHECKPOINT),
    Ignored("checkpoint.optimizer_datatype", CHECKPOINT),
    Ignored("checkpoint.checkpoint_mechanism_classname", PYTHON),
    Within("metric.au", 0.0, 1.0, |w| &mut w.metric.au),
    Used("metric.exclude_start_steps", |w| &mut w.metric.exclude_start_steps),
    Used("metric.exclude_end_steps", |w| &mut w.metric.exclude_end_steps),
    Alias("output.metric.exclude_start_steps", "metric.exclude_start_steps"),
    Alias("output.metric.exclude_end_steps", "metric.exclude_end_steps"),
    Ignored("output.folder", OUTPUT),
    Ignored("output.log_file", OUTPUT),
    Ignored("profiling.profiler", PROFILER),
    Ignored("profiling.iostat_devices", PROFILER),
    Ignored("data_loader", UNREAD),
    Ignored("generator", UNREAD),
    Ignored("logging", UNREAD),
    Ignored("defaults", "stormlp does not compose files"),
    Ignored("hydra", "stormlp does not use Hydra"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_one_meaning_and_is_listed_once() {
        assert_eq!(KEYS.mistakes(), [""; 0]);
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
            assert_eq!(KEYS.nearest(typed), Some(meant), "{typed}");
        }
    }

    #[test]
    fn a_key_that_is_like_none_is_given_no_meaning() {
        for typed in ["dataset.colour", "version", "handlers", "root", "x"] {
            assert_eq!(KEYS.nearest(typed), None, "{typed}");
        }
    }
}
