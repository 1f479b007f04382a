//! Options of a serving engine's load, and what they come to.

use serde::{Deserialize, Serialize};
use stormlp_core::failure::Problems;
use stormlp_core::numbers::{whole, within};
use stormlp_core::path::PathKind;
use stormlp_core::transport::{Devices, EngineChoice, Requirement};

use super::model::Model;
use super::serving::{Layout, ServingPlan};
use super::trace::BLOCK_TOKENS;

/// Defaults: those of LMCache for chunks and threads, and the lengths of short and long prompts.
const CHUNK_TOKENS: u32 = 256;
const PREFIX_TOKENS: [u32; 3] = [2048, 8192, 32_768];
const PREFIXES: u32 = 48;
const READS_PER_PREFIX: f64 = 9.0;
const NEW_TOKENS: u32 = 512;
const LOADERS: u32 = 8;
const WRITERS: u32 = 4;
const DEPTH: usize = 4;
/// The most of each that makes sense.
const MOST_PREFIX_TOKENS: u64 = 1 << 22;
const MOST_PREFIXES: u64 = 1_000_000;

/// Loads of a trace are sorted by powers of two up to this many tokens.
const LONGEST_OF_TRACE: u32 = 1 << 18;

/// Parses a factor or a rate.
pub(super) fn parse_factor(text: &str) -> Result<f64, String> {
    within(str::parse::<f64>, 1e-3..=1e6, "0.001 to 1000000")(text)
}

/// Options of a serving engine's load. `None` is the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(clap::Args)]
#[serde(default)]
pub struct ServingRequest {
    /// Tokens of a chunk; for a Mooncake trace of a block [default: 256; 512 of a trace]
    #[arg(long, value_name = "N", help_heading = "Serving",
        value_parser = whole::<u32>(1..=1 << 16))]
    pub chunk_tokens: Option<u32>,

    /// Where chunks are: each in a file (files), or many in a file of 1 GiB (packed)
    #[arg(long, value_name = "LAYOUT", help_heading = "Serving")]
    pub layout: Option<Layout>,

    /// Prefixes that prompts begin with [default: 48]
    #[arg(long, value_name = "N", help_heading = "Serving",
        value_parser = whole::<u32>(1..=MOST_PREFIXES), conflicts_with = "trace")]
    pub prefixes: Option<u32>,

    /// Their lengths in tokens, in turn [default: 2048,8192,32768]
    #[arg(long, value_name = "LIST", help_heading = "Serving",
        value_delimiter = ',', value_parser = whole::<u32>(1..=MOST_PREFIX_TOKENS), conflicts_with = "trace")]
    pub prefix_tokens: Vec<u32>,

    /// Prompts that read a prefix for each that brings a new one [default: 9]
    #[arg(long, value_name = "N", help_heading = "Serving", value_parser = parse_factor, conflicts_with = "trace")]
    pub reads_per_prefix: Option<f64>,

    /// Tokens of a prompt after its prefix, which are always computed [default: 512]
    #[arg(long, value_name = "N", help_heading = "Serving",
        value_parser = whole::<u32>(1..=MOST_PREFIX_TOKENS), conflicts_with = "trace")]
    pub new_tokens: Option<u32>,

    /// Prompts a second [default: the next as soon as a thread is free]
    #[arg(long = "rate", value_name = "N", help_heading = "Serving",
        value_parser = parse_factor, conflicts_with = "trace")]
    pub requests_per_second: Option<f64>,

    /// Tokens that the accelerators of a server compute in a second: each thread waits as long as what
    /// it did not load takes [default: no time]
    #[arg(long = "prefill-rate", value_name = "TOKENS", help_heading = "Serving",
        value_parser = within(str::parse::<f64>, 1e-3..=1e9, "0.001 to 1000000000"))]
    pub prefill_tokens_per_second: Option<f64>,

    /// Transfers in flight for each prompt [default: 4; 1 with engine psync]
    #[arg(long, value_name = "N", help_heading = "Serving",
        value_parser = whole::<u32>(1..=256))]
    pub depth: Option<u32>,

    /// Threads that write in the background [default: 4]
    #[arg(long, value_name = "N", help_heading = "Serving",
        value_parser = whole::<u32>(1..=500))]
    pub writers: Option<u32>,

    /// Path: buffered, cpu (O_DIRECT), page-cache, cpu-gpu, gds, gds-async, gds-batch; objects in a
    /// bucket have path s3 [default: buffered]
    #[arg(long, value_name = "PATH", help_heading = "Serving",
        value_parser = path)]
    pub path: Option<PathKind>,

    /// I/O engine: auto, uring, psync [default: auto]
    #[arg(long, value_name = "ENGINE", help_heading = "Serving")]
    pub engine: Option<EngineChoice>,

    /// Accelerator for the paths to one: cuda:0, several GPUs such as cuda:0,cuda:1 or all, over
    /// which threads are dealt, or host [default: the first GPU, else host]
    #[arg(long, value_name = "LIST", help_heading = "Serving")]
    pub device: Option<Devices>,

    /// Fail if a path of cuFile falls back: gds
    #[arg(long, value_name = "gds", help_heading = "Serving", value_parser = Requirement::of_cufile)]
    pub require: Option<Requirement>,
}

/// Parses one of the paths that chunks take.
fn path(text: &str) -> Result<PathKind, String> {
    match text == PathKind::S3.name() {
        true => Ok(PathKind::S3),
        false => PathKind::of_files(text, "KV caches"),
    }
}

impl ServingRequest {
    /// Tokens of a block of a trace.
    pub fn block_tokens(&self) -> u32 {
        self.chunk_tokens.unwrap_or(BLOCK_TOKENS)
    }

    /// Transfers in flight that are asked for.
    pub(super) fn depth(&self) -> usize {
        self.depth.map_or(DEPTH, |depth| depth as usize)
    }

    /// The load, for a trace or for prompts of its own; `most_bytes` may be on storage.
    pub(super) fn plan(
        &self,
        model: &Model,
        (is_trace, is_paced, loaders): (bool, bool, Option<u32>),
        most_bytes: u64,
        problems: &mut Problems,
    ) -> ServingPlan {
        let usual = if is_trace { BLOCK_TOKENS } else { CHUNK_TOKENS };
        let chunk_tokens = self.chunk_tokens.unwrap_or(usual);
        let chunk_bytes = ServingPlan::bytes_of_chunk(model, chunk_tokens);
        let prefix_tokens = match (is_trace, self.prefix_tokens.as_slice()) {
            (true, _) => powers(chunk_tokens),
            (false, []) => PREFIX_TOKENS.to_vec(),
            (false, lengths) => lengths.to_vec(),
        };
        for length in prefix_tokens.iter().filter(|length| *length % chunk_tokens != 0) {
            let what = format!("a prefix of {length} tokens in chunks of {chunk_tokens}");
            problems.plan(what, format!("use --prefix-tokens with multiples of {chunk_tokens}"));
        }
        ServingPlan {
            chunk_tokens,
            chunk_bytes,
            layout: self.layout.unwrap_or_default(),
            most_chunks: most_bytes / chunk_bytes,
            loaders: loaders.unwrap_or(LOADERS),
            writers: self.writers.unwrap_or(WRITERS),
            drops: is_paced
                || self.requests_per_second.is_some()
                || self.prefill_tokens_per_second.is_some(),
            prefixes: if is_trace { 0 } else { self.prefixes.unwrap_or(PREFIXES) },
            prefix_tokens,
            reads_per_prefix: self.reads_per_prefix.unwrap_or(READS_PER_PREFIX),
            new_tokens: if is_trace { 0 } else { self.new_tokens.unwrap_or(NEW_TOKENS) },
            requests_per_second: self.requests_per_second,
            prefill_tokens_per_second: self.prefill_tokens_per_second,
        }
    }
}

/// Powers of two from the tokens of a chunk.
fn powers(chunk_tokens: u32) -> Vec<u32> {
    std::iter::successors(Some(chunk_tokens), |last| last.checked_mul(2))
        .take_while(|tokens| *tokens <= LONGEST_OF_TRACE.max(chunk_tokens))
        .collect()
}
