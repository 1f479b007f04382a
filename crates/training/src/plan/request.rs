//! Command-line options that override the workload.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::barrier::StepBarrier;
use super::client::ClientCost;
use super::distribution::Distribution;
use stormlp_core::location::Location;
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::telemetry::Telemetry;
use stormlp_core::transport::{DeviceId, EngineChoice, Pages, Threading};

/// Maximum reading workers per accelerator; more than any host has CPUs for.
pub const MAX_READ_THREADS: u32 = 1024;
/// Maximum prefetch, in batches.
pub const MAX_PREFETCH: u32 = 65_536;
/// Maximum epochs per run; the report keeps each of them.
pub const MAX_EPOCHS: u32 = 1_000_000;
/// Maximum scored runs per command.
pub const MAX_RUNS: u32 = 1000;

/// Where the data of a run come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StorageKind {
    /// From the dataset folder.
    #[default]
    Real,
    /// Nowhere; reads complete at once. Shows this host's ceiling for the workload.
    Null,
}

/// The processes that run a workload together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
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

/// Overrides of a workload; `None` keeps the workload's value.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TrainRequest {
    /// The workload as given on the command line (built-in name or file); defaults to its own name.
    pub workload: Option<String>,
    /// `--profile`.
    pub profile: Option<Profile>,
    /// `--accelerators`, in total; default 1.
    pub accelerators: Option<u32>,
    /// The processes that run it together, whose accelerators add up to that total; `None` for one.
    pub hosts: Option<RequestedHosts>,
    /// `--batch-size`.
    pub batch_size: Option<u32>,
    /// `--read-threads`.
    pub read_threads: Option<u32>,
    /// `--prefetch`.
    pub prefetch: Option<u32>,
    /// `--epochs`.
    pub epochs: Option<u32>,
    /// `--steps`, for each epoch.
    pub steps: Option<u64>,
    /// `--files`.
    pub files: Option<u64>,
    /// `--samples-per-file`.
    pub samples_per_file: Option<u64>,
    /// `--compute-time`.
    pub compute: Option<Distribution>,
    /// `--client`: the client overhead to account for; `None` for no overhead.
    pub client: Option<ClientCost>,
    /// `--barrier`.
    pub barrier: StepBarrier,
    /// Name of an accelerator profile, shown as the accelerator in the report.
    pub accelerator: Option<String>,
    /// `--seed`.
    pub seed: Option<u64>,
    /// Seed for shuffles that differ from run to run, drawn when the request is created.
    pub drawn_seed: u64,
    /// `--data-dir`: the dataset folder.
    pub data_dir: Option<Location>,
    /// `--path`; default `buffered`, or `cpu` where the workload sets `reader.odirect`.
    pub path: Option<PathKind>,
    /// `--engine`.
    pub engine: EngineChoice,
    /// `--device`; `None` takes the first accelerator, or else the stand-in.
    pub device: Option<DeviceId>,
    /// `--pages`.
    pub pages: Pages,
    /// `--require-gds`: a cuFile path that falls back is an error.
    pub require_gds: bool,
    /// `--cufile-stats`: the level at which cuFile collects statistics throughout the run.
    pub cufile_stats: Option<u8>,
    /// `--wait`, `--numa` and `--cpus`.
    pub threading: Threading,
    /// Telemetry interval.
    pub telemetry: Telemetry,
    /// `--cold`.
    pub cold: bool,
    /// `--storage`.
    pub storage: StorageKind,
    /// `--transfer-size` in bytes.
    pub transfer_size: Option<u64>,
    /// `--runs`: number of scored runs; above 1 a warm-up run precedes them.
    pub runs: Option<u32>,
    /// `--closed`: whether MLPerf's closed rules apply.
    pub closed: bool,
    /// Results folders that are known to share the dataset's file system.
    pub results_beside_data: Vec<PathBuf>,
    /// `--threads`: I/O threads; `None` chooses by path and CPUs.
    pub threads: Option<u32>,
    /// Whether to keep the times of every step (`--mlperf-output`).
    pub keep_step_times: bool,
    /// `--memory-limit` in bytes; `None` uses the host's memory.
    pub memory_limit_bytes: Option<u64>,
    /// Folder for checkpoints written during training.
    pub checkpoint_folder: Option<Location>,
}
