//! Iterating over the records of a tfrecord file: by random access to their headers, or in a stream
//! of buffers as they arrive from storage.

use crc_fast::{CrcAlgorithm, Digest, checksum};

use super::bytes::{ByteWindow, ReadAt, Span, hex, read_span};
use super::error::FormatError;

/// Size of the length and its CRC.
pub const HEADER_BYTES: u64 = 12;
/// Size of the payload's CRC.
pub const FOOTER_BYTES: u64 = 4;
/// CRC-32C, rotated and offset so that the CRC of data that contains CRCs remains useful.
pub(crate) fn masked_crc32c(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Reads the record header at `offset` of the file `name`; returns the position of its payload.
///
/// # Errors
/// If the header is truncated, its CRC is wrong, or the record does not fit in the file.
pub fn read_header(name: &str, source: &mut dyn ReadAt, offset: u64) -> Result<Span, FormatError> {
    let header = Span { offset, bytes: HEADER_BYTES };
    let file_bytes = source.file_bytes();
    let bytes = read_span(name, source, header, "a record header of 12 bytes")?;
    parse_header(name, offset, &bytes, file_bytes)
}

/// The payload described by the 12 header bytes.
fn parse_header(
    name: &str,
    offset: u64,
    bytes: &[u8],
    file_bytes: u64,
) -> Result<Span, FormatError> {
    let window = ByteWindow::new(name, offset, bytes);
    let length = window.u64(0, "a record's length")?;
    let crc = window.u32(8, "the CRC of a record's length")?;
    let expected = masked_crc32c(crc32c(window.take(0, 8, "a record's length")?));
    if crc != expected {
        let expected = format!("CRC {expected:08x} of record length {length}");
        return Err(window.wrong(8, expected, format!("{crc:08x}")));
    }
    let payload = Span { offset: offset.saturating_add(HEADER_BYTES), bytes: length };
    if payload.end().saturating_add(FOOTER_BYTES) > file_bytes {
        return Err(FormatError::truncated(
            name,
            payload.offset,
            format!("a record of {length} bytes and its CRC"),
            file_bytes,
        ));
    }
    Ok(payload)
}

/// Whether payload checksums are verified in passing. TensorFlow does; it costs CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadCheck {
    /// Verify each payload's CRC.
    Crc,
    /// Read headers only.
    Skip,
}

/// State of the scanner.
enum ScanState {
    Header,
    Payload(Span),
    Footer(Span),
}

/// Finds the records in a file's bytes, which arrive in order in buffers of any size.
///
/// Only a header that straddles two buffers is stored; payloads are skipped, or only checksummed.
pub struct RecordScanner {
    name: String,
    file_bytes: u64,
    offset: u64,
    state: ScanState,
    held: Vec<u8>,
    digest: Option<Digest>,
    records: u64,
}

impl RecordScanner {
    /// Starts at the beginning of the file `name` of `file_bytes`.
    #[must_use]
    pub fn new(name: &str, file_bytes: u64, check: PayloadCheck) -> Self {
        Self {
            name: name.to_string(),
            file_bytes,
            offset: 0,
            state: ScanState::Header,
            held: Vec::with_capacity(HEADER_BYTES as usize),
            digest: (check == PayloadCheck::Crc).then(|| Digest::new(CrcAlgorithm::Crc32Iscsi)),
            records: 0,
        }
    }

    /// Number of records completed so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Processes the next bytes of the file; returns how many records ended in them.
    ///
    /// # Errors
    /// If a header or a verified payload is invalid.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<u64, FormatError> {
        let before = self.records;
        while !bytes.is_empty() {
            let taken = match self.state {
                ScanState::Header => self.header(bytes)?,
                ScanState::Payload(payload) => self.payload(payload, bytes),
                ScanState::Footer(payload) => self.footer(payload, bytes)?,
            };
            self.offset += taken as u64;
            bytes = &bytes[taken..];
        }
        Ok(self.records - before)
    }

    /// Signals the end of the file; returns the number of records.
    ///
    /// # Errors
    /// If the file ends within a record.
    pub fn finish(self) -> Result<u64, FormatError> {
        let inside = !matches!(self.state, ScanState::Header) || !self.held.is_empty();
        if inside {
            let expected = format!("the rest of record {}", self.records);
            return Err(FormatError::truncated(&self.name, self.offset, expected, self.offset));
        }
        Ok(self.records)
    }

    /// Collects up to `want` bytes in `held`; returns how many it consumed.
    fn hold(&mut self, bytes: &[u8], want: u64) -> usize {
        let taken = (want as usize - self.held.len()).min(bytes.len());
        self.held.extend_from_slice(&bytes[..taken]);
        taken
    }

    fn header(&mut self, bytes: &[u8]) -> Result<usize, FormatError> {
        let start = self.offset - self.held.len() as u64;
        let taken = self.hold(bytes, HEADER_BYTES);
        if self.held.len() as u64 == HEADER_BYTES {
            let payload = parse_header(&self.name, start, &self.held, self.file_bytes)?;
            self.held.clear();
            self.state = if payload.bytes == 0 {
                ScanState::Footer(payload)
            } else {
                ScanState::Payload(payload)
            };
        }
        Ok(taken)
    }

    fn payload(&mut self, payload: Span, bytes: &[u8]) -> usize {
        let left = payload.end() - self.offset;
        let taken = left.min(bytes.len() as u64) as usize;
        if let Some(digest) = &mut self.digest {
            digest.update(&bytes[..taken]);
        }
        if taken as u64 == left {
            self.state = ScanState::Footer(payload);
        }
        taken
    }

    fn footer(&mut self, payload: Span, bytes: &[u8]) -> Result<usize, FormatError> {
        let taken = self.hold(bytes, FOOTER_BYTES);
        if self.held.len() as u64 == FOOTER_BYTES {
            if let Some(digest) = &mut self.digest {
                let expected = masked_crc32c(digest.finalize() as u32).to_le_bytes();
                digest.reset();
                if self.held != expected {
                    let record = self.records;
                    return Err(FormatError::unexpected(
                        &self.name,
                        payload.end(),
                        format!("CRC {} of record {record}", hex(&expected)),
                        hex(&self.held),
                    ));
                }
            }
            self.held.clear();
            self.records += 1;
            self.state = ScanState::Header;
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{encode, spec};
    use super::super::tfrecord::Tfrecord;
    use super::{FormatError, PayloadCheck, RecordScanner};

    fn scan(bytes: &[u8], piece: usize, check: PayloadCheck) -> Result<u64, FormatError> {
        let mut scanner = RecordScanner::new("file", bytes.len() as u64, check);
        for piece in bytes.chunks(piece) {
            scanner.feed(piece)?;
        }
        scanner.finish()
    }

    #[test]
    fn an_altered_payload_is_found_by_its_crc() {
        let (mut bytes, _) = encode(&Tfrecord, &spec(2, &[10, 10]), 4096);
        let at = bytes.len() / 2 + 60;
        bytes[at] ^= 1;
        assert_eq!(scan(&bytes, 7, PayloadCheck::Skip).unwrap(), 2);
        let error = scan(&bytes, 7, PayloadCheck::Crc).unwrap_err().to_string();
        assert!(error.contains("of record 1, found"), "{error}");
    }

    #[test]
    fn a_wrong_length_is_found_before_it_is_followed() {
        let (mut bytes, _) = encode(&Tfrecord, &spec(2, &[10, 10]), 4096);
        bytes[5] = 0xff;
        let error = scan(&bytes, 4096, PayloadCheck::Skip).unwrap_err();
        assert!(error.to_string().starts_with("file: at byte 8: expected CRC "));
    }

    proptest! {
        #[test]
        fn records_are_counted_whatever_the_buffers(
            samples in 1u64..20, side in 1u64..60, piece in 1usize..9000, crc: bool,
        ) {
            let (bytes, _) = encode(&Tfrecord, &spec(samples, &[side, side]), 8192);
            let check = if crc { PayloadCheck::Crc } else { PayloadCheck::Skip };
            prop_assert_eq!(scan(&bytes, piece, check).unwrap(), samples);
        }

        #[test]
        fn a_cut_off_file_is_an_error(side in 1u64..60, cut in 1usize..10_000) {
            let (bytes, _) = encode(&Tfrecord, &spec(3, &[side, side]), 8192);
            let keep = bytes.len() - 1 - cut % (bytes.len() / 3 - 1);
            prop_assert!(scan(&bytes[..keep], 100, PayloadCheck::Skip).is_err());
        }

        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..300), piece in 1usize..50,
        ) {
            let _ = scan(&bytes, piece, PayloadCheck::Crc);
        }
    }
}
