//! Payload of generated files: bytes that neither compression nor deduplication can shrink.
//!
//! Every 4 KiB block of every file has a generator of random bytes, keyed by seed, file and block.
//! So no block is ever repeated, any block can be regenerated alone (to verify reads), and threads
//! need no coordination.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use stormlp_core::names::{Named, unknown};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

/// Size of a block: the unit in which storage deduplicates and in which content is keyed.
pub const BLOCK_BYTES: usize = 4096;

/// The payload of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Content {
    /// Incompressible, with all blocks different.
    #[default]
    Random,
    /// A single repeated byte value: compressible, to see how storage handles it.
    Constant,
}

impl Named for Content {
    const WHAT: &'static str = "a kind of content";
}

/// The byte value of [`Content::Constant`].
pub const CONSTANT_BYTE: u8 = 0x5a;

impl Content {
    /// The command-line name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The content of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileContent {
    /// The payload of the samples.
    pub kind: Content,
    /// The dataset's seed.
    pub seed: u64,
    /// The file's index in the dataset.
    pub file: u64,
}

impl FileContent {
    /// Fills `buffer` with the content starting at byte `block * 4096`.
    pub fn fill(&self, block: u64, buffer: &mut [u8]) {
        match self.kind {
            Content::Constant => buffer.fill(CONSTANT_BYTE),
            Content::Random => {
                for (index, piece) in buffer.chunks_mut(BLOCK_BYTES).enumerate() {
                    self.generator(block + index as u64).fill_bytes(piece);
                }
            }
        }
    }

    /// The generator of one block. Words 1 to 3 are one-to-one in seed, file and block, so no two
    /// blocks share a state; word 0 mixes all three.
    fn generator(&self, block: u64) -> Xoshiro256PlusPlus {
        let seed_word = mix(self.seed ^ 0x9e37_79b9_7f4a_7c15);
        let file_word = mix(self.file ^ 0xd1b5_4a32_d192_ed03);
        let block_word = mix(block ^ 0x8cb9_2ba7_2f3d_8dd7);
        let all = mix(block_word ^ mix(file_word ^ seed_word.rotate_left(17)));
        let mut state = [0u8; 32];
        for (slot, word) in state.chunks_exact_mut(8).zip([all, seed_word, file_word, block_word]) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        Xoshiro256PlusPlus::from_seed(state)
    }
}

/// The finaliser of splitmix64: a bijective mixing of 64 bits.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{BLOCK_BYTES, Content, FileContent};

    fn content(seed: u64, file: u64) -> FileContent {
        FileContent { kind: Content::Random, seed, file }
    }

    #[test]
    fn any_block_can_be_generated_alone() {
        let mut whole = vec![0; 5 * BLOCK_BYTES];
        content(1, 2).fill(10, &mut whole);
        let mut alone = vec![0; BLOCK_BYTES];
        content(1, 2).fill(13, &mut alone);
        assert_eq!(alone, whole[3 * BLOCK_BYTES..4 * BLOCK_BYTES]);
        let mut part = vec![0; 100];
        content(1, 2).fill(13, &mut part);
        assert_eq!(part, alone[..100]);
    }

    #[test]
    fn no_block_is_like_another() {
        let mut seen = HashSet::new();
        for seed in 0..3 {
            for file in 0..5 {
                let mut buffer = vec![0; 64 * BLOCK_BYTES];
                content(seed, file).fill(0, &mut buffer);
                for block in buffer.chunks(BLOCK_BYTES) {
                    assert!(seen.insert(block.to_vec()));
                }
            }
        }
    }

    #[test]
    fn bytes_are_evenly_spread() {
        let mut buffer = vec![0; 1 << 20];
        content(7, 7).fill(0, &mut buffer);
        let mut counts = [0u32; 256];
        for byte in &buffer {
            counts[usize::from(*byte)] += 1;
        }
        // 4096 of each value expected, with standard deviation 64: allow six of them either way.
        assert!(counts.iter().all(|count| count.abs_diff(4096) < 400));
    }

    #[test]
    fn constant_content_is_constant() {
        let mut buffer = vec![0; 9000];
        FileContent { kind: Content::Constant, ..content(1, 1) }.fill(3, &mut buffer);
        assert!(buffer.iter().all(|byte| *byte == super::CONSTANT_BYTE));
    }
}
