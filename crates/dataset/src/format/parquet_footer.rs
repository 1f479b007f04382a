//! The footer of a parquet file: row groups, columns, and the positions of their bytes.

use super::bytes::{ByteWindow, ReadAt, Span, read_span};
use super::error::FormatError;

const MAGIC: &[u8] = b"PAR1";
/// The footer's length and the magic after it.
const TAIL_BYTES: u64 = 8;
/// Larger footers are not read: this is some million column chunks.
const MAX_FOOTER_BYTES: u64 = 64 << 20;

/// The contents of a footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// Rows in the file.
    pub rows: u64,
    /// The columns' paths, `name` or `name.list.element`, in chunk order.
    pub columns: Vec<String>,
    /// The row groups in order.
    pub row_groups: Vec<RowGroup>,
    /// Position of the footer: its metadata, length and magic.
    pub span: Span,
}

/// One row group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowGroup {
    /// Its rows.
    pub rows: u64,
    /// The range from its first byte to its last.
    pub span: Span,
    /// The chunk of each column.
    pub chunks: Vec<Span>,
}

/// Reads the footer of the file `name`.
///
/// # Errors
/// If the file is not a parquet file, or its footer points outside it.
pub fn read_footer(name: &str, source: &mut dyn ReadAt) -> Result<Footer, FormatError> {
    let file_bytes = source.file_bytes();
    let magic_bytes = MAGIC.len() as u64;
    let Some(tail_offset) = file_bytes.checked_sub(TAIL_BYTES).filter(|at| *at >= magic_bytes)
    else {
        let expected = "a parquet file of at least 12 bytes";
        return Err(FormatError::truncated(name, 0, expected, file_bytes));
    };
    let head = Span { offset: 0, bytes: magic_bytes };
    let head = read_span(name, source, head, "the parquet magic")?;
    ByteWindow::new(name, 0, &head).expect(0, MAGIC, "the parquet magic")?;
    let tail = Span { offset: tail_offset, bytes: TAIL_BYTES };
    let tail = read_span(name, source, tail, "the parquet tail")?;
    let window = ByteWindow::new(name, tail_offset, &tail);
    window.expect(4, MAGIC, "the parquet magic")?;
    let length = u64::from(window.u32(0, "the footer's length")?);
    if length > MAX_FOOTER_BYTES || length + magic_bytes > tail_offset {
        let expected = format!("a footer between byte 4 and byte {tail_offset}");
        return Err(window.wrong(0, expected, format!("a length of {length} bytes")));
    }
    let span = Span { offset: tail_offset - length, bytes: length + TAIL_BYTES };
    let metadata = Span { bytes: length, ..span };
    let bytes = read_span(name, source, metadata, "the parquet footer")?;
    decode(name, span, &bytes)
}

/// Decodes the footer's metadata, which is at the start of `span`.
fn decode(name: &str, span: Span, bytes: &[u8]) -> Result<Footer, FormatError> {
    let wrong = |expected: &str, found: &str| {
        Err(FormatError::unexpected(name, span.offset, expected, found))
    };
    let mut rest = bytes;
    let stored = Value::read(&mut rest, STRUCT, MOST_NESTED);
    // Field numbers here and below are parquet.thrift's.
    let parts = stored.as_ref().and_then(|stored| Some((stored.integer(3)?, stored.list(4)?)));
    let Some((rows, groups)) = parts else {
        return wrong("parquet metadata", "malformed metadata");
    };
    let mut footer = Footer { rows: 0, columns: Vec::new(), row_groups: Vec::new(), span };
    for (index, group) in groups.iter().enumerate() {
        let expected = format!("row group {index} before the footer");
        let Some((columns, group)) = row_group(group, span.offset) else {
            return wrong(&expected, "malformed metadata, or columns outside of the file");
        };
        if index == 0 {
            footer.columns = columns;
        } else if columns != footer.columns {
            return wrong(&expected, "columns that differ from the first row group's");
        }
        footer.rows = footer.rows.saturating_add(group.rows);
        footer.row_groups.push(group);
    }
    if rows != footer.rows {
        let expected = format!("{} rows, as in the row groups", footer.rows);
        return wrong(&expected, &format!("{rows} rows"));
    }
    Ok(footer)
}

/// The paths of the columns of a row group, and its positions; `None` if they are not before `end`.
fn row_group(group: &Value<'_>, end: u64) -> Option<(Vec<String>, RowGroup)> {
    let (mut columns, mut chunks) = (Vec::new(), Vec::new());
    for chunk in group.list(1)? {
        let chunk = chunk.field(3)?;
        let path = chunk.list(3)?.iter().map(Value::text).collect::<Option<Vec<&str>>>()?;
        columns.push(path.join("."));
        // It starts with its dictionary, if it has one.
        let offset = chunk.integer(11).or(chunk.integer(9))?;
        let span = Span { offset, bytes: chunk.integer(7)? };
        chunks.push(Some(span).filter(|span| span.end() <= end)?);
    }
    let first = chunks.iter().map(|chunk| chunk.offset).min()?;
    let last = chunks.iter().map(|chunk| chunk.end()).max()?;
    let span = Span { offset: first, bytes: last - first };
    Some((columns, RowGroup { rows: group.integer(3)?, span, chunks }))
}

/// The deepest nesting of structs and lists.
const MOST_NESTED: u32 = 64;
/// The type of a struct.
const STRUCT: u8 = 12;

/// A value in Thrift's compact protocol.
///
/// Reading terminates for any input: every element of a list or map consumes at least one remaining
/// byte, and no allocation is based on a count alone.
enum Value<'a> {
    Integer(i64),
    Bytes(&'a [u8]),
    List(Vec<Self>),
    /// The fields by their numbers.
    Struct(Vec<(i64, Self)>),
}

impl<'a> Value<'a> {
    /// Reads a value of type `kind` from `rest`; `None` for invalid input.
    fn read(rest: &mut &'a [u8], kind: u8, depth: u32) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        Some(match kind {
            1..=3 => Self::Bytes(take(rest, 1)?),
            4..=6 => Self::Integer(integer(rest)?),
            7 => Self::Bytes(take(rest, 8)?),
            8 => {
                let bytes = number(rest)?;
                Self::Bytes(take(rest, bytes)?)
            }
            // A list or a set.
            9 | 10 => {
                let header = take(rest, 1)?[0];
                let count = if header >> 4 == 15 { number(rest)? } else { u64::from(header >> 4) };
                let elements = (0..count).map(|_| Self::read(rest, header & 0xf, depth));
                Self::List(elements.collect::<Option<_>>()?)
            }
            // A map.
            11 => {
                let count = number(rest)?;
                let kinds = if count > 0 { take(rest, 1)?[0] } else { 0 };
                let kinds = [kinds >> 4, kinds & 0xf].repeat(usize::from(count > 0));
                let parts = (0..count).flat_map(|_| kinds.clone());
                let parts = parts.map(|kind| Self::read(rest, kind, depth));
                Self::List(parts.collect::<Option<_>>()?)
            }
            STRUCT => Self::Struct(fields(rest, depth)?),
            13 => Self::Bytes(take(rest, 16)?),
            _ => return None,
        })
    }

    fn field(&self, number: i64) -> Option<&Self> {
        let Self::Struct(fields) = self else { return None };
        fields.iter().find(|(of, _)| *of == number).map(|(_, value)| value)
    }

    /// A field with an integer from 0.
    fn integer(&self, number: i64) -> Option<u64> {
        let Self::Integer(value) = self.field(number)? else { return None };
        u64::try_from(*value).ok()
    }

    fn list(&self, number: i64) -> Option<&[Self]> {
        let Self::List(values) = self.field(number)? else { return None };
        Some(values)
    }

    fn text(&self) -> Option<&'a str> {
        let Self::Bytes(bytes) = self else { return None };
        std::str::from_utf8(bytes).ok()
    }
}

/// The fields of a struct.
fn fields<'a>(rest: &mut &'a [u8], depth: u32) -> Option<Vec<(i64, Value<'a>)>> {
    let (mut fields, mut number) = (Vec::new(), 0i64);
    loop {
        let header = take(rest, 1)?[0];
        if header == 0 {
            return Some(fields);
        }
        number = match header >> 4 {
            // Given in full instead of as a difference.
            0 => integer(rest)?,
            step => number.checked_add(i64::from(step))?,
        };
        let value = match header & 0xf {
            // The value of a boolean field is in its type.
            kind @ (1 | 2) => Value::Integer(i64::from(kind == 1)),
            kind => Value::read(rest, kind, depth)?,
        };
        fields.push((number, value));
    }
}

fn take<'a>(rest: &mut &'a [u8], bytes: u64) -> Option<&'a [u8]> {
    rest.split_off(..usize::try_from(bytes).ok()?)
}

/// A varint: seven bits per byte, lowest first.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn integer(rest: &mut &[u8]) -> Option<i64> {
    let zigzag = number(rest)?;
    Some((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use parquet::file::metadata::ParquetMetaDataReader;

    use super::super::parquet::Parquet;
    use super::super::testing::{assert_robust, column, encode, inspect, spec};
    use super::{MOST_NESTED, decode, fields, read_footer};
    use crate::format::bytes::Span;
    use crate::section::ElementType;

    #[test]
    fn faults_are_named() {
        let format = Parquet::new(Vec::new(), 10, 100).unwrap();
        let (mut bytes, _) = encode(&format, &spec(20, &[100]), 4096);
        let error = inspect(&format, &bytes[..bytes.len() - 1]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("expected the parquet magic (50 41 52 31)"), "{text}");
        let at = bytes.len() - 8;
        bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        let text = inspect(&format, &bytes).unwrap_err().to_string();
        assert_eq!(
            text,
            format!(
                "file: at byte {at}: expected a footer between byte 4 and byte {at}, \
                 found a length of 4294967295 bytes"
            )
        );
    }

    /// Found by fuzzing: a decoder iterated for minutes over a list without bytes.
    #[test]
    fn a_footer_that_claims_endless_lists_is_refused_at_once() {
        let bytes = b"\x0b\x11\xff\xff\xff\xdb\x04\x11";
        let span = Span { offset: 4, bytes: 16 };
        let text = decode("file", span, bytes).unwrap_err().to_string();
        assert_eq!(text, "file: at byte 4: expected parquet metadata, found malformed metadata");
    }

    fn read(bytes: &[u8]) -> Option<u64> {
        let mut rest = bytes;
        fields(&mut rest, MOST_NESTED)?;
        Some((bytes.len() - rest.len()) as u64)
    }

    #[test]
    fn collections_take_the_bytes_that_they_claim() {
        // A list, a set and a map of booleans with a claimed length of 2^31 - 1, and such a list in
        // a struct.
        assert_eq!(read(b"\xf9\xf1\xff\xff\xff\xff\x07"), None);
        assert_eq!(read(b"\xfa\xf2\xff\xff\xff\xff\x07"), None);
        assert_eq!(read(b"\xfb\xff\xff\xff\xff\x07\x11"), None);
        assert_eq!(read(b"\x19\x1c\xf9\xf1\xff\xff\xff\xff\x07\0\0"), None);
        assert_eq!(read(b"\x19\x21\x01\x02\0"), Some(5));
    }

    #[test]
    fn truncated_or_too_deeply_nested_input_is_not_a_struct() {
        assert_eq!(read(b"\x11\x12\0rest"), Some(3));
        assert_eq!(read(b"\x19\x01\0"), Some(3));
        assert_eq!(read(b""), None);
        assert_eq!(read(b"\x18\x7f"), None);
        assert_eq!(read(&[0x1c; 500]), None);
    }

    /// The parquet crate's own decoder gives the same result.
    #[test]
    fn the_layout_found_matches_the_writer() {
        let columns =
            vec![column("a", ElementType::Float32, 3), column("b", ElementType::Uint8, 1)];
        let format = Parquet::new(columns, 7, 1).unwrap();
        let (bytes, _) = encode(&format, &spec(20, &[1]), 4096);
        let footer = read_footer("file", &mut &bytes[..]).unwrap();
        let start = footer.span.offset as usize;
        let theirs =
            ParquetMetaDataReader::decode_metadata(&bytes[start..bytes.len() - 8]).unwrap();
        assert_eq!(footer.rows, theirs.file_metadata().num_rows() as u64);
        assert_eq!(footer.row_groups.len(), theirs.num_row_groups());
        for (ours, theirs) in footer.row_groups.iter().zip(theirs.row_groups()) {
            assert_eq!(ours.rows, theirs.num_rows() as u64);
            for ((place, path), theirs) in
                ours.chunks.iter().zip(&footer.columns).zip(theirs.columns())
            {
                assert_eq!(*path, theirs.column_path().string());
                assert_eq!((place.offset, place.bytes), theirs.byte_range());
            }
        }
    }

    proptest! {
        #[test]
        fn no_footer_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let span = Span { offset: 4, bytes: bytes.len() as u64 + 8 };
            let _ = decode("file", span, &bytes);
        }

        #[test]
        fn altered_files_are_handled(from_end in 0usize..400, value: u8, keep in 0usize..4000) {
            let format = Parquet::new(Vec::new(), 10, 100).unwrap();
            let (bytes, _) = encode(&format, &spec(20, &[100]), 4096);
            let at = bytes.len().saturating_sub(from_end + 1);
            assert_robust(&format, &bytes, at, value, keep);
        }
    }
}
