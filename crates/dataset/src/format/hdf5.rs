//! `hdf5` as DLIO v2.0 writes it with h5py: one unchunked array `records` of samples, followed by
//! `labels`.
//!
//! h5py has a single layout for such files: all metadata is in the first 2 KiB, at offsets that
//! depend only on the two names. So the offset of a sample follows from the file size, and this
//! module reads and writes only the few fields that differ between files instead of implementing
//! all of HDF5.

use super::bytes::{ByteWindow, ReadAt, Span, read_span};
use super::error::FormatError;
use super::framed::Framer;
use super::{ChunkSink, EncodeError, FileLayout, FileSpec, Finish, Format, Spans, total_payload};
use crate::sizes::SampleShape;

/// HDF5 files of DLIO's layout.
#[derive(Debug, Clone, Copy)]
pub struct Hdf5;

/// Offset of the samples: after all metadata.
const DATA_AT: u64 = 2048;
/// Bytes of one label, a 64-bit number.
const LABEL_BYTES: u64 = 8;
/// Maximum number of samples per file: their labels are made in one piece.
const MOST_SAMPLES: u64 = 1 << 24;
/// Offset of the object header of `records`.
const RECORDS_AT: usize = 0x320;
/// Offset of the object header of `labels`.
const LABELS_AT: usize = 0x578;
/// Start of an object header: version, five messages, one reference, 256 bytes of messages.
const DESCRIPTION_HEAD: [u8; 16] = [1, 0, 5, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
/// Bytes of an object header's messages.
const MESSAGES_BYTES: usize = 256;

/// Fixed bytes of every file with their offsets: superblock, root group, its B-tree, its names, its
/// entries.
const FIXED: [(usize, &[u8]); 17] = [
    (0x00, b"\x89HDF\r\n\x1a\n"),
    // 8-byte addresses and lengths, at most 8 entries and 32 children.
    (0x0d, &[8, 8, 0, 4, 0, 16]),
    (0x20, &[0xff; 8]),
    (0x30, &[0xff; 8]),
    (0x40, &[0x60]),
    (0x48, &[1]),
    (0x50, &[0x88]),
    (0x58, &[0xa8, 2]),
    // The root group: the offsets of its B-tree and its names.
    (0x60, &[1, 0, 1, 0, 1, 0, 0, 0, 0x18]),
    (0x70, &[0x11, 0, 16, 0, 0, 0, 0, 0, 0x88]),
    (0x80, &[0xa8, 2]),
    (0x88, b"TREE\0\0\x01\0"),
    (0x90, &[0xff; 16]),
    (0xa8, &[0x30, 4, 0, 0, 0, 0, 0, 0, 8]),
    (0x2a8, b"HEAP\0\0\0\0\x58\0\0\0\0\0\0\0\x18\0\0\0\0\0\0\0\xc8\x02"),
    (0x2d0, b"records\0labels\0\0\x01\0\0\0\0\0\0\0\x40"),
    (0x430, b"SNOD\x01\0\x02\0\x10\0\0\0\0\0\0\0\x78\x05"),
];
/// The second entry, `records`, with the offsets of its name and its object header.
const RECORDS_ENTRY: (usize, &[u8]) = (0x460, &[8, 0, 0, 0, 0, 0, 0, 0, 0x20, 3]);

/// The shape of a sample as DLIO stores it: rows and bytes per row.
fn rows_and_bytes(shape: &SampleShape) -> [u64; 2] {
    let rows = shape.dims.first().copied().unwrap_or(1).max(1);
    [rows, shape.bytes() / rows]
}

/// A message of an object header: type, flags, content padded to 8 bytes.
fn message(kind: u8, flags: u8, content: &[u8]) -> Vec<u8> {
    let padded = content.len().next_multiple_of(8);
    let mut message = vec![kind, 0, padded as u8, 0, flags, 0, 0, 0];
    message.extend(content);
    message.resize(8 + padded, 0);
    message
}

/// The object header of an array of `dims` elements, with `bytes` at `offset`.
fn description(dims: &[u64], element: [u8; 12], offset: u64, bytes: u64) -> Vec<u8> {
    // Each length is stored twice: the current one and the maximum.
    let lengths = dims.iter().chain(dims).flat_map(|dim| dim.to_le_bytes());
    let space: Vec<u8> =
        [1, dims.len() as u8, 1, 0, 0, 0, 0, 0].into_iter().chain(lengths).collect();
    let mut place = vec![3, 1];
    place.extend(offset.to_le_bytes());
    place.extend(bytes.to_le_bytes());
    let mut messages = [
        message(1, 0, &space),
        message(3, 1, &element),
        // No fill value is defined.
        message(5, 1, &[2, 2, 2, 1]),
        message(8, 0, &place),
    ]
    .concat();
    let rest = MESSAGES_BYTES - messages.len() - 8;
    messages.extend(message(0, 0, &vec![0; rest]));
    [DESCRIPTION_HEAD.to_vec(), messages].concat()
}

/// Everything before the samples.
fn head(file: &FileSpec, payload: u64) -> Vec<u8> {
    let [rows, row_bytes] = rows_and_bytes(&file.shape);
    let byte = [0x10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0];
    let number = [0x10, 8, 0, 0, 8, 0, 0, 0, 0, 0, 64, 0];
    let labels_bytes = file.samples * LABEL_BYTES;
    let labels_at = DATA_AT + payload;
    let records = description(&[file.samples, rows, row_bytes], byte, DATA_AT, payload);
    let labels = description(&[file.samples], number, labels_at, labels_bytes);
    let end = (labels_at + labels_bytes).to_le_bytes();
    let own: [(usize, &[u8]); 4] =
        [RECORDS_ENTRY, (0x28, &end), (RECORDS_AT, &records), (LABELS_AT, &labels)];
    let mut head = vec![0; DATA_AT as usize];
    for (at, bytes) in FIXED.into_iter().chain(own) {
        head[at..at + bytes.len()].copy_from_slice(bytes);
    }
    head
}

/// The array of samples in a file of `file_bytes` with `samples` samples; `None` if no such file
/// has this size.
#[must_use]
pub fn records(file_bytes: u64, samples: u64) -> Option<Span> {
    let labels = samples.checked_mul(LABEL_BYTES)?;
    let bytes = file_bytes.checked_sub(DATA_AT)?.checked_sub(labels)?;
    let whole = samples > 0 && bytes > 0 && bytes.is_multiple_of(samples);
    whole.then_some(Span { offset: DATA_AT, bytes })
}

impl Format for Hdf5 {
    fn file_bytes(&self, file: &FileSpec) -> Option<u64> {
        let payload = total_payload(file).ok()?;
        let fits = file.samples <= MOST_SAMPLES;
        fits.then_some(DATA_AT + payload + file.samples * LABEL_BYTES)
    }

    fn encode(&self, file: &FileSpec, sink: &mut dyn ChunkSink) -> Result<Finish, EncodeError> {
        let payload = total_payload(file)?;
        let labels = vec![0; (file.samples * LABEL_BYTES) as usize];
        let mut out = Framer::new(file.content, sink);
        out.literal(&head(file, payload))?;
        out.content(payload, |_| {})?;
        out.literal(&labels)?;
        out.end(Finish::default())
    }

    /// Reads the object header of `records`: the number of samples, and whether they are at the
    /// offset that [`records`] assumes.
    fn inspect(&self, name: &str, source: &mut dyn ReadAt) -> Result<FileLayout, FormatError> {
        let span = Span { offset: 0, bytes: DATA_AT };
        let head = read_span(name, source, span, "the head of an HDF5 file")?;
        let head = ByteWindow::new(name, 0, &head);
        head.expect(0, FIXED[0].1, "the signature of HDF5")?;
        let what = "the array `records` where DLIO v2.0 describes it";
        head.expect(0x2d0, b"records\0", what)?;
        head.expect(RECORDS_AT, &DESCRIPTION_HEAD[..2], what)?;
        let (samples, place) = described(&head)?;
        let expected = records(source.file_bytes(), samples);
        if expected != Some(place) {
            return Err(head.wrong(
                RECORDS_AT,
                format!("{samples} samples from byte {DATA_AT} on, then their labels"),
                format!(
                    "{} bytes from byte {} on, in a file of {}",
                    place.bytes,
                    place.offset,
                    source.file_bytes()
                ),
            ));
        }
        let bytes = place.bytes / samples;
        Ok(FileLayout {
            samples,
            spans: Spans::Records { first: Span { bytes, ..place }, stride: bytes },
        })
    }
}

/// The samples of `records`, and its place, from the messages of its object header.
fn described(head: &ByteWindow) -> Result<(u64, Span), FormatError> {
    let (mut samples, mut place) = (None, None);
    let end = RECORDS_AT + DESCRIPTION_HEAD.len() + MESSAGES_BYTES;
    let mut at = RECORDS_AT + DESCRIPTION_HEAD.len();
    while at < end {
        let kind = head.u16(at, "a message")?;
        let bytes = usize::from(head.u16(at + 2, "a message")?);
        let content = at + 8;
        match kind {
            1 => samples = Some(head.u64(content + 8, "the number of samples")?),
            8 => {
                // Chunks would be read one by one, from wherever they were written.
                let what = "a contiguous array (dataset.enable_chunking and compression off)";
                head.expect(content, &[3, 1], what)?;
                place = Some(Span {
                    offset: head.u64(content + 2, "the place of `records`")?,
                    bytes: head.u64(content + 10, "the size of `records`")?,
                });
            }
            _ => {}
        }
        at = content + bytes;
    }
    let both = samples.filter(|samples| *samples > 0).zip(place);
    both.ok_or_else(|| head.wrong(RECORDS_AT, "shape and place of `records`", "none"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{assert_robust, encode, inspect, spec};
    use super::{Format, Hdf5, LABELS_AT, RECORDS_AT, Span, records};

    /// The object headers that h5py 3.14 writes for 4 samples of 200 × 200.
    #[test]
    fn arrays_are_described_as_h5py_describes_them() {
        let (bytes, _) = encode(&Hdf5, &spec(4, &[200, 200]), 4096);
        let written = |at: usize| {
            let words = bytes[at..at + 160].chunks(8);
            words.map(|word| u64::from_be_bytes(word.try_into().unwrap()))
        };
        let of_h5py = [
            0x0100_0500_0100_0000,
            0x0001_0000_0000_0000,
            0x0100_3800_0000_0000,
            0x0103_0100_0000_0000,
            0x0400_0000_0000_0000,
            0xc800_0000_0000_0000,
            0xc800_0000_0000_0000,
            0x0400_0000_0000_0000,
            0xc800_0000_0000_0000,
            0xc800_0000_0000_0000,
            0x0300_1000_0100_0000,
            0x1000_0000_0100_0000,
            0x0000_0800_0000_0000,
            0x0500_0800_0100_0000,
            0x0202_0201_0000_0000,
            0x0800_1800_0000_0000,
            0x0301_0008_0000_0000,
            0x0000_0071_0200_0000,
            0x0000_0000_0000_0000,
            0x0000_7000_0000_0000,
        ];
        assert!(written(RECORDS_AT).eq(of_h5py));
        let labels: Vec<u64> = written(LABELS_AT).skip(2).take(4).collect();
        let of_h5py = [
            0x0100_1800_0000_0000,
            0x0101_0100_0000_0000,
            0x0400_0000_0000_0000,
            0x0400_0000_0000_0000,
        ];
        assert_eq!(labels, of_h5py);
        assert_eq!(bytes.len(), 162_080);
    }

    #[test]
    fn chunks_and_other_files_are_refused() {
        let (mut bytes, _) = encode(&Hdf5, &spec(2, &[10, 10]), 4096);
        let error = inspect(&Hdf5, &bytes[..2263]).unwrap_err().to_string();
        assert!(error.contains("2 samples from byte 2048 on"), "{error}");
        bytes[0x3a1] = 2;
        let error = inspect(&Hdf5, &bytes).unwrap_err().to_string();
        assert!(error.contains("dataset.enable_chunking"), "{error}");
        bytes[0] = 0;
        let error = inspect(&Hdf5, &bytes).unwrap_err().to_string();
        assert!(error.contains("the signature of HDF5"), "{error}");
    }

    #[test]
    fn an_impossible_file_size_yields_no_samples() {
        let all = |bytes| Some(Span { offset: 2048, bytes });
        assert_eq!(records(642_080, 4), all(640_000));
        assert_eq!(records(642_081, 4), None);
        assert_eq!(records(2048 + 32, 4), None);
        assert_eq!(records(100, 4), None);
        assert_eq!(records(10_000, 0), None);
    }

    proptest! {
        #[test]
        fn written_files_are_found_again(
            samples in 1u64..20, rows in 1u64..40, row in 1u64..40,
            at in 0usize..3000, value: u8, keep in 0usize..3000,
        ) {
            let file = spec(samples, &[rows, row]);
            let (bytes, finish) = encode(&Hdf5, &file, 4096);
            prop_assert!(finish.patches.is_empty() && finish.side_files.is_empty());
            prop_assert_eq!(Hdf5.file_bytes(&file), Some(bytes.len() as u64));
            let layout = inspect(&Hdf5, &bytes).unwrap();
            prop_assert_eq!(layout.samples, samples);
            prop_assert_eq!(layout.payload_bytes(), samples * rows * row);
            assert_robust(&Hdf5, &bytes, at, value, keep);
        }
    }
}
