//! `.npy`: a header with a Python dictionary, padded to 64 bytes, then one array.
//!
//! The header is written as numpy does; reading accepts versions 1 to 3 and any spacing.

use super::bytes::{ByteWindow, ReadAt, Span, read_span};
use super::error::FormatError;
use super::framed::Framer;
use super::{ChunkSink, EncodeError, FileLayout, FileSpec, Finish, Format, Spans};

const MAGIC: &[u8] = b"\x93NUMPY";
/// numpy pads headers so that the array starts at a multiple of this.
const ALIGNMENT: usize = 64;
/// numpy reserves room to grow the first axis in place: the decimal digits of 2⁶⁴, plus one.
const GROWTH_DIGITS: usize = 21;
/// Read limit for finding a header; numpy itself rejects headers above 10 000 bytes.
const MAX_HEADER_BYTES: u64 = 16 * 1024;

/// The npy format, as DLIO writes it: shape `(rows, columns, samples)`.
#[derive(Debug, Clone, Copy)]
pub struct Npy;

/// The contents of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// numpy's type string, `|u1`.
    pub descr: String,
    /// The array's shape.
    pub shape: Vec<u64>,
    /// Size of the header, in bytes before the array.
    pub header_bytes: u64,
    /// Bytes of the array.
    pub array_bytes: u64,
}

/// numpy's type string for unsigned bytes or for floating-point elements of some size.
pub(crate) fn descr(element_bytes: u64) -> Result<&'static str, EncodeError> {
    match element_bytes {
        1 => Ok("|u1"),
        2 => Ok("<f2"),
        4 => Ok("<f4"),
        8 => Ok("<f8"),
        other => Err(EncodeError::Format(format!(
            "numpy has no number of {other} bytes: record_element_bytes must be 1, 2, 4 or 8"
        ))),
    }
}

/// Size of an array's header, computed without building it: datasets have millions of them.
pub(crate) fn header_bytes(descr: &str, shape: &[u64]) -> u64 {
    let digits = |dim: &u64| dim.checked_ilog10().unwrap_or(0) as usize + 1;
    let Some((_, rest)) = shape.split_first() else {
        return header(descr, shape).len() as u64;
    };
    // The first dimension and its padding have a fixed width; a one-element tuple has a comma.
    let others: usize = rest.iter().map(|dim| 2 + digits(dim)).sum();
    let comma = usize::from(rest.is_empty());
    let fixed = "{'descr': '', 'fortran_order': False, 'shape': (), }".len();
    let dictionary = fixed + descr.len() + GROWTH_DIGITS + others + comma;
    let unpadded = MAGIC.len() + 4 + dictionary + 1;
    (unpadded + ALIGNMENT - unpadded % ALIGNMENT) as u64
}

/// The header of an array in C order.
pub(crate) fn header(descr: &str, shape: &[u64]) -> Vec<u8> {
    let dims: Vec<String> = shape.iter().map(u64::to_string).collect();
    let comma = if dims.len() == 1 { "," } else { "" };
    let mut dictionary = format!(
        "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        dims.join(", ")
    );
    let first_digits = dims.first().map_or(0, String::len);
    if !dims.is_empty() {
        dictionary.push_str(&" ".repeat(GROWTH_DIGITS - first_digits));
    }
    let prefix = MAGIC.len() + 4;
    let unpadded = prefix + dictionary.len() + 1;
    dictionary.push_str(&" ".repeat(ALIGNMENT - unpadded % ALIGNMENT));
    dictionary.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&[1, 0]);
    bytes.extend_from_slice(&(dictionary.len() as u16).to_le_bytes());
    bytes.extend_from_slice(dictionary.as_bytes());
    bytes
}

/// The shape of the array in DLIO's files: the sample's dimensions, then the number of samples.
pub(crate) fn array_shape(file: &FileSpec) -> Vec<u64> {
    let mut shape = file.shape.dims.clone();
    shape.push(file.samples);
    shape
}

/// Parses a header from bytes of the file `name` that start at `offset`.
pub(crate) fn parse(name: &str, offset: u64, bytes: &[u8]) -> Result<Header, FormatError> {
    let window = ByteWindow::new(name, offset, bytes);
    window.expect(0, MAGIC, "the numpy magic")?;
    let version = window.take(6, 2, "the numpy format version")?[0];
    let (length, start) = match version {
        1 => (u64::from(window.u16(8, "the header length")?), 10usize),
        2 | 3 => (u64::from(window.u32(8, "the header length")?), 12),
        other => {
            let expected = "numpy format version 1, 2 or 3";
            return Err(window.wrong(6, expected, format!("version {other}")));
        }
    };
    if length > MAX_HEADER_BYTES {
        let expected = format!("a header of at most {MAX_HEADER_BYTES} bytes");
        return Err(window.wrong(8, expected, format!("{length} bytes")));
    }
    let text = window.take(start, length as usize, "the numpy header")?;
    let Ok(text) = std::str::from_utf8(text) else {
        return Err(window.wrong(start, "a numpy header in ASCII", "other bytes"));
    };
    let wrong = |what: &str| window.wrong(start, what, format!("`{}`", text.trim()));
    let descr =
        quoted_value(text, "'descr'").ok_or_else(|| wrong("a 'descr' of one number type"))?;
    if !value_of(text, "'fortran_order'").is_some_and(|rest| rest.starts_with("False")) {
        return Err(wrong("'fortran_order': False"));
    }
    let shape = shape_value(text).ok_or_else(|| wrong("a 'shape' of whole numbers"))?;
    let element_bytes = descr_bytes(descr).ok_or_else(|| wrong("a 'descr' of one number type"))?;
    let array_bytes = shape
        .iter()
        .try_fold(element_bytes, |product, dim| product.checked_mul(*dim))
        .ok_or_else(|| wrong("an array below 2^64 bytes"))?;
    Ok(Header { descr: descr.to_string(), shape, header_bytes: start as u64 + length, array_bytes })
}

/// The text after `key` and its colon.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let after = &text[text.find(key)? + key.len()..];
    Some(after.trim_start().strip_prefix(':')?.trim_start())
}

fn quoted_value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let rest = value_of(text, key)?.strip_prefix('\'')?;
    rest.split_once('\'').map(|(value, _)| value)
}

fn shape_value(text: &str) -> Option<Vec<u64>> {
    let rest = value_of(text, "'shape'")?.strip_prefix('(')?;
    let (inside, _) = rest.split_once(')')?;
    inside
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().ok())
        .collect()
}

/// Bytes per element of a simple type such as `|u1` or `<f4`.
fn descr_bytes(descr: &str) -> Option<u64> {
    let mut characters = descr.chars();
    let order = characters.next()?;
    let kind = characters.next()?;
    if !"<>|=".contains(order) || !"biufc?".contains(kind) {
        return None;
    }
    let bytes = characters.as_str().parse().ok()?;
    (1..=32).contains(&bytes).then_some(bytes)
}

impl Format for Npy {
    fn file_bytes(&self, file: &FileSpec) -> Option<u64> {
        let descr = descr(file.shape.element_bytes).ok()?;
        let array = super::total_payload(file).ok()?;
        Some(array + header_bytes(descr, &array_shape(file)))
    }

    fn encode(&self, file: &FileSpec, sink: &mut dyn ChunkSink) -> Result<Finish, EncodeError> {
        let header = header(descr(file.shape.element_bytes)?, &array_shape(file));
        let array = super::total_payload(file)?;
        let mut out = Framer::new(file.content, sink);
        out.literal(&header)?;
        out.content(array, |_| {})?;
        out.end(Finish::default())
    }

    fn inspect(&self, name: &str, source: &mut dyn ReadAt) -> Result<FileLayout, FormatError> {
        let file_bytes = source.file_bytes();
        let head = Span { offset: 0, bytes: file_bytes.min(MAX_HEADER_BYTES + 12) };
        let head = read_span(name, source, head, "the numpy header")?;
        let (header, array) = read_head(name, file_bytes, &head)?;
        Ok(FileLayout {
            samples: header.shape.last().copied().unwrap_or(1),
            spans: Spans::Interleaved(array),
        })
    }
}

/// Parses the header at the start of a file, and returns the position of the array.
///
/// # Errors
/// If it is not a numpy header, or the array does not end at the end of the file of `file_bytes`.
pub fn read_head(name: &str, file_bytes: u64, head: &[u8]) -> Result<(Header, Span), FormatError> {
    let header = parse(name, 0, head)?;
    let array = Span { offset: header.header_bytes, bytes: header.array_bytes };
    check_array_end(name, array, file_bytes)?;
    Ok((header, array))
}

fn check_array_end(name: &str, array: Span, file_bytes: u64) -> Result<(), FormatError> {
    match array.offset.checked_add(array.bytes) {
        Some(end) if end == file_bytes => Ok(()),
        Some(end) if end < file_bytes => Err(FormatError::unexpected(
            name,
            end,
            "the end of the file, per the shape in the header",
            format!("{} more bytes", file_bytes - end),
        )),
        _ => Err(FormatError::truncated(
            name,
            array.offset,
            format!("an array of {} bytes, as the header says", array.bytes),
            file_bytes,
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{assert_robust, encode, inspect, spec};
    use super::{Format, Npy, header, header_bytes, parse};

    #[test]
    fn the_header_is_numpys() {
        let bytes = header("|u1", &[5, 7, 2]);
        assert_eq!(bytes.len(), 128);
        assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\x76\x00");
        let text = String::from_utf8_lossy(&bytes[10..]);
        assert_eq!(
            text.trim_end(),
            "{'descr': '|u1', 'fortran_order': False, 'shape': (5, 7, 2), }"
        );
        assert!(text.ends_with(" \n"));
        let one = header("<i8", &[2]);
        assert!(String::from_utf8_lossy(&one).contains("'shape': (2,), }"));
        assert_eq!(one.len(), 128);
    }

    #[test]
    fn a_wrong_header_is_reported_with_its_offset() {
        let (mut bytes, _) = encode(&Npy, &spec(1, &[10, 10]), 4096);
        bytes.push(0);
        let error = inspect(&Npy, &bytes).unwrap_err().to_string();
        assert_eq!(
            error,
            "file: at byte 228: expected the end of the file, per the shape in the header, \
             found 1 more bytes"
        );
        let error = inspect(&Npy, &bytes[..200]).unwrap_err().to_string();
        assert_eq!(
            error,
            "file: at byte 128: expected an array of 100 bytes, as the header says, \
             found the end of the file at byte 200"
        );
        bytes[0] = b'P';
        let error = inspect(&Npy, &bytes).unwrap_err().to_string();
        assert_eq!(
            error,
            "file: at byte 0: expected the numpy magic (93 4e 55 4d 50 59), \
             found 50 4e 55 4d 50 59"
        );
    }

    proptest! {
        #[test]
        fn the_length_of_a_header_is_predicted(
            shape in proptest::collection::vec(any::<u64>(), 0..5), shift in 0u32..64,
        ) {
            let shape: Vec<u64> = shape.iter().map(|dim| dim >> shift).collect();
            prop_assert_eq!(header_bytes("|u1", &shape), header("|u1", &shape).len() as u64);
        }

        #[test]
        fn written_files_are_found_again(
            samples in 1u64..9, rows in 1u64..200, columns in 1u64..200, blocks in 1usize..20,
        ) {
            let file = spec(samples, &[rows, columns]);
            let (bytes, _) = encode(&Npy, &file, blocks * 4096);
            prop_assert_eq!(Npy.file_bytes(&file), Some(bytes.len() as u64));
            let layout = inspect(&Npy, &bytes).unwrap();
            prop_assert_eq!(layout.samples, samples);
            prop_assert_eq!(layout.payload_bytes(), samples * rows * columns);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = inspect(&Npy, &bytes);
            let mut with_magic = b"\x93NUMPY\x01\x00".to_vec();
            with_magic.extend_from_slice(&bytes);
            let _ = parse("file", 0, &with_magic);
        }

        #[test]
        fn altered_files_are_handled(at in 0usize..228, value: u8, keep in 0usize..228) {
            let (bytes, _) = encode(&Npy, &spec(1, &[10, 10]), 4096);
            assert_robust(&Npy, &bytes, at, value, keep);
        }
    }
}
