//! A fully resolved training run; printed by `--dry-run` and executed by `run`.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::client::ClientCost;
use super::distribution::Distribution;
use super::request::TrainRequest;
use super::workload::Shuffle;
use stormlp_core::location::Location;
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::transport::Transport;
use stormlp_core::verify::Verify;
use stormlp_dataset::inventory::facts::Inventory;
use stormlp_dataset::section::{DataFormat, ParquetColumn};

/// A fully resolved training run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrainPlan {
    /// The options of the run as given. Where another field says the same, that one was decided.
    pub request: TrainRequest,
    /// The workload's name.
    pub workload: String,
    /// The emulated accelerator.
    pub accelerator: String,
    /// The edition to reproduce.
    pub profile: Profile,
    /// Emulated accelerators in total.
    pub accelerators: u32,
    /// Accelerators of each process by rank, if several work together; empty for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<u32>,
    /// Samples per step per accelerator.
    pub batch_size: u32,
    /// Steps per epoch of each accelerator.
    pub steps_per_epoch: u64,
    /// Epochs per run.
    pub epochs: u32,
    /// Runs; above 1 the first is an unscored warm-up.
    pub runs: u32,
    /// The dataset.
    pub data: DataPlan,
    /// The loader of each accelerator.
    pub loader: LoaderPlan,
    /// How a sample or record is read.
    pub reads: ReadPattern,
    /// Compute time per step.
    pub compute: Distribution,
    /// Preprocessing time per sample in the worker that read it.
    pub preprocess: Distribution,
    /// Overhead of the official client; `None` when it is not accounted for.
    #[serde(default)]
    pub client: Option<ClientCost>,
    /// When a block of steps ends.
    pub block_end: BlockEnd,
    /// Whether a first batch is read and discarded before each epoch (v3.0's loader start).
    pub prewarm: bool,
    /// The window and target of AU.
    pub metric: MetricPlan,
    /// Order of files and samples.
    pub shuffle: ShufflePlan,
    /// Checkpoints written during training.
    pub checkpoint: Option<CheckpointPlan>,
    /// How the data is transferred.
    pub transport: Transport,
    /// Estimated memory of the run in bytes.
    pub memory_bytes: u64,
}

/// When a block of steps ends, and with it the time in AU's denominator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BlockEnd {
    /// Right after the barrier of the last step.
    AfterLastBarrier,
    /// After one more fetch returned (or the loader reported the end of the data).
    AfterNextFetch,
}

impl BlockEnd {
    /// When the block of steps of this edition ends.
    pub fn of(profile: Profile) -> Self {
        match profile {
            // v2.0's tool pins a commit that checks for the last step before it fetches again; the
            // release after it, and v3.0, check after the fetch.
            Profile::V1 | Profile::V2 | Profile::Native => Self::AfterLastBarrier,
            Profile::V3 => Self::AfterNextFetch,
        }
    }
}

/// From this size on, v3.0's default client asks for an object's size before it reads it.
const HEAD_FROM_BYTES: u64 = 16 << 20;

impl TrainPlan {
    /// The size from which a HEAD goes before each read of an object; `None` where none does.
    pub fn head_from_bytes(&self) -> Option<u64> {
        let as_official = (self.profile == Profile::V3).then_some(HEAD_FROM_BYTES);
        // No other request tells the checksum of an object that is read in ranges.
        let of_ranges = self.transport.chunk_bytes + 1;
        let for_checksums = (self.request.checksum == Verify::Crc).then_some(of_ranges);
        as_official.into_iter().chain(for_checksums).min()
    }

    /// Whether it does not read: null storage.
    pub fn is_null(&self) -> bool {
        self.transport.path == PathKind::Null
    }

    /// Whether compute that this host ends late counts as compute: v2.0 and later count the actual
    /// time of a sleep. A calibration measures how late the client's sleep is.
    pub fn late_compute_counts(&self) -> bool {
        let counts_sleep = matches!(self.profile, Profile::V2 | Profile::V3);
        counts_sleep && self.client.is_none_or(|client| client.oversleep_seconds.is_none())
    }

    /// The accelerators of process `rank`; numbering is contiguous, process by process.
    pub fn accelerators_of(&self, rank: u32) -> Range<u32> {
        let Some(own) = self.hosts.get(rank as usize) else {
            return 0..self.accelerators;
        };
        let first = self.hosts[..rank as usize].iter().sum();
        first..first + own
    }

    /// The maximum accelerators per process.
    pub fn most_accelerators(&self) -> u32 {
        let most = self.hosts.iter().max();
        most.copied().unwrap_or(self.accelerators)
    }

    /// Samples per step over all accelerators.
    pub fn global_batch(&self) -> u64 {
        u64::from(self.batch_size) * u64::from(self.accelerators)
    }

    /// Bytes per second demanded by all accelerators at an AU of 100 %.
    pub fn demand_bytes_per_second(&self) -> f64 {
        let compute = self.compute.mean_seconds();
        if compute <= 0.0 {
            return f64::INFINITY;
        }
        self.global_batch() as f64 * self.data.read_sample_bytes / compute
    }

    /// Samples per second demanded by all accelerators at an AU of 100 %.
    pub fn demand_samples_per_second(&self) -> f64 {
        let compute = self.compute.mean_seconds();
        if compute > 0.0 { self.global_batch() as f64 / compute } else { f64::INFINITY }
    }

    /// Reads in the steps of one epoch, over all accelerators.
    pub fn reads_of_epoch(&self) -> f64 {
        let samples = self.steps_per_epoch as f64 * self.global_batch() as f64;
        let samples = samples * self.passes();
        let data = &self.data;
        match &self.reads {
            ReadPattern::Records { transfer_size } => {
                let record = data.mean_file_bytes() / data.samples_per_file.max(1) as f64;
                samples * record.min(*transfer_size as f64) / *transfer_size as f64
            }
            ReadPattern::RowGroups => samples / data.rows_of_group() as f64,
            _ => samples,
        }
    }

    /// How often each sample is read per epoch over all accelerators: once, or once by each
    /// accelerator if there are fewer files than accelerators.
    pub fn passes(&self) -> f64 {
        match self.loader {
            LoaderPlan::Interleave { keep_every, .. } => f64::from(keep_every.max(1)),
            LoaderPlan::Workers { .. } => 1.0,
        }
    }

    /// Maximum batches that the loader of an accelerator holds or reads ahead.
    pub fn batches_ahead(&self) -> u64 {
        match self.loader {
            LoaderPlan::Workers { batches_outstanding, .. } => u64::from(batches_outstanding),
            LoaderPlan::Interleave {
                shuffle_records,
                prefetch_batches,
                computation_threads,
                ..
            } => {
                let shuffled = shuffle_records.div_ceil(u64::from(self.batch_size.max(1)));
                u64::from(prefetch_batches) + u64::from(computation_threads) + shuffled
            }
        }
    }

    /// The AU that this run, which reached `au_percent` without a client, can reach with `client`:
    /// its step time is added to each step, and workers are limited by their CPU time.
    pub fn au_percent_with(&self, client: ClientCost, au_percent: f64) -> f64 {
        let compute = self.compute.mean_seconds();
        if compute <= 0.0 || au_percent <= 0.0 {
            return au_percent;
        }
        let work = client.worker_seconds(f64::from(self.batch_size), self.data.read_sample_bytes);
        let workers = self.loader.concurrent_reads().max(1) as f64;
        let of_workers = work / workers;
        let of_cpus = work * f64::from(self.most_accelerators()) / client.cpus.max(1) as f64;
        let step = (compute * 100.0 / au_percent).max(of_workers).max(of_cpus);
        let slept = compute + client.oversleep_seconds.unwrap_or(0.0);
        let counted = if self.profile == Profile::V1 { compute } else { slept };
        100.0 * counted / (step - compute + slept + client.step_seconds_of(self.batch_size))
    }

    /// Seconds of compute in all epochs of one run: the minimum run time.
    pub fn compute_seconds(&self) -> f64 {
        self.compute.mean_seconds() * self.steps_per_epoch as f64 * f64::from(self.epochs)
    }
}

/// The dataset of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DataPlan {
    /// The dataset folder; `None` with null storage.
    pub folder: Option<Location>,
    /// Format of the files.
    pub format: DataFormat,
    /// Training files used: the first ones of the inventory.
    pub files: u64,
    /// Samples per file.
    pub samples_per_file: u64,
    /// Configured bytes per sample (`record_length_bytes`), used to compute MiB/s.
    pub sample_bytes: f64,
    /// Bytes that training reads per sample: less than `sample_bytes` if only some columns are
    /// read, a whole text file with csv.
    pub read_sample_bytes: f64,
    /// Bytes of the training files as found; with null storage, their nominal size.
    pub bytes: u64,
    /// Columns of a parquet file; empty otherwise.
    pub columns: Vec<ParquetColumn>,
    /// Rows per row group; 0 for other formats.
    pub row_group_rows: u64,
}

impl DataPlan {
    /// Samples in the training files.
    pub fn samples(&self) -> u64 {
        self.files.saturating_mul(self.samples_per_file)
    }

    /// Updates the sizes from the files found: for some formats they are known only once the
    /// dataset has been generated.
    pub fn take_sizes(&mut self, inventory: &Inventory) {
        if self.folder.is_some() {
            self.bytes = inventory.train_bytes(self.files);
        }
    }

    /// Rows per row group, at most the rows of a file.
    pub fn rows_of_group(&self) -> u64 {
        self.row_group_rows.clamp(1, self.samples_per_file.max(1))
    }

    /// Mean bytes per training file.
    pub fn mean_file_bytes(&self) -> f64 {
        self.bytes as f64 / self.files.max(1) as f64
    }

    /// Mean bytes per unit that `pattern` reads: a row group, a sample or a file.
    pub fn read_bytes(&self, pattern: &ReadPattern) -> f64 {
        match pattern {
            ReadPattern::RowGroups => self.read_sample_bytes * self.row_group_rows as f64,
            ReadPattern::IndexedSample | ReadPattern::H5py => self.sample_bytes,
            _ => self.mean_file_bytes(),
        }
    }
}

/// The loader of one accelerator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LoaderPlan {
    /// PyTorch's workers: each reads whole batches, delivered strictly in order.
    Workers {
        /// Workers; 0 reads inline without overlap.
        read_threads: u32,
        /// `prefetch_size`.
        prefetch_size: u32,
        /// Maximum outstanding batches: workers × prefetch factor.
        batches_outstanding: u32,
        /// Whether workers outlive the epoch and finish their assigned batches.
        persistent: bool,
        /// Row groups that one worker keeps in flight (parquet); 1 otherwise.
        row_groups_in_flight: u32,
    },
    /// tf.data over record files.
    Interleave {
        /// Files in the cycle, which are read concurrently; at least 1.
        read_threads: u32,
        /// Records in the shuffle buffer; 0 when samples are not shuffled.
        shuffle_records: u64,
        /// `prefetch_size`: batches ready ahead of the accelerator.
        prefetch_batches: u32,
        /// Parallel parse calls, each holding one more batch.
        computation_threads: u32,
        /// Keep every n-th record: 1 if files are sharded, else the number of accelerators.
        keep_every: u32,
    },
}

impl LoaderPlan {
    /// Maximum outstanding batches of PyTorch's workers: W × ceil(prefetch / W), torch's default
    /// factor 2 if prefetch is 0, and one when reading inline.
    pub fn outstanding(read_threads: u32, prefetch_size: u32) -> u32 {
        if read_threads == 0 {
            return 1;
        }
        let factor = match prefetch_size.div_ceil(read_threads) {
            0 => 2,
            factor => factor,
        };
        read_threads.saturating_mul(factor)
    }

    /// Workers, or files in the cycle.
    pub fn read_threads(&self) -> u32 {
        match *self {
            Self::Workers { read_threads, .. } | Self::Interleave { read_threads, .. } => {
                read_threads
            }
        }
    }

    /// Maximum reads in flight per loader.
    pub fn concurrent_reads(&self) -> usize {
        match *self {
            Self::Workers { read_threads, row_groups_in_flight, .. } => {
                read_threads.max(1) as usize * row_groups_in_flight.max(1) as usize
            }
            // One thread per file.
            Self::Interleave { .. } => self.streams(),
        }
    }

    /// Maximum files that a loader keeps open between reads.
    pub fn streams(&self) -> usize {
        match *self {
            Self::Workers { .. } => 0,
            // The cycle, plus twice its length opened ahead.
            Self::Interleave { read_threads, .. } => 3 * read_threads.max(1) as usize,
        }
    }

    /// `prefetch_size`, whatever its unit.
    pub fn prefetch_size(&self) -> u32 {
        match *self {
            Self::Workers { prefetch_size, .. } => prefetch_size,
            Self::Interleave { prefetch_batches, .. } => prefetch_batches,
        }
    }
}

/// How the data of a sample is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ReadPattern {
    /// The whole file in one read, once per sample in it.
    WholeFile,
    /// The whole file in reads of the transport's chunk size: cheaper than one read, but not used
    /// by any edition.
    Pieces,
    /// `np.load` of a zip: directory first, then pairs of 252 KiB and 4 KiB.
    NumpyLoad,
    /// `np.load` of an array: its header three times, then the rest in one read.
    NumpyArray,
    /// A JPEG file as Pillow decodes it: 4 KiB, then 64 KiB at a time.
    PillowJpeg,
    /// A PNG file as Pillow decodes it: 4 KiB, then pairs of 60 KiB and 4 KiB.
    PillowPng,
    /// One sample of an indexed or HDF5 file: `size` bytes at its offset.
    IndexedSample,
    /// An HDF5 file as h5py reads one sample: metadata in eight reads of 8 to 544 bytes, then the
    /// sample in one read of at least 64 KiB. The file is not parsed.
    H5py,
    /// A table as pandas reads it: 256 KiB at a time. The text is not parsed.
    PandasCsv,
    /// Record files from start to end in reads of `transfer_size` bytes.
    Records {
        /// Bytes per read.
        transfer_size: u64,
    },
    /// Row groups; only the selected columns are read.
    RowGroups,
}

impl ReadPattern {
    /// Whether a single read covers a whole sample, whatever its size.
    pub fn is_one_read(&self) -> bool {
        use ReadPattern::{H5py, IndexedSample, NumpyArray, RowGroups, WholeFile};
        matches!(self, WholeFile | NumpyArray | IndexedSample | H5py | RowGroups)
    }
}

/// The window and target of AU.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricPlan {
    /// Target AU in percent.
    pub threshold_percent: f64,
    /// Steps at the start of each block that AU excludes.
    pub exclude_start_steps: u64,
    /// Steps at the end that AU excludes.
    pub exclude_end_steps: u64,
}

/// Order of files and samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShufflePlan {
    /// Shuffling of files.
    pub files: Shuffle,
    /// Shuffling of samples.
    pub samples: Shuffle,
    /// The seed.
    pub seed: u64,
    /// Seed for the order of files: the seed, mixed with a random one if the shuffle differs from
    /// run to run.
    pub file_seed: u64,
    /// Whether the epoch is added to the seed.
    pub seed_change_epoch: bool,
    /// Whether TensorFlow's generators read files other than records, which up to v2.0 shuffles all
    /// files again in each epoch.
    #[serde(default)]
    pub by_generators: bool,
}

/// Checkpoints written during training.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckpointPlan {
    /// The folder.
    pub folder: Location,
    /// Bytes per checkpoint.
    pub bytes: u64,
    /// The first epoch followed by a checkpoint; `None` when only steps count.
    pub after_epoch: Option<u32>,
    /// Epochs between checkpoints.
    pub epochs_between: u32,
    /// Steps between checkpoints; each checkpoint splits the block.
    pub steps_between: Option<u64>,
}
