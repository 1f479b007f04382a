//! The plan of a checkpoint run: every number is decided before the first byte moves.

use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::choice::{CheckpointProfile, FsyncPolicy};
use super::client::CheckpointClient;
use super::layout::{CheckpointFile, Layout};
use super::marker::{ContentFacts, FORMAT_VERSION, MarkedFile, Marker, step_folder};
use super::request::CheckpointRequest;
use super::scale::Scaling;
use super::workload::Mode;
use stormlp_core::path::PathKind;
use stormlp_core::transport::{DeviceId, Transport};
use stormlp_core::warning::Warning;

/// The files that one rank writes and reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankPlan {
    /// The rank.
    pub rank: u64,
    /// Total bytes of its files.
    pub bytes: u64,
    /// Index of its directory in [`CheckpointRequest::folders`].
    pub folder: usize,
    /// Its files, in the order in which it writes and reads them.
    pub files: Vec<CheckpointFile>,
}

/// A checkpoint run with every number decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckpointPlan {
    /// The request.
    pub request: CheckpointRequest,
    /// The model's name.
    pub model: String,
    /// The profile, which sets read order and arithmetic.
    pub profile: CheckpointProfile,
    /// Which of the job's ranks participate.
    pub mode: Mode,
    /// The model and its parallelism, after scaling.
    pub layout: Layout,
    /// Number of parameters, after scaling.
    pub parameters: u64,
    /// The reduction.
    pub scaling: Scaling,
    /// The command for the full-size run.
    pub full_run: String,
    /// Bytes of one checkpoint.
    pub total_bytes: u64,
    /// Bytes of one checkpoint as DLIO counts them: more under ZeRO 2.
    pub dlio_counted_bytes: u64,
    /// The participating ranks.
    pub ranks: Vec<RankPlan>,
    /// The run's folder in each directory: a new one if it saves, otherwise the folder of the run
    /// that it restores from. Empty if they lie in the directories themselves.
    pub run: String,
    /// Earlier runs that are removed once this run has a whole one.
    pub removed_runs: Vec<String>,
    /// Checkpoints to save, as steps 1, 2, ….
    pub writes: u32,
    /// Steps of the checkpoints to restore.
    #[serde(rename = "restore_steps")]
    pub restores: Vec<u32>,
    /// Seconds between checkpoints.
    pub pause_seconds: f64,
    /// When files are synced.
    pub fsync: FsyncPolicy,
    /// The official client's time, which is added; `None` if it is not accounted for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<CheckpointClient>,
    /// How saves move bytes. Ranks share the threads; the window is per rank.
    pub save: Transport,
    /// How restores move bytes, over the same path and to the same device.
    pub restore: Transport,
    /// How the content of its checkpoints is, or was, generated.
    pub content: ContentFacts,
    /// Offset from each rank to the rank that wrote the files it restores: the ranks of a host, or
    /// 0.
    pub rank_shift: u64,
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

    /// The way in which a save becomes durable, in a word.
    pub fn made_durable_by(&self) -> &'static str {
        if self.path() == PathKind::S3 { "complete" } else { "fsync" }
    }

    /// When that is done, in words.
    pub fn durable(&self) -> &'static str {
        if self.path() == PathKind::S3 { "each upload" } else { self.fsync.name() }
    }

    /// The accelerator that all transfers end in, for paths that use one.
    pub fn device(&self) -> Option<DeviceId> {
        self.save.device
    }

    /// Host memory in bytes for the buffers of saves or restores, whichever need more.
    pub fn region_bytes(&self) -> u64 {
        self.save.buffer_bytes().max(self.restore.buffer_bytes())
    }

    /// Whether a restore splits each file into one contiguous part per transfer of a rank (v3's
    /// four quarters). Otherwise each transfer moves the next piece in turn.
    pub fn splits_restores(&self) -> bool {
        self.profile == CheckpointProfile::V3
    }

    /// The directories, in words.
    pub(super) fn folder_names(&self) -> String {
        let folders = self.request.folders.iter();
        folders.map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// The folders of checkpoint `step`, one in each directory.
    pub fn step_folders(&self, step: u32) -> impl Iterator<Item = PathBuf> {
        let folders = self.request.folders.iter();
        folders.map(move |folder| folder.join(&self.run).join(step_folder(step)))
    }

    /// The marker of one of its checkpoints in the directory with this index.
    pub fn marker(&self, folder: usize, complete: bool) -> Marker {
        let ranks = self.ranks.iter().filter(|rank| rank.folder == folder);
        Marker {
            format_version: FORMAT_VERSION,
            made_by: "checkpoint".to_string(),
            complete,
            crash_safe: self.fsync != FsyncPolicy::None,
            model: self.model.clone(),
            layout: self.layout,
            full_layers: self.scaling.full_layers,
            ranks: self.scaling.ranks,
            full_ranks: self.scaling.full_ranks,
            content: self.content,
            files: ranks
                .flat_map(|rank| {
                    rank.files.iter().map(|file| MarkedFile {
                        rank: rank.rank,
                        name: file.name.clone(),
                        bytes: file.bytes,
                        identity: None,
                    })
                })
                .collect(),
        }
    }

    /// The most of its checkpoints that are on storage at the same time.
    pub(super) fn copies(&self) -> u64 {
        self.peak_bytes.checked_div(self.total_bytes).unwrap_or(0)
    }

    /// Whether the run is scaled down.
    pub fn is_scaled(&self) -> bool {
        self.scaling.is_scaled()
    }
}

/// The indices of the ranks of host `host` out of `of`, among `count` ranks.
pub fn dealt_to(host: usize, of: usize, count: usize) -> Range<usize> {
    // The first hosts get one more if the ranks do not divide evenly.
    let (each, more) = (count / of.max(1), count % of.max(1));
    let first = host * each + host.min(more);
    first..first + each + usize::from(host < more)
}

/// The host, out of `of`, that rank index `nth` of `count` is assigned to.
pub fn host_of(nth: usize, of: usize, count: usize) -> usize {
    let has = |host: &usize| dealt_to(*host, of, count).contains(&nth);
    (0..of).find(has).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_dealt_to_one_host() {
        assert_eq!(dealt_to(0, 1, 8), 0..8);
        let of_three: Vec<_> = (0..3).map(|host| dealt_to(host, 3, 8)).collect();
        assert_eq!(of_three, [0..3, 3..6, 6..8]);
        let hosts: Vec<_> = (0..8).map(|nth| host_of(nth, 3, 8)).collect();
        assert_eq!(hosts, [0, 0, 0, 1, 1, 1, 2, 2]);
    }
}
