//! `.png`: a real image of exactly the requested size, with the content as its pixels.
//!
//! Random pixels cannot be compressed, so a PNG of them is about as large as they are, and its
//! compressed stream consists of stored blocks. Each block holds whole rows and has a chunk to
//! itself, up to the 64 KiB of Pillow's chunks. The remainder up to the size, less than a row and
//! its frames, is content in a private chunk before them.

use crc_fast::{CrcAlgorithm, Digest, checksum};
use simd_adler32::Adler32;
use stormlp_core::largest::last_that;

use super::bytes::ReadAt;
use super::error::FormatError;
use super::framed::Framer;
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
const IMAGE_DATA: [u8; 4] = *b"IDAT";
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
        let width = size.isqrt().clamp(1, STORED_BLOCK - 1);
        let (mut width, mut rows) = (width, MOST_PIXELS / width);
        if without_filler(width, 1) + CHUNK_FRAME > size {
            (width, rows) = (1, 1);
        }
        // The size only grows with the number of rows.
        let fits = |rows: u64| without_filler(width, rows) + CHUNK_FRAME <= size;
        let height = last_that(1, rows.min(size), fits);
        Self { width, height, filler: size - without_filler(width, height) }
    }

    fn smallest() -> u64 {
        without_filler(1, 1) + CHUNK_FRAME
    }

    /// The content of the first chunk.
    fn header(&self) -> Vec<u8> {
        let mut header = (self.width as u32).to_be_bytes().to_vec();
        header.extend((self.height as u32).to_be_bytes());
        // 8-bit greyscale, deflate, default filter method, no interlacing.
        header.extend([8, 0, 0, 0, 0]);
        header
    }
}

/// Each row of pixels starts with its filter type.
fn rows_per_block(width: u64) -> u64 {
    STORED_BLOCK / (width + 1)
}

/// Size of a file with these dimensions, without filler.
fn without_filler(width: u64, height: u64) -> u64 {
    let head = SIGNATURE.len() as u64 + CHUNK_FRAME + HEADER_BYTES;
    let blocks = height.div_ceil(rows_per_block(width)) * (CHUNK_FRAME + STORED_HEAD);
    let stream = CHUNK_FRAME + ZLIB_HEAD.len() as u64 + CHUNK_FRAME + STORED_HEAD + ZLIB_SUM;
    head + height * (width + 1) + blocks + stream + CHUNK_FRAME
}

impl Format for Png {
    /// The requested size; an image cannot be smaller than the smallest file.
    fn file_bytes(&self, file: &FileSpec) -> Option<u64> {
        Some(total_payload(file).ok()?.max(PngLayout::smallest()))
    }

    fn encode(&self, file: &FileSpec, sink: &mut dyn ChunkSink) -> Result<Finish, EncodeError> {
        let layout = PngLayout::of(total_payload(file)?);
        let mut out = Framer::new(file.content, sink);
        out.literal(&SIGNATURE)?;
        out.literal(&whole_chunk(*b"IHDR", &layout.header()))?;
        let chunks = layout.filler.div_ceil(MOST_FILLER);
        for chunk in 0..chunks {
            let longer = u64::from(chunk < layout.filler % chunks);
            let bytes = layout.filler / chunks + longer - CHUNK_FRAME;
            let mut crc = begin_chunk(&mut out, FILLER, bytes)?;
            out.content(bytes, |bytes| crc.update(bytes))?;
            out.literal(&(crc.finalize() as u32).to_be_bytes())?;
        }
        out.literal(&whole_chunk(IMAGE_DATA, &ZLIB_HEAD))?;
        let mut sum = Adler32::new();
        let most = rows_per_block(layout.width);
        for first in (0..layout.height).step_by(most as usize) {
            let rows = most.min(layout.height - first);
            let bytes = rows * (layout.width + 1);
            let head = stored(false, bytes as u16);
            let mut crc = begin_chunk(&mut out, IMAGE_DATA, STORED_HEAD + bytes)?;
            crc.update(&head);
            out.literal(&head)?;
            for _ in 0..rows {
                // The filter type: none.
                crc.update(&[0]);
                sum.write(&[0]);
                out.literal(&[0])?;
                out.content(layout.width, |bytes| {
                    crc.update(bytes);
                    sum.write(bytes);
                })?;
            }
            out.literal(&(crc.finalize() as u32).to_be_bytes())?;
        }
        let mut end = stored(true, 0);
        end.extend(sum.finish().to_be_bytes());
        out.literal(&whole_chunk(IMAGE_DATA, &end))?;
        out.literal(&whole_chunk(*b"IEND", &[]))?;
        out.end(Finish::default())
    }

    /// Any file is one sample: v3.0's DLIO also uses this name for raw bytes, and reads whole
    /// files.
    fn inspect(&self, name: &str, source: &mut dyn ReadAt) -> Result<FileLayout, FormatError> {
        one_sample(name, source)
    }
}

/// Begins a chunk, and its checksum.
fn begin_chunk(out: &mut Framer<'_>, kind: [u8; 4], bytes: u64) -> Result<Digest, EncodeError> {
    out.literal(&(bytes as u32).to_be_bytes())?;
    out.literal(&kind)?;
    let mut crc = Digest::new(CrcAlgorithm::Crc32IsoHdlc);
    crc.update(&kind);
    Ok(crc)
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

/// The head of a stored block.
fn stored(is_last: bool, bytes: u16) -> Vec<u8> {
    [&[u8::from(is_last)][..], &bytes.to_le_bytes(), &(!bytes).to_le_bytes()].concat()
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
