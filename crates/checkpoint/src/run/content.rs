//! The content of checkpoints: a small incompressible source, generated once and repeated by every
//! file, with a stamp in each 512-byte sector that identifies its file and position.
//!
//! The source costs no time in the timed part, since buffers hold it beforehand. A stamp is one
//! word written to one cache line in eight. So no two sectors of a run are equal, whatever block
//! size storage deduplicates by, and every byte can be verified. Storage could still detect that
//! sectors a transfer's length apart are *similar*: they differ only in the stamp.

use std::ops::Range;

use crate::plan::ContentFacts;
use stormlp_core::pattern::{Mismatch, Pattern};

/// Bytes between stamps: the smallest block size of storage, and so the smallest unit of
/// deduplication.
const SECTOR_BYTES: usize = 512;
/// Size of a stamp: one word of the pattern.
const STAMP_BYTES: usize = 8;
/// The pattern's stream used for the source; stamps use other streams.
const SOURCE_STREAM: u64 = u64::MAX;

/// Content of one checkpoint.
#[derive(Debug)]
pub struct CheckpointContent {
    facts: ContentFacts,
    source: Vec<u8>,
}

/// A key that is unique to a file within the run.
pub(super) fn file_key(step: u32, rank: u64, index: usize) -> u64 {
    (u64::from(step) << 42) ^ (rank << 21) ^ index as u64
}

impl CheckpointContent {
    /// Generates the source.
    pub fn new(facts: ContentFacts) -> Self {
        let mut source = vec![0; facts.source_bytes as usize];
        Pattern::new(facts.seed, SOURCE_STREAM).fill(0, &mut source);
        Self { facts, source }
    }

    /// The source, which fills every buffer before the first stamp.
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// Stamps a buffer that holds the source, for a transfer to `offset` of file `key`. `offset`
    /// must be a multiple of the sector size.
    #[inline]
    pub fn stamp(&self, key: u64, offset: u64, buffer: &mut [u8]) {
        let pattern = Pattern::new(self.facts.seed, key);
        for (at, sector) in (offset..).step_by(SECTOR_BYTES).zip(buffer.chunks_mut(SECTOR_BYTES)) {
            let stamp = stamp_at(pattern, at);
            match sector.first_chunk_mut() {
                Some(place) => *place = stamp,
                None => sector.copy_from_slice(&stamp[..sector.len()]),
            }
        }
    }

    /// Generates the sector at byte `at`, or as much of it as fits in `sector`.
    fn sector(&self, pattern: Pattern, at: u64, sector: &mut [u8]) {
        let from = (at % self.facts.source_bytes) as usize;
        sector.copy_from_slice(&self.source[from..from + sector.len()]);
        if self.facts.stamped {
            let len = sector.len().min(STAMP_BYTES);
            sector[..len].copy_from_slice(&stamp_at(pattern, at)[..len]);
        }
    }

    /// Fills the bytes `range` of `buffer` with their expected content. The buffer starts at
    /// `offset` of file `key`, a multiple of the sector size.
    pub fn expect(&self, key: u64, offset: u64, range: Range<usize>, buffer: &mut [u8]) {
        let pattern = Pattern::new(self.facts.seed, key);
        let mut sector = [0; SECTOR_BYTES];
        for start in (range.start / SECTOR_BYTES * SECTOR_BYTES..range.end).step_by(SECTOR_BYTES) {
            self.sector(pattern, offset + start as u64, &mut sector);
            let (from, to) = (range.start.max(start), range.end.min(start + SECTOR_BYTES));
            buffer[from..to].copy_from_slice(&sector[from - start..to - start]);
        }
    }

    /// Compares data read at `offset` of file `key`, a multiple of the sector size, with the
    /// expected content.
    pub fn check(&self, key: u64, offset: u64, found: &[u8]) -> Result<(), Mismatch> {
        let pattern = Pattern::new(self.facts.seed, key);
        let mut expected = [0; SECTOR_BYTES];
        for (start, sector) in (0..).step_by(SECTOR_BYTES).zip(found.chunks(SECTOR_BYTES)) {
            let at = offset + start as u64;
            let expected = &mut expected[..sector.len()];
            self.sector(pattern, at, expected);
            if expected == sector {
                continue;
            }
            let mut pairs = expected.iter().zip(sector);
            if let Some(place) = pairs.position(|(wanted, found)| wanted != found) {
                return Err(Mismatch {
                    at: start + place,
                    expected: expected[place],
                    found: sector[place],
                });
            }
        }
        Ok(())
    }
}

/// The stamp of the sector at byte `at` of the file that `pattern` belongs to.
#[inline]
fn stamp_at(pattern: Pattern, at: u64) -> [u8; STAMP_BYTES] {
    pattern.word(at / STAMP_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Container;
    use proptest::prelude::*;

    fn content(stamped: bool) -> CheckpointContent {
        CheckpointContent::new(ContentFacts {
            seed: 7,
            source_bytes: 32 * SECTOR_BYTES as u64,
            stamped,
            container: Container::Raw,
        })
    }

    fn buffer(content: &CheckpointContent, key: u64, offset: u64, len: usize) -> Vec<u8> {
        let mut buffer = content.source()[..len].to_vec();
        content.stamp(key, offset, &mut buffer);
        buffer
    }

    #[test]
    fn sectors_differ_across_files_ranks_and_checkpoints() {
        let content = content(true);
        let mut seen = std::collections::HashSet::new();
        for key in [file_key(1, 0, 0), file_key(1, 1, 0), file_key(1, 0, 1), file_key(2, 0, 0)] {
            for chunk in 0..8u64 {
                let chunk = buffer(&content, key, chunk * content.facts.source_bytes, 16384);
                for sector in chunk.chunks(SECTOR_BYTES) {
                    assert!(seen.insert(sector.to_vec()));
                }
            }
        }
        assert_eq!(seen.len(), 4 * 8 * 32);
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
