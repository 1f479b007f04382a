//! The `dataset` section of a workload: the files that a run reads.

use derive_more::{Deref, DerefMut};
use serde::{Deserialize, Serialize};
use serde_yaml::Value;
use stormlp_core::names::{Named, unknown};
use stormlp_core::workload_file::Field;
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

/// Storage format of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[derive(Display, EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "snake_case", parse_err_ty = String, parse_err_fn = not_read)]
pub enum DataFormat {
    /// Zip of numpy arrays, stored.
    Npz,
    /// One numpy array.
    Npy,
    /// TensorFlow's record file.
    Tfrecord,
    /// JPEG images; v3.0's DLIO generates raw bytes under that name.
    Jpeg,
    /// PNG images; v3.0's DLIO generates raw bytes under that name.
    Png,
    /// Concatenated samples with offset and size files.
    IndexedBinary,
    /// HDF5 with the samples in one unchunked array.
    Hdf5,
    /// A table of numbers as text, one sample per row.
    Csv,
    /// Column store with row groups.
    Parquet,
}

impl Named for DataFormat {
    const WHAT: &'static str = "a format that stormlp reads";
}

/// Why a format is not supported.
fn not_read(name: &str) -> String {
    if name == "mmap_indexed_binary" {
        return "`mmap_indexed_binary` is not emulated: DLIO maps these files and never touches the \
                samples; use indexed_binary, which reads them"
            .to_string();
    }
    unknown::<DataFormat>(name)
}

impl DataFormat {
    /// The name in YAML, also the suffix of the files.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// `dataset`: the data on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DatasetSpec {
    /// `data_folder`; overridden by `--dir` on the command line.
    pub data_folder: Option<String>,
    /// `format`.
    pub format: DataFormat,
    /// `file_prefix`.
    pub file_prefix: String,
    /// `num_files_train`.
    pub num_files_train: u64,
    /// `num_files_eval`.
    pub num_files_eval: u64,
    /// `num_subfolders_train`; 0 or 1 for none.
    pub num_subfolders_train: u64,
    /// `num_subfolders_eval`; 0 or 1 for none.
    pub num_subfolders_eval: u64,
    /// `num_samples_per_file`.
    pub num_samples_per_file: u64,
    /// `record_length_bytes`; MLPerf's files have fractions here. For parquet, the bytes per row.
    pub record_length_bytes: f64,
    /// `record_length_bytes_stdev`.
    pub record_length_bytes_stdev: f64,
    /// `record_length_bytes_resize`: the size of the dummy tensor a real loader would copy.
    pub record_length_bytes_resize: f64,
    /// `record_dims`: the exact shape of a sample, if given.
    pub record_dims: Vec<u64>,
    /// Bytes of one element of `record_element_type`.
    pub record_element_bytes: u64,
    /// `parquet`; without columns for the other formats.
    pub parquet: ParquetSpec,
}

impl DatasetSpec {
    /// Nominal bytes of the training data: files × samples × record length.
    pub fn train_bytes(&self) -> f64 {
        self.num_files_train as f64 * self.num_samples_per_file as f64 * self.record_length_bytes
    }
}

/// `dataset.parquet`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ParquetSpec {
    /// The columns of one row.
    pub columns: ParquetColumns,
    /// Rows per row group.
    pub row_group_size: u64,
    /// Rows generated at a time; 0 means one row group.
    pub generation_batch_size: u64,
}

/// One column, or a series of columns, of a parquet file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ParquetColumn {
    /// The column's name.
    pub name: String,
    /// Element type.
    #[serde(default, alias = "type")]
    pub dtype: ElementType,
    /// Elements per row; above 1 the column is a fixed-size list.
    #[serde(default = "one")]
    pub size: u64,
    /// Whether training reads the column.
    #[serde(default = "yes")]
    pub read: bool,
}

fn one() -> u64 {
    1
}

fn yes() -> bool {
    true
}

impl ParquetColumn {
    /// Payload bytes per row of this column.
    pub fn row_bytes(&self) -> u64 {
        self.dtype.bytes().saturating_mul(self.size)
    }
}

/// The element types of parquet columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[allow(missing_docs, reason = "the names are what they are in numpy")]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum ElementType {
    #[default]
    Uint8,
    Int8,
    Int16,
    Int32,
    Int64,
    Float16,
    Float32,
    Float64,
    Bool,
}

impl Named for ElementType {
    const WHAT: &'static str = "an element type";
}

impl ElementType {
    /// Size of one element in memory, in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Uint8 | Self::Int8 | Self::Bool => 1,
            Self::Int16 | Self::Float16 => 2,
            Self::Int32 | Self::Float32 => 4,
            Self::Int64 | Self::Float64 => 8,
        }
    }

    /// The name in YAML.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Default for DatasetSpec {
    fn default() -> Self {
        Self {
            data_folder: None,
            format: DataFormat::Tfrecord,
            file_prefix: "img".to_string(),
            num_files_train: 8,
            num_files_eval: 0,
            num_subfolders_train: 0,
            num_subfolders_eval: 0,
            num_samples_per_file: 1,
            record_length_bytes: 65_536.0,
            record_length_bytes_stdev: 0.0,
            record_length_bytes_resize: 0.0,
            record_dims: Vec::new(),
            record_element_bytes: 1,
            parquet: ParquetSpec {
                columns: ParquetColumns::default(),
                row_group_size: 1024,
                generation_batch_size: 0,
            },
        }
    }
}

/// The columns of parquet files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, Deref, DerefMut)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ParquetColumns(pub Vec<ParquetColumn>);

impl Field for ParquetColumns {
    /// Parses maps with `name`, `dtype`, `size`, `read` (default True).
    fn read(&mut self, value: &Value) -> Result<(), String> {
        let columns: Vec<ParquetColumn> =
            serde_yaml::from_value(value.clone()).map_err(|error| format!(": {error}"))?;
        if let Some(column) = columns.iter().find(|column| column.size == 0) {
            let name = &column.name;
            return Err(format!(": `size` of {name} must be a whole number of 1 or more"));
        }
        self.0 = columns;
        Ok(())
    }

    fn write(&self) -> Value {
        serde_yaml::to_value(self).expect("plain values are YAML")
    }
}
