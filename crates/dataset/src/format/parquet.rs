//! Parquet: row groups of plain, uncompressed columns, scalar or fixed-size lists.
//!
//! Values are random bits, so no encoding would save space. Dictionaries are used only for one-byte
//! types, which Parquet would otherwise store in four bytes. Statistics are omitted, since they
//! would describe noise.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

pub use crate::section::{ElementType, ParquetColumn};

use super::bytes::ReadAt;
use super::error::FormatError;
use super::framed::Framer;
use super::{ChunkSink, EncodeError, FileLayout, FileSpec, Finish, Format, Spans, parquet_footer};
use crate::content::{BLOCK_BYTES, FileContent};

pub use super::parquet_footer::{Footer, RowGroup, read_footer};

/// Bytes of values generated and passed to the writer at a time.
const BATCH_BYTES: u64 = 1 << 20;
/// Size of a data page, as readers expect.
const PAGE_BYTES: usize = 1 << 20;

/// The parquet format with a workload's columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parquet {
    columns: Vec<ParquetColumn>,
    row_group_rows: u64,
}

impl Parquet {
    /// Rows of `columns`, with `row_group_rows` in each group. Without columns, a row is one list
    /// of `record_bytes` bytes, as in DLIO.
    ///
    /// # Errors
    /// If a row group has no rows, a column has no elements, or two columns have the same name.
    pub fn new(
        columns: Vec<ParquetColumn>,
        row_group_rows: u64,
        record_bytes: u64,
    ) -> Result<Self, EncodeError> {
        let columns = if columns.is_empty() {
            vec![ParquetColumn {
                name: "data".to_string(),
                dtype: ElementType::Uint8,
                size: record_bytes,
                read: true,
            }]
        } else {
            columns
        };
        if row_group_rows == 0 {
            let message = "parquet.row_group_size is 0: it must be 1 or more";
            return Err(EncodeError::Format(message.to_string()));
        }
        for (index, column) in columns.iter().enumerate() {
            if column.size == 0 || column.size > i32::MAX as u64 {
                return Err(EncodeError::Format(format!(
                    "parquet column `{}` has size {}: it must be 1 to {}",
                    column.name,
                    column.size,
                    i32::MAX
                )));
            }
            if columns[..index].iter().any(|other| other.name == column.name) {
                let message = format!("two parquet columns are named `{}`", column.name);
                return Err(EncodeError::Format(message));
            }
        }
        Ok(Self { columns, row_group_rows })
    }

    /// Bytes of one row before encoding.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        self.columns.iter().fold(0, |sum, column| sum.saturating_add(column.row_bytes()))
    }

    fn schema(&self) -> Result<TypePtr, ParquetError> {
        let fields = self
            .columns
            .iter()
            .map(|column| Ok(Arc::new(schema_of(column)?)))
            .collect::<Result<Vec<_>, ParquetError>>()?;
        let schema = Type::group_type_builder("schema").with_fields(fields);
        Ok(Arc::new(schema.build()?))
    }

    fn properties(&self) -> WriterPropertiesPtr {
        let mut builder = WriterProperties::builder()
            .set_created_by(concat!("stormlp ", env!("CARGO_PKG_VERSION")).to_string())
            .set_compression(Compression::UNCOMPRESSED)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
            .set_dictionary_enabled(false)
            .set_max_row_group_row_count(None)
            .set_data_page_size_limit(PAGE_BYTES)
            .set_data_page_row_count_limit(usize::MAX)
            .set_write_batch_size(16 * 1024);
        for column in self.columns.iter().filter(|column| column.dtype.bytes() == 1) {
            builder = builder.set_column_dictionary_enabled(path_of(column), true);
        }
        Arc::new(builder.build())
    }
}

fn is_list(column: &ParquetColumn) -> bool {
    column.size > 1
}

fn path_of(column: &ParquetColumn) -> ColumnPath {
    let mut parts = vec![column.name.clone()];
    if is_list(column) {
        parts.extend(["list".to_string(), "element".to_string()]);
    }
    ColumnPath::new(parts)
}

fn schema_of(column: &ParquetColumn) -> Result<Type, ParquetError> {
    if !is_list(column) {
        return leaf(&column.name, column.dtype);
    }
    let element = Arc::new(leaf("element", column.dtype)?);
    let list = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![element])
        .build()?;
    Type::group_type_builder(&column.name)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(LogicalType::List))
        .with_fields(vec![Arc::new(list)])
        .build()
}

/// A required column of one type.
fn leaf(name: &str, element: ElementType) -> Result<Type, ParquetError> {
    let integer = |bit_width, is_signed| Some(LogicalType::integer(bit_width, is_signed));
    let (physical, logical, length) = match element {
        ElementType::Bool => (PhysicalType::BOOLEAN, None, 0),
        ElementType::Uint8 => (PhysicalType::INT32, integer(8, false), 0),
        ElementType::Int8 => (PhysicalType::INT32, integer(8, true), 0),
        ElementType::Int16 => (PhysicalType::INT32, integer(16, true), 0),
        ElementType::Int32 => (PhysicalType::INT32, None, 0),
        ElementType::Int64 => (PhysicalType::INT64, None, 0),
        ElementType::Float16 => (PhysicalType::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Float16), 2),
        ElementType::Float32 => (PhysicalType::FLOAT, None, 0),
        ElementType::Float64 => (PhysicalType::DOUBLE, None, 0),
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(logical)
        .with_length(length)
        .build()
}

/// Target of the parquet writer and source of the sink.
#[derive(Clone, Default)]
struct Outlet(Arc<Mutex<Vec<u8>>>);

impl Outlet {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        // Only one thread uses it: a poisoned lock still holds whole bytes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// State of a file being written.
struct Encoder<'a> {
    out: Framer<'a>,
    outlet: Outlet,
    content: FileContent,
    block: u64,
    values: Vec<u8>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

impl Encoder<'_> {
    /// Moves the parquet writer's output into the sink.
    fn drain(&mut self) -> Result<(), EncodeError> {
        let mut written = self.outlet.lock();
        self.out.literal(&written)?;
        written.clear();
        Ok(())
    }

    /// Writes `rows` rows of one column.
    fn column(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, Outlet>,
        column: &ParquetColumn,
        rows: u64,
    ) -> Result<(), EncodeError> {
        let Some(mut writer) = group.next_column().map_err(failed)? else {
            return Err(EncodeError::Format("parquet: too many columns".to_string()));
        };
        let batch = (BATCH_BYTES / column.row_bytes()).max(1);
        let mut left = rows;
        while left > 0 {
            let now = left.min(batch);
            self.fill(now * column.row_bytes());
            self.levels(column, now);
            self.write_values(writer.untyped(), column)?;
            self.drain()?;
            left -= now;
        }
        writer.close().map_err(failed)?;
        self.drain()
    }

    fn fill(&mut self, bytes: u64) {
        self.values.resize(bytes as usize, 0);
        self.content.fill(self.block, &mut self.values);
        self.block += bytes.div_ceil(BLOCK_BYTES as u64);
    }

    /// The levels of `rows` lists: no list or element is null.
    fn levels(&mut self, column: &ParquetColumn, rows: u64) {
        self.definitions.clear();
        self.repetitions.clear();
        if is_list(column) {
            let values = (rows * column.size) as usize;
            self.definitions.resize(values, 1);
            self.repetitions.resize(values, 1);
            let starts = self.repetitions.iter_mut().step_by(column.size as usize);
            starts.for_each(|level| *level = 0);
        }
    }

    fn write_values(
        &mut self,
        writer: &mut ColumnWriter<'_>,
        column: &ParquetColumn,
    ) -> Result<(), EncodeError> {
        let list = is_list(column);
        let definitions = list.then_some(&self.definitions[..]);
        let repetitions = list.then_some(&self.repetitions[..]);
        let bytes = &self.values;
        let written = match writer {
            ColumnWriter::BoolColumnWriter(writer) => {
                let values: Vec<bool> = bytes.iter().map(|byte| byte & 1 == 1).collect();
                writer.write_batch(&values, definitions, repetitions)
            }
            ColumnWriter::Int32ColumnWriter(writer) => {
                let values = int32_values(bytes, column.dtype);
                writer.write_batch(&values, definitions, repetitions)
            }
            ColumnWriter::Int64ColumnWriter(writer) => {
                let values: Vec<i64> = words(bytes, i64::from_le_bytes);
                writer.write_batch(&values, definitions, repetitions)
            }
            ColumnWriter::FloatColumnWriter(writer) => {
                let values: Vec<f32> = words(bytes, f32::from_le_bytes);
                writer.write_batch(&values, definitions, repetitions)
            }
            ColumnWriter::DoubleColumnWriter(writer) => {
                let values: Vec<f64> = words(bytes, f64::from_le_bytes);
                writer.write_batch(&values, definitions, repetitions)
            }
            ColumnWriter::FixedLenByteArrayColumnWriter(writer) => {
                let whole = ByteArray::from(bytes.clone());
                let values: Vec<FixedLenByteArray> =
                    (0..bytes.len() / 2).map(|index| whole.slice(2 * index, 2).into()).collect();
                writer.write_batch(&values, definitions, repetitions)
            }
            _ => Err(ParquetError::General("a column of another type".to_string())),
        };
        written.map(drop).map_err(failed)
    }
}

fn int32_values(bytes: &[u8], element: ElementType) -> Vec<i32> {
    match element {
        ElementType::Uint8 => bytes.iter().map(|byte| i32::from(*byte)).collect(),
        ElementType::Int8 => bytes.iter().map(|byte| i32::from(*byte as i8)).collect(),
        ElementType::Int16 => words(bytes, |word| i32::from(i16::from_le_bytes(word))),
        _ => words(bytes, i32::from_le_bytes),
    }
}

/// The bytes as N-byte values.
fn words<const N: usize, T>(bytes: &[u8], value: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|word| value(*word)).collect()
}

fn failed(error: ParquetError) -> EncodeError {
    EncodeError::Format(format!("parquet: {error}"))
}

impl Format for Parquet {
    fn file_bytes(&self, _file: &FileSpec) -> Option<u64> {
        None
    }

    fn encode(&self, file: &FileSpec, sink: &mut dyn ChunkSink) -> Result<Finish, EncodeError> {
        let outlet = Outlet::default();
        let schema = self.schema().map_err(failed)?;
        let mut writer =
            SerializedFileWriter::new(outlet.clone(), schema, self.properties()).map_err(failed)?;
        let mut encoder = Encoder {
            out: Framer::without_content(sink),
            outlet,
            content: file.content,
            block: 0,
            values: Vec::new(),
            definitions: Vec::new(),
            repetitions: Vec::new(),
        };
        let mut left = file.samples;
        while left > 0 {
            let rows = left.min(self.row_group_rows);
            let mut group = writer.next_row_group().map_err(failed)?;
            for column in &self.columns {
                encoder.column(&mut group, column, rows)?;
            }
            group.close().map_err(failed)?;
            left -= rows;
        }
        writer.close().map_err(failed)?;
        encoder.drain()?;
        encoder.out.end(Finish::default())
    }

    fn inspect(&self, name: &str, source: &mut dyn ReadAt) -> Result<FileLayout, FormatError> {
        let footer = parquet_footer::read_footer(name, source)?;
        Ok(FileLayout {
            samples: footer.rows,
            spans: Spans::Each(footer.row_groups.iter().map(|group| group.span).collect()),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stormlp_core::names::VariantArray;

    use super::super::testing::{column, encode, inspect, spec};
    use super::{Parquet, read_footer};
    use crate::section::{ElementType, ParquetColumn};

    fn every_type() -> Vec<ParquetColumn> {
        ElementType::VARIANTS
            .iter()
            .enumerate()
            .map(|(index, element)| {
                column(&format!("c{index}"), *element, 1 + 2 * (index as u64 % 2))
            })
            .collect()
    }

    #[test]
    fn without_columns_a_row_is_a_list_of_bytes() {
        let format = Parquet::new(Vec::new(), 10, 700).unwrap();
        assert_eq!(format.row_bytes(), 700);
        let (bytes, _) = encode(&format, &spec(25, &[700]), 8192);
        let mut source = &bytes[..];
        let footer = read_footer("file", &mut source).unwrap();
        assert_eq!(footer.columns, ["data.list.element"]);
        let rows: Vec<u64> = footer.row_groups.iter().map(|group| group.rows).collect();
        assert_eq!(rows, [10, 10, 5]);
        // Bytes are dictionary-coded: about one byte each instead of Parquet's four.
        assert!(bytes.len() < 2 * 25 * 700, "{}", bytes.len());
    }

    #[test]
    fn faulty_columns_are_refused() {
        let twice = vec![column("a", ElementType::Int8, 1), column("a", ElementType::Int8, 1)];
        let error = Parquet::new(twice, 10, 1).unwrap_err();
        assert_eq!(error.to_string(), "two parquet columns are named `a`");
        let empty = vec![column("a", ElementType::Int8, 0)];
        assert!(Parquet::new(empty, 10, 1).is_err());
        assert!(Parquet::new(Vec::new(), 0, 1).is_err());
        assert!(Parquet::new(Vec::new(), 1, 0).is_err());
    }

    #[test]
    fn columns_are_where_the_footer_places_them() {
        let columns =
            vec![column("a", ElementType::Float32, 1000), column("b", ElementType::Float64, 1)];
        let format = Parquet::new(columns, 8, 1).unwrap();
        let (bytes, _) = encode(&format, &spec(16, &[1]), 4096);
        let mut source = &bytes[..];
        let footer = read_footer("file", &mut source).unwrap();
        let group = &footer.row_groups[1];
        assert_eq!(group.chunks.len(), 2);
        assert_eq!(group.span.offset, group.chunks[0].offset);
        assert_eq!(group.span.end(), group.chunks[1].end());
        assert!(group.chunks[0].bytes >= 8 * 4000);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn written_files_are_found_again(
            samples in 1u64..200, group in 1u64..100, blocks in 1usize..20,
        ) {
            let format = Parquet::new(every_type(), group, 1).unwrap();
            let file = spec(samples, &[1]);
            let (bytes, _) = encode(&format, &file, blocks * 4096);
            let layout = inspect(&format, &bytes).unwrap();
            prop_assert_eq!(layout.samples, samples);
            prop_assert!(layout.payload_bytes() < bytes.len() as u64);
            prop_assert_eq!(bytes, encode(&format, &file, 4096).0);
        }
    }
}
