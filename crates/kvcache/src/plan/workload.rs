//! The workloads, and the options of `stormlp kvcache mlperf` and `replay` alone.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use stormlp_core::location::Location;
use stormlp_core::numbers::{whole, within};
use stormlp_core::tune::Tuned;
use stormlp_core::units::{parse_bytes, parse_seconds};

use super::serving_request::{ChunkRequest, ChunkTune, RunTune, ServingRequest, parse_factor};

/// The workload of a run, by its subcommand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KvcacheWorkload {
    /// MLPerf Storage v3.0.
    Mlperf(MlperfRequest),
    /// Prompts of a serving engine.
    Serving(ServingRequest),
    /// A recorded trace.
    Replay(ReplayRequest),
}

impl Default for KvcacheWorkload {
    fn default() -> Self {
        Self::Mlperf(MlperfRequest::default())
    }
}

/// Options of `kvcache mlperf`. `None` falls back to MLPerf's option, then to the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, clap::Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[command(next_help_heading = "Load")]
pub struct MlperfRequest {
    /// MLPerf option to run: 1, 2 or 3 [default: the first of MODEL, otherwise 1]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=3))]
    pub mlperf_option: Option<u32>,

    /// Run all three options three times, by MLPerf's closed rules
    #[arg(long, conflicts_with_all = [
        "model", "mlperf_option", "users", "duration_seconds", "runs", "verify", "capacity_bytes",
    ])]
    pub closed: bool,

    /// Simulated users, who do not wait for responses [default: by option]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=100_000))]
    pub users: Option<u32>,

    /// Rarely needed settings.
    #[command(flatten)]
    pub tune: Tuned<MlperfTune>,
}

/// The keys of `kvcache mlperf --tune`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, clap::Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MlperfTune {
    /// Objects written at a time [default: by option]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..))]
    pub concurrent_writes: Option<u32>,

    /// Host memory that holds objects before storage does [default: by option]
    #[arg(long = "cpu-cache", value_name = "SIZE", value_parser = parse_bytes)]
    pub cpu_cache_bytes: Option<u64>,

    /// Time between runs [default: 0]
    #[arg(long = "pause", value_name = "TIME",
        value_parser = within(parse_seconds, 0.0..=86_400.0, "0 to 24h"))]
    pub pause_seconds: Option<f64>,

    /// The settings of every workload.
    #[command(flatten)]
    #[serde(flatten)]
    pub run: RunTune,
}

/// How fast a trace is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    /// So many times as fast as it was recorded.
    Times(f64),
    /// As fast as threads can.
    Max,
}

impl Default for Speed {
    fn default() -> Self {
        Self::Times(1.0)
    }
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "max" => Ok(Self::Max),
            _ => parse_factor(text).map(Self::Times),
        }
    }
}

/// Options of `kvcache replay`. `None` is the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, clap::Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[command(next_help_heading = "Load")]
pub struct ReplayRequest {
    /// Trace of MLPerf's client (--io-trace-log), BurstGPT or Mooncake
    #[arg(value_name = "FILE", help_heading = None::<&'static str>,
        value_hint = clap::ValueHint::FilePath)]
    pub trace: Location,

    /// 1: as recorded, 2: twice as fast, max: without pauses [default: 1]
    #[arg(long, value_name = "N|max")]
    pub speed: Option<Speed>,

    /// Loads by several threads, of whole objects or of chunks.
    #[command(flatten)]
    #[serde(flatten)]
    pub chunks: ChunkRequest,

    /// Rarely needed settings.
    #[command(flatten)]
    pub tune: Tuned<ChunkTune>,
}
