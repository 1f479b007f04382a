//! The request for a run: the options of `stormlp kvcache mlperf`, `serving` and `replay`, before
//! validation.

use serde::{Deserialize, Serialize};
use stormlp_core::location::Location;
use stormlp_core::numbers::{whole, within};
use stormlp_core::shell::CommandLine;
use stormlp_core::units::{parse_bytes, parse_seconds, parse_some_bytes};
use strum::Display;

use super::options::{MOST_SECONDS, OPTIONS, SEED};
use super::serving_request::{ChunkRequest, ChunkTune, RunTune};
use super::workload::KvcacheWorkload;

/// Listed after the options of the same heading that all commands have.
const LAST: usize = 99;

/// The name of a workload: its subcommand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum WorkloadName {
    /// MLPerf Storage v3.0.
    Mlperf,
    /// Prompts of a serving engine: chunks of prefixes.
    Serving,
    /// A recorded trace.
    Replay,
}

/// Options that every workload has. `None` is the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, clap::Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RunRequest {
    /// Model; `stormlp workloads` lists them [default: llama3.1-8b]
    #[arg(value_name = "MODEL", help_heading = None::<&'static str>)]
    pub model: Option<String>,

    /// Duration of a run [default: 300s; a trace: until its end]
    #[arg(long = "duration", value_name = "TIME", help_heading = "Load",
        value_parser = within(parse_seconds, 0.1..=MOST_SECONDS, "100ms to 168h"))]
    pub duration_seconds: Option<f64>,

    /// Number of runs [default: 1]
    #[arg(long, value_name = "N", help_heading = "Load", value_parser = whole::<u32>(1..=1000))]
    pub runs: Option<u32>,

    /// Folder for objects, or s3://bucket/prefix [default: ./stormlp-data/kvcache]
    #[arg(short = 'd', long = "dir", value_name = "DIR", help_heading = "Objects",
        value_parser = Location::anywhere, value_hint = clap::ValueHint::AnyPath)]
    pub folder: Option<Location>,

    /// Maximum space for objects [default: 10G, at most half of the free space]
    #[arg(long = "capacity", value_name = "SIZE", help_heading = "Objects",
        value_parser = parse_some_bytes)]
    pub capacity_bytes: Option<u64>,

    /// Size of a read or write [default: 1M]
    #[arg(short = 'b', long = "io-size", value_name = "SIZE", help_heading = "Objects",
        value_parser = parse_io_bytes)]
    pub io_bytes: Option<u64>,

    /// Compare every byte read with the one written
    #[arg(long, help_heading = "Objects")]
    pub verify: bool,

    /// Keep the objects of the last run
    #[arg(long, help_heading = "Objects")]
    pub no_cleanup: bool,

    /// Each host has separate storage under --dir
    #[arg(long, help_heading = "Several hosts", display_order = LAST)]
    pub local_storage: bool,

    /// Print the plan without running it
    #[arg(long)]
    pub dry_run: bool,
}

/// A run: its workload, and the options that every workload has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct KvcacheRequest {
    /// The workload with its options.
    pub workload: KvcacheWorkload,

    /// The other options.
    #[serde(flatten)]
    pub run: RunRequest,

    /// The command as it was typed, for advice. It is not saved: the head of a report holds it.
    #[serde(skip)]
    pub command: CommandLine,

    /// The rank of this process among a launcher's; `None` if it is alone.
    #[serde(skip)]
    pub rank: Option<u32>,

    /// Whether the times of single requests are kept, as MLPerf's files list them.
    #[serde(skip)]
    pub lists_requests: bool,
}

/// Parses the bytes of a call.
fn parse_io_bytes(text: &str) -> Result<u64, String> {
    let bytes = within(parse_bytes, 4096..=1 << 30, "4K to 1G")(text)?;
    match bytes.is_multiple_of(4096) {
        true => Ok(bytes),
        false => Err(format!("`{text}` is not a multiple of 4K: use one such as 1M")),
    }
}

impl KvcacheRequest {
    /// The name of the workload.
    pub fn workload_name(&self) -> WorkloadName {
        match &self.workload {
            KvcacheWorkload::Mlperf(_) => WorkloadName::Mlperf,
            KvcacheWorkload::Serving(_) => WorkloadName::Serving,
            KvcacheWorkload::Replay(_) => WorkloadName::Replay,
        }
    }

    /// The seed of this process: as in the original, each rank has the next one.
    pub fn own_seed(&self) -> u32 {
        self.tune().seed.unwrap_or(SEED).wrapping_add(self.rank.unwrap_or(0))
    }

    /// The settings that every workload has.
    pub fn tune(&self) -> &RunTune {
        match &self.workload {
            KvcacheWorkload::Mlperf(of) => &of.tune.run,
            KvcacheWorkload::Serving(of) => &of.tune.chunks.run,
            KvcacheWorkload::Replay(of) => &of.tune.run,
        }
    }

    /// The folder of this process: below the one asked for, `rank_N` for each of several.
    pub fn own_folder(&self) -> Location {
        let folder = self.run.folder.clone().unwrap_or_default();
        self.rank.map_or(folder.clone(), |rank| folder.join(format!("rank_{rank}")).into())
    }

    /// The name of the model of prompts or of a trace.
    pub fn model(&self) -> &str {
        self.run.model.as_deref().unwrap_or(OPTIONS[0].model)
    }

    /// The options and settings for chunks, if prompts load prefixes or may.
    pub fn chunks(&self) -> Option<(&ChunkRequest, &ChunkTune)> {
        match &self.workload {
            KvcacheWorkload::Mlperf(_) => None,
            KvcacheWorkload::Serving(of) => Some((&of.chunks, &of.tune.chunks)),
            KvcacheWorkload::Replay(of) => Some((&of.chunks, &of.tune)),
        }
    }

    /// The trace to replay.
    pub fn trace(&self) -> Option<&Location> {
        match &self.workload {
            KvcacheWorkload::Replay(of) => Some(&of.trace),
            _ => None,
        }
    }

    /// Whether it follows MLPerf's closed rules.
    pub fn is_closed(&self) -> bool {
        matches!(&self.workload, KvcacheWorkload::Mlperf(of) if of.closed)
    }

    /// Whether it searches for the maximum number of servers.
    pub fn finds_max(&self) -> bool {
        matches!(&self.workload, KvcacheWorkload::Serving(of) if of.find_max)
    }

    /// Whether the path must not fall back from GPUDirect Storage.
    pub fn requires_gds(&self) -> bool {
        self.chunks().is_some_and(|(chunks, _)| chunks.require.is_some())
    }
}
