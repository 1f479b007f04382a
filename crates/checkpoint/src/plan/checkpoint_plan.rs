//! The plan of a checkpoint run: every number is decided before the first byte moves.

use serde::{Deserialize, Serialize};

use super::choice::{CheckpointProfile, FsyncPolicy};
use super::layout::{CheckpointFile, Layout};
use super::marker::ContentFacts;
use super::scale::Scaling;
use super::workload::Mode;
use stormlp_core::location::Location;
use stormlp_core::path::PathKind;
use stormlp_core::telemetry::Telemetry;
use stormlp_core::transport::{DeviceId, Transport};
use stormlp_core::warning::Warning;

/// What one rank writes and reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankPlan {
    /// The rank.
    pub rank: u64,
    /// Total bytes of its files.
    pub bytes: u64,
    /// Index of its directory in [`CheckpointPlan::folders`].
    pub folder: usize,
    /// Its files, in the order in which it writes and reads them.
    pub files: Vec<CheckpointFile>,
}

/// One checkpoint to restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestorePlan {
    /// The checkpoint's step.
    pub step: u32,
    /// How its content was generated.
    pub content: ContentFacts,
}

/// Training that continues while a checkpoint is saved.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverlapPlan {
    /// Duration of an emulated step in seconds.
    pub step_seconds: f64,
    /// Steps between checkpoints.
    pub steps_between: u32,
}

/// A checkpoint run with every number decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckpointPlan {
    /// The model's name.
    pub model: String,
    /// The profile, which sets read order and arithmetic.
    pub profile: CheckpointProfile,
    /// Whether MLPerf's closed rules apply to the run.
    pub closed: bool,
    /// Which of the job's ranks participate.
    pub mode: Mode,
    /// The model and its parallelism, after scaling.
    pub layout: Layout,
    /// Number of parameters, after scaling.
    pub parameters: u64,
    /// Bytes of the checkpoint relative to the full one.
    pub scale: f64,
    /// What was reduced.
    pub scaling: Scaling,
    /// The command for the full-size run.
    pub full_run: String,
    /// Bytes of one checkpoint.
    pub total_bytes: u64,
    /// Bytes of one checkpoint as DLIO counts them: more under ZeRO 2.
    pub dlio_counted_bytes: u64,
    /// The participating ranks.
    pub ranks: Vec<RankPlan>,
    /// The directories.
    pub folders: Vec<Location>,
    /// Checkpoints to save, as steps 1, 2, ….
    pub writes: u32,
    /// Checkpoints to restore.
    #[serde(rename = "restore_steps")]
    pub restores: Vec<RestorePlan>,
    /// Seconds between checkpoints.
    pub pause_seconds: f64,
    /// How many of the newest checkpoints to keep; `None` keeps all.
    pub keep: Option<u32>,
    /// When files are synced.
    pub fsync: FsyncPolicy,
    /// How saves move bytes. Ranks share the threads; the window is per rank.
    pub save: Transport,
    /// How restores move bytes, over the same path and to the same device.
    pub restore: Transport,
    /// Whether a restore splits each file into one contiguous part per transfer of a rank (v3's
    /// four quarters). Otherwise each transfer takes the next piece in turn.
    pub split_restores: bool,
    /// How the content of new checkpoints is generated.
    pub content: ContentFacts,
    /// Training during the saves.
    pub overlap: Option<OverlapPlan>,
    /// Offset of the rank whose files each rank restores.
    pub rank_shift: u64,
    /// Whether each host has its own local folders of these names, not visible to other hosts.
    #[serde(default)]
    pub local_data: bool,
    /// Whether files are dropped from the page cache before they are restored.
    pub cold: bool,
    /// Whether content is verified on restore.
    pub verify: bool,
    /// Whether a fallback of the `gds` path is an error.
    #[serde(default)]
    pub require_gds: bool,
    /// The cuFile statistics level for the whole run. Without one, only the routes of the first
    /// transfers are counted.
    #[serde(default)]
    pub cufile_stats: Option<u8>,
    /// Telemetry interval in seconds for devices, host, network and GPUs; `null` if off.
    #[serde(rename = "telemetry_seconds", default = "Telemetry::off")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub telemetry: Telemetry,
    /// Total free bytes on the directories' file systems, if storage was scanned.
    pub free_bytes: Option<u64>,
    /// Peak storage use of the run in bytes.
    pub peak_bytes: u64,
    /// Total buffer memory in bytes.
    pub buffer_bytes: u64,
    /// Warnings to read before the run.
    #[serde(alias = "notes")]
    pub warnings: Vec<Warning>,
}

impl CheckpointPlan {
    /// The path of all transfers.
    pub fn path(&self) -> PathKind {
        self.save.path
    }

    /// The accelerator that all transfers end in, for paths that use one.
    pub fn device(&self) -> Option<DeviceId> {
        self.save.device
    }

    /// Host memory in bytes for the buffers of saves or restores, whichever need more.
    pub fn region_bytes(&self) -> u64 {
        self.save.buffer_bytes().max(self.restore.buffer_bytes())
    }

    /// Whether the run is scaled down.
    pub fn is_scaled(&self) -> bool {
        self.scaling.is_scaled()
    }
}
