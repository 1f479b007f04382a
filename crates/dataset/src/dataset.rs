//! A dataset: every file's name, size, shape and content, decided before a byte is written.

use serde::{Serialize, Serializer};
use stormlp_core::failure::Failure;
use stormlp_core::units::ByteSize;

use crate::content::{Content, FileContent};
use crate::format::csv::Csv;
use crate::format::hdf5::Hdf5;
use crate::format::indexed_binary::IndexedBinary;
use crate::format::jpeg::Jpeg;
use crate::format::npy::Npy;
use crate::format::npz::Npz;
use crate::format::parquet::Parquet;
use crate::format::png::Png;
use crate::format::tfrecord::Tfrecord;
use crate::format::{FileSpec, Format};
use crate::names::{Naming, Split};
use crate::section::{DataFormat, ParquetSpec};
use crate::sizes::{FileSizes, SizeDraw, SizeRule};

/// The parameters of a dataset.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recipe {
    /// The format.
    pub format: DataFormat,
    /// Columns and row groups of parquet files; the default for other formats.
    pub parquet: ParquetSpec,
    /// `file_prefix`.
    pub prefix: String,
    /// Training files.
    pub train_files: u64,
    /// Subfolders of the training files; 0 or 1 for none.
    pub train_subfolders: u64,
    /// Evaluation files.
    pub valid_files: u64,
    /// Subfolders of the evaluation files.
    pub valid_subfolders: u64,
    /// Samples in each file.
    pub samples_per_file: u64,
    /// Sample sizes.
    pub size: SizeRule,
    /// The random number scheme for sizes.
    pub draw: SizeDraw,
    /// The payload of the samples.
    pub content: Content,
    /// The content seed. It does not affect sizes, which follow DLIO.
    pub seed: u64,
}

/// Why a recipe cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecipeError {
    /// It contradicts itself, or its format.
    #[error("{0}")]
    Invalid(String),
    /// This process may not have the memory for the sizes of so many files.
    #[error(
        "the sizes of {files} files need {} of memory, which this process may not have",
        ByteSize(*.bytes)
    )]
    Memory {
        /// The number of files.
        files: u64,
        /// The memory in bytes.
        bytes: u64,
    },
}

impl From<RecipeError> for Failure {
    fn from(error: RecipeError) -> Self {
        match &error {
            RecipeError::Invalid(_) => Self::no_plan(error),
            RecipeError::Memory { .. } => {
                Self::machine(error).with_help("use fewer --files, or allow it more memory")
            }
        }
    }
}

/// All files of a dataset under a single index: training files first.
pub struct Dataset {
    recipe: Recipe,
    format: Box<dyn Format>,
    train: Naming,
    valid: Naming,
    sizes: FileSizes,
    total_bytes: u64,
}

/// More files than this are a mistake: their sizes alone would fill memory.
const MAX_FILES: u64 = 100_000_000;

impl Recipe {
    /// The whole recipe in one line: equal lines mean equal datasets.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{self:?}")
    }

    /// Estimated size of the dataset in bytes: its number of files times the size of a mean one.
    ///
    /// # Errors
    /// Like [`Dataset::new`].
    pub fn estimated_bytes(&self) -> Result<f64, RecipeError> {
        check(self)?;
        let without =
            Self { valid_files: 0, train_subfolders: 0, valid_subfolders: 0, ..self.clone() };
        let one = Dataset::new(Self { train_files: 1, ..without })?;
        let samples = (self.train_files + self.valid_files) as f64 * self.samples_per_file as f64;
        Ok(samples * one.mean_sample_bytes())
    }
}

/// Serialises the recipe, which determines everything else.
impl Serialize for Dataset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.recipe.serialize(serializer)
    }
}

impl Dataset {
    /// Decides every file of `recipe`.
    ///
    /// # Errors
    /// If the recipe is empty, or asks for what the format cannot hold. The message names the key
    /// to change.
    pub fn new(recipe: Recipe) -> Result<Self, RecipeError> {
        check(&recipe)?;
        let files = recipe.train_files + recipe.valid_files;
        let bytes = files.saturating_mul(FileSizes::BYTES_PER_FILE);
        let sizes = FileSizes::try_draw(&recipe.size, files, recipe.draw)
            .map_err(|_| RecipeError::Memory { files, bytes })?;
        let (format, sizes) = build_format(&recipe, sizes)?;
        let naming = |split, files, subfolders| Naming {
            split,
            prefix: recipe.prefix.clone(),
            suffix: recipe.format.name(),
            files,
            subfolders,
        };
        let mut dataset = Self {
            total_bytes: 0,
            train: naming(Split::Train, recipe.train_files, recipe.train_subfolders),
            valid: naming(Split::Valid, recipe.valid_files, recipe.valid_subfolders),
            recipe,
            format,
            sizes,
        };
        dataset.total_bytes = dataset.sum_bytes();
        dataset.check_sizes()?;
        Ok(dataset)
    }

    /// With a different writer and reader, such as one that fails.
    #[cfg(test)]
    pub(crate) fn with_format(self, format: Box<dyn Format>) -> Self {
        Self { format, ..self }
    }

    /// Total number of files.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.recipe.train_files + self.recipe.valid_files
    }

    /// The parameters of the dataset.
    #[must_use]
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The format's writer and reader.
    #[must_use]
    pub fn format(&self) -> &dyn Format {
        &*self.format
    }

    /// The naming of one split.
    #[must_use]
    pub fn naming(&self, split: Split) -> &Naming {
        match split {
            Split::Train => &self.train,
            Split::Valid => &self.valid,
        }
    }

    /// The split that file `index` belongs to, and its number there.
    #[must_use]
    pub fn place(&self, index: u64) -> (Split, u64) {
        match index.checked_sub(self.recipe.train_files) {
            None => (Split::Train, index),
            Some(within) => (Split::Valid, within),
        }
    }

    /// The path of file `index`, relative to the dataset folder.
    #[must_use]
    pub fn path(&self, index: u64) -> String {
        let (split, within) = self.place(index);
        self.naming(split).path(within)
    }

    /// The specification of file `index`.
    #[must_use]
    pub fn file(&self, index: u64) -> FileSpec {
        FileSpec {
            samples: self.recipe.samples_per_file,
            shape: self.sizes.shape(index),
            nominal: self.sizes.nominal().clone(),
            content: FileContent { kind: self.recipe.content, seed: self.recipe.seed, file: index },
        }
    }

    /// The size of file `index` in bytes: exact, except for parquet, whose framing is an upper
    /// estimate.
    #[must_use]
    pub fn expected_bytes(&self, index: u64) -> u64 {
        let file = self.file(index);
        self.format.file_bytes(&file).unwrap_or_else(|| {
            let payload = file.shape.bytes().saturating_mul(file.samples);
            payload.saturating_add(payload / 16).saturating_add(1 << 20)
        })
    }

    /// Whether [`Self::expected_bytes`] is exact.
    #[must_use]
    pub fn sizes_are_exact(&self) -> bool {
        self.recipe.format != DataFormat::Parquet
    }

    /// The mean sample size in bytes, as the workload specifies it.
    #[must_use]
    pub fn mean_sample_bytes(&self) -> f64 {
        match (&self.recipe.format, &self.recipe.size) {
            (DataFormat::Parquet, _) | (_, SizeRule::Shape { .. }) => {
                self.sizes.nominal().bytes() as f64
            }
            (_, SizeRule::Length { mean_bytes, .. }) => *mean_bytes,
        }
    }

    /// Total bytes of all files, exact or estimated like the individual sizes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    fn sum_bytes(&self) -> u64 {
        let files = self.files();
        if self.sizes.is_constant() {
            return self.expected_bytes(0).saturating_mul(files);
        }
        (0..files).fold(0, |sum: u64, index| sum.saturating_add(self.expected_bytes(index)))
    }

    fn check_sizes(&self) -> Result<(), RecipeError> {
        let largest = FileSpec { shape: self.sizes.largest(), ..self.file(0) };
        if self.sizes_are_exact() && self.format.file_bytes(&largest).is_none() {
            return Err(RecipeError::Invalid(format!(
                "{} samples of {} bytes do not fit in a {} file: lower num_samples_per_file or \
                 record_length_bytes",
                self.recipe.samples_per_file,
                largest.shape.bytes(),
                self.recipe.format.name()
            )));
        }
        if self.total_bytes() >= 1 << 62 {
            let message = "the dataset is larger than any storage: lower num_files_train";
            return Err(RecipeError::Invalid(message.to_string()));
        }
        Ok(())
    }
}

fn check(recipe: &Recipe) -> Result<(), RecipeError> {
    let fail = |message: String| Err(RecipeError::Invalid(message));
    let Recipe { train_files: train, valid_files: valid, prefix, .. } = recipe;
    if train.checked_add(*valid).is_none_or(|files| files > MAX_FILES) {
        return fail(format!("{train} + {valid} files: at most {MAX_FILES} can be made"));
    }
    if train + valid == 0 {
        return fail("no files: num_files_train must be 1 or more".to_string());
    }
    if recipe.samples_per_file == 0 {
        return fail("no samples: num_samples_per_file must be 1 or more".to_string());
    }
    if matches!(recipe.format, DataFormat::Jpeg | DataFormat::Png) && recipe.samples_per_file > 1 {
        return fail(format!(
            "a {} file contains one sample: num_samples_per_file is {}",
            recipe.format.name(),
            recipe.samples_per_file
        ));
    }
    if prefix.is_empty() || prefix.starts_with('.') || prefix.contains(['/', '\0']) {
        return fail(format!("file_prefix `{prefix}` is not the start of a file name"));
    }
    for (key, subfolders, files) in [
        ("num_subfolders_train", recipe.train_subfolders, train),
        ("num_subfolders_eval", recipe.valid_subfolders, valid),
    ] {
        if subfolders > 1 && subfolders > *files {
            return fail(format!(
                "{key} is {subfolders}, more than the {files} files to put there"
            ));
        }
    }
    check_size(&recipe.size)
}

fn check_size(size: &SizeRule) -> Result<(), RecipeError> {
    let fail = |message: String| Err(RecipeError::Invalid(message));
    match size {
        SizeRule::Length { mean_bytes, stdev_bytes } => {
            if !mean_bytes.is_finite() || *mean_bytes < 1.0 || *mean_bytes > 1e15 {
                return fail(format!("record_length_bytes is {mean_bytes}: it must be 1 to 1e15"));
            }
            if !stdev_bytes.is_finite() || *stdev_bytes < 0.0 || *stdev_bytes > 1e15 {
                return fail(format!(
                    "record_length_bytes_stdev is {stdev_bytes}: it must be 0 to 1e15"
                ));
            }
        }
        SizeRule::Shape { dims, element_bytes } => {
            let empty = dims.is_empty() || dims.contains(&0) || *element_bytes == 0;
            if empty {
                return fail(format!("record_dims {dims:?} contain no element"));
            }
        }
    }
    Ok(())
}

/// The format. Parquet rows have the size of their columns, regardless of the record length.
fn build_format(
    recipe: &Recipe,
    sizes: FileSizes,
) -> Result<(Box<dyn Format>, FileSizes), RecipeError> {
    Ok(match recipe.format {
        DataFormat::Npz => (Box::new(Npz), sizes),
        DataFormat::Npy => (Box::new(Npy), sizes),
        DataFormat::Tfrecord => (Box::new(Tfrecord), sizes),
        DataFormat::Jpeg => (Box::new(Jpeg), sizes),
        DataFormat::Png => (Box::new(Png), sizes),
        DataFormat::IndexedBinary => (Box::new(IndexedBinary), sizes),
        DataFormat::Hdf5 => (Box::new(Hdf5), sizes),
        DataFormat::Csv => (Box::new(Csv), sizes),
        DataFormat::Parquet => {
            let ParquetSpec { columns, row_group_size, .. } = &recipe.parquet;
            let record_bytes = match &recipe.size {
                SizeRule::Length { mean_bytes, .. } => *mean_bytes as u64,
                SizeRule::Shape { .. } => sizes.nominal().bytes(),
            };
            let parquet = Parquet::new(columns.0.clone(), *row_group_size, record_bytes)
                .map_err(|error| RecipeError::Invalid(error.to_string()))?;
            let row = SizeRule::Shape { dims: vec![parquet.row_bytes()], element_bytes: 1 };
            let sizes = FileSizes::draw(&row, 0, SizeDraw::Shared);
            (Box::new(parquet), sizes)
        }
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Dataset, Recipe};
    use crate::content::Content;
    use crate::names::Split;
    use crate::section::{DataFormat, ParquetSpec};
    use crate::sizes::{SizeDraw, SizeRule};

    pub(crate) fn recipe(format: DataFormat, files: u64) -> Recipe {
        Recipe {
            format,
            parquet: ParquetSpec { row_group_size: 8, ..ParquetSpec::default() },
            prefix: "img".to_string(),
            train_files: files,
            train_subfolders: 0,
            valid_files: 0,
            valid_subfolders: 0,
            samples_per_file: 1,
            size: SizeRule::Length { mean_bytes: 40_000.0, stdev_bytes: 10_000.0 },
            draw: SizeDraw::Shared,
            content: Content::Random,
            seed: 42,
        }
    }

    fn refusal(change: impl FnOnce(&mut Recipe)) -> String {
        let mut recipe = recipe(DataFormat::Npz, 4);
        change(&mut recipe);
        Dataset::new(recipe).err().unwrap().to_string()
    }

    #[test]
    fn evaluation_files_continue_the_index() {
        let mut recipe = recipe(DataFormat::Npz, 3);
        recipe.valid_files = 2;
        let dataset = Dataset::new(recipe).unwrap();
        assert_eq!(dataset.files(), 5);
        assert_eq!(dataset.place(2), (Split::Train, 2));
        assert_eq!(dataset.path(3), "valid/img_0_of_2.npz");
        assert_eq!(dataset.file(4).content.file, 4);
        let sum: u64 = (0..5).map(|index| dataset.expected_bytes(index)).sum();
        assert_eq!(dataset.total_bytes(), sum);
    }

    #[test]
    fn recipes_for_nothing_are_refused() {
        assert!(refusal(|recipe| recipe.train_files = 0).contains("num_files_train"));
        assert!(refusal(|recipe| recipe.train_files = u64::MAX).contains("at most"));
        assert!(refusal(|recipe| recipe.samples_per_file = 0).contains("num_samples_per_file"));
        assert!(refusal(|recipe| recipe.samples_per_file = u64::MAX).contains("do not fit"));
        assert!(refusal(|recipe| recipe.prefix = "../x".to_string()).contains("file_prefix"));
        assert!(refusal(|recipe| recipe.train_subfolders = 9).contains("num_subfolders_train"));
        for bytes in [-1.0, 0.0, f64::NAN, f64::INFINITY, 1e30] {
            let text = refusal(|recipe| {
                recipe.size = SizeRule::Length { mean_bytes: bytes, stdev_bytes: 0.0 };
            });
            assert!(text.starts_with("record_length_bytes is"), "{text}");
        }
    }

    #[test]
    fn parquet_rows_have_the_size_of_their_columns() {
        let format = DataFormat::Parquet;
        let dataset = Dataset::new(recipe(format, 1)).unwrap();
        assert_eq!(dataset.file(0).shape.bytes(), 40_000);
        assert!(!dataset.sizes_are_exact());
    }
}
