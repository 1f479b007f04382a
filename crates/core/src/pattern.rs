//! A position-dependent, incompressible pattern: each byte is determined by its position.
//!
//! Every eight bytes of a stream are a function of the seed, the stream and their position, so the
//! content needs no memory, never repeats, and any piece can be checked alone. The function is the
//! finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) over the position: fast enough in
//! plain code to stay far ahead of storage.

use std::path::Path;

/// A stream of the pattern: a file, or a rank's share of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    key: u64,
}

/// The first difference between content and pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// Offset of the first wrong byte from the start of the checked piece.
    pub at: usize,
    /// The expected byte.
    pub expected: u8,
    /// The byte found.
    pub found: u8,
}

/// SplitMix64's finaliser.
#[inline]
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The stream number of a file: an FNV-1a hash of its name, so that a file can be checked
/// regardless of the other files of a later matrix.
pub fn stream_of(file: &Path) -> u64 {
    fnv1a(file.file_name().unwrap_or_default().to_string_lossy().as_bytes())
}

/// The 64-bit FNV-1a hash.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Pattern {
    /// The pattern of `stream` under `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { key: mix(seed ^ mix(stream.wrapping_add(0x9e37_79b9_7f4a_7c15))) }
    }

    /// The eight bytes at word `index` of the stream.
    #[inline]
    pub fn word(self, index: u64) -> [u8; 8] {
        mix(self.key.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le_bytes()
    }

    /// Fills `target` with the bytes of the stream starting at `offset`.
    pub fn fill(self, offset: u64, target: &mut [u8]) {
        let head = target.len().min((offset.wrapping_neg() & 7) as usize);
        let (start, rest) = target.split_at_mut(head);
        if head > 0 {
            let skip = (offset & 7) as usize;
            start.copy_from_slice(&self.word(offset / 8)[skip..skip + head]);
        }
        let first = (offset + head as u64) / 8;
        let (words, tail) = rest.as_chunks_mut::<8>();
        for (index, word) in (first..).zip(words.iter_mut()) {
            *word = self.word(index);
        }
        let last = self.word(first + words.len() as u64);
        let len = tail.len();
        tail.copy_from_slice(&last[..len]);
    }

    /// Compares `found`, read at `offset` of the stream, with the expected content.
    ///
    /// # Errors
    /// The first byte that differs.
    pub fn check(self, offset: u64, found: &[u8]) -> Result<(), Mismatch> {
        let mut expected = [0u8; 4096];
        for (start, piece) in (0..).step_by(4096).zip(found.chunks(4096)) {
            let expected = &mut expected[..piece.len()];
            self.fill(offset + start as u64, expected);
            if let Some(at) = expected.iter().zip(piece).position(|(a, b)| a != b) {
                return Err(Mismatch { at: start + at, expected: expected[at], found: piece[at] });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_piece_is_a_piece_of_the_whole(
            seed: u64, stream: u64, start in 0usize..200, len in 0usize..9000
        ) {
            let pattern = Pattern::new(seed, stream);
            let mut whole = vec![0; 10_000];
            pattern.fill(0, &mut whole);
            let mut piece = vec![0; len];
            pattern.fill(start as u64, &mut piece);
            prop_assert_eq!(&whole[start..start + len], &piece[..]);
            prop_assert_eq!(pattern.check(start as u64, &piece), Ok(()));
        }

        #[test]
        fn one_changed_byte_is_found(at in 0usize..9000, offset in 0u64..1000, flip in 1u8..) {
            let pattern = Pattern::new(1, 2);
            let mut content = vec![0; 9000];
            pattern.fill(offset, &mut content);
            content[at] ^= flip;
            let mismatch = pattern.check(offset, &content).unwrap_err();
            prop_assert_eq!((mismatch.at, mismatch.found), (at, content[at]));
        }
    }

    #[test]
    fn a_files_stream_depends_only_on_its_name() {
        let stream = |path: &str| stream_of(Path::new(path));
        assert_eq!(stream("/a/stormlp.3"), stream("b/stormlp.3"));
        assert_ne!(stream("/a/stormlp.3"), stream("/a/stormlp.4"));
    }

    #[test]
    fn streams_and_seeds_share_no_block() {
        let block = |seed, stream| {
            let mut block = [0; 64];
            Pattern::new(seed, stream).fill(0, &mut block);
            block
        };
        assert_ne!(block(0, 0), block(0, 1));
        assert_ne!(block(0, 0), block(1, 0));
        assert_ne!(block(0, 1), block(1, 0));
    }
}
