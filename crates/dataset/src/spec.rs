//! Conversion of a workload's `dataset` section to a recipe.

use crate::section::{DataFormat, DatasetSpec, ParquetSpec};
use stormlp_core::numbers::whole;
use stormlp_core::profile::Profile;
use stormlp_core::transport::EngineChoice;
use stormlp_core::tune::Tuned;

use crate::content::Content;
use crate::dataset::Recipe;
use crate::sizes::{SizeDraw, SizeRule};

/// Default content seed.
pub const DEFAULT_SEED: u64 = 42;

/// Dataset options that a workload does not specify.
#[derive(Debug, Clone, PartialEq, Default, clap::Args)]
pub struct DatasetDefaults {
    /// Content of samples: random, constant
    #[arg(long, value_name = "KIND", default_value_t = Content::Random)]
    pub content: Content,

    /// Rarely needed settings.
    #[command(flatten)]
    pub tune: Tuned<DatasetTune>,
}

/// The keys of `--tune` for a new dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub struct DatasetTune {
    /// Seed for the content; sizes are DLIO's, whatever it is
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED,
        value_parser = whole::<u64>(..))]
    pub seed: u64,

    /// Number of DLIO's ranks; with edition 3.0, each draws the sizes of its files
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = whole::<u32>(1..))]
    pub ranks: u32,

    /// I/O engine: auto, uring, tokio-uring, psync
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub engine: EngineChoice,
}

/// One rank.
impl Default for DatasetTune {
    fn default() -> Self {
        Self { seed: DEFAULT_SEED, ranks: 1, engine: EngineChoice::Auto }
    }
}

/// The recipe of a workload's dataset; `profile` determines how sizes are drawn.
#[must_use]
pub fn recipe(spec: &DatasetSpec, profile: Profile, making: &DatasetDefaults) -> Recipe {
    let size = if spec.record_dims.is_empty() {
        SizeRule::Length {
            mean_bytes: spec.record_length_bytes,
            stdev_bytes: spec.record_length_bytes_stdev,
        }
    } else {
        SizeRule::Shape { dims: spec.record_dims.clone(), element_bytes: spec.record_element_bytes }
    };
    let draw = match profile {
        Profile::V3 => SizeDraw::PerRank { ranks: making.tune.ranks.max(1) },
        Profile::V1 | Profile::V2 | Profile::Native => SizeDraw::Shared,
    };
    let parquet = match spec.format {
        // Generated in one go whatever the size of a batch.
        DataFormat::Parquet => ParquetSpec { generation_batch_size: 0, ..spec.parquet.clone() },
        _ => ParquetSpec::default(),
    };
    Recipe {
        format: spec.format,
        parquet,
        prefix: spec.file_prefix.clone(),
        train_files: spec.num_files_train,
        train_subfolders: spec.num_subfolders_train,
        valid_files: spec.num_files_eval,
        valid_subfolders: spec.num_subfolders_eval,
        samples_per_file: spec.num_samples_per_file,
        size,
        draw,
        content: making.content,
        seed: making.tune.seed,
    }
}

#[cfg(test)]
mod tests {
    use crate::section::{
        DataFormat, DatasetSpec, ElementType, ParquetColumn, ParquetColumns, ParquetSpec,
    };
    use stormlp_core::names::VariantArray;
    use stormlp_core::profile::Profile;

    use super::{DatasetDefaults, recipe};
    use crate::dataset::Dataset;
    use crate::sizes::SizeDraw;

    fn unet3d() -> DatasetSpec {
        DatasetSpec {
            data_folder: None,
            format: DataFormat::Npz,
            file_prefix: "img".to_string(),
            num_files_train: 168,
            num_files_eval: 0,
            num_subfolders_train: 0,
            num_subfolders_eval: 0,
            num_samples_per_file: 1,
            record_length_bytes: 146_600_628.0,
            record_length_bytes_stdev: 68_341_808.0,
            record_length_bytes_resize: 2_097_152.0,
            record_dims: Vec::new(),
            record_element_bytes: 1,
            parquet: ParquetSpec::default(),
        }
    }

    #[test]
    fn unet3d_has_the_bytes_that_dlio_writes() {
        let dataset =
            Dataset::new(recipe(&unet3d(), Profile::V2, &DatasetDefaults::default())).unwrap();
        // Arrays of 25 285 981 919 bytes, and 498 bytes of framing and label for each.
        assert_eq!(dataset.total_bytes(), 25_285_981_919 + 168 * 498);
        assert_eq!(dataset.path(0), "train/img_000_of_168.npz");
    }

    #[test]
    fn only_v3_sizes_depend_on_the_ranks() {
        for &profile in Profile::VARIANTS {
            let mut making = DatasetDefaults::default();
            making.tune.ranks = 4;
            let draw = recipe(&unet3d(), profile, &making).draw;
            let per_rank = draw == SizeDraw::PerRank { ranks: 4 };
            assert_eq!(per_rank, profile == Profile::V3);
        }
    }

    #[test]
    fn columns_of_flux_make_its_record() {
        let column = |name: &str, size| ParquetColumn {
            name: name.to_string(),
            dtype: ElementType::Float32,
            size,
            read: true,
        };
        let sizes = [524_328, 409, 8232, 8232, 7];
        let mut spec = unet3d();
        spec.format = DataFormat::Parquet;
        spec.parquet = ParquetSpec {
            columns: ParquetColumns(
                (sizes.iter())
                    .map(|size| column(&format!("c{size}_{}", size % 3), *size))
                    .collect(),
            ),
            row_group_size: 288,
            generation_batch_size: 0,
        };
        spec.parquet.columns[3].name = "other".to_string();
        let dataset =
            Dataset::new(recipe(&spec, Profile::V3, &DatasetDefaults::default())).unwrap();
        assert!((dataset.mean_sample_bytes() - 2_164_832.0).abs() < 0.5);
    }
}
