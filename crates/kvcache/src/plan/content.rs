//! The bytes of an object: a `.npy` file with content that follows from its name, the model and the
//! seed of the run. Any part can be made alone.
//!
//! An object is a piece of one stream of noise, the same for the whole run, that starts at a place
//! given by its name; each 4 KiB of it is combined with a stamp of the object and the number of the
//! block, so that storage cannot deduplicate it.

use sha2::{Digest as _, Sha256};

use super::model::{ELEMENT_BYTES, Model};
use super::noise::{Element, NOISE_ELEMENTS, Noise};
use super::pcg64::Pcg64;

/// Bytes before the elements.
pub const HEADER_BYTES: u64 = 128;
/// Bytes that a stamp covers.
const BLOCK_BYTES: usize = 4096;

/// The seed of an object: of its name, combined with the run's.
fn seed_of(key: &str, run_seed: u64) -> u64 {
    let hash = Sha256::digest(key.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    u64::from_le_bytes(first) ^ run_seed
}

/// The header of a `.npy` file with the cache of `tokens`.
fn header(model: &Model, tokens: u64) -> [u8; HEADER_BYTES as usize] {
    let fields =
        format!("{{'descr': '<f2', 'fortran_order': False, 'shape': {}, }}", model.shape(tokens));
    let mut header = [b' '; HEADER_BYTES as usize];
    header[..10].copy_from_slice(b"\x93NUMPY\x01\x00\x76\x00");
    header[10..10 + fields.len()].copy_from_slice(fields.as_bytes());
    header[HEADER_BYTES as usize - 1] = b'\n';
    header
}

/// The tokens of a file that begins with this header, if it is one of `model`.
pub(super) fn tokens_of(model: &Model, found: &[u8; HEADER_BYTES as usize]) -> Option<u64> {
    // The number of tokens is the only one that the model does not fix.
    let (before, after) = model.around_tokens();
    let text = std::str::from_utf8(&found[10..]).ok()?;
    let tokens = text.split_once(&before)?.1.split_once(&after)?.0.parse().ok()?;
    (header(model, tokens) == *found).then_some(tokens)
}

/// The size of the file of `tokens`, in bytes.
pub fn file_bytes(model: &Model, tokens: u64) -> u64 {
    HEADER_BYTES + tokens * model.bytes_per_token()
}

/// One object.
#[derive(Debug, Clone)]
pub struct Content {
    header: [u8; HEADER_BYTES as usize],
    elements: u64,
    /// Where each piece of the noise starts.
    offsets: Vec<u64>,
    stamp: Box<[u8; BLOCK_BYTES]>,
}

impl Content {
    /// The object `key` of `tokens`, in a run with `run_seed`.
    pub fn new(model: &Model, key: &str, tokens: u64, run_seed: u64) -> Self {
        let seed = seed_of(key, run_seed);
        let elements = tokens * model.elements_per_token();
        let mut own = Pcg64::new(seed);
        let mut stamp = Box::new([0; BLOCK_BYTES]);
        for word in stamp.as_chunks_mut::<8>().0 {
            *word = own.next_u64().to_le_bytes();
        }
        Self { header: header(model, tokens), elements, offsets: offsets(seed, elements), stamp }
    }

    /// The size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        HEADER_BYTES + self.elements * ELEMENT_BYTES
    }

    /// Makes the bytes of the file from `at` on; `target` must end within the file.
    pub fn fill(&self, noise: &Noise, at: u64, target: &mut [u8]) {
        let of_header = (HEADER_BYTES.saturating_sub(at) as usize).min(target.len());
        let (head, payload) = target.split_at_mut(of_header);
        if of_header > 0 {
            let start = at as usize;
            head.copy_from_slice(&self.header[start..start + of_header]);
        }
        let from = (at + of_header as u64).saturating_sub(HEADER_BYTES);
        self.fill_noise(noise, from, payload);
        self.apply_stamp(from, payload);
    }

    /// Where `found`, read from byte `at` of the file on, differs first; bytes after the object are
    /// zero. `expected` is memory to compare with.
    pub fn difference(
        &self,
        noise: &Noise,
        at: u64,
        found: &[u8],
        expected: &mut Vec<u8>,
    ) -> Option<u64> {
        expected.clear();
        expected.resize(found.len(), 0);
        let own = self.bytes().saturating_sub(at).min(found.len() as u64) as usize;
        self.fill(noise, at, &mut expected[..own]);
        let place = found.iter().zip(&*expected).position(|(found, expected)| found != expected)?;
        Some(at + place as u64)
    }

    /// Noise for the payload from byte `from` on.
    fn fill_noise(&self, noise: &Noise, from: u64, target: &mut [u8]) {
        let mut element = from / ELEMENT_BYTES;
        let mut pair = [[0; 2]];
        if !from.is_multiple_of(ELEMENT_BYTES)
            && let Some((first, rest)) = target.split_first_mut()
        {
            self.fill_piece(noise, element, &mut pair);
            *first = pair[0][1];
            return self.fill_noise(noise, from + 1, rest);
        }
        let (mut whole, odd) = target.as_chunks_mut::<2>();
        while !whole.is_empty() {
            let left = NOISE_ELEMENTS - element % NOISE_ELEMENTS;
            let (now, later) = whole.split_at_mut(whole.len().min(left as usize));
            self.fill_piece(noise, element, now);
            element += now.len() as u64;
            whole = later;
        }
        if let [last] = odd {
            self.fill_piece(noise, element, &mut pair);
            *last = pair[0][0];
        }
    }

    /// Elements of one piece of noise, which wraps round at its end.
    fn fill_piece(&self, noise: &Noise, element: u64, mut target: &mut [Element]) {
        let piece = (element / NOISE_ELEMENTS) as usize;
        let mut place = (self.offsets[piece] + element % NOISE_ELEMENTS) % NOISE_ELEMENTS;
        while !target.is_empty() {
            let left = (NOISE_ELEMENTS - place) as usize;
            let (now, later) = target.split_at_mut(target.len().min(left));
            noise.copy(place, now);
            (place, target) = (0, later);
        }
    }

    /// Combines the payload from byte `from` on with the stamp and the numbers of its blocks.
    fn apply_stamp(&self, from: u64, target: &mut [u8]) {
        let mut at = from;
        let mut left = target;
        while !left.is_empty() {
            let (block, within) = (at / BLOCK_BYTES as u64, (at % BLOCK_BYTES as u64) as usize);
            let count = left.len().min(BLOCK_BYTES - within);
            let (now, later) = left.split_at_mut(count);
            for (byte, stamp) in now.iter_mut().zip(&self.stamp[within..]) {
                *byte ^= stamp;
            }
            let number = block.to_le_bytes();
            for (byte, of_number) in now.iter_mut().zip(number.iter().skip(within)) {
                *byte ^= of_number;
            }
            (at, left) = (at + count as u64, later);
        }
    }
}

/// Where the pieces of an object start in the noise.
fn offsets(seed: u64, elements: u64) -> Vec<u64> {
    if elements <= NOISE_ELEMENTS {
        let room = NOISE_ELEMENTS - elements;
        return vec![if room == 0 { 0 } else { seed % room }];
    }
    // Each output gives two offsets, the low half first.
    let mut own = Pcg64::new(seed);
    let mut high = None;
    let pieces = elements.div_ceil(NOISE_ELEMENTS);
    let mut next = || {
        let half = high.take().unwrap_or_else(|| {
            let both = own.next_u64();
            high = Some((both >> 32) as u32);
            both as u32
        });
        u64::from(half >> 5)
    };
    (0..pieces).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stormlp_core::printable::hex;

    fn tiny() -> Model {
        Model::named("tiny-1b").unwrap()
    }

    fn sha256(content: &Content) -> String {
        let noise = Noise::new(42);
        let mut hash = Sha256::new();
        let mut at = 0;
        let mut buffer = vec![0; 1 << 20];
        while at < content.bytes() {
            let now = buffer.len().min((content.bytes() - at) as usize);
            content.fill(&noise, at, &mut buffer[..now]);
            hash.update(&buffer[..now]);
            at += now as u64;
        }
        hex(&hash.finalize())
    }

    #[test]
    fn objects_are_the_originals_to_the_byte() {
        // SHA-256 of files that the original wrote with seed 42.
        let known = [
            (
                "trace_user_0_req_0000",
                100,
                2_457_728,
                "779d25d36d648cd32eee534c94860e8a28802120e6dc9ffac1e0909980127038",
            ),
            (
                "precond_0",
                2048,
                50_331_776,
                "9df82d7a753d4c7464e0ff35dde70d534e27d9281ce1990e8aef547bf877a632",
            ),
            (
                "conv_user_0000_1784555733870_turn_1",
                5740,
                141_066_368,
                "3a73b83259611ef120ec03b0d72a701d0200cf7d484fbcddf874596c7014236e",
            ),
            // Two and three pieces of noise.
            (
                "precond_0",
                12_000,
                294_912_128,
                "a390c3d4e91160a33fb73381b48f3ddaa74aed9b0b4b103972f9373e78523082",
            ),
            (
                "conv_user_0001_1_turn_2",
                22_000,
                540_672_128,
                "889d80ecb3ff9a3b03620c63367d2983b74470087454c7ebb887df2092100dd3",
            ),
        ];
        for (key, tokens, bytes, sum) in known {
            let content = Content::new(&tiny(), key, tokens, 42);
            assert_eq!(content.bytes(), bytes, "{key}");
            assert_eq!(sha256(&content), sum, "{key}");
        }
    }

    #[test]
    fn large_objects_are_made_of_several_pieces() {
        let seed = seed_of("precond_0", 42);
        assert_eq!(seed, 15_289_096_167_558_888_179);
        let offsets = offsets(seed, 4 * NOISE_ELEMENTS + 1);
        assert_eq!(offsets, [5_846_362, 63_602_494, 107_998_099, 120_179_997, 12_316_931]);
    }

    #[test]
    fn a_byte_that_differs_is_found() {
        let content = Content::new(&tiny(), "a", 1, 42);
        let (noise, mut memory) = (Noise::new(42), Vec::new());
        let mut whole = vec![0; 28_672];
        content.fill(&noise, 0, &mut whole[..content.bytes() as usize]);
        let mut difference = |whole: &[u8]| content.difference(&noise, 8, &whole[8..], &mut memory);
        assert_eq!(difference(&whole), None);
        for place in [8, 5000, 28_671] {
            whole[place] ^= 1;
            assert_eq!(difference(&whole), Some(place as u64));
            whole[place] ^= 1;
        }
    }

    proptest! {
        #[test]
        fn any_piece_is_a_piece_of_the_whole(
            start in 0usize..9000, len in 0usize..9000, key in "[a-z]{1,8}"
        ) {
            let content = Content::new(&tiny(), &key, 1, 42);
            let noise = Noise::new(42);
            let mut whole = vec![0; content.bytes() as usize];
            content.fill(&noise, 0, &mut whole);
            let len = len.min(whole.len() - start);
            let mut piece = vec![0; len];
            content.fill(&noise, start as u64, &mut piece);
            prop_assert_eq!(&whole[start..start + len], &piece[..]);
        }
    }
}
