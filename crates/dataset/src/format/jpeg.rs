//! `.jpeg`: a real image of exactly the requested size.
//!
//! It has few pixels: 8 × 8 of one grey, in two progressive scans. Comment segments of content,
//! which decoders skip, are between the scans. They come after the header, so that a program reads
//! the file like any image: Pillow parses the header, then passes the decoder successive 64 KiB
//! blocks until the last scan. The pixel values do not matter to DLIO, which discards them.

use super::bytes::ReadAt;
use super::error::FormatError;
use super::framed::Framer;
use super::{
    ChunkSink, EncodeError, FileLayout, FileSpec, Finish, Format, one_sample, total_payload,
};

/// Real images with comment segments of content.
#[derive(Debug, Clone, Copy)]
pub struct Jpeg;

/// Start of image, JFIF, a quantisation table of ones, a progressive frame of 8 × 8 grey, a code
/// table with the single symbol "no difference", and the DC scan: one bit.
const HEAD: [&[u8]; 7] = [
    &[0xff, 0xd8],
    b"\xff\xe0\x00\x10JFIF\0\x01\x01\x00\x00\x01\x00\x01\x00\x00",
    b"\xff\xdb\x00\x43\x00",
    &[1; 64],
    b"\xff\xc2\x00\x0b\x08\x00\x08\x00\x08\x01\x01\x11\x00",
    b"\xff\xc4\x00\x14\x00\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\xff\xda\x00\x08\x01\x01\x00\x00\x00\x00\x7f",
];
/// A code table with the single symbol "end of block", the AC scan (one bit), end of image.
const TAIL: [&[u8]; 3] = [
    b"\xff\xc4\x00\x14\x10\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x00\x7f",
    &[0xff, 0xd9],
];
/// The most content of one comment: its 16-bit length field includes itself.
const MOST_COMMENT: u64 = 65_533;
/// Marker and length of a comment.
const COMMENT_HEAD: u64 = 4;

/// Size of the smallest file.
fn smallest() -> u64 {
    let parts = HEAD.iter().chain(&TAIL);
    parts.map(|part| part.len() as u64).sum()
}

impl Format for Jpeg {
    /// The requested size; an image cannot be smaller than the smallest file.
    fn file_bytes(&self, file: &FileSpec) -> Option<u64> {
        Some(total_payload(file).ok()?.max(smallest()))
    }

    fn encode(&self, file: &FileSpec, sink: &mut dyn ChunkSink) -> Result<Finish, EncodeError> {
        let mut filler = total_payload(file)?.saturating_sub(smallest());
        let mut out = Framer::new(file.content, sink);
        out.literal(&HEAD.concat())?;
        while filler >= COMMENT_HEAD {
            let bytes = (filler - COMMENT_HEAD).min(MOST_COMMENT);
            let [high, low] = (bytes as u16 + 2).to_be_bytes();
            out.literal(&[0xff, 0xfe, high, low])?;
            out.content(bytes, |_| {})?;
            filler -= COMMENT_HEAD + bytes;
        }
        // Too few bytes for a comment: a marker may be preceded by any number of these.
        out.literal(&vec![0xff; filler as usize])?;
        out.literal(&TAIL.concat())?;
        out.end(Finish::default())
    }

    /// Any file is one sample: v3.0's DLIO also uses this name for raw bytes, and reads whole
    /// files.
    fn inspect(&self, name: &str, source: &mut dyn ReadAt) -> Result<FileLayout, FormatError> {
        one_sample(name, source)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{encode, inspect, spec};
    use super::{Format, HEAD, Jpeg, smallest};

    /// The segments of an image: each marker and its payload, without the entropy-coded data of
    /// scans.
    fn segments(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
        let mut found = Vec::new();
        while let Some((&[0xff, marker], rest)) = bytes.split_first_chunk::<2>() {
            match marker {
                // A fill byte: the marker follows.
                0xff => bytes = &bytes[1..],
                0xd8 | 0xd9 => {
                    found.push((marker, &[][..]));
                    bytes = rest;
                }
                _ => {
                    let length = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
                    found.push((marker, &rest[2..length]));
                    bytes = &rest[length..];
                    if marker == 0xda {
                        let end = bytes.iter().position(|byte| *byte == 0xff).unwrap();
                        bytes = &bytes[end..];
                    }
                }
            }
        }
        assert!(bytes.is_empty(), "{} bytes after the image", bytes.len());
        found
    }

    #[test]
    fn a_size_below_the_smallest_image_is_that_of_the_smallest() {
        let (bytes, _) = encode(&Jpeg, &spec(1, &[1, 1]), 4096);
        assert_eq!(bytes.len() as u64, smallest());
        let markers: Vec<u8> = segments(&bytes).iter().map(|(marker, _)| *marker).collect();
        assert_eq!(markers, [0xd8, 0xe0, 0xdb, 0xc2, 0xc4, 0xda, 0xc4, 0xda, 0xd9]);
    }

    #[test]
    fn an_empty_file_contains_no_sample() {
        let error = inspect(&Jpeg, &[]).unwrap_err().to_string();
        assert_eq!(
            error,
            "file: at byte 0: expected a sample, found the end of the file at byte 0"
        );
    }

    proptest! {
        #[test]
        fn an_image_has_the_requested_size(size in 1u64..300_000, blocks in 1usize..20) {
            let file = spec(1, &[1, size]);
            let (bytes, finish) = encode(&Jpeg, &file, blocks * 4096);
            prop_assert_eq!(bytes.len() as u64, size.max(smallest()));
            prop_assert_eq!(Jpeg.file_bytes(&file), Some(bytes.len() as u64));
            prop_assert!(finish.patches.is_empty() && finish.side_files.is_empty());
            prop_assert!(bytes.starts_with(&HEAD.concat()));
            let comments: usize = segments(&bytes)
                .iter()
                .filter(|(marker, _)| *marker == 0xfe)
                .map(|(_, payload)| payload.len() + 4)
                .sum();
            // Up to three bytes that do not fit in a comment precede a marker.
            let filler = size.saturating_sub(smallest()) as usize;
            prop_assert!(filler - comments < 4, "{} {}", filler, comments);
            prop_assert_eq!(inspect(&Jpeg, &bytes).unwrap().payload_bytes(), bytes.len() as u64);
        }
    }
}
