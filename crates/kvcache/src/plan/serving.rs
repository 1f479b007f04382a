//! The storage use of a serving engine: chunks of prefixes, read in bursts before the first token
//! and written in the background.

use serde::{Deserialize, Serialize};
use stormlp_core::names::{Named, unknown};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use super::content::file_bytes;
use super::model::Model;

/// Chunks begin at multiples of this in a file, so that they can be moved with `O_DIRECT`.
pub const BLOCK_BYTES: u64 = 4096;
/// Chunks that may wait to be written: more are dropped, or prompts wait if they have no other
/// limit.
pub const WRITE_QUEUE: u32 = 256;
/// The size that a file of several chunks aims at, in bytes.
const PACK_BYTES: u64 = 1 << 30;

/// Where chunks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Layout {
    /// Each in a separate file, which is removed with it.
    #[default]
    Files,
    /// Many in a file, with reused places.
    Packed,
}

impl Named for Layout {
    const WHAT: &'static str = "a layout";
}

/// The load of a serving engine, decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServingPlan {
    /// Tokens of a chunk.
    pub chunk_tokens: u32,
    /// Bytes of a chunk on storage.
    pub chunk_bytes: u64,
    /// Where chunks are.
    pub layout: Layout,
    /// Maximum number of chunks on storage.
    pub most_chunks: u64,
    /// Prompts that are served at a time.
    pub loaders: u32,
    /// Threads that write chunks in the background.
    pub writers: u32,
    /// Whether chunks are dropped if too many wait to be written. Otherwise prompts wait for room:
    /// without a pace, and without a time to compute, prompts without a stored prefix would follow
    /// each other at once.
    pub drops: bool,
    /// Prefixes that prompts begin with; 0 for a trace.
    pub prefixes: u32,
    /// Their lengths in tokens, in turn; for a trace the lengths by which loads are sorted.
    pub prefix_tokens: Vec<u32>,
    /// How many prompts read a prefix for each that writes it.
    pub reads_per_prefix: f64,
    /// Tokens of a prompt after its prefix, which are always computed.
    pub new_tokens: u32,
    /// Prompts a second; `None` if the next is sent as soon as a thread is free.
    pub requests_per_second: Option<f64>,
    /// Tokens that the accelerators of a server compute in a second; `None` if computing needs no
    /// time.
    pub prefill_tokens_per_second: Option<f64>,
}

impl ServingPlan {
    /// Bytes of a chunk of `model` on storage.
    pub fn bytes_of_chunk(model: &Model, tokens: u32) -> u64 {
        file_bytes(model, tokens.into()).next_multiple_of(BLOCK_BYTES)
    }

    /// Chunks in a file of several.
    pub fn chunks_per_file(&self) -> u64 {
        (PACK_BYTES / self.chunk_bytes).max(1)
    }

    /// Bytes of all prefixes that prompts may begin with at a time.
    pub fn prefix_bytes(&self) -> u64 {
        let of = |nth: u32| self.prefix_tokens[nth as usize % self.prefix_tokens.len()];
        let chunks = (0..self.prefixes).map(|nth| u64::from(of(nth) / self.chunk_tokens));
        chunks.sum::<u64>() * self.chunk_bytes
    }

    /// Chunks of the longest prefix that prompts begin with; 0 of a trace.
    pub fn longest_prefix_chunks(&self) -> u64 {
        let longest = self.prefix_tokens.iter().max().filter(|_| self.prefixes > 0);
        longest.map_or(0, |tokens| u64::from(tokens / self.chunk_tokens))
    }

    /// The share of the tokens of prompts that are loaded if storage keeps up, 0 to 1; `None` of a
    /// trace.
    pub fn expected_share(&self) -> Option<f64> {
        let lengths = self.prefix_tokens.iter().map(|tokens| f64::from(*tokens));
        let prefix = lengths.sum::<f64>() / self.prefix_tokens.len() as f64;
        let found = self.reads_per_prefix / (1.0 + self.reads_per_prefix);
        (self.prefixes > 0).then(|| found * prefix / (prefix + f64::from(self.new_tokens)))
    }

    /// The place in `prefix_tokens` of a load of so many tokens: the shortest length that is not
    /// shorter.
    pub fn length_of(&self, tokens: u32) -> usize {
        let fits = self.prefix_tokens.iter().enumerate().filter(|(_, length)| **length >= tokens);
        let longest = || self.prefix_tokens.iter().enumerate().max_by_key(|(_, length)| **length);
        let found = fits.min_by_key(|(_, length)| **length).or_else(longest);
        found.map_or(0, |(place, _)| place)
    }
}

/// For tests.
#[cfg(test)]
impl ServingPlan {
    /// Small chunks of a small model.
    #[must_use]
    pub fn fixture() -> Self {
        Self {
            chunk_tokens: 256,
            chunk_bytes: 6_295_552,
            layout: Layout::Files,
            most_chunks: 1000,
            loaders: 2,
            writers: 1,
            drops: true,
            prefixes: 4,
            prefix_tokens: vec![512, 1024],
            reads_per_prefix: 9.0,
            new_tokens: 256,
            requests_per_second: None,
            prefill_tokens_per_second: Some(10_000.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_whole_blocks() {
        let of = |model: &str, tokens| {
            ServingPlan::bytes_of_chunk(&Model::named(model).unwrap(), tokens)
        };
        assert_eq!(of("llama3.1-8b", 256), (32 << 20) + 4096);
        assert_eq!(of("tiny-1b", 256), ServingPlan::fixture().chunk_bytes);
        assert_eq!(ServingPlan::fixture().chunks_per_file(), 170);
        assert!(of("deepseek-v3", 16).is_multiple_of(4096));
    }

    #[test]
    fn loads_are_sorted_by_the_next_length() {
        let plan = ServingPlan { prefix_tokens: vec![8192, 1024], ..ServingPlan::fixture() };
        let of = |tokens| plan.prefix_tokens[plan.length_of(tokens)];
        assert_eq!([of(1), of(1024), of(1025), of(8192), of(9000)], [1024, 1024, 8192, 8192, 8192]);
        assert_eq!(ServingPlan::fixture().prefix_bytes(), 12 * 6_295_552);
        // 768 of 1024 tokens in the mean, for nine prompts of ten.
        assert_eq!(ServingPlan::fixture().expected_share(), Some(0.9 * 0.75));
    }
}
