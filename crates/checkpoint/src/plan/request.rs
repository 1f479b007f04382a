//! What was asked for; nothing checked against the machine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::choice::{CheckpointProfile, Container, FsyncPolicy, ScaleChoice};
use super::workload::{CheckpointWorkload, Mode};
use stormlp_core::location::Location;
use stormlp_core::path::PathKind;
use stormlp_core::shell::shell_word;
use stormlp_core::telemetry::Telemetry;
use stormlp_core::transport::{DeviceId, EngineChoice, Pages, Threading};

/// What was asked of a checkpoint run. `None` leaves a value to the workload, then to the
/// default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointRequest {
    /// The model or workload file as it was typed, for the commands that messages name.
    pub typed: String,
    /// The model.
    pub workload: CheckpointWorkload,
    /// Which of the job's ranks are there.
    pub mode: Option<Mode>,
    /// How many ranks there are.
    pub ranks: Option<u64>,
    /// How much of a checkpoint to write; `None` is all of it for a dry run, else as `auto`.
    pub scale: Option<ScaleChoice>,
    /// Whether MLPerf's closed rules bind the run.
    pub closed: bool,
    /// Folders for results that lie on the file system of the checkpoints, as far as that is known.
    #[serde(default)]
    pub results_beside_data: Vec<PathBuf>,
    /// Whether nothing is to be touched.
    pub dry_run: bool,
    /// Checkpoints to save.
    pub writes: Option<u32>,
    /// Checkpoints to restore.
    pub reads: Option<u32>,
    /// Seconds between checkpoints.
    pub pause_seconds: Option<f64>,
    /// The directories; ranks take them in turn.
    pub folders: Vec<Location>,
    /// When files are synced.
    pub fsync: Option<FsyncPolicy>,
    /// The transfer path.
    pub path: PathKind,
    /// The engine of the CPU's paths.
    pub engine: EngineChoice,
    /// The accelerator of the paths that end in one; `None` takes the first, else the stand-in.
    pub device: Option<DeviceId>,
    /// What pages buffers in host memory are to lie on.
    pub pages: Pages,
    /// Whether a `gds` path that falls back is an error.
    #[serde(default)]
    pub require_gds: bool,
    /// The level at which cuFile counts all the time.
    #[serde(default)]
    pub cufile_stats: Option<u8>,
    /// How threads wait, and where they and their buffers are.
    #[serde(default)]
    pub threading: Threading,
    /// How often what is around the run is looked at.
    #[serde(default = "Telemetry::off")]
    pub telemetry: Telemetry,
    /// Streams of each rank; `None` takes the profile's.
    pub streams: Option<u32>,
    /// Bytes of one transfer.
    pub chunk_bytes: Option<u64>,
    /// Length of an emulated training step in seconds, for saves that run beside training.
    pub overlap_step_seconds: Option<f64>,
    /// How many ranks further each rank's files are that it restores.
    pub rank_shift: Option<u64>,
    /// Whether each host has folders of its own of these names.
    pub local_data: bool,
    /// How many of the newest checkpoints stay; `None` keeps all.
    pub keep: Option<u32>,
    /// Whether files are dropped from the page cache before they are restored.
    pub cold: bool,
    /// Whether content is checked on restore.
    pub verify: bool,
    /// Seed of the content.
    pub seed: u64,
    /// How tensors are packed; `None` is raw, or as the checkpoints to be restored are.
    pub container: Option<Container>,
    /// Whose order and arithmetic.
    pub profile: CheckpointProfile,
}

impl CheckpointRequest {
    /// The command of this model on these ranks and directories with another `size`.
    pub fn command(&self, size: &str) -> String {
        let mut command = format!("stormlp checkpoint {} {size}", shell_word(&self.typed));
        if self.mode == Some(Mode::Subset) {
            command.push_str(" --mode subset");
        }
        if let Some(ranks) = self.ranks {
            command.push_str(&format!(" --ranks {ranks}"));
        }
        for folder in &self.folders {
            let folder = folder.to_string();
            command.push_str(&format!(" --dir {}", shell_word(&folder)));
        }
        command
    }

    /// The command of the same run with nothing left out: all options that were given, at scale 1.
    pub fn full_run_command(&self) -> String {
        let mut command = self.command("--scale 1");
        let mut option = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                command.push_str(&format!(" --{name} {value}"));
            }
        };
        option("writes", self.writes.map(|count| count.to_string()));
        option("reads", self.reads.map(|count| count.to_string()));
        option("pause", self.pause_seconds.map(|pause| format!("{pause}s")));
        option("fsync", self.fsync.map(|fsync| fsync.to_string()));
        let path = (self.path != PathKind::Buffered).then(|| self.path.to_string());
        option("path", path);
        let engine = (self.engine != EngineChoice::Auto).then(|| self.engine.name().to_string());
        option("engine", engine);
        option("device", self.device.map(|device| device.to_string()));
        let pages = (self.pages != Pages::Huge).then(|| self.pages.name().to_string());
        option("pages", pages);
        self.threading.words().into_iter().for_each(|(name, value)| option(name, Some(value)));
        option("cufile-stats", self.cufile_stats.map(|level| level.to_string()));
        option("streams", self.streams.map(|count| count.to_string()));
        option("chunk-size", self.chunk_bytes.map(|bytes| bytes.to_string()));
        let step = self.overlap_step_seconds;
        option("overlap", step.map(|step| format!("{step}s")));
        option("rank-shift", self.rank_shift.map(|shift| shift.to_string()));
        option("keep", self.keep.map(|count| count.to_string()));
        option("container", self.container.map(|container| container.to_string()));
        let profile = self.profile;
        option("profile", (profile != CheckpointProfile::V2).then(|| profile.to_string()));
        let flags = [
            ("cold", self.cold),
            ("verify", self.verify),
            ("require-gds", self.require_gds),
            ("local-data", self.local_data),
        ];
        for (name, given) in flags {
            if given {
                command.push_str(&format!(" --{name}"));
            }
        }
        command
    }

    /// The plain request: what `stormlp checkpoint MODEL` does when nothing else is said.
    pub fn plain(workload: CheckpointWorkload, folder: Location) -> Self {
        Self {
            typed: workload.name.clone(),
            workload,
            mode: None,
            ranks: None,
            scale: None,
            closed: false,
            results_beside_data: Vec::new(),
            dry_run: false,
            writes: None,
            reads: None,
            pause_seconds: None,
            folders: vec![folder],
            fsync: None,
            path: PathKind::Buffered,
            engine: EngineChoice::Auto,
            device: None,
            pages: Pages::Huge,
            require_gds: false,
            cufile_stats: None,
            threading: Threading::default(),
            telemetry: Telemetry::default(),
            streams: None,
            chunk_bytes: None,
            overlap_step_seconds: None,
            rank_shift: None,
            local_data: false,
            keep: None,
            cold: false,
            verify: false,
            seed: 0,
            container: None,
            profile: CheckpointProfile::V2,
        }
    }
}
