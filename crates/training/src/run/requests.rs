//! The reads that a library issues on one file, as sequential system calls.
//!
//! Storage limited by requests or latency, and the kernel's readahead, depend on the size and
//! offset of each read, not only on the total bytes. The sequences were taken from system-call
//! traces of numpy 2.4, Pillow, pandas 3.1 and h5py 3.14 under Python 3.11. Python's buffered files
//! read whole multiples of their buffer past it, and then fill it once more.

use crate::plan::train_plan::ReadPattern;
use stormlp_dataset::format::Span;

/// Python's file buffer.
const BUFFER_BYTES: u64 = 4 << 10;
/// `np.load` reads a zip member in pieces of this size.
const NUMPY_PIECE_BYTES: u64 = 256 << 10;
/// Pillow decodes in pieces of this size.
const PILLOW_PIECE_BYTES: u64 = 64 << 10;

/// Pandas reads a table in pieces of this size.
const PANDAS_PIECE_BYTES: u64 = 256 << 10;
/// Minimum read of HDF5 from a contiguous array.
const HDF5_SIEVE_BYTES: u64 = 64 << 10;
/// Reads of h5py before it has located `records`: the superblock in three reads, the root group,
/// its names, its tree, its entries, the array's description. Offsets and lengths.
const H5PY_HEAD: [(u64, u64); 8] =
    [(0, 8), (0, 48), (48, 48), (96, 512), (680, 512), (136, 544), (1072, 328), (800, 512)];

/// The reads of `h5py.File(f)["records"][i]`, where `sample` lies in an array that ends at
/// `array_end`.
pub fn h5py(sample: Span, array_end: u64) -> Vec<Span> {
    let head = H5PY_HEAD.map(|(offset, bytes)| Span { offset, bytes });
    let most = array_end.saturating_sub(sample.offset);
    let last = Span { bytes: sample.bytes.max(HDF5_SIEVE_BYTES.min(most)), ..sample };
    head.into_iter().chain([last]).collect()
}

/// The reads of `pattern` on a file.
pub fn of(pattern: &ReadPattern) -> Requests {
    match pattern {
        ReadPattern::NumpyLoad => Requests::NUMPY_LOAD,
        ReadPattern::NumpyArray => Requests::NUMPY_ARRAY,
        ReadPattern::PillowJpeg => Requests::PILLOW_JPEG,
        ReadPattern::PillowPng => Requests::PILLOW_PNG,
        ReadPattern::PandasCsv => Requests::PANDAS_CSV,
        _ => Requests::WHOLE,
    }
}

/// How a library reads one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requests {
    /// Reads before the body.
    head: &'static [Read],
    body: Body,
}

/// A read at a fixed position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    /// This many bytes from the start of the file.
    First(u64),
    /// The second buffer of the file.
    Second,
    /// This many bytes before the end of the file.
    Last(u64),
}

/// The rest of the file, in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Body {
    /// Start offset.
    start: u64,
    /// Bytes in the first piece.
    first_bytes: u64,
    /// Bytes in the other pieces.
    piece_bytes: u64,
    /// Whether the end of a piece is read by filling the buffer once more.
    fills_buffer: bool,
}

impl Requests {
    /// The whole file in one read.
    pub const WHOLE: Self = Self {
        head: &[],
        body: Body { start: 0, first_bytes: u64::MAX, piece_bytes: u64::MAX, fills_buffer: false },
    };

    /// `np.load` of a zip's first member: the magic, the end record, the location of its 64-bit
    /// form before it, the directory of two members, the member's headers, then the data. The
    /// headers consumed one buffer of the first piece.
    pub const NUMPY_LOAD: Self = Self {
        head: &[
            Read::First(BUFFER_BYTES),
            Read::Last(22),
            Read::Last(42),
            Read::Last(124),
            Read::First(BUFFER_BYTES),
            Read::Second,
        ],
        body: Body {
            start: 2 * BUFFER_BYTES,
            first_bytes: NUMPY_PIECE_BYTES - BUFFER_BYTES,
            piece_bytes: NUMPY_PIECE_BYTES,
            fills_buffer: true,
        },
    };

    /// `np.load` of an array: magic, header, then the rest through C's buffered file.
    pub const NUMPY_ARRAY: Self = Self {
        head: &[Read::First(BUFFER_BYTES), Read::First(128), Read::First(BUFFER_BYTES)],
        body: Body {
            start: BUFFER_BYTES,
            first_bytes: u64::MAX,
            piece_bytes: u64::MAX,
            fills_buffer: true,
        },
    };

    /// Pillow's JPEG decoder.
    pub const PILLOW_JPEG: Self = Self {
        head: &[Read::First(BUFFER_BYTES)],
        body: Body {
            start: BUFFER_BYTES,
            first_bytes: PILLOW_PIECE_BYTES - BUFFER_BYTES,
            piece_bytes: PILLOW_PIECE_BYTES,
            fills_buffer: false,
        },
    };

    /// Pillow's PNG decoder: the data starts in the middle of a buffer.
    pub const PILLOW_PNG: Self = Self {
        head: &[Read::First(BUFFER_BYTES)],
        body: Body {
            start: BUFFER_BYTES,
            first_bytes: PILLOW_PIECE_BYTES,
            piece_bytes: PILLOW_PIECE_BYTES,
            fills_buffer: true,
        },
    };

    /// `pandas.read_csv`: sequential from start to end.
    pub const PANDAS_CSV: Self = Self {
        head: &[],
        body: Body {
            start: 0,
            first_bytes: PANDAS_PIECE_BYTES,
            piece_bytes: PANDAS_PIECE_BYTES,
            fills_buffer: false,
        },
    };

    /// The `nth` read of a file of `file_bytes`, empty if the file is too short for it; `None`
    /// after the last.
    pub fn nth(&self, nth: usize, file_bytes: u64) -> Option<Span> {
        let (offset, bytes) = match nth.checked_sub(self.head.len()) {
            None => match self.head[nth] {
                Read::First(bytes) => (0, bytes),
                Read::Second => (BUFFER_BYTES, BUFFER_BYTES),
                Read::Last(bytes) => (file_bytes.saturating_sub(bytes), bytes),
            },
            Some(nth) => self.body.nth(nth as u64, file_bytes)?,
        };
        let bytes = bytes.min(file_bytes.saturating_sub(offset));
        Some(Span { offset, bytes })
    }
}

impl Requests {
    /// Number of reads of at most `most` bytes for a file of `file_bytes`, and their total bytes.
    pub fn sum(&self, file_bytes: u64, most: u64) -> (u64, u64) {
        let head = (0..self.head.len())
            .filter_map(|nth| self.nth(nth, file_bytes))
            .fold((0, 0), |(reads, bytes), span| {
                (reads + span.bytes.div_ceil(most), bytes + span.bytes)
            });
        let (reads, bytes) = self.body.sum(file_bytes, most);
        (head.0 + reads, head.1 + bytes)
    }

    /// Total bytes of the first `count` of these reads.
    pub fn first(&self, count: u64, file_bytes: u64, most: u64) -> u64 {
        let mut left = count;
        let head: u64 = (0..self.head.len())
            .filter_map(|nth| self.nth(nth, file_bytes))
            .map(|span| take(&mut left, span.bytes, most))
            .sum();
        head + self.body.first(left, file_bytes, most)
    }

    /// Whether it reads the end of a file first.
    pub fn looks_at_end(&self) -> bool {
        self.head.iter().any(|read| matches!(read, Read::Last(_)))
    }
}

impl Body {
    /// Bytes of the body, of its first piece, of its full pieces, and of the last piece, which is
    /// split differently.
    fn pieces(&self, file_bytes: u64) -> (u64, u64, u64) {
        let bytes = file_bytes.saturating_sub(self.start);
        let first = bytes.min(self.first_bytes);
        let others = bytes - first;
        match (others / self.piece_bytes, others % self.piece_bytes) {
            (full, 0) if full > 0 => (first, full - 1, self.piece_bytes),
            (full, last) => (first, full, last),
        }
    }

    /// As [`Requests::sum`], for the body only.
    fn sum(&self, file_bytes: u64, most: u64) -> (u64, u64) {
        let (first, full, last) = self.pieces(file_bytes);
        let bytes = file_bytes.saturating_sub(self.start);
        let mut reads = full * self.reads_of(self.piece_bytes, false, most);
        reads += self.reads_of(first, first == bytes, most);
        reads += self.reads_of(last, true, most);
        (reads, bytes)
    }

    /// As [`Requests::first`], for the body only.
    fn first(&self, count: u64, file_bytes: u64, most: u64) -> u64 {
        let (first, full, last) = self.pieces(file_bytes);
        let ends_file = full == 0 && last == 0;
        let mut left = count;
        let mut bytes = self.take(&mut left, first, ends_file, most);
        let of_full = self.reads_of(self.piece_bytes, false, most);
        let whole = full.min(left / of_full);
        left -= whole * of_full;
        bytes += whole * self.piece_bytes;
        if whole < full {
            return bytes + self.take(&mut left, self.piece_bytes, false, most);
        }
        bytes + self.take(&mut left, last, true, most)
    }

    /// Bytes of a piece that are read by filling the buffer once more.
    fn filled(&self, bytes: u64, ends_file: bool) -> u64 {
        match (self.fills_buffer, ends_file) {
            (false, _) => 0,
            (true, false) => BUFFER_BYTES,
            (true, true) => bytes % BUFFER_BYTES,
        }
    }

    /// Number of reads in one piece.
    fn reads_of(&self, bytes: u64, ends_file: bool, most: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let filled = self.filled(bytes, ends_file);
        (bytes - filled).div_ceil(most) + filled.div_ceil(most)
    }

    /// Bytes of the reads of one piece, limited to `left` reads.
    fn take(&self, left: &mut u64, bytes: u64, ends_file: bool, most: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let filled = self.filled(bytes, ends_file);
        take(left, bytes - filled, most) + take(left, filled, most)
    }

    /// Offset and length of the `nth` read.
    fn nth(&self, nth: u64, file_bytes: u64) -> Option<(u64, u64)> {
        let (piece, fills) = if self.fills_buffer { (nth / 2, nth % 2 == 1) } else { (nth, false) };
        let (offset, bytes) = match piece.checked_sub(1) {
            None => (self.start, self.first_bytes),
            Some(before) => {
                let others = before.checked_mul(self.piece_bytes)?;
                let before = self.first_bytes.checked_add(others)?;
                (self.start.checked_add(before)?, self.piece_bytes)
            }
        };
        let bytes = bytes.min(file_bytes.checked_sub(offset).filter(|left| *left > 0)?);
        // In a full piece the last buffer is filled separately; in the last piece, the partial
        // buffer.
        let whole = match self.fills_buffer {
            true if offset + bytes < file_bytes => bytes - BUFFER_BYTES,
            true => bytes / BUFFER_BYTES * BUFFER_BYTES,
            false => bytes,
        };
        Some(if fills { (offset + whole, bytes - whole) } else { (offset, whole) })
    }
}

/// Bytes of a range read `most` bytes at a time, limited to `left` reads.
fn take(left: &mut u64, bytes: u64, most: u64) -> u64 {
    let reads = bytes.div_ceil(most).min(*left);
    *left -= reads;
    bytes.min(reads.saturating_mul(most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Requests; 6] = [
        Requests::WHOLE,
        Requests::NUMPY_LOAD,
        Requests::NUMPY_ARRAY,
        Requests::PILLOW_JPEG,
        Requests::PILLOW_PNG,
        Requests::PANDAS_CSV,
    ];

    fn reads(requests: Requests, file_bytes: u64) -> Vec<(u64, u64)> {
        let reads = (0..).map_while(|nth| requests.nth(nth, file_bytes));
        reads.map(|extent| (extent.offset, extent.bytes)).filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// `read` calls of `np.load("a.npz")["x"]`, traced.
    #[test]
    fn numpy_load_of_a_zip_reads_as_traced() {
        let end = 2_250_498;
        let mut traced = vec![
            (0, 4096),
            (end - 22, 22),
            (end - 42, 42),
            (end - 124, 124),
            (0, 4096),
            (4096, 4096),
            (8192, 253_952),
            (262_144, 4096),
        ];
        for offset in [266_240, 528_384, 790_528, 1_052_672, 1_314_816, 1_576_960, 1_839_104] {
            traced.extend([(offset, 258_048), (offset + 258_048, 4096)]);
        }
        traced.extend([(2_101_248, 147_456), (2_248_704, 1794)]);
        assert_eq!(reads(Requests::NUMPY_LOAD, end), traced);
    }

    /// `np.load("a.npy")`, traced.
    #[test]
    fn numpy_load_of_an_array_reads_as_traced() {
        let traced = [(0, 4096), (0, 128), (0, 4096), (4096, 2_244_608), (2_248_704, 1424)];
        assert_eq!(reads(Requests::NUMPY_ARRAY, 2_250_128), traced);
    }

    /// `Image.open` and decoding of a JPEG and of a PNG file, traced.
    #[test]
    fn pillow_reads_as_traced() {
        let traced = [(0, 4096), (4096, 61_440), (65_536, 65_536), (131_072, 48_350)];
        assert_eq!(reads(Requests::PILLOW_JPEG, 179_422), traced);
        let mut traced = vec![(0, 4096)];
        for offset in [4096, 69_632, 135_168, 200_704] {
            traced.extend([(offset, 61_440), (offset + 61_440, 4096)]);
        }
        traced.extend([(266_240, 57_344), (323_584, 45)]);
        assert_eq!(reads(Requests::PILLOW_PNG, 323_629), traced);
    }

    /// `pandas.read_csv("a.csv")`, traced.
    #[test]
    fn pandas_reads_as_traced() {
        let traced = [(0, 262_144), (262_144, 262_144), (524_288, 262_144), (786_432, 63_819)];
        assert_eq!(reads(Requests::PANDAS_CSV, 850_251), traced);
    }

    /// `h5py.File("a.hdf5")["records"][i]`, traced: a file of 4 samples of 160,000 bytes, one of
    /// 1000 of 400 bytes, one of 4 of 40,000 and one of 1 of 100.
    #[test]
    fn h5py_reads_as_traced() {
        let head =
            [(0, 8), (0, 48), (48, 48), (96, 512), (680, 512), (136, 544), (1072, 328), (800, 512)];
        for (samples, bytes, position, traced) in [
            (4, 160_000, 2, (322_048, 160_000)),
            (1000, 400, 500, (202_048, 65_536)),
            (4, 40_000, 1, (42_048, 65_536)),
            (4, 10_000, 2, (22_048, 20_000)),
            (1, 100, 0, (2048, 100)),
        ] {
            let offset = 2048 + position * bytes;
            let reads = h5py(Span { offset, bytes }, 2048 + samples * bytes);
            let reads = reads.iter().map(|read| (read.offset, read.bytes));
            assert!(reads.eq(head.into_iter().chain([traced])), "{traced:?}");
        }
    }

    proptest! {
        #[test]
        fn reads_are_summed_as_they_are_made(
            file_bytes in 1u64..3_000_000,
            most in prop::sample::select(vec![4096u64, 65_536, 100_000, 262_144, 1 << 40]),
        ) {
            for requests in ALL {
                let reads = reads(requests, file_bytes);
                let count: u64 = reads.iter().map(|(_, bytes)| bytes.div_ceil(most)).sum();
                let bytes: u64 = reads.iter().map(|(_, bytes)| bytes).sum();
                prop_assert_eq!(requests.sum(file_bytes, most), (count, bytes));
                let cut = reads.iter().flat_map(|(_, bytes)| {
                    (0..bytes.div_ceil(most)).map(move |nth| most.min(bytes - nth * most))
                });
                let mut so_far = 0;
                for (nth, bytes) in cut.enumerate() {
                    prop_assert_eq!(requests.first(nth as u64, file_bytes, most), so_far);
                    so_far += bytes;
                }
                prop_assert_eq!(requests.first(count, file_bytes, most), so_far);
            }
        }

        #[test]
        fn every_sequence_ends_and_covers_the_file(file_bytes in 1u64..2_000_000) {
            for requests in ALL {
                let mut reads = reads(requests, file_bytes);
                prop_assert!(reads.len() < 100);
                reads.sort_unstable();
                let mut covered = 0;
                for (offset, bytes) in reads {
                    prop_assert!(offset <= covered && offset + bytes <= file_bytes);
                    covered = covered.max(offset + bytes);
                }
                prop_assert_eq!(covered, file_bytes);
            }
        }
    }
}
