//! The request for a run: the options of `stormlp train`, not validated yet.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::client::{Client, ClientCost};
use super::distribution::Distribution;
use super::workload::Workload;
use stormlp_core::cache::CacheChoice;
use stormlp_core::calibration::CalibrationOrigin;
use stormlp_core::location::Location;
use stormlp_core::names::{Named, unknown};
use stormlp_core::numbers::whole;
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::transport::{Devices, EngineChoice, Requirement};
use stormlp_core::tune::{MachineTune, Tuned};
use stormlp_core::verify::Verify;
use stormlp_core::workload_file::sets;
use stormlp_dataset::section::DataFormat;

/// Maximum reading workers per accelerator; more than any host has CPUs for.
pub const MAX_READ_THREADS: u32 = 1024;
/// Maximum prefetch, in batches.
pub const MAX_PREFETCH: u32 = 65_536;
/// Maximum epochs per run; the report keeps each of them.
pub const MAX_EPOCHS: u32 = 1_000_000;
/// Maximum scored runs per command.
pub const MAX_RUNS: u32 = 1000;

/// Epochs of a run on a starter set. Files are dropped before each, so more would show the same.
const STARTER_EPOCHS: u32 = 2;

/// The processes that run a workload together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestedHosts {
    /// Accelerators of each process, by rank.
    pub accelerators: Vec<u32>,
    /// The rank of this process.
    pub rank: u32,
    /// Number of hosts; fewer than processes if a host runs several.
    pub hosts: u32,
    /// Total memory of all hosts in bytes.
    pub memory_bytes: u64,
}

/// The length of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(clap::Args)]
#[serde(default)]
pub struct RunLength {
    /// Epochs [default: the workload's; at most 2 on a starter dataset]
    #[arg(long, value_name = "N",
        value_parser = whole::<u32>(1..=u64::from(MAX_EPOCHS)))]
    pub epochs: Option<u32>,

    /// Steps per epoch [default: the whole dataset]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..))]
    pub steps: Option<u64>,
}

/// The dataset that a run makes if its folder has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum NewDataset {
    /// A small one, for a run of about a minute.
    Starter,
    /// The one that MLPerf's rules require on this host.
    Full,
}

impl Named for NewDataset {
    const WHAT: &'static str = "a dataset to generate";
}

/// Options of a training run. `None` falls back to the workload, then to the default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(clap::Args)]
#[command(next_help_heading = "The workload")]
#[serde(default)]
pub struct TrainRequest {
    /// Built-in workload (see `stormlp workloads`), or a YAML file
    #[arg(value_name = "WORKLOAD")]
    pub workload: String,

    /// v100, a100, h100, b200, mi355 [default: h100, or the workload's]
    #[arg(long, value_name = "NAME")]
    pub accelerator: Option<String>,

    /// Accelerators on all hosts together [default: 1 per process]
    #[arg(short = 'n', long, value_name = "N",
        value_parser = whole::<u32>(1..))]
    pub accelerators: Option<u32>,

    /// Accelerators per host
    #[arg(long, value_name = "N",
        conflicts_with_all = ["accelerators", "find_max"], value_parser = whole::<u32>(1..))]
    pub accelerators_per_host: Option<u32>,

    /// MLPerf Storage edition [default: the workload's]
    #[arg(long = "edition", value_name = "1.0|2.0|3.0|native", value_parser = Profile::of_edition)]
    pub profile: Option<Profile>,

    /// Compute time per step: 162ms, or '{type: normal, mean: 0.3, stdev: 0.02}'
    #[arg(long = "compute-time", value_name = "TIME")]
    pub compute: Option<Distribution>,

    /// Include the overhead of MLPerf's client: FILE from `stormlp calibrate-dlio`, or dlio for an
    /// estimate
    #[arg(long, value_name = "FILE|dlio|none", default_value = "none")]
    pub client_overhead: Client,

    /// The cost in that file for the workload's format, read by the command line.
    #[arg(skip)]
    pub calibrated: Option<ClientCost>,

    /// Where that file's costs were measured, read by the command line.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<CalibrationOrigin>,

    /// Epochs and steps.
    #[command(flatten)]
    #[serde(flatten)]
    pub length: RunLength,

    /// Scored runs; 2 or more follow an unscored one [default: 1; 5 with --closed]
    #[arg(long, value_name = "N",
        value_parser = whole::<u32>(1..=u64::from(MAX_RUNS)))]
    pub runs: Option<u32>,

    /// Enforce MLPerf's closed rules
    #[arg(long)]
    pub closed: bool,

    /// Set a key of the workload, such as reader.read_threads=8; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub params: Vec<String>,

    /// Dataset folder, or s3://bucket/prefix [default: ./stormlp-data/WORKLOAD]
    #[arg(short = 'd', long, value_name = "DIR", help_heading = "The dataset",
        value_parser = Location::anywhere, value_hint = clap::ValueHint::AnyPath)]
    pub dir: Option<Location>,

    /// Number of training files
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..),
        help_heading = "The dataset")]
    pub files: Option<u64>,

    /// Generate a missing dataset: starter (small), full (MLPerf's size) [default: starter]
    #[arg(long, value_name = "starter|full", num_args = 0..=1, require_equals = true,
        default_missing_value = "starter", help_heading = "The dataset")]
    pub generate: Option<NewDataset>,

    /// buffered, cpu (O_DIRECT), page-cache, cpu-gpu, cpu-async-gpu, gds, gds-async, gds-batch,
    /// null (no reads) [default: buffered, or cpu with odirect]
    #[arg(long, value_name = "PATH", help_heading = "Reading")]
    pub path: Option<PathKind>,

    /// GPUs: cuda:0, cuda:0,cuda:1, all; or host to emulate one [default: first GPU, otherwise
    /// host]
    #[arg(long, value_name = "LIST", help_heading = "Reading")]
    pub device: Option<Devices>,

    /// Fail if cuFile falls back
    #[arg(long, value_name = "gds", help_heading = "Reading", value_parser = Requirement::of_cufile)]
    pub require: Option<Requirement>,

    /// Page cache before each epoch: cold, as-is [default: as-is; cold for a starter dataset]
    #[arg(long, value_name = "STATE", help_heading = "Reading")]
    pub cache: Option<CacheChoice>,

    /// Checks of objects: none, size, crc
    #[arg(long, value_name = "HOW", default_value = "size", help_heading = "Reading",
        value_parser = Verify::of_objects)]
    pub checksum: Verify,

    /// auto, uring, tokio-uring, psync
    #[arg(long, value_name = "NAME", default_value = "auto", help_heading = "Reading")]
    pub engine: EngineChoice,

    /// I/O threads of this process [default: one per CPU, or per blocking read]
    #[arg(short = 't', long, value_name = "N", value_parser = whole::<u32>(1..=1024),
        help_heading = "Reading")]
    pub threads: Option<u32>,

    /// Find the maximum number of accelerators that pass
    #[arg(long,
        conflicts_with_all = ["accelerators", "closed", "mlperf_output"],
        help_heading = "How many accelerators")]
    pub find_max: bool,

    /// Full runs at the maximum and above it; 0 for short probes alone [default: 1]
    #[arg(long, value_name = "N", requires = "find_max",
        value_parser = whole::<u32>(0..=100), help_heading = "How many accelerators")]
    pub confirm: Option<u32>,

    /// Continue the search of a saved report
    #[arg(
        long,
        value_name = "REPORT",
        requires = "find_max",
        help_heading = "How many accelerators"
    )]
    #[serde(skip)]
    pub resume: Option<PathBuf>,

    /// The dataset is local to each host
    #[arg(long, conflicts_with = "find_max", help_heading = "Several hosts")]
    pub local_storage: bool,

    /// The processes that run it together, with accelerators that add up to that total; `None` for
    /// one.
    #[arg(skip)]
    #[serde(skip)]
    pub hosts: Option<RequestedHosts>,

    /// Seed for shuffles that differ from run to run, drawn when the request is created.
    #[arg(skip)]
    #[serde(skip)]
    pub drawn_seed: u64,

    /// Rarely needed settings of the machine.
    #[command(flatten)]
    pub tune: Tuned<MachineTune>,

    /// Whether to keep the times of every step, for MLPerf's files.
    #[arg(skip)]
    pub keep_step_times: bool,

    /// Whether the dataset is not there yet and the run would make it.
    #[arg(skip)]
    #[serde(skip)]
    pub makes_dataset: bool,

    /// Whether the dataset is a starter set, once it is found.
    #[arg(skip)]
    pub starter: bool,

    /// Results folders that are known to share the dataset's file system.
    #[arg(skip)]
    #[serde(skip)]
    pub results_beside_data: Vec<PathBuf>,
}

impl TrainRequest {
    /// Completes the request for a starter set. It is small enough for the page cache, so an
    /// unchanged run would measure memory: its files are dropped before each epoch, and there are
    /// two epochs. A run that follows rules keeps to them.
    pub fn take_starter_set(&mut self, workload: &Workload) {
        self.starter = true;
        self.length.epochs = Some(self.starter_epochs(workload));
        let cached = self.path.map_or(!workload.reader.odirect, PathKind::uses_page_cache);
        if cached && !self.follows_rules() {
            self.cache.get_or_insert(CacheChoice::Cold);
        }
    }

    /// The epochs of a run on a starter set. A workload file has the number that its author wants.
    pub fn starter_epochs(&self, workload: &Workload) -> u32 {
        let of_workload = workload.train.epochs;
        let is_file = self.workload.contains(['/', '.']);
        match self.length.epochs {
            Some(epochs) => epochs,
            None if self.follows_rules() || is_file => of_workload,
            None if sets(&self.params, "train.epochs") => of_workload,
            None => of_workload.min(STARTER_EPOCHS),
        }
    }

    /// Whether the run is one of a benchmark, or a search with separate rules.
    fn follows_rules(&self) -> bool {
        self.closed || self.is_full() || self.find_max || self.keep_step_times
    }

    /// The cost of the client to account for, where it reads `format`.
    pub fn client_cost(&self, format: DataFormat) -> Option<ClientCost> {
        match self.client_overhead {
            Client::None => None,
            Client::Dlio => ClientCost::known(format),
            Client::Calibrated(_) => self.calibrated,
        }
    }

    /// Whether the run may make the dataset that MLPerf's rules require.
    pub fn is_full(&self) -> bool {
        self.generate == Some(NewDataset::Full)
    }

    /// Whether files are dropped from the page cache before each epoch.
    pub fn is_cold(&self) -> bool {
        self.cache == Some(CacheChoice::Cold)
    }

    /// Whether it does not read.
    pub fn is_null(&self) -> bool {
        self.path == Some(PathKind::Null)
    }
}
