//! The request for a run: the options of `stormlp checkpoint`, not validated yet.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::choice::{CheckpointProfile, Container, FsyncPolicy, ScaleChoice};
use super::client::CheckpointClient;
use super::workload::{CheckpointWorkload, Ranks};
use stormlp_core::cache::CacheChoice;
use stormlp_core::location::Location;
use stormlp_core::numbers::whole;
use stormlp_core::path::PathKind;
use stormlp_core::shell::CommandLine;
use stormlp_core::transport::{Devices, EngineChoice, Requirement};
use stormlp_core::tune::{MachineTune, Tuned};
use stormlp_core::units::{parse_bytes, parse_seconds};
use stormlp_core::verify::Verify;

/// Options of a checkpoint run. `None` falls back to the workload, then to the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(clap::Args)]
#[serde(default)]
pub struct CheckpointRequest {
    /// llama3-8b, llama3-70b, llama3-405b, llama3-1t, or a YAML file of DLIO
    #[arg(value_name = "MODEL|FILE.yaml")]
    pub model: String,

    /// The workload of the model or its file, read by the command line. It is not saved: the plan
    /// has the layout that follows from it.
    #[arg(skip)]
    #[serde(skip)]
    pub workload: CheckpointWorkload,

    /// The command as it was typed, for advice. It is not saved: the head of a report holds it.
    #[arg(skip)]
    #[serde(skip)]
    pub command: CommandLine,

    /// Print the plan and exit
    #[arg(long)]
    pub dry_run: bool,

    /// Fraction of the checkpoint, up to 1 [default: auto]
    #[arg(long, value_name = "auto|FACTOR", help_heading = "Size")]
    pub scale: Option<ScaleChoice>,

    /// Ranks; 8/64 for the first 8 of 64 [default: all of the model]
    #[arg(long, value_name = "N", help_heading = "Size")]
    pub ranks: Option<Ranks>,

    /// Enforce MLPerf's closed rules
    #[arg(long, help_heading = "Size")]
    pub closed: bool,

    /// Saves [default: 10; 2 when scaled]
    #[arg(long, value_name = "N", help_heading = "Order",
        value_parser = whole::<u32>(..))]
    pub saves: Option<u32>,

    /// Restores [default: 10; 2 when scaled]
    #[arg(long, value_name = "N", help_heading = "Order",
        value_parser = whole::<u32>(..))]
    pub restores: Option<u32>,

    /// Time between checkpoints [default: 5s; none when scaled]
    #[arg(long = "pause", value_name = "TIME", help_heading = "Order",
        value_parser = at_most_a_day)]
    pub pause_seconds: Option<f64>,

    /// Keep N checkpoints of this run [default: all]
    #[arg(long, value_name = "N", help_heading = "Order",
        value_parser = whole::<u32>(1..))]
    pub keep: Option<u32>,

    /// Keep the newest N runs [default: 1]
    #[arg(long, value_name = "N", help_heading = "Order",
        value_parser = whole::<u32>(1..))]
    pub keep_last: Option<u32>,

    /// Run to restore with --saves 0 [default: the newest]
    #[arg(long, value_name = "NAME", help_heading = "Order")]
    pub run: Option<String>,

    /// Save during emulated training steps of this length
    #[arg(long = "overlap-step", value_name = "TIME", help_heading = "Order",
        value_parser = step)]
    pub overlap_step_seconds: Option<f64>,

    /// Page cache before a restore: cold, as-is [default: cold]
    #[arg(long, value_name = "STATE", help_heading = "Order")]
    pub cache: Option<CacheChoice>,

    /// Verify every restored byte, in a second read
    #[arg(long, help_heading = "Order")]
    pub verify: bool,

    /// Checks of objects: none, size, crc
    #[arg(long, value_name = "HOW", help_heading = "Order", default_value = "size",
        value_parser = Verify::of_objects)]
    pub checksum: Verify,

    /// MLPerf Storage edition [default: 2.0]
    #[arg(long, value_name = "2.0|3.0|native", help_heading = "Order")]
    pub edition: Option<CheckpointProfile>,

    /// Include the overhead of MLPerf's client, from `stormlp calibrate-dlio`
    #[arg(long, value_name = "FILE", help_heading = "Order")]
    pub client_overhead: Option<PathBuf>,

    /// The cost in that file, read by the command line. It is not saved: the plan has it.
    #[arg(skip)]
    #[serde(skip)]
    pub calibrated: Option<CheckpointClient>,

    /// Folder, or s3://bucket/prefix; repeatable [default: ./stormlp-data/checkpoint/MODEL]
    #[arg(short = 'd', long = "dir", value_name = "DIR", help_heading = "Transfers",
        value_parser = Location::anywhere, value_hint = clap::ValueHint::AnyPath)]
    pub folders: Vec<Location>,

    /// When to sync: per-file, per-checkpoint, none [default: per-file]
    #[arg(long, value_name = "POLICY", help_heading = "Transfers")]
    pub fsync: Option<FsyncPolicy>,

    /// buffered, cpu (O_DIRECT), page-cache, cpu-gpu, gds, gds-async, gds-batch
    #[arg(long, value_name = "PATH", help_heading = "Transfers",
        default_value = "buffered", value_parser = path)]
    pub path: PathKind,

    /// auto, uring, tokio-uring, psync
    #[arg(long, value_name = "ENGINE", help_heading = "Transfers", default_value = "auto")]
    pub engine: EngineChoice,

    /// GPUs: cuda:0, cuda:0,cuda:1, all; or host to emulate one [default: first GPU, otherwise
    /// host]
    #[arg(long, value_name = "LIST", help_heading = "Transfers")]
    pub device: Option<Devices>,

    /// Fail if cuFile falls back
    #[arg(long, value_name = "gds", help_heading = "Transfers", value_parser = Requirement::of_cufile)]
    pub require: Option<Requirement>,

    /// Transfers in flight per rank [default: 1; 4 for restores in edition 3.0]
    #[arg(long, value_name = "N", help_heading = "Transfers",
        value_parser = whole::<u32>(1..=256))]
    pub queue_depth: Option<u32>,

    /// Transfer size [default: 1M through the page cache, otherwise 4M]
    #[arg(short = 'b', long, value_name = "SIZE",
        help_heading = "Transfers", value_parser = parse_bytes)]
    pub io_size: Option<u64>,

    /// File format [default: raw]
    #[arg(long, value_name = "raw|torch", help_heading = "Transfers")]
    pub container: Option<Container>,

    /// Folders are local to each host
    #[arg(long, help_heading = "Several hosts", display_order = LAST)]
    pub local_storage: bool,

    /// Rarely needed settings.
    #[command(flatten)]
    pub tune: Tuned<CheckpointTune>,

    /// Result folders known to be on the file system of the checkpoints. They are not saved: a
    /// closed run is refused for them before it starts.
    #[arg(skip)]
    #[serde(skip)]
    pub results_beside_data: Vec<PathBuf>,
}

/// The keys of `--tune`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CheckpointTune {
    /// Settings of the machine.
    #[command(flatten)]
    #[serde(flatten)]
    pub machine: MachineTune,

    /// Seed of the content [default: different for each run]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(..))]
    pub seed: Option<u64>,
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
    pub fn is_saving(&self) -> bool {
        self.saves.or(self.workload.writes) != Some(0)
    }

    /// Whether the scale follows from free space and speed.
    pub fn has_open_scale(&self) -> bool {
        self.scale.is_none_or(|scale| scale == ScaleChoice::Auto)
    }

    /// Whether files are dropped from the page cache before they are restored.
    pub fn is_cold(&self) -> bool {
        self.cache.unwrap_or_default() == CacheChoice::Cold
    }

    /// The edition, which sets read order and arithmetic.
    pub fn edition(&self) -> CheckpointProfile {
        self.edition.unwrap_or_default()
    }

    /// The command for the same run, at this size; a closed run has but one.
    pub fn command_of_size(&self, scale: &str) -> CommandLine {
        let command = self.command.clone().without_flag("--dry-run");
        if self.closed { command } else { command.with("--scale", scale) }
    }

    /// The default request: `stormlp checkpoint MODEL` without further options.
    pub fn plain(workload: CheckpointWorkload, folder: Location) -> Self {
        let model = workload.name.clone();
        let command = CommandLine::new(["stormlp", "checkpoint", &model]);
        Self { command, model, workload, folders: vec![folder], ..Self::default() }
    }
}
