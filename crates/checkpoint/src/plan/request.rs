//! The request for a run: the options of `stormlp checkpoint`, not validated yet.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::choice::{CheckpointProfile, Container, FsyncPolicy, ScaleChoice};
use super::client::CheckpointClient;
use super::workload::{CheckpointWorkload, Mode};
use stormlp_core::location::Location;
use stormlp_core::numbers::whole;
use stormlp_core::path::PathKind;
use stormlp_core::shell::CommandLine;
use stormlp_core::transport::{Devices, EngineChoice, Threading};
use stormlp_core::tune::{MachineTune, Tuned};
use stormlp_core::units::{parse_bytes, parse_seconds};
use stormlp_core::verify::Verify;

/// Options of a checkpoint run. `None` falls back to the workload, then to the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(clap::Args)]
#[serde(default)]
pub struct CheckpointRequest {
    /// llama3-8b, llama3-70b, llama3-405b, llama3-1t, or a workload file in DLIO format
    #[arg(value_name = "MODEL|FILE.yaml")]
    pub model: String,

    /// The workload of the model or its file, read by the command line. It is not saved: the plan
    /// has the layout that follows from it.
    #[arg(skip)]
    #[serde(skip)]
    pub workload: CheckpointWorkload,

    /// The command as it was typed, for advice. It is not saved: the head of a report has it.
    #[arg(skip)]
    #[serde(skip)]
    pub command: CommandLine,

    /// Print the plan per rank and file, and exit as the run would; --scale 1 shows all of a model
    #[arg(long, conflicts_with = "mlperf_output")]
    pub dry_run: bool,

    /// Fraction of a checkpoint to write: auto, or above 0 up to 1; layers are reduced first, then
    /// ranks [default: auto]
    #[arg(long, value_name = "auto|FACTOR", help_heading = "Size")]
    pub scale: Option<ScaleChoice>,

    /// All ranks, or one host's share of them: default or subset
    #[arg(long, value_name = "MODE", help_heading = "Size")]
    pub mode: Option<Mode>,

    /// Number of ranks; all of them participate unless --scale is also set [default: all ranks of
    /// the model; 8 with --mode subset]
    #[arg(long, value_name = "N", help_heading = "Size",
        value_parser = whole::<u64>(..))]
    pub ranks: Option<u64>,

    /// Enforce MLPerf's closed rules; disables scaling
    #[arg(long, help_heading = "Size")]
    pub closed: bool,

    /// Number of saves [default: 10; 2 when scaled]
    #[arg(long, value_name = "N", help_heading = "Order",
        value_parser = whole::<u32>(..))]
    pub writes: Option<u32>,

    /// Number of restores, from checkpoints of this run or, with --writes 0, existing ones
    /// [default: 10; 2 when scaled; at most the number of checkpoints]
    #[arg(long, value_name = "N", help_heading = "Order",
        value_parser = whole::<u32>(..))]
    pub reads: Option<u32>,

    /// Time between checkpoints [default: 5s; none when scaled]
    #[arg(long = "pause", value_name = "TIME", help_heading = "Order",
        value_parser = at_most_a_day)]
    pub pause_seconds: Option<f64>,

    /// Keep the newest N checkpoints of the run [default: all]
    #[arg(long, value_name = "N", help_heading = "Order",
        value_parser = whole::<u32>(1..))]
    pub keep: Option<u32>,

    /// Keep the checkpoints of the newest N runs in the directory, this one included; older ones are
    /// removed once this run has a whole checkpoint [default: 1]
    #[arg(long, value_name = "N", help_heading = "Order",
        value_parser = whole::<u32>(1..))]
    pub keep_last: Option<u32>,

    /// Restore the checkpoints of this run in the directory, with --writes 0 [default: the newest with
    /// a whole one]
    #[arg(long, value_name = "NAME", help_heading = "Order")]
    pub run: Option<String>,

    /// Save during emulated training steps of this length, and report how long training waits
    #[arg(long = "overlap", value_name = "STEP", help_heading = "Order",
        value_parser = step, num_args = 0..=1, default_missing_value = "1")]
    pub overlap_step_seconds: Option<f64>,

    /// Drop files from the page cache before restoring them, and verify it
    #[arg(long, help_heading = "Order")]
    pub cold: bool,

    /// Verify restored data: content (every byte, in a second, unmeasured read); objects also none,
    /// size (sizes and ETags), crc (checksums too) [default: size; content without a value]
    #[arg(long, value_name = "HOW", help_heading = "Order",
        num_args = 0..=1, require_equals = true, default_missing_value = "content",
        default_value = "size", hide_default_value = true)]
    pub verify: Verify,

    /// Rules for read order and metrics: v2, v3, native [default: v2]
    #[arg(long, value_name = "PROFILE", help_heading = "Order")]
    pub profile: Option<CheckpointProfile>,

    /// Add the time that v2.0's DLIO itself takes for a checkpoint, by a FILE that `stormlp calibrate`
    /// saved on this host, to the counted time of each rank; not with --profile native [default: none]
    #[arg(long, value_name = "FILE", help_heading = "Order")]
    pub client: Option<PathBuf>,

    /// The cost in that file, read by the command line. It is not saved: the plan has it.
    #[arg(skip)]
    #[serde(skip)]
    pub calibrated: Option<CheckpointClient>,

    /// Directory for checkpoints, or s3://bucket/prefix, at the endpoint or endpoints (a,b) of
    /// AWS_ENDPOINT_URL; several are used by ranks in turn [default: ./stormlp-data/checkpoint/MODEL]
    #[arg(long = "dir", value_name = "DIR", help_heading = "Transfers",
        value_parser = Location::anywhere, value_hint = clap::ValueHint::AnyPath)]
    pub folders: Vec<Location>,

    /// When to sync files: per-file, per-checkpoint, none [default: per-file]; objects are complete when their uploads are
    #[arg(long, value_name = "POLICY", help_heading = "Transfers")]
    pub fsync: Option<FsyncPolicy>,

    /// Path: buffered, cpu (O_DIRECT), page-cache, cpu-gpu, gds, gds-async, gds-batch
    #[arg(long, value_name = "PATH", help_heading = "Transfers",
        default_value = "buffered", value_parser = path)]
    pub path: PathKind,

    /// I/O engine: auto, uring, tokio-uring, psync
    #[arg(long, value_name = "ENGINE", help_heading = "Transfers", default_value = "auto")]
    pub engine: EngineChoice,

    /// Accelerator for the paths to one: cuda:0, several GPUs such as cuda:0,cuda:1 or all, over
    /// which the ranks are dealt, or host [default: the first GPU, else host]
    #[arg(long, value_name = "LIST", help_heading = "Transfers")]
    pub device: Option<Devices>,

    /// Fail if a path of cuFile falls back to another path
    #[arg(long, help_heading = "Transfers")]
    pub require_gds: bool,

    /// Transfers in flight per rank, for objects each with a connection of its own [default: 1; 4 for
    /// reads with --profile v3; for objects as many as make 16 over all ranks]
    #[arg(long, value_name = "N", help_heading = "Transfers",
        value_parser = whole::<u32>(1..=256))]
    pub streams: Option<u32>,

    /// Transfer size [default: 1M through the page cache, else 4M]
    #[arg(long = "chunk-size", value_name = "SIZE",
        help_heading = "Transfers", value_parser = parse_bytes)]
    pub chunk_bytes: Option<u64>,

    /// File format: raw, or torch.save's for torch.load [default: raw, or the format of existing
    /// checkpoints]
    #[arg(long, value_name = "raw|torch", help_heading = "Transfers")]
    pub container: Option<Container>,

    /// Seed for the content [default: different for each run]
    #[arg(long, value_name = "N", help_heading = "Transfers",
        value_parser = whole::<u64>(..))]
    pub seed: Option<u64>,

    /// The placement of threads and buffers.
    #[command(flatten)]
    pub threading: Threading,

    /// Directories are local to each host, such as local drives: each host restores what it saved
    #[arg(long, help_heading = "Several hosts", display_order = LAST)]
    pub local_data: bool,

    /// Rarely needed settings of the machine.
    #[command(flatten)]
    pub tune: Tuned<MachineTune>,

    /// Result folders known to be on the file system of the checkpoints. They are not saved: a
    /// closed run is refused for them before it starts.
    #[arg(skip)]
    #[serde(skip)]
    pub results_beside_data: Vec<PathBuf>,
}

/// Listed after the options of the same heading that all commands have.
const LAST: usize = 99;

/// Parses a time of up to a day.
fn at_most_a_day(text: &str) -> Result<f64, String> {
    let seconds = parse_seconds(text).map_err(|error| error.to_string())?;
    if seconds > 86_400.0 { Err("use at most 24h".to_string()) } else { Ok(seconds) }
}

/// Parses the length of an emulated training step.
fn step(text: &str) -> Result<f64, String> {
    let seconds = at_most_a_day(text)?;
    if seconds < 0.001 { Err("use at least 1ms".to_string()) } else { Ok(seconds) }
}

/// Parses one of the paths that checkpoints support.
fn path(text: &str) -> Result<PathKind, String> {
    if text == PathKind::S3.name() {
        return Err(
            "objects have no other path: leave --path out, and use --dir s3://bucket/prefix".into(),
        );
    }
    PathKind::of_files(text, "checkpoints")
}

impl CheckpointRequest {
    /// Whether the run saves; otherwise it restores existing checkpoints.
    pub fn saves(&self) -> bool {
        self.writes.or(self.workload.writes) != Some(0)
    }

    /// Whether the scale follows from free space and speed.
    pub fn has_open_scale(&self) -> bool {
        self.scale.is_none_or(|scale| scale == ScaleChoice::Auto)
    }

    /// The profile, which sets read order and arithmetic.
    pub fn profile(&self) -> CheckpointProfile {
        self.profile.unwrap_or_default()
    }

    /// The command for the same run, at this size; a closed run has but one.
    pub fn command_of_size(&self, scale: &str) -> CommandLine {
        let command = self.command.clone().without_flag("--dry-run");
        if self.closed { command } else { command.with("--scale", scale) }
    }

    /// The default request: what `stormlp checkpoint MODEL` does without further options.
    pub fn plain(workload: CheckpointWorkload, folder: Location) -> Self {
        let model = workload.name.clone();
        let command = CommandLine::new(["stormlp", "checkpoint", &model]);
        Self { command, model, workload, folders: vec![folder], ..Self::default() }
    }
}
