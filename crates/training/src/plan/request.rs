//! The request for a run: the options of `stormlp train`, not validated yet.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::client::{Client, ClientCost};
use super::distribution::Distribution;
use super::workload::Workload;
use stormlp_core::calibration::CalibrationOrigin;
use stormlp_core::location::Location;
use stormlp_core::numbers::whole;
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::transport::{Devices, EngineChoice, Requirement, Threading};
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
    /// Number of epochs [default: the workload's, on a starter dataset 2 at most]
    #[arg(long, value_name = "N",
        value_parser = whole::<u32>(1..=u64::from(MAX_EPOCHS)))]
    pub epochs: Option<u32>,

    /// Steps per epoch [default: as many as the dataset has]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..))]
    pub steps: Option<u64>,
}

/// Options of a training run. `None` falls back to the workload, then to the default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(clap::Args)]
#[command(next_help_heading = "The workload")]
#[serde(default)]
pub struct TrainRequest {
    /// A built-in workload (see `stormlp workloads`), or a YAML file in MLPerf Storage or DLIO
    /// format
    #[arg(value_name = "WORKLOAD")]
    pub workload: String,

    /// Accelerator to emulate: v100, a100, h100, b200, mi355; for another set --compute-time [default:
    /// h100, or the workload's]
    #[arg(long, value_name = "NAME")]
    pub accelerator: Option<String>,

    /// Total number of accelerators, shared by all hosts [default: one per process]
    #[arg(short = 'n', long, value_name = "N",
        value_parser = whole::<u32>(1..))]
    pub accelerators: Option<u32>,

    /// Number of accelerators on each host
    #[arg(long, value_name = "N",
        conflicts_with_all = ["accelerators", "find_max"], value_parser = whole::<u32>(1..))]
    pub accelerators_per_host: Option<u32>,

    /// Rules for read order, read pattern and metrics [default: the workload's edition]
    #[arg(long = "edition", value_name = "1.0|2.0|3.0|native", value_parser = Profile::of_edition)]
    pub profile: Option<Profile>,

    /// Emulated compute time per step, such as 162ms (plain numbers are seconds), or in DLIO's
    /// format, '{type: normal, mean: 0.3, stdev: 0.02}'
    #[arg(long = "compute-time", value_name = "TIME")]
    pub compute: Option<Distribution>,

    /// Add the cost of the official client, so that AU predicts its result: a FILE that `stormlp
    /// calibrate` saved on this host, dlio for what the workload's format cost on another machine (two
    /// CPUs of an AMD EPYC, Python 3.11), or none
    #[arg(long, value_name = "FILE|dlio|none", default_value = "none")]
    pub client: Client,

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

    /// Number of scored runs; several are preceded by an unscored warm-up run, like MLPerf's 5
    /// [default: 1; 5 with --closed]
    #[arg(long, value_name = "N",
        value_parser = whole::<u32>(1..=u64::from(MAX_RUNS)))]
    pub runs: Option<u32>,

    /// Enforce MLPerf's closed rules, and list all violations
    #[arg(long)]
    pub closed: bool,

    /// Workload parameters to override, as in mlpstorage: reader.read_threads=8, reader.batch_size=4,
    /// reader.prefetch_size=2, train.seed=7, checkpoint.checkpoint_folder=DIR (docs/training.md has all)
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    pub params: Vec<String>,

    /// Dataset folder, with samples in train/ and valid/, or s3://bucket/prefix, at the endpoint or
    /// endpoints (a,b) of AWS_ENDPOINT_URL [default: ./stormlp-data/WORKLOAD]
    #[arg(short = 'd', long, value_name = "DIR", help_heading = "The dataset",
        value_parser = Location::anywhere, value_hint = clap::ValueHint::AnyPath)]
    pub dir: Option<Location>,

    /// Number of training files to use
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..),
        help_heading = "The dataset")]
    pub files: Option<u64>,

    /// Generate the dataset if the folder is empty, in any folder
    #[arg(long, help_heading = "The dataset")]
    pub generate: bool,

    /// Generate the dataset required by MLPerf's rules for this host, not a starter dataset
    #[arg(long, help_heading = "The dataset")]
    pub full: bool,

    /// Path: buffered and cpu read to host memory; page-cache, cpu-gpu and cpu-async-gpu to GPU
    /// memory, or host memory that emulates it; gds, gds-async and gds-batch require libcufile (see
    /// `stormlp doctor`); null reads nothing and needs no dataset: it shows this host's upper limit for
    /// the workload [default: buffered, or cpu if the workload sets odirect]
    #[arg(long, value_name = "PATH", help_heading = "Reading")]
    pub path: Option<PathKind>,

    /// Accelerator memory: cuda:0, several GPUs such as cuda:0,cuda:1 or all, over which the
    /// accelerators are dealt, or host for emulation in host memory [default: the first GPU, else
    /// host]
    #[arg(long, value_name = "LIST", help_heading = "Reading")]
    pub device: Option<Devices>,

    /// Fail if a path of cuFile falls back: gds
    #[arg(long, value_name = "gds", help_heading = "Reading", value_parser = Requirement::of_cufile)]
    pub require: Option<Requirement>,

    /// Drop files from the page cache before each epoch, and verify it [default for a starter
    /// dataset]
    #[arg(long, help_heading = "Reading")]
    pub cold: bool,

    /// Verify objects: none, size (sizes and ETags), crc (checksums too: HEAD tells those of objects
    /// that are read in ranges)
    #[serde(default)]
    #[arg(long, value_name = "HOW", default_value = "size", help_heading = "Reading",
            value_parser = verify)]
    pub verify: Verify,

    /// I/O engine: auto, uring, tokio-uring, psync
    #[arg(long, value_name = "NAME", default_value = "auto", help_heading = "Reading")]
    pub engine: EngineChoice,

    /// I/O threads of this process [default: one per CPU, or one per read where reads block]
    #[arg(short = 't', long, value_name = "N", value_parser = whole::<u32>(1..=1024),
        help_heading = "Reading")]
    pub threads: Option<u32>,

    /// The placement of threads and buffers.
    #[command(flatten)]
    pub threading: Threading,

    /// Find the largest number of accelerators that meets the workload's threshold; drops files
    /// from the page cache before each run
    #[arg(long,
        conflicts_with_all = ["accelerators", "closed", "mlperf_output"],
        help_heading = "How many accelerators")]
    pub find_max: bool,

    /// Full runs with the result and with one accelerator more; with 0, the result is based on
    /// probes, each with 99 % confidence [default: 1]
    #[arg(long, value_name = "N", requires = "find_max",
        value_parser = whole::<u32>(0..=100), help_heading = "How many accelerators")]
    pub confirm: Option<u32>,

    /// Resume the search of a saved report, with the same options
    #[arg(
        long,
        value_name = "REPORT",
        requires = "find_max",
        help_heading = "How many accelerators"
    )]
    #[serde(skip)]
    pub resume: Option<PathBuf>,

    /// The dataset is local to each host, so results do not describe shared storage
    #[arg(long, conflicts_with = "find_max", help_heading = "Several hosts")]
    pub local_storage: bool,

    /// The processes that run it together, whose accelerators add up to that total; `None` for one.
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
    /// Completes the request for a starter set. It is small enough for the page cache, so a run as
    /// the workload has it would measure memory: its files are dropped before each epoch, and there
    /// are two epochs. What follows rules keeps to them.
    pub fn take_starter_set(&mut self, workload: &Workload) {
        self.starter = true;
        self.length.epochs = Some(self.starter_epochs(workload));
        let cached = self.path.map_or(!workload.reader.odirect, PathKind::uses_page_cache);
        self.cold |= cached && !self.follows_rules();
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

    /// Whether the run is one of a benchmark, or a search with rules of its own.
    fn follows_rules(&self) -> bool {
        self.closed || self.full || self.find_max || self.keep_step_times
    }

    /// The cost of the client to account for, where it reads `format`.
    pub fn client_cost(&self, format: DataFormat) -> Option<ClientCost> {
        match self.client {
            Client::None => None,
            Client::Dlio => ClientCost::known(format),
            Client::Calibrated(_) => self.calibrated,
        }
    }

    /// Whether nothing is read.
    pub fn is_null(&self) -> bool {
        self.path == Some(PathKind::Null)
    }
}
/// Parses a way to verify; samples are dropped, so their content cannot be.
fn verify(text: &str) -> Result<Verify, String> {
    match text.parse()? {
        Verify::Content => {
            let instead = "use none, size or crc, or `stormlp datagen --verify` for all content";
            Err(format!("samples are not looked at: {instead}"))
        }
        other => Ok(other),
    }
}
