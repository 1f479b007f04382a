//! Options of a serving engine's load, and the load that follows from them.

use serde::{Deserialize, Serialize};
use stormlp_core::failure::Problems;
use stormlp_core::numbers::{whole, within};
use stormlp_core::path::PathKind;
use stormlp_core::telemetry::Telemetry;
use stormlp_core::transport::{Devices, EngineChoice, Requirement};
use stormlp_core::tune::Tuned;

use super::model::Model;
use super::options::MOST_WORKERS;
use super::serving::{Layout, ServingPlan};
use super::trace::BLOCK_TOKENS;

/// Defaults: LMCache's for chunks and threads, and the lengths of short and long prompts.
const CHUNK_TOKENS: u32 = 256;
const PREFIX_TOKENS: [u32; 3] = [2048, 8192, 32_768];
const PREFIXES: u32 = 48;
const READS_PER_PREFIX: f64 = 9.0;
const NEW_TOKENS: u32 = 512;
const LOADERS: u32 = 8;
const WRITERS: u32 = 4;
const DEPTH: usize = 4;
/// Sensible maximum of each.
const MOST_PREFIX_TOKENS: u64 = 1 << 22;
const MOST_PREFIXES: u64 = 1_000_000;

/// Loads of a trace are sorted by powers of two up to this many tokens.
const LONGEST_OF_TRACE: u32 = 1 << 18;

/// Parses a factor or a rate.
pub(super) fn parse_factor(text: &str) -> Result<f64, String> {
    within(str::parse::<f64>, 1e-3..=1e6, "0.001 to 1000000")(text)
}

/// Loads by several threads: how many, and how chunks of prefixes are kept and moved. `None` is the
/// default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, clap::Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ChunkRequest {
    /// Prompts at a time [default: 8]; threads of a trace of objects [default: 16]
    #[arg(long, value_name = "N", help_heading = "Load",
        value_parser = whole::<u32>(1..=MOST_WORKERS.into()))]
    pub concurrency: Option<u32>,

    /// Tokens per chunk [default: 256; of a trace 512]
    #[arg(long, value_name = "N", help_heading = "Prefixes", value_parser = whole::<u32>(1..=1 << 16))]
    pub chunk_tokens: Option<u32>,

    /// Prefill speed of one server, in tokens per second [default: no time]
    #[arg(long = "prefill-rate", value_name = "TOKENS", help_heading = "Load",
        value_parser = within(str::parse::<f64>, 1e-3..=1e9, "0.001 to 1000000000"))]
    pub prefill_tokens_per_second: Option<f64>,

    /// Transfers in flight per prompt [default: 4; 1 with engine psync]
    #[arg(long, value_name = "N", help_heading = "Transfers", value_parser = whole::<u32>(1..=256))]
    pub queue_depth: Option<u32>,

    /// buffered, cpu, page-cache, cpu-gpu, gds, gds-async, gds-batch, s3 [default: buffered]
    #[arg(long, value_name = "PATH", help_heading = "Transfers", value_parser = path)]
    pub path: Option<PathKind>,

    /// I/O engine: auto, uring or psync [default: auto]
    #[arg(long, value_name = "ENGINE", help_heading = "Transfers")]
    pub engine: Option<EngineChoice>,

    /// GPUs: cuda:0,cuda:1 or all; host emulates one [default: first GPU, else host]
    #[arg(long, value_name = "LIST", help_heading = "Transfers")]
    pub device: Option<Devices>,

    /// Fail instead of falling back: gds
    #[arg(long, value_name = "gds", help_heading = "Transfers", value_parser = Requirement::of_cufile)]
    pub require: Option<Requirement>,
}

/// Options of `kvcache serving`. `None` is the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, clap::Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ServingRequest {
    /// Mean rate of prompts per second [default: the next when one ends]
    #[arg(long = "request-rate", value_name = "N", help_heading = "Load",
        value_parser = parse_factor)]
    pub requests_per_second: Option<f64>,

    /// Stored prefixes [default: 48, at most half of --capacity]
    #[arg(long, value_name = "N", help_heading = "Prefixes",
        value_parser = whole::<u32>(1..=MOST_PREFIXES))]
    pub prefixes: Option<u32>,

    /// Lengths of prefixes in tokens, in turn [default: 2048,8192,32768]
    #[arg(long, value_name = "LIST", help_heading = "Prefixes", value_delimiter = ',',
        value_parser = whole::<u32>(1..=MOST_PREFIX_TOKENS))]
    pub prefix_tokens: Vec<u32>,

    /// Find how many servers can load prefixes (P95) as fast as compute them
    #[arg(long, help_heading = "Load", requires = "prefill_tokens_per_second",
        conflicts_with_all = ["runs", "concurrency", "requests_per_second", "no_cleanup"])]
    pub find_max: bool,

    /// How chunks are kept and moved.
    #[command(flatten)]
    #[serde(flatten)]
    pub chunks: ChunkRequest,

    /// Rarely needed settings.
    #[command(flatten)]
    pub tune: Tuned<ServingTune>,
}

/// The keys of `kvcache serving --tune`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, clap::Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ServingTune {
    /// Prompts with a stored prefix per prompt with a new one [default: 9]
    #[arg(long, value_name = "N", value_parser = parse_factor)]
    pub reuse: Option<f64>,

    /// Tokens of a prompt after its prefix, which are always computed [default: 512]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=MOST_PREFIX_TOKENS))]
    pub new_tokens: Option<u32>,

    /// Full runs of --find-max at the result, and with one server more [default: 1]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=100))]
    pub confirm: Option<u32>,

    /// The settings for chunks.
    #[command(flatten)]
    #[serde(flatten)]
    pub chunks: ChunkTune,
}

/// The keys of `--tune` for chunks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, clap::Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ChunkTune {
    /// One file per chunk (files), or many chunks in a file of 1 GiB (packed) [default: files]
    #[arg(long, value_name = "LAYOUT")]
    pub layout: Option<Layout>,

    /// Threads that write chunks in the background [default: 4]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=500))]
    pub writers: Option<u32>,

    /// The settings of every workload.
    #[command(flatten)]
    #[serde(flatten)]
    pub run: RunTune,
}

/// The keys of `--tune` of every workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, clap::Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RunTune {
    /// Seed of the load and of content [default: 42]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(..))]
    pub seed: Option<u32>,

    /// Interval of samples of devices, host, network and GPUs: 10ms to 60s, or off
    #[arg(long, value_name = "INTERVAL", default_value = "100ms")]
    #[serde(rename = "telemetry_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub telemetry: Telemetry,
}

/// Parses one of the paths of chunks.
fn path(text: &str) -> Result<PathKind, String> {
    match text == PathKind::S3.name() {
        true => Ok(PathKind::S3),
        false => PathKind::of_files(text, "KV caches"),
    }
}

impl ChunkRequest {
    /// Tokens of a block of a trace.
    pub fn block_tokens(&self) -> u32 {
        self.chunk_tokens.unwrap_or(BLOCK_TOKENS)
    }

    /// Transfers in flight that are asked for.
    pub(super) fn depth(&self) -> usize {
        self.queue_depth.map_or(DEPTH, |depth| depth as usize)
    }

    /// The load of `prompts`, or of a trace, paced or not; `most_bytes` may be on storage.
    pub(super) fn plan(
        &self,
        tune: &ChunkTune,
        (model, most_bytes): (&Model, u64),
        prompts: Option<&ServingRequest>,
        is_paced: bool,
        problems: &mut Problems,
    ) -> ServingPlan {
        let usual = if prompts.is_some() { CHUNK_TOKENS } else { BLOCK_TOKENS };
        let chunk_tokens = self.chunk_tokens.unwrap_or(usual);
        let chunk_bytes = ServingPlan::bytes_of_chunk(model, chunk_tokens);
        let prefix_tokens = match prompts.map(|prompts| prompts.prefix_tokens.as_slice()) {
            None => powers(chunk_tokens),
            Some([]) => PREFIX_TOKENS.to_vec(),
            Some(lengths) => lengths.to_vec(),
        };
        for length in prefix_tokens.iter().filter(|length| *length % chunk_tokens != 0) {
            let what = format!("a prefix of {length} tokens in chunks of {chunk_tokens}");
            problems.plan(what, format!("use --prefix-tokens with multiples of {chunk_tokens}"));
        }
        let requests_per_second = prompts.and_then(|prompts| prompts.requests_per_second);
        let mut plan = ServingPlan {
            chunk_tokens,
            chunk_bytes,
            layout: tune.layout.unwrap_or_default(),
            most_chunks: most_bytes / chunk_bytes,
            loaders: self.concurrency.unwrap_or(LOADERS),
            writers: tune.writers.unwrap_or(WRITERS),
            drops: is_paced
                || requests_per_second.is_some()
                || self.prefill_tokens_per_second.is_some(),
            prefixes: prompts.map_or(0, |prompts| prompts.prefixes.unwrap_or(PREFIXES)),
            prefix_tokens,
            reads_per_prefix: prompts.and_then(|of| of.tune.reuse).unwrap_or(READS_PER_PREFIX),
            new_tokens: prompts.map_or(0, |of| of.tune.new_tokens.unwrap_or(NEW_TOKENS)),
            requests_per_second,
            prefill_tokens_per_second: self.prefill_tokens_per_second,
        };
        if prompts.is_some_and(|prompts| prompts.prefixes.is_none()) {
            // As many leave as much room for those that prompts bring.
            let each_length = plan.prefix_tokens.len() as u32;
            while plan.prefixes > each_length && plan.prefix_bytes() > most_bytes / 2 {
                plan.prefixes -= 1;
            }
        }
        plan
    }
}

/// Powers of two from the tokens of a chunk.
fn powers(chunk_tokens: u32) -> Vec<u32> {
    std::iter::successors(Some(chunk_tokens), |last| last.checked_mul(2))
        .take_while(|tokens| *tokens <= LONGEST_OF_TRACE.max(chunk_tokens))
        .collect()
}
