//! What was decided: every number of a checkpoint run before the first byte moves.

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
    /// Bytes of all its files.
    pub bytes: u64,
    /// Index of its directory in [`CheckpointPlan::folders`].
    pub folder: usize,
    /// Its files in the order it writes and reads them.
    pub files: Vec<CheckpointFile>,
}

/// One checkpoint to restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestorePlan {
    /// Which checkpoint.
    pub step: u32,
    /// How its bytes came about.
    pub content: ContentFacts,
}

/// Training that goes on while a checkpoint is saved.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverlapPlan {
    /// Length of an emulated step in seconds.
    pub step_seconds: f64,
    /// Steps between two checkpoints.
    pub steps_between: u32,
}

/// A checkpoint run in which every number is decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckpointPlan {
    /// The model's name.
    pub model: String,
    /// Whose order and arithmetic.
    pub profile: CheckpointProfile,
    /// Whether MLPerf's closed rules bind the run.
    pub closed: bool,
    /// Which of the job's ranks are there.
    pub mode: Mode,
    /// The model and its parallelism, after scaling.
    pub layout: Layout,
    /// Parameters of the model, after scaling.
    pub parameters: u64,
    /// Bytes of the checkpoint over those of the full one.
    pub scale: f64,
    /// What was cut.
    pub scaling: Scaling,
    /// The command that runs it at full size.
    pub full_run: String,
    /// Bytes of one checkpoint.
    pub total_bytes: u64,
    /// Bytes of one checkpoint as DLIO counts them: more under ZeRO 2.
    pub dlio_counted_bytes: u64,
    /// The ranks that are there.
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
    /// How many of the newest checkpoints stay; `None` keeps all.
    pub keep: Option<u32>,
    /// When files are synced.
    pub fsync: FsyncPolicy,
    /// How saves move bytes; ranks share the threads, and the window is a rank's.
    pub save: Transport,
    /// How restores move bytes, by the same path and to the same device.
    pub restore: Transport,
    /// Whether a restore splits a file into one contiguous part for each transfer of a rank (v3's
    /// four quarters); else each takes the next piece in turn.
    pub split_restores: bool,
    /// How the bytes of new checkpoints come about.
    pub content: ContentFacts,
    /// Training beside the saves.
    pub overlap: Option<OverlapPlan>,
    /// How many ranks further each rank's files are that it restores.
    pub rank_shift: u64,
    /// Whether each host has folders of its own of these names, which no other host sees.
    #[serde(default)]
    pub local_data: bool,
    /// Whether files are dropped from the page cache before they are restored.
    pub cold: bool,
    /// Whether content is checked on restore.
    pub verify: bool,
    /// Whether a `gds` path that falls back is an error.
    #[serde(default)]
    pub require_gds: bool,
    /// The level at which cuFile counts all the time; without one it counts the first transfers by
    /// their routes and no others.
    #[serde(default)]
    pub cufile_stats: Option<u8>,
    /// Seconds between two looks at devices, host, network and GPUs; `null` without any.
    #[serde(rename = "telemetry_seconds", default = "Telemetry::off")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub telemetry: Telemetry,
    /// Free bytes of the directories' file systems together, where storage was looked at.
    pub free_bytes: Option<u64>,
    /// Bytes the run leaves on storage at its fullest.
    pub peak_bytes: u64,
    /// Memory for all buffers, in bytes.
    pub buffer_bytes: u64,
    /// What the reader should know before it runs.
    #[serde(alias = "notes")]
    pub warnings: Vec<Warning>,
}

impl CheckpointPlan {
    /// The path of all transfers.
    pub fn path(&self) -> PathKind {
        self.save.path
    }

    /// The accelerator that all transfers end in, for the paths that end in one.
    pub fn device(&self) -> Option<DeviceId> {
        self.save.device
    }

    /// Host memory for the buffers of the larger kind of phase, in bytes.
    pub fn region_bytes(&self) -> u64 {
        self.save.buffer_bytes().max(self.restore.buffer_bytes())
    }

    /// Whether the run is smaller than the real one.
    pub fn is_scaled(&self) -> bool {
        self.scaling.is_scaled()
    }
}
