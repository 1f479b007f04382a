//! What a run does: the options that `stormlp kvcache mlperf` and `replay` have alone, and the choice
//! among the workloads.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use stormlp_core::location::Location;
use stormlp_core::numbers::whole;
use stormlp_core::telemetry::Telemetry;
use stormlp_core::tune::Tuned;
use stormlp_core::units::parse_bytes;

use super::options::MOST_WORKERS;
use super::serving_request::{ChunkRequest, ServingRequest, ServingTune, parse_factor};

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

impl KvcacheWorkload {
    /// The name of its subcommand.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Mlperf(_) => "mlperf",
            Self::Serving(_) => "serving",
            Self::Replay(_) => "replay",
        }
    }
}

/// Options of `kvcache mlperf`. `None` falls back to MLPerf's option, then to the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, clap::Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[command(next_help_heading = "Load")]
pub struct MlperfRequest {
    /// Model, as `stormlp workloads` lists them [default: that of the option]
    #[arg(value_name = "MODEL", help_heading = None::<&'static str>)]
    pub model: Option<String>,

    /// MLPerf option to run: 1, 2 or 3 [default: the first of the model, otherwise 1]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=3))]
    pub mlperf_option: Option<u32>,

    /// Run all three options three times, as MLPerf's closed rules fix them
    #[arg(long, conflicts_with_all = [
        "model", "mlperf_option", "users", "duration_seconds", "runs", "pause_seconds",
        "cpu_cache_bytes", "verify", "capacity_bytes",
    ])]
    pub closed: bool,

    /// Simulated users; each sends requests at its own rate, without waiting for responses
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=100_000))]
    pub users: Option<u32>,

    /// Host memory that holds objects before storage does [default: of the option]
    #[arg(long = "cpu-cache", value_name = "SIZE", value_parser = parse_bytes)]
    pub cpu_cache_bytes: Option<u64>,

    /// Rarely needed settings.
    #[command(flatten)]
    pub tune: Tuned<MlperfTune>,
}

/// The keys of `kvcache mlperf --tune`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, clap::Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MlperfTune {
    /// Seed of users, requests and content [default: 42]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(..))]
    pub seed: Option<u32>,

    /// Objects that are written at a time [default: of the option]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..))]
    pub concurrent_writes: Option<u32>,

    /// Interval of samples of devices, host, network and GPUs: 10ms to 60s, or off
    #[arg(long, value_name = "INTERVAL", default_value = "100ms")]
    #[serde(rename = "telemetry_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub telemetry: Telemetry,
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

    /// Model that the trace was recorded with [default: llama3.1-8b]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,

    /// 1 as recorded, 2 twice as fast, max without pauses [default: 1]
    #[arg(long, value_name = "N|max")]
    pub speed: Option<Speed>,

    /// Threads that replay it [default: 16; 8 for prompts of Mooncake]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=MOST_WORKERS.into()))]
    pub concurrency: Option<u32>,

    /// Host memory that holds objects of BurstGPT before storage does [default: 0]
    #[arg(long = "cpu-cache", value_name = "SIZE", value_parser = parse_bytes)]
    pub cpu_cache_bytes: Option<u64>,

    /// How chunks of Mooncake's prompts are kept and moved.
    #[command(flatten)]
    #[serde(flatten)]
    pub chunks: ChunkRequest,

    /// Rarely needed settings.
    #[command(flatten)]
    pub tune: Tuned<ServingTune>,
}
