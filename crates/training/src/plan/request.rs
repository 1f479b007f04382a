//! What was asked for on the command line, over what the workload says.

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

/// Reading workers that one accelerator may have: more than any host has CPUs for.
pub const MAX_READ_THREADS: u32 = 1024;
/// Batches that may be read ahead.
pub const MAX_PREFETCH: u32 = 65_536;
/// Epochs of a run: each of them is kept in the report.
pub const MAX_EPOCHS: u32 = 1_000_000;
/// Scored runs of a command.
pub const MAX_RUNS: u32 = 1000;

/// Where the bytes of a run come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StorageKind {
    /// From the dataset folder.
    #[default]
    Real,
    /// From nowhere, at once: shows the ceiling of this host for the workload.
    Null,
}

/// The processes that run a workload together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RequestedHosts {
    /// Accelerators of each, by rank.
    pub accelerators: Vec<u32>,
    /// Which of them asks.
    pub rank: u32,
    /// Hosts: fewer than processes where a host has several.
    pub hosts: u32,
    /// Memory of all hosts together, in bytes.
    pub memory_bytes: u64,
}

/// Overrides of a workload; `None` leaves what the workload says.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TrainRequest {
    /// The workload as it was named, a built-in one or a file; its own name by default.
    pub workload: Option<String>,
    /// `--profile`.
    pub profile: Option<Profile>,
    /// `--accelerators`, in all; default 1.
    pub accelerators: Option<u32>,
    /// The processes that run it together, whose accelerators add up to those; `None` for one.
    pub hosts: Option<RequestedHosts>,
    /// `--batch-size`.
    pub batch_size: Option<u32>,
    /// `--read-threads`.
    pub read_threads: Option<u32>,
    /// `--prefetch`.
    pub prefetch: Option<u32>,
    /// `--epochs`.
    pub epochs: Option<u32>,
    /// `--steps`: of every epoch.
    pub steps: Option<u64>,
    /// `--files`.
    pub files: Option<u64>,
    /// `--samples-per-file`.
    pub samples_per_file: Option<u64>,
    /// `--compute-time`.
    pub compute: Option<Distribution>,
    /// `--client`: what the official client adds; `None` adds nothing.
    pub client: Option<ClientCost>,
    /// `--barrier`.
    pub barrier: StepBarrier,
    /// Name of an accelerator profile, which names the accelerator in the report.
    pub accelerator: Option<String>,
    /// `--seed`.
    pub seed: Option<u64>,
    /// What a shuffle that differs from run to run is seeded with: drawn when the request is made.
    pub drawn_seed: u64,
    /// `--data-dir`: the dataset folder itself.
    pub data_dir: Option<Location>,
    /// `--path`; default `buffered`, or `cpu` where the workload sets `reader.odirect`.
    pub path: Option<PathKind>,
    /// `--engine`.
    pub engine: EngineChoice,
    /// `--device`; `None` takes the first accelerator, else the stand-in.
    pub device: Option<DeviceId>,
    /// `--pages`.
    pub pages: Pages,
    /// `--require-gds`: a path of cuFile's that falls back is an error.
    pub require_gds: bool,
    /// `--cufile-stats`: the level at which cuFile counts all the time.
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
    /// `--runs`: those that are scored; above 1 a warm-up comes before them.
    pub runs: Option<u32>,
    /// `--closed`: whether MLPerf's closed rules bind the run.
    pub closed: bool,
    /// Folders for results that lie on the dataset's file system, as far as that is known.
    pub results_beside_data: Vec<PathBuf>,
    /// `--threads`: I/O threads; `None` takes as many as the path and the CPUs want.
    pub threads: Option<u32>,
    /// Whether the times of every step are to be kept (`--mlperf-output`).
    pub keep_step_times: bool,
    /// `--memory-limit` in bytes; `None` takes the host's.
    pub memory_limit_bytes: Option<u64>,
    /// Folder for checkpoints in training.
    pub checkpoint_folder: Option<Location>,
}
