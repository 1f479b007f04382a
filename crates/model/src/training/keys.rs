//! The keys of a training workload's file: every one that DLIO and MLPerf Storage know, with what
//! it does here.
//!
//! A key that is missing here is an error with the nearest key that is not.

use super::fields::{add_stdev, element_type};
use super::request::{MAX_EPOCHS, MAX_PREFETCH, MAX_READ_THREADS};
use super::workload::Workload;
use crate::workload_file::{
    Field as _, Key, Table, alias, for_others, ignored, only_as, or_minus_one, set_by, up_to, used,
};

const PYTHON: &str = "it chooses a Python framework or plug-in; stormlp has none";
const CHECKPOINT: &str = "it shapes checkpoint runs; training writes one file of the model's size";
const GENERATE: &str = "it is the generator's; `stormlp datagen` decides it by its own options";
const OBJECT: &str = "it is about object storage; stormlp reads files";
const OUTPUT: &str = "reports go where --results-dir and --mlperf-output say";
const PROFILER: &str = "device and CPU figures are in every report";
const UNREAD: &str = "DLIO's own files have it, but DLIO does not read it";
const AUTO: &str = "stormlp always lists the folder";

/// The keys; DLIO before 1.0 called the reader `data_reader`, and Hydra puts all below `workload`.
pub(super) static KEYS: Table<Workload> = Table {
    keys: ALL,
    section_aliases: &[("data_reader", "reader"), ("workload", "")],
};

const ALL: &[Key<Workload>] = &[
    used("stormlp.accelerator", |w| &mut w.accelerator),
    used("stormlp.profile", |w| &mut w.edition),
    for_others("framework", PYTHON, |w| w.reader.data_loader.write()),
    // Up to v1.0 the model was its name alone.
    alias("model", "model.name"),
    used("model.name", |w| &mut w.name),
    ignored("model.type", CHECKPOINT),
    used("model.model_size_bytes", |w| {
        &mut w.checkpoint.model_size_bytes
    }),
    used("model.model_size", |w| {
        &mut w.checkpoint.ignored_model_size_bytes
    }),
    ignored("model.model_datatype", CHECKPOINT),
    ignored("model.optimizer_datatype", CHECKPOINT),
    ignored("model.optimization_groups", CHECKPOINT),
    ignored("model.layer_parameters", CHECKPOINT),
    ignored("model.num_layers", CHECKPOINT),
    ignored("model.parallelism", CHECKPOINT),
    ignored("model.transformer", CHECKPOINT),
    ignored("workflow.do_eval", UNREAD),
    ignored("dataset.eval_num_samples_per_file", UNREAD),
    ignored("train.total_eval_steps", UNREAD),
    ignored("evaluation.total_eval_steps", UNREAD),
    ignored("checkpoint.optimization_groups", CHECKPOINT),
    ignored("checkpoint.layer_parameters", CHECKPOINT),
    ignored("checkpoint.num_layers", CHECKPOINT),
    for_others("workflow.generate_data", GENERATE, |_| false.into()),
    used("workflow.train", |w| &mut w.workflow.train),
    used("workflow.evaluation", |w| &mut w.workflow.evaluation),
    used("workflow.checkpoint", |w| &mut w.workflow.checkpoint),
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
    used("dataset.data_folder", |w| &mut w.dataset.data_folder),
    used("dataset.format", |w| &mut w.dataset.format),
    used("dataset.file_prefix", |w| &mut w.dataset.file_prefix),
    used("dataset.num_files_train", |w| {
        &mut w.dataset.num_files_train
    }),
    used("dataset.num_files_eval", |w| &mut w.dataset.num_files_eval),
    used("dataset.num_subfolders_train", |w| {
        &mut w.dataset.num_subfolders_train
    }),
    used("dataset.num_subfolders_eval", |w| {
        &mut w.dataset.num_subfolders_eval
    }),
    up_to(
        u32::MAX as u64,
        used("dataset.num_samples_per_file", |w| {
            &mut w.dataset.num_samples_per_file
        }),
    ),
    used("dataset.record_length_bytes", |w| {
        &mut w.dataset.record_length_bytes
    }),
    used("dataset.record_length_bytes_stdev", |w| {
        &mut w.dataset.record_length_bytes_stdev
    }),
    used("dataset.record_length_bytes_resize", |w| {
        &mut w.dataset.record_length_bytes_resize
    }),
    alias("dataset.record_length", "dataset.record_length_bytes"),
    alias(
        "dataset.record_length_stdev",
        "dataset.record_length_bytes_stdev",
    ),
    alias(
        "dataset.record_length_resize",
        "dataset.record_length_bytes_resize",
    ),
    // DLIO 1.0.0 had them here; later they moved to `reader`.
    alias("dataset.batch_size", "reader.batch_size"),
    alias("dataset.batch_size_eval", "reader.batch_size_eval"),
    ignored("dataset.file_access", "DLIO ignores it too"),
    ignored("dataset.record-length", UNREAD),
    used("dataset.record_dims", |w| &mut w.dataset.record_dims),
    set_by("dataset.record_element_type", element_type),
    used("dataset.record_element_bytes", |w| {
        &mut w.dataset.record_element_bytes
    }),
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
    used("dataset.parquet.columns", |w| {
        &mut w.dataset.parquet.columns
    }),
    used("dataset.parquet.row_group_size", |w| {
        &mut w.dataset.parquet.row_group_size
    }),
    used("dataset.parquet.generation_batch_size", |w| {
        &mut w.dataset.parquet.generation_batch_size
    }),
    ignored("dataset.parquet.partition_by", GENERATE),
    ignored("dataset.parquet.use_s3dlio_gen", GENERATE),
    ignored("dataset.parquet.read_mode", "DLIO ignores it too"),
    ignored(
        "dataset.parquet.compression",
        "row groups are stored uncompressed",
    ),
    used("reader.data_loader", |w| &mut w.reader.data_loader),
    used("reader.batch_size", |w| &mut w.reader.batch_size),
    used("reader.batch_size_eval", |w| &mut w.reader.batch_size_eval),
    up_to(
        MAX_READ_THREADS as u64,
        used("reader.read_threads", |w| &mut w.reader.read_threads),
    ),
    used("reader.computation_threads", |w| {
        &mut w.reader.computation_threads
    }),
    up_to(
        MAX_PREFETCH as u64,
        used("reader.prefetch_size", |w| &mut w.reader.prefetch_size),
    ),
    used("reader.file_shuffle", |w| &mut w.reader.file_shuffle),
    used("reader.sample_shuffle", |w| &mut w.reader.sample_shuffle),
    used("reader.shuffle_size", |w| &mut w.reader.shuffle_size),
    used("reader.transfer_size", |w| &mut w.reader.transfer_size),
    used("reader.preprocess_time", |w| &mut w.reader.preprocess_time),
    set_by("reader.preprocess_time_stdev", |w, value| {
        add_stdev(&mut w.reader.preprocess_time, value)
    }),
    used("reader.odirect", |w| &mut w.reader.odirect),
    only_as(
        "reader.read_type",
        "on_demand",
        "samples are always read on demand; leave it out",
    ),
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
    up_to(
        MAX_EPOCHS as u64,
        used("train.epochs", |w| &mut w.train.epochs),
    ),
    or_minus_one(used("train.total_training_steps", |w| {
        &mut w.train.total_training_steps
    })),
    used("train.computation_time", |w| &mut w.train.computation_time),
    set_by("train.computation_time_stdev", |w, value| {
        add_stdev(&mut w.train.computation_time, value)
    }),
    used("train.seed", |w| &mut w.train.seed),
    used("train.seed_change_epoch", |w| {
        &mut w.train.seed_change_epoch
    }),
    used("evaluation.eval_time", |w| &mut w.evaluation.eval_time),
    set_by("evaluation.eval_time_stdev", |w, value| {
        add_stdev(&mut w.evaluation.eval_time, value)
    }),
    used("evaluation.eval_after_epoch", |w| {
        &mut w.evaluation.eval_after_epoch
    }),
    used("evaluation.epochs_between_evals", |w| {
        &mut w.evaluation.epochs_between_evals
    }),
    ignored("evaluation.steps_between_evals", UNREAD),
    used("checkpoint.checkpoint_folder", |w| {
        &mut w.checkpoint.checkpoint_folder
    }),
    or_minus_one(used("checkpoint.checkpoint_after_epoch", |w| {
        &mut w.checkpoint.checkpoint_after_epoch
    })),
    or_minus_one(used("checkpoint.epochs_between_checkpoints", |w| {
        &mut w.checkpoint.epochs_between_checkpoints
    })),
    or_minus_one(used("checkpoint.steps_between_checkpoints", |w| {
        &mut w.checkpoint.steps_between_checkpoints
    })),
    alias("checkpoint.model_size", "model.model_size"),
    alias("checkpoint.model_size_bytes", "model.model_size_bytes"),
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
    used("metric.au", |w| &mut w.metric.au),
    used("metric.exclude_start_steps", |w| {
        &mut w.metric.exclude_start_steps
    }),
    used("metric.exclude_end_steps", |w| {
        &mut w.metric.exclude_end_steps
    }),
    alias(
        "output.metric.exclude_start_steps",
        "metric.exclude_start_steps",
    ),
    alias(
        "output.metric.exclude_end_steps",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_leads_somewhere_and_stands_once() {
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
