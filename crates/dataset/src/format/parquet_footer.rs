//! The footer of a parquet file: row groups, columns, and the positions of their bytes.

use super::bytes::{ByteWindow, ReadAt, Span, read_span};
use super::error::FormatError;
use super::thrift::{BINARY, I64, LIST, STRUCT, ThriftReader};

const MAGIC: &[u8] = b"PAR1";
/// The footer's length and the magic after it.
const TAIL_BYTES: u64 = 8;
/// Larger footers are not read: this is some ten million column chunks.
const MAX_FOOTER_BYTES: u64 = 1 << 30;

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
    let wrong = |at: u64, expected: &str, found: String| {
        FormatError::unexpected(name, span.offset + at, expected, found)
    };
    let mut reader = ThriftReader::new(bytes);
    let Some((said, groups)) = metadata(&mut reader) else {
        let found = "malformed metadata".to_string();
        return Err(wrong(reader.position(), "parquet metadata", found));
    };
    let paths = |group: &StoredGroup| -> Vec<String> {
        let chunks = group.chunks.iter();
        chunks.map(|chunk| chunk.path.join(".")).collect()
    };
    let columns = groups.first().map(paths).unwrap_or_default();
    let row_group = |(index, group): (usize, &StoredGroup)| {
        let found = match row_group(group, span.offset) {
            Some(places) if paths(group) == columns => return Ok(places),
            Some(_) => "columns that differ from the first row group's",
            None => "columns outside of the file",
        };
        let expected = format!("row group {index} before the footer");
        Err(wrong(0, &expected, found.to_string()))
    };
    let row_groups: Vec<RowGroup> =
        groups.iter().enumerate().map(row_group).collect::<Result<_, _>>()?;
    let rows = row_groups.iter().fold(0, |sum: u64, group| sum.saturating_add(group.rows));
    if u64::try_from(said) != Ok(rows) {
        let expected = format!("{rows} rows, as in the row groups");
        return Err(wrong(0, &expected, format!("{said} rows")));
    }
    Ok(Footer { rows, columns, row_groups, span })
}

/// A row group as stored in the footer.
struct StoredGroup<'a> {
    rows: i64,
    chunks: Vec<StoredChunk<'a>>,
}

/// One column's bytes in a row group, as stored in the footer.
struct StoredChunk<'a> {
    path: Vec<&'a str>,
    offset: i64,
    bytes: i64,
}

/// The file's number of rows and its row groups. Field numbers here and below are those of
/// parquet.thrift.
fn metadata<'a>(reader: &mut ThriftReader<'a>) -> Option<(i64, Vec<StoredGroup<'a>>)> {
    let (mut rows, mut groups) = (None, Vec::new());
    reader.structure(|reader, field| {
        match field {
            (3, I64) => rows = Some(reader.integer()?),
            (4, LIST) => reader.list(STRUCT, |reader| {
                groups.push(group(reader)?);
                Some(())
            })?,
            (_, kind) => reader.skip(kind)?,
        }
        Some(())
    })?;
    Some((rows?, groups))
}

fn group<'a>(reader: &mut ThriftReader<'a>) -> Option<StoredGroup<'a>> {
    let (mut rows, mut chunks) = (None, Vec::new());
    reader.structure(|reader, field| {
        match field {
            (1, LIST) => reader.list(STRUCT, |reader| {
                let mut found = None;
                reader.structure(|reader, field| {
                    match field {
                        (3, STRUCT) => found = Some(chunk(reader)?),
                        (_, kind) => reader.skip(kind)?,
                    }
                    Some(())
                })?;
                chunks.push(found?);
                Some(())
            })?,
            (3, I64) => rows = Some(reader.integer()?),
            (_, kind) => reader.skip(kind)?,
        }
        Some(())
    })?;
    let rows = rows?;
    Some(StoredGroup { rows, chunks })
}

fn chunk<'a>(reader: &mut ThriftReader<'a>) -> Option<StoredChunk<'a>> {
    let (mut path, mut bytes, mut data, mut dictionary) = (Vec::new(), None, None, None);
    reader.structure(|reader, field| {
        match field {
            (3, LIST) => reader.list(BINARY, |reader| {
                path.push(reader.text()?);
                Some(())
            })?,
            (7, I64) => bytes = Some(reader.integer()?),
            (9, I64) => data = Some(reader.integer()?),
            (11, I64) => dictionary = Some(reader.integer()?),
            (_, kind) => reader.skip(kind)?,
        }
        Some(())
    })?;
    Some(StoredChunk {
        path,
        // It starts with its dictionary, if it has one.
        offset: dictionary.or(data)?,
        bytes: bytes?,
    })
}

/// The row group's positions; `None` if they are not before `end`.
fn row_group(group: &StoredGroup, end: u64) -> Option<RowGroup> {
    let span = |chunk: &StoredChunk| {
        let span = Span {
            offset: u64::try_from(chunk.offset).ok()?,
            bytes: u64::try_from(chunk.bytes).ok()?,
        };
        (span.end() <= end).then_some(span)
    };
    let chunks = (group.chunks.iter().map(span)).collect::<Option<Vec<Span>>>()?;
    let first = chunks.iter().map(|chunk| chunk.offset).min()?;
    let last = chunks.iter().map(|chunk| chunk.end()).max()?;
    Some(RowGroup {
        rows: u64::try_from(group.rows).ok()?,
        span: Span { offset: first, bytes: last - first },
        chunks,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use parquet::file::metadata::ParquetMetaDataReader;

    use super::super::parquet::Parquet;
    use super::super::testing::{assert_robust, column, encode, inspect, spec};
    use super::{decode, read_footer};
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
        assert_eq!(text, "file: at byte 12: expected parquet metadata, found malformed metadata");
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
