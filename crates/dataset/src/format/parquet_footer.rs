//! The footer of a parquet file: row groups, columns, and the positions of their bytes.

use super::bytes::{ByteWindow, ReadAt, Span, read_span};
use super::error::FormatError;

use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaDataReader, RowGroupMetaData};

const MAGIC: &[u8] = b"PAR1";
/// The footer's length and the magic after it.
const TAIL_BYTES: u64 = 8;
/// Larger footers are not read: this is some hundred thousand column chunks.
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
    let wrong =
        |expected: &str, found: String| FormatError::unexpected(name, span.offset, expected, found);
    let metadata = ParquetMetaDataReader::decode_metadata(bytes)
        .map_err(|error| wrong("parquet metadata", format!("malformed metadata ({error})")))?;
    let leaves = metadata.file_metadata().schema_descr().columns();
    let columns = leaves.iter().map(|column| column.path().string()).collect();
    let row_group = |(index, group): (usize, &RowGroupMetaData)| {
        let outside = || "columns outside of the file".to_string();
        let expected = format!("row group {index} before the footer");
        row_group(group, span.offset).ok_or_else(|| wrong(&expected, outside()))
    };
    let row_groups: Vec<RowGroup> =
        metadata.row_groups().iter().enumerate().map(row_group).collect::<Result<_, _>>()?;
    let rows = row_groups.iter().fold(0, |sum: u64, group| sum.saturating_add(group.rows));
    let said = metadata.file_metadata().num_rows();
    if u64::try_from(said) != Ok(rows) {
        let expected = format!("{rows} rows, as in the row groups");
        return Err(wrong(&expected, format!("{said} rows")));
    }
    Ok(Footer { rows, columns, row_groups, span })
}

/// The row group's positions; `None` if they are not before `end`.
fn row_group(group: &RowGroupMetaData, end: u64) -> Option<RowGroup> {
    let span = |chunk: &ColumnChunkMetaData| {
        // It starts with its dictionary, if it has one.
        let offset = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
        let span = Span {
            offset: u64::try_from(offset).ok()?,
            bytes: u64::try_from(chunk.compressed_size()).ok()?,
        };
        (span.end() <= end).then_some(span)
    };
    let chunks = group.columns().iter().map(span).collect::<Option<Vec<Span>>>()?;
    let first = chunks.iter().map(|chunk| chunk.offset).min()?;
    let last = chunks.iter().map(|chunk| chunk.end()).max()?;
    Some(RowGroup {
        rows: u64::try_from(group.num_rows()).ok()?,
        span: Span { offset: first, bytes: last - first },
        chunks,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::parquet::Parquet;
    use super::super::testing::{assert_robust, encode, inspect, spec};
    use super::decode;
    use crate::format::bytes::Span;

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
        let expected = "file: at byte 4: expected parquet metadata, found malformed metadata";
        assert!(text.starts_with(expected), "{text}");
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
