//! Resolves workload, options, host and folder into a plan: fixes every number and reports every
//! problem.

mod data;
mod epoch;

use super::distribution::Distribution;
use super::memory;
use super::request::TrainRequest;
use super::rules::{self, CLOSED_RUNS};
use super::steps::StepInputs;
use super::transport;
use super::warnings;
use super::workload::{DataLoader, Shuffle, Workload};
use crate::plan::train_plan::{
    BlockEnd, CheckpointPlan, LoaderPlan, MetricPlan, ReadPattern, ShufflePlan, TrainPlan,
};
use stormlp_core::facts::{Availability, HostFacts};
use stormlp_core::failure::Problems;
use stormlp_core::location::Location;
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::transport::check_objects_only;
use stormlp_core::warning::Warning;
use stormlp_dataset::inventory::facts::Inventory;
use stormlp_dataset::section::DataFormat;

/// Read size of TensorFlow's record reader when `transfer_size` is not set: the `buffer_size` that
/// `tf.data.TFRecordDataset` uses for local files.
const DEFAULT_TRANSFER_BYTES: u64 = 256 << 10;
/// The same under O_DIRECT, which TensorFlow's reader does not support. There is no kernel
/// readahead there; with 256 KiB every reader would wait for one small request after another.
const DIRECT_TRANSFER_BYTES: u64 = 1 << 20;
/// Reads under O_DIRECT are multiples of this.
const DIRECT_ALIGN_BYTES: u64 = 4096;
/// Row groups that the parquet reader of v3.0's DLIO keeps in flight per worker: the size of its
/// thread pool.
const ROW_GROUPS_IN_FLIGHT: u32 = 64;
/// Default read size for a record file on `path`.
pub(super) fn default_transfer_bytes(path: PathKind) -> u64 {
    let few = path.wants_direct() || path == PathKind::S3;
    if few { DIRECT_TRANSFER_BYTES } else { DEFAULT_TRANSFER_BYTES }
}

/// The paths that a training run supports.
const PATHS: [PathKind; 8] = [
    PathKind::Buffered,
    PathKind::Cpu,
    PathKind::PageCache,
    PathKind::CpuGpu,
    PathKind::CpuAsyncGpu,
    PathKind::Gds,
    PathKind::GdsAsync,
    PathKind::GdsBatch,
];

/// A plan and its warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The plan.
    pub plan: TrainPlan,
    /// Warnings about the plan.
    pub warnings: Vec<Warning>,
}

impl TrainPlan {
    /// Resolves a run of `workload` with the overrides of `request`, on `host`, over the files of
    /// `inventory` (unused with null storage).
    ///
    /// # Errors
    /// Lists all problems, not only the first.
    pub fn resolve(
        workload: &Workload,
        request: &TrainRequest,
        host: &HostFacts,
        inventory: &Inventory,
    ) -> Result<Resolved, Problems> {
        let mut resolver = Resolver::new(workload, request, host, inventory);
        let plan = resolver.plan();
        rules::closed_problems(workload, request, &plan, host, &mut resolver.problems);
        memory::check(&plan, host, &mut resolver.problems);
        let plan = resolver.problems.or(plan)?;
        let mut warnings = warnings::of(&plan, workload, request, host);
        warnings.extend(resolver.limited);
        Ok(Resolved { plan, warnings })
    }
}

/// The plan of a run of `workload` without real storage, for a simulation: no dataset, no limits of
/// this machine, reads as on `path`.
///
/// # Errors
/// Lists all problems.
pub fn imagined(
    workload: &Workload,
    request: &TrainRequest,
    host: &HostFacts,
    path: PathKind,
) -> Result<TrainPlan, Problems> {
    let request = TrainRequest { path: Some(PathKind::Null), ..request.clone() };
    let nothing = Inventory::default();
    let mut resolver =
        Resolver { reads_as: Some(path), ..Resolver::new(workload, &request, host, &nothing) };
    let plan = resolver.plan();
    resolver.problems.or(plan)
}

/// The closed rules that a run of `workload` with the overrides of `request` would break on `host`,
/// regardless of its dataset; empty when the run is not closed.
pub fn rules_broken_without_data(
    workload: &Workload,
    request: &TrainRequest,
    host: &HostFacts,
) -> Problems {
    let nothing = Inventory::default();
    let mut resolver = Resolver::new(workload, request, host, &nothing);
    // Other problems result from the missing dataset.
    let mut plan = resolver.plan();
    plan.data.files = 0;
    let mut broken = Problems::default();
    rules::closed_problems(workload, request, &plan, host, &mut broken);
    broken
}

struct Resolver<'a> {
    workload: &'a Workload,
    request: &'a TrainRequest,
    host: &'a HostFacts,
    inventory: &'a Inventory,
    /// The path that defines the read pattern, if it differs from the run's path.
    reads_as: Option<PathKind>,
    /// The limit of the transport.
    limited: Option<Warning>,
    problems: Problems,
}

impl<'a> Resolver<'a> {
    fn new(
        workload: &'a Workload,
        request: &'a TrainRequest,
        host: &'a HostFacts,
        inventory: &'a Inventory,
    ) -> Self {
        let problems = Problems::default();
        Self { workload, request, host, inventory, reads_as: None, limited: None, problems }
    }

    fn plan(&mut self) -> TrainPlan {
        let (workload, request) = (self.workload, self.request);
        let profile = workload.profile(request.profile);
        let path = self.path();
        check_objects_only(path, request.checksum, &mut self.problems);
        let of_files = self.split(profile);
        let (accelerators, read_threads) = (of_files.accelerators, of_files.read_threads);
        let data = self.data(path, &of_files);
        let split = StepInputs { files: data.files, ..of_files };
        let steps_per_epoch = self.steps(&split);
        self.check_client(data.format);
        let compute =
            self.time("--compute-time", request.compute.unwrap_or(workload.train.computation_time));
        let loader = self.loader(profile, data.format, read_threads, accelerators, data.files);
        let reads = self.reads(profile, data.format, self.reads_as.unwrap_or(path));
        let (hosts, own) = self.hosts(accelerators);
        let reader = transport::Reader {
            loader: &loader,
            accelerators: own,
            pattern: &reads,
            read_bytes: data.read_bytes(&reads),
            as_official: profile != Profile::Native,
        };
        let (transport, limited) =
            transport::decide(request, path, &reader, self.host, &mut self.problems);
        self.limited = limited;
        self.check_direct(path);
        let mut plan = TrainPlan {
            workload: workload.name.clone(),
            accelerator: workload.accelerator.clone(),
            profile,
            accelerators,
            hosts,
            batch_size: split.batch_size,
            steps_per_epoch,
            epochs: request.length.epochs.unwrap_or(workload.train.epochs),
            runs: self.runs(),
            loader,
            reads,
            compute,
            preprocess: self.time("reader.preprocess_time", workload.reader.preprocess_time),
            client: request.client_cost(data.format).map(|client| client.on(self.own_cpus())),
            block_end: BlockEnd::of(profile),
            prewarm: profile == Profile::V3 && data.format != DataFormat::Tfrecord,
            metric: MetricPlan {
                threshold_percent: workload.metric.au * 100.0,
                exclude_start_steps: workload.metric.exclude_start_steps,
                exclude_end_steps: workload.metric.exclude_end_steps,
            },
            shuffle: self.shuffle(),
            checkpoint: self.checkpoint(profile),
            transport,
            memory_bytes: 0,
            data,
            request: request.clone(),
        };
        plan.memory_bytes = memory::estimate(&plan);
        plan
    }

    /// Accelerators of each process, if there are several, and this process's out of `all`.
    fn hosts(&self, all: u32) -> (Vec<u32>, u32) {
        let Some(hosts) = &self.request.hosts else {
            return (Vec::new(), all);
        };
        let own = hosts.accelerators.get(hosts.rank as usize);
        (hosts.accelerators.clone(), own.copied().unwrap_or(all))
    }

    /// CPUs for the accelerators of this process; processes on one host share its CPUs.
    fn own_cpus(&self) -> u32 {
        let all = self.host.cpus;
        self.request.hosts.as_ref().map_or(all, |hosts| {
            let processes = hosts.accelerators.len().max(1) as u32;
            (all * hosts.hosts.min(processes) / processes).max(1)
        })
    }

    /// How samples are split, before the number of files is known.
    fn split(&self, profile: Profile) -> StepInputs {
        let (workload, request) = (self.workload, self.request);
        let (dataset, reader) = (&workload.dataset, &workload.reader);
        StepInputs {
            profile,
            format: dataset.format,
            files: 0,
            accelerators: request.accelerators.unwrap_or(1),
            batch_size: reader.batch_size,
            samples_per_file: dataset.num_samples_per_file,
            read_threads: reader.read_threads,
        }
    }

    /// Total runs; several scored runs start with a warm-up.
    fn runs(&self) -> u32 {
        let usual = if self.request.closed { CLOSED_RUNS } else { 1 };
        match self.request.runs.unwrap_or(usual) {
            1 => 1,
            scored => scored.saturating_add(1),
        }
    }

    /// The reproducible shuffle of samples.
    fn shuffle(&self) -> ShufflePlan {
        let (workload, request) = (self.workload, self.request);
        let seed = workload.train.seed;
        ShufflePlan {
            files: workload.reader.file_shuffle,
            samples: workload.reader.sample_shuffle,
            seed,
            file_seed: match workload.reader.file_shuffle {
                Shuffle::Random => request.drawn_seed ^ seed,
                Shuffle::Off | Shuffle::Seed => seed,
            },
            seed_change_epoch: workload.train.seed_change_epoch,
            by_generators: workload.reader.data_loader == DataLoader::Tensorflow
                && workload.dataset.format != DataFormat::Tfrecord
                && !workload.profile(request.profile).reshuffles(),
        }
    }

    fn time(&mut self, what: &str, time: Distribution) -> Distribution {
        match time.fault() {
            None => time,
            Some(fault) => {
                self.problems.plan(format!("{what}: {fault}"), "");
                Distribution::ZERO
            }
        }
    }

    fn path(&mut self) -> PathKind {
        if self.request.is_null() {
            return PathKind::Null;
        }
        let dir = self.request.dir.as_ref();
        if let Some(folder) = dir.filter(|folder| folder.names_objects()) {
            if let Some(path) = self.request.path.filter(|path| *path != PathKind::S3) {
                self.problems.plan(
                    format!("path {path} moves files, and {folder} names objects"),
                    "use --path s3, or leave --path out",
                );
            }
            return PathKind::S3;
        }
        let default = if self.workload.reader.odirect { PathKind::Cpu } else { PathKind::Buffered };
        let path = self.request.path.unwrap_or(default);
        if path == PathKind::S3 {
            self.problems.plan(
                "path s3 moves objects, and the dataset is in a folder",
                "use --dir s3://bucket/prefix, or another --path",
            );
            return default;
        }
        if !PATHS.contains(&path) {
            let names: Vec<&str> = PATHS.iter().map(|path| path.name()).collect();
            self.problems.plan(
                format!("path {path} is not for training"),
                format!("use --path {} or null", names.join(", ")),
            );
            // Prevents follow-up problems about it.
            return default;
        }
        path
    }

    /// Reports a file system that refuses O_DIRECT: falling back to the page cache would measure
    /// something else. cuFile has a fallback, which the evidence shows.
    fn check_direct(&mut self, path: PathKind) {
        if let Availability::Unavailable { fact, .. } = &self.inventory.direct
            && path.wants_direct()
            && !path.needs_cufile()
        {
            self.problems.machine(
                format!(
                    "the file system of {} does not support O_DIRECT, which path {path} requires: \
                     {fact}",
                    self.inventory.folder
                ),
                "use --path buffered, or put the dataset on a file system that supports it",
            );
        }
    }

    fn loader(
        &self,
        profile: Profile,
        format: DataFormat,
        read_threads: u32,
        accelerators: u32,
        files: u64,
    ) -> LoaderPlan {
        let reader = &self.workload.reader;
        let prefetch = reader.prefetch_size;
        if format == DataFormat::Tfrecord {
            return LoaderPlan::Interleave {
                read_threads: read_threads.max(1),
                shuffle_records: match reader.sample_shuffle {
                    Shuffle::Off => 0,
                    Shuffle::Seed | Shuffle::Random => reader.shuffle_size,
                },
                prefetch_batches: prefetch,
                computation_threads: reader.computation_threads.max(1),
                keep_every: if files >= u64::from(accelerators) { 1 } else { accelerators },
            };
        }
        LoaderPlan::Workers {
            read_threads,
            prefetch_size: prefetch,
            batches_outstanding: LoaderPlan::outstanding(read_threads, prefetch),
            persistent: !profile.reshuffles(),
            row_groups_in_flight: if format == DataFormat::Parquet {
                ROW_GROUPS_IN_FLIGHT
            } else {
                1
            },
        }
    }

    fn reads(&self, profile: Profile, format: DataFormat, path: PathKind) -> ReadPattern {
        match format {
            DataFormat::Npz
            | DataFormat::Npy
            | DataFormat::Jpeg
            | DataFormat::Png
            | DataFormat::Hdf5
            | DataFormat::Csv => file_reads(profile, format, path),
            DataFormat::IndexedBinary => ReadPattern::IndexedSample,
            DataFormat::Parquet => ReadPattern::RowGroups,
            DataFormat::Tfrecord => {
                let asked = self.workload.reader.transfer_size;
                let bytes = asked.unwrap_or_else(|| default_transfer_bytes(path));
                ReadPattern::Records {
                    transfer_size: if path.wants_direct() {
                        bytes.checked_next_multiple_of(DIRECT_ALIGN_BYTES).unwrap_or(bytes)
                    } else {
                        bytes
                    },
                }
            }
        }
    }

    /// DLIO writes checkpoints either between blocks of steps or at ends of epochs, and reads only
    /// one of the two size keys (`model.model_size_bytes`, in its `LoadConfig`); `native` also
    /// honours the other one.
    fn checkpoint(&mut self, profile: Profile) -> Option<CheckpointPlan> {
        if !self.writes_checkpoints() {
            return None;
        }
        let spec = &self.workload.checkpoint;
        let bytes = match (profile, spec.ignored_model_size_bytes) {
            (Profile::Native, Some(meant)) => meant,
            _ => spec.model_size_bytes,
        };
        let steps_between = self.steps_between_checkpoints();
        Some(CheckpointPlan {
            folder: Location::from(&spec.checkpoint_folder),
            bytes,
            after_epoch: steps_between.is_none().then_some(spec.checkpoint_after_epoch.max(1)),
            epochs_between: spec.epochs_between_checkpoints.max(1),
            steps_between,
        })
    }
}

/// How an edition reads files of `format` that hold one or a few samples and are read whole.
fn file_reads(profile: Profile, format: DataFormat, path: PathKind) -> ReadPattern {
    match (profile, format) {
        (Profile::V1 | Profile::V2, DataFormat::Hdf5) if path.uses_page_cache() => {
            ReadPattern::H5py
        }
        // Only the sample is needed; only v3.0's reader reads the whole file.
        (Profile::V1 | Profile::V2 | Profile::Native, DataFormat::Hdf5) => {
            ReadPattern::IndexedSample
        }
        // Direct readers read the whole file in one call and parse it in memory.
        _ if !path.uses_page_cache() => ReadPattern::WholeFile,
        (Profile::Native, _) => ReadPattern::Pieces,
        (_, DataFormat::Csv) => ReadPattern::PandasCsv,
        (Profile::V3, _) => ReadPattern::WholeFile,
        (Profile::V1 | Profile::V2, DataFormat::Npz) => ReadPattern::NumpyLoad,
        (Profile::V1 | Profile::V2, DataFormat::Npy) => ReadPattern::NumpyArray,
        (Profile::V1 | Profile::V2, DataFormat::Jpeg) => ReadPattern::PillowJpeg,
        (Profile::V1 | Profile::V2, DataFormat::Png) => ReadPattern::PillowPng,
        (Profile::V1 | Profile::V2, _) => ReadPattern::WholeFile,
    }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
