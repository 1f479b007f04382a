//! `.tfrecord`: each record has a length, its masked CRC-32C, the payload and its masked CRC-32C.
//!
//! The payload is a serialised `tf.train.Example` with the features `image` (the sample) and `size`
//! (the dataset's nominal dimension), as DLIO writes it. A separate text file in
//! `index/{train|valid}/` has one line `offset length` per record.

use std::fmt::Write;

use crc_fast::{CrcAlgorithm, Digest};

use super::bytes::{ReadAt, Span};
use super::error::FormatError;
use super::framed::Framer;
use super::tfrecord_scan::{crc32c, masked_crc32c};
use super::{
    ChunkSink, EncodeError, FileLayout, FileSpec, Finish, Format, SideFile, SidePlace, Spans,
    tfrecord_scan, total_payload,
};

pub use super::tfrecord_scan::{FOOTER_BYTES, HEADER_BYTES};

/// Suffix appended to the file's name for the index that DALI reads.
pub const INDEX_SUFFIX: &str = ".idx";
/// Protocol buffers reject larger messages.
const MAX_MESSAGE_BYTES: u64 = (1 << 31) - 1;

/// The tfrecord format, as DLIO writes it.
#[derive(Debug, Clone, Copy)]
pub struct Tfrecord;

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes written by [`put_varint`].
fn varint_bytes(value: u64) -> u64 {
    u64::from(value.max(1).ilog2()) / 7 + 1
}

/// A length-delimited field: only its key and length; the bytes follow.
fn put_field(out: &mut Vec<u8>, field: u8, bytes: u64) {
    out.push(field << 3 | 2);
    put_varint(out, bytes);
}

fn field_bytes(bytes: u64) -> u64 {
    1 + varint_bytes(bytes) + bytes
}

/// The serialised Example around the image bytes: the parts before and after them.
struct Example {
    before: Vec<u8>,
    image_bytes: u64,
    after: Vec<u8>,
}

impl Example {
    /// The Example of each sample of `file`.
    fn of(file: &FileSpec) -> Result<Self, EncodeError> {
        total_payload(file)?;
        let image_bytes = file.shape.bytes();
        let example = Self::new(image_bytes, file.nominal.dims.first().copied().unwrap_or(1));
        if example.bytes() > MAX_MESSAGE_BYTES {
            return Err(EncodeError::Format(format!(
                "a sample of {image_bytes} bytes does not fit in a tf.train.Example (2 GiB): \
                 lower record_length_bytes"
            )));
        }
        Ok(example)
    }

    fn new(image_bytes: u64, size: u64) -> Self {
        let mut int_list = Vec::new();
        put_field(&mut int_list, 1, varint_bytes(size));
        put_varint(&mut int_list, size);
        let mut size_entry = Vec::new();
        put_field(&mut size_entry, 1, 4);
        size_entry.extend_from_slice(b"size");
        put_field(&mut size_entry, 2, field_bytes(int_list.len() as u64));
        put_field(&mut size_entry, 3, int_list.len() as u64);
        size_entry.extend_from_slice(&int_list);
        let mut after = Vec::new();
        put_field(&mut after, 1, size_entry.len() as u64);
        after.extend_from_slice(&size_entry);

        let byte_list = field_bytes(image_bytes);
        let feature = field_bytes(byte_list);
        let image_entry = field_bytes(5) + field_bytes(feature);
        let features = field_bytes(image_entry) + after.len() as u64;
        let mut before = Vec::new();
        put_field(&mut before, 1, features);
        put_field(&mut before, 1, image_entry);
        put_field(&mut before, 1, 5);
        before.extend_from_slice(b"image");
        put_field(&mut before, 2, feature);
        put_field(&mut before, 1, byte_list);
        put_field(&mut before, 1, image_bytes);
        Self { before, image_bytes, after }
    }

    fn bytes(&self) -> u64 {
        self.before.len() as u64 + self.image_bytes + self.after.len() as u64
    }

    fn record_bytes(&self) -> u64 {
        HEADER_BYTES + self.bytes() + FOOTER_BYTES
    }
}

impl Format for Tfrecord {
    fn file_bytes(&self, file: &FileSpec) -> Option<u64> {
        Example::of(file).ok()?.record_bytes().checked_mul(file.samples)
    }

    fn encode(&self, file: &FileSpec, sink: &mut dyn ChunkSink) -> Result<Finish, EncodeError> {
        let example = Example::of(file)?;
        let length = example.bytes().to_le_bytes();
        let length_crc = masked_crc32c(crc32c(&length)).to_le_bytes();
        let before = [&length[..], &length_crc, &example.before].concat();
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        let mut index = String::new();
        let mut out = Framer::new(file.content, sink);
        for record in 0..file.samples {
            digest.reset();
            digest.update(&example.before);
            out.literal(&before)?;
            out.content(example.image_bytes, |bytes| digest.update(bytes))?;
            digest.update(&example.after);
            out.literal(&example.after)?;
            out.literal(&masked_crc32c(digest.finalize() as u32).to_le_bytes())?;
            let bytes = example.record_bytes();
            // Writing to a string cannot fail.
            let _ = writeln!(index, "{} {bytes}", record * bytes);
        }
        let place = SidePlace::IndexFolder(INDEX_SUFFIX);
        let side_files = vec![SideFile { place, bytes: index.into_bytes() }];
        out.end(Finish { patches: Vec::new(), side_files })
    }

    /// Reads the first record's header. If the file is a whole number of such records, they are
    /// assumed to be alike; otherwise every header is read.
    fn inspect(&self, name: &str, source: &mut dyn ReadAt) -> Result<FileLayout, FormatError> {
        let file_bytes = source.file_bytes();
        let first = tfrecord_scan::read_header(name, source, 0)?;
        let stride = HEADER_BYTES + first.bytes + FOOTER_BYTES;
        if file_bytes.is_multiple_of(stride) {
            return Ok(FileLayout {
                samples: file_bytes / stride,
                spans: Spans::Records { first, stride },
            });
        }
        let mut spans = Vec::new();
        let mut offset = 0;
        while offset < file_bytes {
            let payload: Span = tfrecord_scan::read_header(name, source, offset)?;
            offset = payload.end() + FOOTER_BYTES;
            spans.push(payload);
        }
        Ok(FileLayout { samples: spans.len() as u64, spans: Spans::Each(spans) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{assert_robust, encode, inspect, spec};
    use super::{Format, Tfrecord, crc32c, masked_crc32c, put_varint, varint_bytes};

    #[test]
    fn the_crc_is_tensorflows() {
        // RFC 3720: CRC-32C of 32 zero bytes; the masking is TensorFlow's documented formula.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(masked_crc32c(0), 0xa282_ead8);
    }

    #[test]
    fn varints_have_the_predicted_length() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(bytes.len() as u64, varint_bytes(value), "{value}");
        }
    }

    #[test]
    fn the_index_has_a_line_for_each_record() {
        let (bytes, finish) = encode(&Tfrecord, &spec(3, &[10, 10]), 4096);
        let record = bytes.len() / 3;
        let index = String::from_utf8(finish.side_files[0].bytes.clone()).unwrap();
        let expected = format!("0 {record}\n{record} {record}\n{} {record}\n", 2 * record);
        assert_eq!(index, expected);
    }

    #[test]
    fn a_cut_off_record_is_named() {
        let (bytes, _) = encode(&Tfrecord, &spec(2, &[10, 10]), 4096);
        let record = bytes.len() / 2;
        let error = inspect(&Tfrecord, &bytes[..bytes.len() - 1]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "file: at byte {}: expected a record of {} bytes and its CRC, \
                 found the end of the file at byte {}",
                record + 12,
                record - 16,
                bytes.len() - 1
            )
        );
    }

    proptest! {
        #[test]
        fn written_files_are_found_again(
            samples in 1u64..20, rows in 1u64..150, columns in 1u64..150, blocks in 1usize..20,
        ) {
            let file = spec(samples, &[rows, columns]);
            let (bytes, _) = encode(&Tfrecord, &file, blocks * 4096);
            prop_assert_eq!(Tfrecord.file_bytes(&file), Some(bytes.len() as u64));
            let layout = inspect(&Tfrecord, &bytes).unwrap();
            prop_assert_eq!(layout.samples, samples);
            prop_assert!(layout.payload_bytes() > samples * rows * columns);
            for record in bytes.chunks(bytes.len() / samples as usize) {
                let (content, sum) = record[12..].split_at(record.len() - 16);
                prop_assert_eq!(&masked_crc32c(crc32c(content)).to_le_bytes()[..], sum);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = inspect(&Tfrecord, &bytes);
        }

        #[test]
        fn altered_files_are_handled(at in 0usize..300, value: u8, keep in 0usize..300) {
            let (bytes, _) = encode(&Tfrecord, &spec(2, &[10, 10]), 4096);
            assert_robust(&Tfrecord, &bytes, at, value, keep);
        }
    }
}
