//! The request for a run: the options of `stormlp kvcache`, not validated yet.

use std::str::FromStr;

use super::options::{MOST_SECONDS, MOST_WORKERS, OPTIONS, SEED};
use super::serving_request::{ServingRequest, parse_factor};
use serde::{Deserialize, Serialize};
use stormlp_core::location::Location;
use stormlp_core::names::{Named, unknown};
use stormlp_core::numbers::{whole, within};
use stormlp_core::shell::CommandLine;
use stormlp_core::telemetry::Telemetry;
use stormlp_core::tune::Tuned;
use stormlp_core::units::{parse_bytes, parse_seconds, parse_some_bytes};
use strum::{Display, EnumString, VariantNames};

/// Listed after the options of the same heading that all commands have.
const LAST: usize = 99;

/// Whose workload a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Profile {
    /// That of MLPerf Storage v3.0.
    MlperfV3,
    /// That of serving engines: chunks of prefixes.
    Serving,
    /// That of a trace; `--trace` asks for it.
    Replay,
}

impl Named for Profile {
    const WHAT: &'static str = "a profile";
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

/// Options of a run. `None` falls back to MLPerf's option, then to the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(clap::Args)]
#[serde(default)]
pub struct KvcacheRequest {
    /// tiny-1b, mistral-7b, llama2-7b, llama3.1-8b, llama3.1-70b-instruct, deepseek-v3, qwen3-32b,
    /// gpt-oss-120b or gpt-oss-20b [default: that of the option]
    #[arg(value_name = "MODEL")]
    pub model: Option<String>,

    /// The command as it was typed, for advice. It is not saved: the head of a report has it.
    #[arg(skip)]
    #[serde(skip)]
    pub command: CommandLine,

    /// MLPerf's option: 1, 2 or 3 [default: the first of the model, else 1]
    #[arg(long, value_name = "N", help_heading = "Load",
        value_parser = whole::<u32>(1..=3))]
    pub option: Option<u32>,

    /// Whose workload: mlperf-v3, or that of serving engines (serving) [default: mlperf-v3]
    #[arg(long, value_name = "PROFILE", help_heading = "Load", conflicts_with = "trace")]
    pub profile: Option<Profile>,

    /// All three options, three trials each, as MLPerf's closed rules fix them
    #[arg(long, help_heading = "Load", conflicts_with_all = [
        "model", "option", "users", "duration_seconds", "trials", "pause_seconds", "memory_bytes",
        "concurrent_writes", "seed", "profile", "verify", "capacity_bytes",
    ])]
    pub closed: bool,

    /// Users, who send requests without waiting for answers [default: of the option]
    #[arg(long, value_name = "N", help_heading = "Load",
        value_parser = whole::<u32>(1..=100_000))]
    pub users: Option<u32>,

    /// Duration of a trial [default: 300s; that of the trace]
    #[arg(long = "duration", value_name = "TIME", help_heading = "Load",
        value_parser = within(parse_seconds, 0.1..=MOST_SECONDS, "100ms to 168h"))]
    pub duration_seconds: Option<f64>,

    /// Trials of each option [default: 1]
    #[arg(long, value_name = "N", help_heading = "Load",
        value_parser = whole::<u32>(1..=1000))]
    pub trials: Option<u32>,

    /// Time between trials [default: none; 90s between closed options]
    #[arg(long = "pause", value_name = "TIME", help_heading = "Load",
        value_parser = within(parse_seconds, 0.0..=86_400.0, "0 to 24h"))]
    pub pause_seconds: Option<f64>,

    /// Seed of users, requests and content [default: 42]
    #[arg(long, value_name = "N", help_heading = "Load",
        value_parser = whole::<u32>(..))]
    pub seed: Option<u32>,

    /// Replay a trace instead: of MLPerf's client (--io-trace-log), BurstGPT or Mooncake
    #[arg(long, value_name = "FILE", help_heading = "Trace",
        value_hint = clap::ValueHint::FilePath, conflicts_with_all = [
            "closed", "option", "users",
        ])]
    pub trace: Option<Location>,

    /// Speed of the trace: 1 as recorded, 2 twice as fast, max as fast as threads can [default: 1]
    #[arg(long, value_name = "N|max", help_heading = "Trace", requires = "trace")]
    pub speed: Option<Speed>,

    /// Threads that replay a trace or serve prompts, each one at a time [default: 16; 8 for prompts]
    #[arg(long, value_name = "N", help_heading = "Trace",
        value_parser = whole::<u32>(1..=MOST_WORKERS.into()))]
    pub threads: Option<u32>,

    /// The load of a serving engine.
    #[command(flatten)]
    pub serving: ServingRequest,

    /// Find the most servers that storage feeds: each is a thread with --prefill-rate, and so many are
    /// fed if, at each length, the P95 of loading a prefix is at most the time to compute it, and at
    /// most 5 % of new chunks are dropped or left waiting
    #[arg(long, help_heading = "How many servers",
        requires_all = ["prefill_tokens_per_second", "profile"], conflicts_with_all = [
            "closed", "trace", "trials", "pause_seconds", "threads", "requests_per_second", "keep",
        ])]
    pub find_max: bool,

    /// Full runs with the result and with one server more; with 0, the result is that of probes, which
    /// take a tenth of --duration [default: 1]
    #[arg(long, value_name = "N", help_heading = "How many servers",
        requires = "find_max", value_parser = whole::<u32>(0..=100))]
    pub confirm: Option<u32>,

    /// Folder of the objects, or s3://bucket/prefix for those of prompts
    /// [default: ./stormlp-data/kvcache]
    #[arg(long = "dir", value_name = "DIR", help_heading = "Objects",
        value_parser = Location::anywhere, value_hint = clap::ValueHint::AnyPath)]
    pub folder: Option<Location>,

    /// Most bytes of objects in the folder; the least recently used ones are deleted for new ones
    /// [default: 95 % of the free space]
    #[arg(long = "capacity", value_name = "SIZE",
        help_heading = "Objects", value_parser = parse_some_bytes)]
    pub capacity_bytes: Option<u64>,

    /// Memory of the host that holds objects before storage does [default: of the option]
    #[arg(long = "memory", value_name = "SIZE", help_heading = "Objects",
        value_parser = parse_bytes)]
    pub memory_bytes: Option<u64>,

    /// Objects that are written at a time [default: of the option]
    #[arg(long, value_name = "N", help_heading = "Objects",
        value_parser = whole::<u32>(1..))]
    pub concurrent_writes: Option<u32>,

    /// Bytes of a read or write call [default: 1M]
    #[arg(long = "chunk-size", value_name = "SIZE",
        help_heading = "Objects", value_parser = parse_call_bytes)]
    pub chunk_bytes: Option<u64>,

    /// Compare what is read with what was written; this costs CPU time
    #[arg(long, help_heading = "Objects")]
    pub verify: bool,

    /// Keep the objects of the last trial, until the next run or `stormlp clean`
    #[arg(long, help_heading = "Objects")]
    pub keep: bool,

    /// Several hosts: each has storage of its own under --dir, such as local drives
    #[arg(long, help_heading = "Several hosts", display_order = LAST)]
    pub local_storage: bool,

    /// The rank of this process among those of a launcher; `None` if it is alone.
    #[arg(skip)]
    #[serde(skip)]
    pub rank: Option<u32>,

    /// Whether the times of single requests are kept, as MLPerf's files list them.
    #[arg(skip)]
    #[serde(skip)]
    pub lists_requests: bool,

    /// Print the plan and exit as the run would
    #[arg(long)]
    pub dry_run: bool,

    /// Rarely needed settings.
    #[command(flatten)]
    pub tune: Tuned<KvcacheTune>,
}

/// The keys of `--tune`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, clap::Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KvcacheTune {
    /// Interval of samples of devices, host, network and GPUs: 10ms to 60s, or off
    #[arg(long, value_name = "INTERVAL", default_value = "100ms")]
    #[serde(rename = "telemetry_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub telemetry: Telemetry,
}

/// Parses the bytes of a call.
fn parse_call_bytes(text: &str) -> Result<u64, String> {
    let bytes = within(parse_bytes, 4096..=1 << 30, "4K to 1G")(text)?;
    match bytes.is_multiple_of(4096) {
        true => Ok(bytes),
        false => Err(format!("`{text}` is not a multiple of 4K: use one such as 1M")),
    }
}

impl KvcacheRequest {
    /// The seed of this process: as in the original, each rank has the next one.
    pub fn own_seed(&self) -> u32 {
        self.seed.unwrap_or(SEED).wrapping_add(self.rank.unwrap_or(0))
    }

    /// The folder of this process: below the one asked for, `rank_N` for each of several.
    pub fn own_folder(&self) -> Location {
        let folder = self.folder.clone().unwrap_or_default();
        self.rank.map_or(folder.clone(), |rank| folder.join(format!("rank_{rank}")).into())
    }

    /// The name of the model that a trace is replayed with.
    pub fn model_of_trace(&self) -> &str {
        self.model.as_deref().unwrap_or(OPTIONS[0].model)
    }
}
