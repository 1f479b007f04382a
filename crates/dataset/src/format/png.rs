//! `.png`: a real image of exactly the requested size, with the content as its pixels.
//!
//! Random pixels cannot be compressed, so a PNG of them is about as large as they are, and its
//! compressed stream consists of stored blocks. Image data is in 64 KiB chunks, as Pillow writes
//! them. The remainder up to the size, less than a row, is content in a private chunk before them.

use crc_fast::{CrcAlgorithm, Digest, checksum};
use simd_adler32::Adler32;

use super::bytes::ReadAt;
use super::error::FormatError;
use super::framed::{self, Piece, Pieces};
use super::{
    ChunkSink, EncodeError, FileLayout, FileSpec, Finish, Format, one_sample, total_payload,
};

/// Real images of grey pixels.
#[derive(Debug, Clone, Copy)]
pub struct Png;

const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";
/// Length, type and CRC of a chunk.
const CHUNK_FRAME: u64 = 12;
const HEADER_BYTES: u64 = 13;
/// Private, ancillary, not safe to copy: unknown to readers, which skip it.
const FILLER: [u8; 4] = *b"stLp";
/// Image data per chunk, as in Pillow.
const IMAGE_CHUNK: u64 = 65_536;
/// Header of a zlib stream without compression.
const ZLIB_HEAD: [u8; 2] = [0x78, 0x01];
const ZLIB_SUM: u64 = 4;
/// Maximum bytes of a stored block.
const STORED_BLOCK: u64 = 65_535;
const STORED_HEAD: u64 = 5;
/// Above this number of pixels Pillow warns of a decompression bomb; the rest is filler.
const MOST_PIXELS: u64 = 89_478_485;
/// The most content of one filler chunk; a length has 31 bits.
const MOST_FILLER: u64 = 1 << 30;

/// Distribution of a file's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PngLayout {
    width: u64,
    height: u64,
    /// Size of the filler chunks, including their frames.
    filler: u64,
}

impl PngLayout {
    /// The layout of a file of `size` bytes, or of the smallest possible file.
    fn of(size: u64) -> Self {
        let size = size.max(Self::smallest());
        let width = size.isqrt().clamp(1, 65_535);
        let (mut width, mut rows) = (width, MOST_PIXELS / width);
        if without_filler(width, 1) + CHUNK_FRAME > size {
            (width, rows) = (1, 1);
        }
        // The size only grows with the number of rows.
        let fits = |rows: u64| without_filler(width, rows) + CHUNK_FRAME <= size;
        let (mut low, mut high) = (1, rows.min(size));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) { low = middle } else { high = middle - 1 }
        }
        Self { width, height: low, filler: size - without_filler(width, low) }
    }

    fn smallest() -> u64 {
        without_filler(1, 1) + CHUNK_FRAME
    }

    /// Uncompressed image data: each row starts with its filter type, 0 for none.
    fn raw_bytes(&self) -> u64 {
        self.height * (self.width + 1)
    }
}

/// Size of the zlib stream around `raw` bytes.
fn zlib_bytes(raw: u64) -> u64 {
    ZLIB_HEAD.len() as u64 + raw + raw.div_ceil(STORED_BLOCK) * STORED_HEAD + ZLIB_SUM
}

/// Size of a file with these dimensions, without filler.
fn without_filler(width: u64, height: u64) -> u64 {
    let zlib = zlib_bytes(height * (width + 1));
    let image = zlib + zlib.div_ceil(IMAGE_CHUNK) * CHUNK_FRAME;
    SIGNATURE.len() as u64 + CHUNK_FRAME + HEADER_BYTES + image + CHUNK_FRAME
}

impl Format for Png {
    /// The requested size; an image cannot be smaller than the smallest file.
    fn file_bytes(&self, file: &FileSpec) -> Option<u64> {
        Some(total_payload(file).ok()?.max(PngLayout::smallest()))
    }

    fn encode(&self, file: &FileSpec, sink: &mut dyn ChunkSink) -> Result<Finish, EncodeError> {
        let mut pieces = PngImage::new(PngLayout::of(total_payload(file)?));
        framed::write(&mut pieces, file.content, sink)
    }

    /// Any file is one sample: v3.0's DLIO also uses this name for raw bytes, and reads whole
    /// files.
    fn inspect(&self, name: &str, source: &mut dyn ReadAt) -> Result<FileLayout, FormatError> {
        one_sample(name, source)
    }
}

/// A chunk with a known frame and content.
fn whole_chunk(kind: [u8; 4], content: &[u8]) -> Vec<u8> {
    let mut chunk = (content.len() as u32).to_be_bytes().to_vec();
    chunk.extend(kind);
    chunk.extend(content);
    let sum = checksum(CrcAlgorithm::Crc32IsoHdlc, &chunk[4..]) as u32;
    chunk.extend(sum.to_be_bytes());
    chunk
}

/// The next part of an image.
enum PngPart {
    Head,
    Filler,
    ImageData,
    End,
    Nothing,
}

struct PngImage {
    layout: PngLayout,
    next: PngPart,
    /// The chunk being written: its remaining bytes, and the checksum of those written so far.
    /// `None` between chunks.
    chunk: Option<(u64, Digest)>,
    /// Remaining filler bytes, including frames.
    filler: u64,
    zlib: Zlib,
}

impl PngImage {
    fn new(layout: PngLayout) -> Self {
        Self {
            layout,
            next: PngPart::Head,
            chunk: None,
            filler: layout.filler,
            zlib: Zlib {
                row: layout.width + 1,
                raw: layout.raw_bytes(),
                left: zlib_bytes(layout.raw_bytes()),
                ..Zlib::default()
            },
        }
    }

    fn head(&self) -> Vec<u8> {
        let mut header = (self.layout.width as u32).to_be_bytes().to_vec();
        header.extend((self.layout.height as u32).to_be_bytes());
        // 8-bit greyscale, deflate, default filter method, no interlacing.
        header.extend([8, 0, 0, 0, 0]);
        [&SIGNATURE[..], &whole_chunk(*b"IHDR", &header)].concat()
    }

    /// Starts a chunk with `bytes` of content.
    fn begin(&mut self, kind: [u8; 4], bytes: u64) -> Piece {
        let mut digest = Digest::new(CrcAlgorithm::Crc32IsoHdlc);
        digest.update(&kind);
        self.chunk = Some((bytes, digest));
        Piece::Literal([(bytes as u32).to_be_bytes(), kind].concat())
    }

    /// The checksum of a chunk once it is full; `None` before that.
    fn end_of_chunk(&mut self) -> Option<Piece> {
        let (_, digest) = self.chunk.take_if(|(left, _)| *left == 0)?;
        let sum = digest.finalize() as u32;
        Some(Piece::Literal(sum.to_be_bytes().to_vec()))
    }

    fn filler(&mut self) -> Option<Piece> {
        if let Some((left, _)) = &mut self.chunk {
            return Some(Piece::Content(std::mem::take(left)));
        }
        let chunks = self.filler.div_ceil(MOST_FILLER);
        let bytes = self.filler.checked_div(chunks)?;
        self.filler -= bytes;
        Some(self.begin(FILLER, bytes - CHUNK_FRAME))
    }

    fn image_data(&mut self) -> Option<Piece> {
        let Some((left, digest)) = &mut self.chunk else {
            let bytes = self.zlib.left.min(IMAGE_CHUNK);
            return (bytes > 0).then(|| self.begin(*b"IDAT", bytes));
        };
        let piece = self.zlib.next(*left);
        *left -= match &piece {
            Piece::Literal(bytes) => {
                digest.update(bytes);
                bytes.len() as u64
            }
            Piece::Content(bytes) => *bytes,
        };
        Some(piece)
    }
}

impl Pieces for PngImage {
    fn next_piece(&mut self) -> Option<Piece> {
        if let Some(sum) = self.end_of_chunk() {
            return Some(sum);
        }
        loop {
            let (piece, after) = match self.next {
                PngPart::Head => (Some(Piece::Literal(self.head())), PngPart::Filler),
                PngPart::Filler => match self.filler() {
                    Some(piece) => return Some(piece),
                    None => (None, PngPart::ImageData),
                },
                PngPart::ImageData => match self.image_data() {
                    Some(piece) => return Some(piece),
                    None => (None, PngPart::End),
                },
                PngPart::End => {
                    (Some(Piece::Literal(whole_chunk(*b"IEND", &[]))), PngPart::Nothing)
                }
                PngPart::Nothing => return None,
            };
            self.next = after;
            if piece.is_some() {
                return piece;
            }
        }
    }

    fn content(&mut self, bytes: &[u8]) {
        if let Some((_, digest)) = &mut self.chunk {
            digest.update(bytes);
        }
        if matches!(self.next, PngPart::ImageData) {
            self.zlib.sum.write(bytes);
        }
    }
}

/// The zlib stream of the rows, in stored blocks.
#[derive(Default)]
struct Zlib {
    /// Bytes of a row, including its filter byte.
    row: u64,
    /// Total bytes of all rows.
    raw: u64,
    /// Bytes of rows written so far.
    done: u64,
    /// Remaining bytes of the block.
    block: u64,
    /// Remaining bytes of the stream.
    left: u64,
    /// Pending framing.
    pending: Vec<u8>,
    begun: bool,
    sum: Adler32,
}

impl Zlib {
    /// The next piece, of at most `most` bytes.
    fn next(&mut self, most: u64) -> Piece {
        if self.pending.is_empty() {
            self.frame();
        }
        let piece = if self.pending.is_empty() {
            let bytes = most.min(self.block).min(self.row - self.done % self.row);
            self.done += bytes;
            self.block -= bytes;
            Piece::Content(bytes)
        } else {
            let bytes = (most as usize).min(self.pending.len());
            let rest = self.pending.split_off(bytes);
            Piece::Literal(std::mem::replace(&mut self.pending, rest))
        };
        self.left -= match &piece {
            Piece::Literal(bytes) => bytes.len() as u64,
            Piece::Content(bytes) => *bytes,
        };
        piece
    }

    /// Queues the framing before the next pixel, or after the last.
    fn frame(&mut self) {
        if !self.begun {
            self.begun = true;
            self.pending.extend(ZLIB_HEAD);
        }
        if self.block == 0 && self.done < self.raw {
            self.block = (self.raw - self.done).min(STORED_BLOCK);
            let length = self.block as u16;
            let is_last = self.done + self.block == self.raw;
            self.pending.push(u8::from(is_last));
            self.pending.extend(length.to_le_bytes());
            self.pending.extend((!length).to_le_bytes());
        }
        if self.done == self.raw {
            self.pending.extend(self.sum.finish().to_be_bytes());
        } else if self.done.is_multiple_of(self.row) {
            // The row's filter type.
            self.pending.push(0);
            self.sum.write(&[0]);
            self.done += 1;
            self.block -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{encode, inspect, spec};
    use super::*;

    /// The chunks of an image, with their checksums verified.
    fn chunks(bytes: &[u8]) -> Vec<([u8; 4], &[u8])> {
        let mut rest = bytes.strip_prefix(&SIGNATURE).unwrap();
        let mut found = Vec::new();
        while !rest.is_empty() {
            let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
            let sum = checksum(CrcAlgorithm::Crc32IsoHdlc, &rest[4..8 + length]) as u32;
            assert_eq!(rest[8 + length..12 + length], sum.to_be_bytes());
            found.push((rest[4..8].try_into().unwrap(), &rest[8..8 + length]));
            rest = &rest[12 + length..];
        }
        found
    }

    /// The contents of a zlib stream of stored blocks.
    fn inflated(mut stream: &[u8]) -> Vec<u8> {
        stream = stream.strip_prefix(&ZLIB_HEAD).unwrap();
        let mut raw = Vec::new();
        loop {
            let length = u16::from_le_bytes([stream[1], stream[2]]);
            assert_eq!(!length, u16::from_le_bytes([stream[3], stream[4]]));
            let end = 5 + usize::from(length);
            raw.extend_from_slice(&stream[5..end]);
            let is_last = stream[0] == 1;
            stream = &stream[end..];
            if is_last {
                let mut sum = Adler32::new();
                sum.write(&raw);
                assert_eq!(stream, sum.finish().to_be_bytes());
                return raw;
            }
        }
    }

    fn assert_is_an_image(size: u64, chunk: usize) {
        let file = spec(1, &[1, size]);
        let (bytes, _) = encode(&Png, &file, chunk);
        assert_eq!(bytes.len() as u64, size.max(PngLayout::smallest()));
        assert_eq!(Png.file_bytes(&file), Some(bytes.len() as u64));
        let chunks = chunks(&bytes);
        let kinds: Vec<[u8; 4]> = chunks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds[..2], [*b"IHDR", FILLER]);
        assert_eq!(chunks.last(), Some(&(*b"IEND", &[][..])));
        let data: Vec<u8> = (chunks.iter())
            .filter(|(kind, _)| kind == b"IDAT")
            .flat_map(|(_, data)| data.to_vec())
            .collect();
        let raw = inflated(&data);
        let number = |at: usize| u32::from_be_bytes(chunks[0].1[at..at + 4].try_into().unwrap());
        let (width, height) = (number(0) as usize, number(4) as usize);
        assert_eq!(raw.len(), height * (width + 1));
        assert!(raw.chunks(width + 1).all(|row| row[0] == 0));
        // Nearly the whole file is pixels.
        if size > 10_000 {
            assert!(bytes.len() - raw.len() < 2 * width + bytes.len() / 100);
        }
        assert_eq!(inspect(&Png, &bytes).unwrap().payload_bytes(), bytes.len() as u64);
    }

    #[test]
    fn very_large_images_have_fewer_pixels_and_more_filler() {
        for size in [200_000_000, 5_000_000_000] {
            let layout = PngLayout::of(size);
            assert!(layout.width * layout.height <= MOST_PIXELS, "{layout:?}");
            let all = without_filler(layout.width, layout.height) + layout.filler;
            assert_eq!(all, size);
        }
    }

    proptest! {
        #[test]
        fn an_image_has_the_requested_size(size in 1u64..300_000, blocks in 1usize..20) {
            assert_is_an_image(size, blocks * 4096);
        }

        #[test]
        fn small_images_are_images_too(size in 1u64..400) {
            assert_is_an_image(size, 4096);
        }
    }
}
