//! The bytes of checkpoints: a small incompressible source, made once, that every file repeats,
//! with a stamp in each block that says which file and position it belongs to.
//!
//! The source costs nothing in the timed part, since buffers hold it beforehand; the stamps touch
//! one cache line in 4 KiB. No two blocks of a run are alike, and every byte can be checked.

use stormlp_model::checkpoint::ContentFacts;
use stormlp_model::pattern::{Mismatch, Pattern};

/// Bytes between two stamps.
const BLOCK_BYTES: usize = 4096;
/// Bytes of a stamp.
const STAMP_BYTES: usize = 16;
/// The stream of the pattern that the source is; stamps have others.
const SOURCE_STREAM: u64 = u64::MAX;

/// Content of one checkpoint.
#[derive(Debug)]
pub(super) struct Content {
    facts: ContentFacts,
    source: Vec<u8>,
}

/// A number for a file that no other file of the run has.
pub(super) fn file_key(step: u32, rank: u64, index: usize) -> u64 {
    (u64::from(step) << 42) ^ (rank << 21) ^ index as u64
}

impl Content {
    /// Makes the source.
    pub(super) fn new(facts: ContentFacts) -> Self {
        let mut source = vec![0; facts.source_bytes as usize];
        Pattern::new(facts.seed, SOURCE_STREAM).fill(0, &mut source);
        Self { facts, source }
    }

    /// The source: what every buffer holds before the first stamp.
    pub(super) fn source(&self) -> &[u8] {
        &self.source
    }

    /// Stamps a buffer that holds the source, for a transfer to `offset` of file `key`.
    #[inline]
    pub(super) fn stamp(&self, key: u64, offset: u64, buffer: &mut [u8]) {
        let pattern = Pattern::new(self.facts.seed, key);
        for (at, block) in (offset..)
            .step_by(BLOCK_BYTES)
            .zip(buffer.chunks_mut(BLOCK_BYTES))
        {
            let len = block.len().min(STAMP_BYTES);
            pattern.fill(at, &mut block[..len]);
        }
    }

    /// Compares what was read at `offset` of file `key`, a multiple of 4 KiB, with what must be
    /// there.
    pub(super) fn check(&self, key: u64, offset: u64, found: &[u8]) -> Result<(), Mismatch> {
        let pattern = Pattern::new(self.facts.seed, key);
        let mut at = offset;
        for (start, block) in (0..).step_by(BLOCK_BYTES).zip(found.chunks(BLOCK_BYTES)) {
            let stamp = match self.facts.stamped {
                true => block.len().min(STAMP_BYTES),
                false => 0,
            };
            let shift = |mismatch: Mismatch, by: usize| Mismatch {
                at: start + by + mismatch.at,
                ..mismatch
            };
            pattern
                .check(at, &block[..stamp])
                .map_err(|mismatch| shift(mismatch, 0))?;
            let from = (at % self.facts.source_bytes) as usize + stamp;
            let expected = &self.source[from..from + block.len() - stamp];
            if *expected != block[stamp..] {
                let pairs = expected.iter().zip(&block[stamp..]);
                let differs = pairs.clone().position(|(a, b)| a != b).unwrap_or(0);
                let mismatch = Mismatch {
                    at: differs,
                    expected: expected[differs],
                    found: block[stamp + differs],
                };
                return Err(shift(mismatch, stamp));
            }
            at += BLOCK_BYTES as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn content(stamped: bool) -> Content {
        Content::new(ContentFacts {
            seed: 7,
            source_bytes: 4 * BLOCK_BYTES as u64,
            stamped,
        })
    }

    fn buffer(content: &Content, key: u64, offset: u64, len: usize) -> Vec<u8> {
        let mut buffer = content.source()[..len].to_vec();
        content.stamp(key, offset, &mut buffer);
        buffer
    }

    #[test]
    fn no_two_blocks_are_alike() {
        let content = content(true);
        let mut seen = std::collections::HashSet::new();
        for key in [
            file_key(1, 0, 0),
            file_key(1, 1, 0),
            file_key(1, 0, 1),
            file_key(2, 0, 0),
        ] {
            for chunk in 0..8u64 {
                let chunk = buffer(&content, key, chunk * content.facts.source_bytes, 16384);
                for block in chunk.chunks(BLOCK_BYTES) {
                    assert!(seen.insert(block.to_vec()));
                }
            }
        }
    }

    #[test]
    fn what_was_not_stamped_is_checked_without_stamps() {
        let content = content(false);
        assert_eq!(content.check(3, 0, content.source()), Ok(()));
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_found(
            chunk in 0u64..9, len in 1usize..16384, at in 0usize..16384, flip in 1u8..
        ) {
            let content = content(true);
            let offset = chunk * content.facts.source_bytes;
            let mut bytes = buffer(&content, 5, offset, len);
            prop_assert_eq!(content.check(5, offset, &bytes), Ok(()));
            let at = at % len;
            bytes[at] ^= flip;
            let mismatch = content.check(5, offset, &bytes).unwrap_err();
            prop_assert_eq!((mismatch.at, mismatch.found), (at, bytes[at]));
        }

        #[test]
        fn bytes_of_another_place_do_not_pass(chunk in 1u64..9) {
            let content = content(true);
            let elsewhere = buffer(&content, 5, chunk * content.facts.source_bytes, 4096);
            prop_assert!(content.check(5, 0, &elsewhere).is_err());
            prop_assert!(content.check(6, chunk * content.facts.source_bytes, &elsewhere).is_err());
        }
    }
}
