//! `.npz` as numpy and DLIO write it: a zip of stored members. `x.npy` has the samples, `y.npy` one
//! 64-bit label per sample.
//!
//! Every local header has a 20-byte zip64 field, so the array starts at byte 183 and a file of
//! one-byte elements has `rows · columns · samples + 490 + 8 · samples` bytes. The CRC of the
//! samples is in the first header, before them: it is computed while they are written and patched
//! in at the end, as numpy does.

use crc_fast::{CrcAlgorithm, Digest, checksum};

use super::bytes::ReadAt;
use super::error::FormatError;
use super::framed::Framer;
use super::npz_read::{
    self, CENTRAL_BYTES, CENTRAL_SIGNATURE, END_BYTES, END_SIGNATURE, END64_BYTES, END64_SIGNATURE,
    LOCAL_BYTES, LOCAL_SIGNATURE, LOCATOR64_BYTES, LOCATOR64_SIGNATURE,
};
use super::{ChunkSink, EncodeError, FileLayout, FileSpec, Finish, Format, Patch, Spans, npy};

pub use super::npz_read::{NpzMember, check_tail, read_head, read_members};

const ZIP64_FIELD: u16 = 1;
/// Python's zipfile uses the directory's 64-bit fields above this.
const ZIP64_LIMIT: u64 = (1 << 31) - 1;
/// Version 4.5 of the zip specification: zip64.
const VERSION: u16 = 45;
/// 1 January 1980, numpy's default date.
const DATE: u16 = 0x21;
const CRC_OFFSET: usize = 14;
/// DLIO's labels: 64-bit integers.
const LABEL_DESCR: &str = "<i8";
const LABEL_BYTES: u64 = 8;
/// `-rw-------`, the default of Python's zipfile.
const ATTRIBUTES: u32 = 0o600 << 16;

/// The npz format, as DLIO writes it.
#[derive(Debug, Clone, Copy)]
pub struct Npz;

/// One member while it is being written.
struct NpzEntry {
    name: &'static str,
    crc: u32,
    bytes: u64,
    offset: u64,
}

impl NpzEntry {
    fn local_header(&self) -> Vec<u8> {
        let mut out = LOCAL_SIGNATURE.to_vec();
        put16(&mut out, &[VERSION, 0, 0, 0, DATE]);
        put32(&mut out, &[self.crc, u32::MAX, u32::MAX]);
        put16(&mut out, &[self.name.len() as u16, 20]);
        out.extend_from_slice(self.name.as_bytes());
        put16(&mut out, &[ZIP64_FIELD, 16]);
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out
    }

    fn central_header(&self) -> Vec<u8> {
        let mut wide = Vec::new();
        let size = narrow(self.bytes);
        if size == u32::MAX {
            wide.extend([self.bytes, self.bytes]);
        }
        let offset = narrow(self.offset);
        if offset == u32::MAX {
            wide.push(self.offset);
        }
        let mut extra = Vec::new();
        if !wide.is_empty() {
            put16(&mut extra, &[ZIP64_FIELD, 8 * wide.len() as u16]);
            extra.extend(wide.iter().flat_map(|value| value.to_le_bytes()));
        }
        let mut out = CENTRAL_SIGNATURE.to_vec();
        put16(&mut out, &[3 << 8 | VERSION, VERSION, 0, 0, 0, DATE]);
        put32(&mut out, &[self.crc, size, size]);
        let lengths = [self.name.len() as u16, extra.len() as u16, 0, 0, 0];
        put16(&mut out, &lengths);
        put32(&mut out, &[ATTRIBUTES, offset]);
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(&extra);
        out
    }

    /// Size of [`Self::central_header`], computed without building it.
    fn central_bytes(&self) -> u64 {
        let wide = 2 * u64::from(self.bytes > ZIP64_LIMIT) + u64::from(self.offset > ZIP64_LIMIT);
        let extra = if wide == 0 { 0 } else { 4 + 8 * wide };
        (CENTRAL_BYTES + self.name.len()) as u64 + extra
    }

    fn end(&self) -> u64 {
        self.offset + (LOCAL_BYTES + self.name.len() + 20) as u64 + self.bytes
    }
}

/// The 32-bit field for a value; all ones if the value is in the 64-bit field.
fn narrow(value: u64) -> u32 {
    if value > ZIP64_LIMIT { u32::MAX } else { value as u32 }
}

fn put16(out: &mut Vec<u8>, values: &[u16]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn put32(out: &mut Vec<u8>, values: &[u32]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

/// The central directory and the end records.
fn directory(entries: &[NpzEntry], offset: u64) -> Vec<u8> {
    let mut out: Vec<u8> = entries.iter().flat_map(NpzEntry::central_header).collect();
    let bytes = out.len() as u64;
    let count = entries.len() as u16;
    if offset > ZIP64_LIMIT {
        let end64 = offset + bytes;
        out.extend_from_slice(&END64_SIGNATURE);
        out.extend_from_slice(&(END64_BYTES as u64 - 12).to_le_bytes());
        put16(&mut out, &[VERSION, VERSION]);
        put32(&mut out, &[0, 0]);
        for value in [u64::from(count), u64::from(count), bytes, offset] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&LOCATOR64_SIGNATURE);
        put32(&mut out, &[0]);
        out.extend_from_slice(&end64.to_le_bytes());
        put32(&mut out, &[1]);
    }
    out.extend_from_slice(&END_SIGNATURE);
    put16(&mut out, &[0, 0, count, count]);
    put32(&mut out, &[bytes as u32, if offset > ZIP64_LIMIT { u32::MAX } else { offset as u32 }]);
    put16(&mut out, &[0]);
    out
}

/// The positions of everything, before any byte is written.
struct Plan {
    descr: &'static str,
    shape: Vec<u64>,
    array_bytes: u64,
    samples: u64,
    x: NpzEntry,
    y: NpzEntry,
}

impl Plan {
    fn new(file: &FileSpec) -> Result<Self, EncodeError> {
        let descr = npy::descr(file.shape.element_bytes)?;
        let shape = npy::array_shape(file);
        let array_bytes = super::total_payload(file)?;
        let x = NpzEntry {
            name: "x.npy",
            crc: 0,
            bytes: npy::header_bytes(descr, &shape) + array_bytes,
            offset: 0,
        };
        let y = NpzEntry {
            name: "y.npy",
            crc: 0,
            bytes: npy::header_bytes(LABEL_DESCR, &[file.samples])
                .saturating_add(file.samples.saturating_mul(LABEL_BYTES)),
            offset: x.end(),
        };
        Ok(Self { descr, shape, array_bytes, samples: file.samples, x, y })
    }

    /// The labels member, all zero.
    fn labels(&self) -> Vec<u8> {
        let mut labels = npy::header(LABEL_DESCR, &[self.samples]);
        labels.resize(self.y.bytes as usize, 0);
        labels
    }

    fn file_bytes(&self) -> u64 {
        let offset = self.y.end();
        let wide = if offset > ZIP64_LIMIT { END64_BYTES + LOCATOR64_BYTES } else { 0 };
        let ends = (END_BYTES + wide) as u64;
        offset + self.x.central_bytes() + self.y.central_bytes() + ends
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}

impl Format for Npz {
    fn file_bytes(&self, file: &FileSpec) -> Option<u64> {
        Plan::new(file).ok().map(|plan| plan.file_bytes())
    }

    fn encode(&self, file: &FileSpec, sink: &mut dyn ChunkSink) -> Result<Finish, EncodeError> {
        let plan = Plan::new(file)?;
        let header = npy::header(plan.descr, &plan.shape);
        let mut digest = Digest::new(CrcAlgorithm::Crc32IsoHdlc);
        digest.update(&header);
        let mut out = Framer::new(file.content, sink);
        out.literal(&plan.x.local_header())?;
        out.literal(&header)?;
        out.content(plan.array_bytes, |bytes| digest.update(bytes))?;
        let labels = plan.labels();
        let x = NpzEntry { crc: digest.finalize() as u32, ..plan.x };
        let y = NpzEntry { crc: crc32(&labels), ..plan.y };
        out.literal(&y.local_header())?;
        out.literal(&labels)?;
        let crc = Patch { offset: CRC_OFFSET, bytes: x.crc.to_le_bytes().to_vec() };
        let offset = y.end();
        out.literal(&directory(&[x, y], offset))?;
        out.end(Finish { patches: vec![crc], side_files: Vec::new() })
    }

    fn inspect(&self, name: &str, source: &mut dyn ReadAt) -> Result<FileLayout, FormatError> {
        let members = read_members(name, source)?;
        let Some(member) = members.iter().find(|member| member.name == "x.npy") else {
            let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
            return Err(FormatError::unexpected(
                name,
                0,
                "a member `x.npy`",
                format!("members `{}`", names.join("`, `")),
            ));
        };
        let (header, array) = npz_read::read_array(name, source, member)?;
        Ok(FileLayout {
            samples: header.shape.last().copied().unwrap_or(1),
            spans: Spans::Interleaved(array),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{assert_robust, encode, inspect, spec};
    use super::{Format, Npz, NpzEntry, check_tail, crc32, directory, read_head};
    use crate::format::Spans;
    use crate::format::bytes::Span;

    #[test]
    fn the_layout_is_numpys() {
        let (bytes, finish) = encode(&Npz, &spec(2, &[5, 7]), 4096);
        assert_eq!(bytes.len(), 5 * 7 * 2 + 490 + 8 * 2);
        assert_eq!(&bytes[..14], b"PK\x03\x04\x2d\0\0\0\0\0\0\0\x21\0");
        assert_eq!(&bytes[30..35], b"x.npy");
        assert_eq!(bytes[14..18], crc32(&bytes[55..183 + 70]).to_le_bytes());
        assert_eq!(finish.patches.len(), 1);
        let end = &bytes[bytes.len() - 22..];
        assert_eq!(end, b"PK\x05\x06\0\0\0\0\x02\0\x02\0\x66\0\0\0\xc4\x01\0\0\0\0");
    }

    #[test]
    fn directories_beyond_two_gib_have_wide_fields() {
        let entry = NpzEntry { name: "x.npy", crc: 7, bytes: 3 << 30, offset: 0 };
        let tail = directory(std::slice::from_ref(&entry), entry.end());
        assert_eq!(entry.central_bytes(), 71);
        // 46 + 5 + 20 bytes of entry, 56 + 20 + 22 bytes of end records.
        assert_eq!(tail.len(), 169);
        assert_eq!(tail[20..28], [0xff; 8]);
        assert_eq!(tail[55..63], (3u64 << 30).to_le_bytes());
    }

    #[test]
    fn the_head_alone_locates_the_array() {
        let (bytes, _) = encode(&Npz, &spec(1, &[100, 100]), 4096);
        let (header, array) = read_head("file", bytes.len() as u64, &bytes[..512]).unwrap();
        assert_eq!(header.shape, [100, 100, 1]);
        assert_eq!((array.offset, array.bytes), (183, 10_000));
        let error = read_head("file", 9000, &bytes[..512]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "file: at byte 55: expected member `x.npy` of 10128 bytes, \
             found the end of the file at byte 9000"
        );
    }

    #[test]
    fn any_tail_of_a_whole_file_is_good_and_one_without_its_directory_is_not() {
        let (bytes, _) = encode(&Npz, &spec(1, &[10, 10]), 4096);
        for offset in 0..bytes.len() {
            check_tail("file", offset as u64, &bytes[offset..]).unwrap();
        }
        let mut zeroed = bytes.clone();
        let end = bytes.len() - 22;
        zeroed[end - 102..end].fill(0);
        let error = check_tail("file", 300, &zeroed[300..]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "file: at byte 474: expected a zip directory entry (50 4b 01 02), found 00 00 00 00"
        );
        let mut cut = bytes;
        cut.pop();
        let error = check_tail("file", 0, &cut).unwrap_err().to_string();
        assert!(error.contains("the zip end record"), "{error}");
    }

    #[test]
    fn a_cut_off_file_is_named() {
        let (bytes, _) = encode(&Npz, &spec(1, &[10, 10]), 4096);
        let error = inspect(&Npz, &bytes[..500]).unwrap_err().to_string();
        assert_eq!(
            error,
            "file: at byte 478: expected the zip end record (50 4b 05 06), found 2d 03 2d 00"
        );
    }

    proptest! {
        #[test]
        fn written_files_are_found_again(
            samples in 1u64..9, rows in 1u64..300, columns in 1u64..300, blocks in 1usize..40,
        ) {
            let file = spec(samples, &[rows, columns]);
            let (bytes, _) = encode(&Npz, &file, blocks * 4096);
            prop_assert_eq!(bytes.len() as u64, samples * (rows * columns + 8) + 490);
            prop_assert_eq!(Npz.file_bytes(&file), Some(bytes.len() as u64));
            let layout = inspect(&Npz, &bytes).unwrap();
            prop_assert_eq!(layout.samples, samples);
            let span = Span { offset: 183, bytes: samples * rows * columns };
            prop_assert_eq!(layout.spans, Spans::Interleaved(span));
        }

        #[test]
        fn the_size_of_buffers_changes_nothing(rows in 1u64..500, blocks in 2usize..40) {
            let file = spec(1, &[rows, 97]);
            prop_assert_eq!(encode(&Npz, &file, 4096), encode(&Npz, &file, blocks * 4096));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = inspect(&Npz, &bytes);
            let mut with_end = bytes.clone();
            with_end.extend_from_slice(b"PK\x05\x06\0\0\0\0\x02\0\x02\0");
            with_end.extend_from_slice(&bytes[..bytes.len().min(8)]);
            with_end.extend_from_slice(&[0, 0]);
            let _ = inspect(&Npz, &with_end);
            let mut with_start = b"PK\x03\x04".to_vec();
            with_start.extend_from_slice(&bytes);
            let _ = read_head("file", 1000, &with_start);
        }

        #[test]
        fn altered_files_are_handled(at in 0usize..598, value: u8, keep in 0usize..598) {
            let (bytes, _) = encode(&Npz, &spec(1, &[10, 10]), 4096);
            assert_robust(&Npz, &bytes, at, value, keep);
        }
    }
}
