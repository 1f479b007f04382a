//! The sample sizes of each file, drawn exactly as in DLIO, bit for bit.
//!
//! DLIO stores a sample as a roughly square array. With `D = floor(sqrt(record_length))` and `σ =
//! record_length_stdev / 2 / sqrt(record_length)` it draws two numbers `normal(D, σ)` for each
//! file, truncates them and uses them as the file's rows and columns. Up to v2.0 every rank seeds
//! the draw with 10, so the sizes do not depend on the number of ranks. v3.0 seeds rank `r` with
//! `10 + r`, and file `i` uses the numbers of rank `i mod ranks`.

use std::collections::TryReserveError;

use serde::Serialize;
use stormlp_core::mt19937::Mt19937;

/// The seed that DLIO hard-codes for its size draw.
const DLIO_SIZE_SEED: u32 = 10;

/// The workload's specification of the size of one sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeRule {
    /// `record_length_bytes` and its standard deviation, both in bytes.
    Length {
        /// Mean bytes per sample; MLPerf's workloads have fractions here.
        mean_bytes: f64,
        /// Standard deviation in bytes; 0 makes all files equal.
        stdev_bytes: f64,
    },
    /// `record_dims`: an exact shape.
    Shape {
        /// Number of elements in each dimension.
        dims: Vec<u64>,
        /// Size of one element in bytes.
        element_bytes: u64,
    },
}

/// The random number scheme for a file's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeDraw {
    /// All ranks draw the same numbers (DLIO up to MLPerf Storage v2.0).
    Shared,
    /// Each of `ranks` generating ranks draws separate numbers (v3.0).
    PerRank {
        /// The number of generating ranks, at least 1.
        ranks: u32,
    },
}

/// The shape of one sample, the same for all samples of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleShape {
    /// Number of elements in each dimension.
    pub dims: Vec<u64>,
    /// Size of one element in bytes.
    pub element_bytes: u64,
}

impl SampleShape {
    /// A flat or square array of bytes.
    #[must_use]
    pub fn of_bytes(dims: &[u64]) -> Self {
        Self { dims: dims.to_vec(), element_bytes: 1 }
    }

    /// Size of one sample in bytes; saturates instead of overflowing.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.dims.iter().fold(self.element_bytes, |product, dim| product.saturating_mul(*dim))
    }
}

/// The sample shapes of all files of a dataset: training files first, then evaluation files.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSizes {
    nominal: SampleShape,
    drawn: Vec<[u32; 2]>,
}

impl FileSizes {
    /// Memory of one drawn size, in bytes.
    pub const BYTES_PER_FILE: u64 = size_of::<[u32; 2]>() as u64;

    /// Draws the sizes of `files` files.
    #[must_use]
    pub fn draw(rule: &SizeRule, files: u64, draw: SizeDraw) -> Self {
        Self::try_draw(rule, files, draw).expect("there is memory for the sizes")
    }

    /// Like [`Self::draw`].
    ///
    /// # Errors
    /// If there is no memory for the sizes.
    pub fn try_draw(rule: &SizeRule, files: u64, draw: SizeDraw) -> Result<Self, TryReserveError> {
        Ok(match rule {
            SizeRule::Shape { dims, element_bytes } => Self {
                nominal: SampleShape { dims: dims.clone(), element_bytes: *element_bytes },
                drawn: Vec::new(),
            },
            SizeRule::Length { mean_bytes, stdev_bytes } => {
                let root = mean_bytes.sqrt();
                let dimension = root.floor().max(1.0);
                let deviation = stdev_bytes / 2.0 / root;
                let drawn = if deviation > 0.0 {
                    draw_pairs(dimension, deviation, files, draw)?
                } else {
                    Vec::new()
                };
                Self {
                    nominal: SampleShape::of_bytes(&[dimension as u64, dimension as u64]),
                    drawn,
                }
            }
        })
    }

    /// The shape of the samples of file `index`.
    #[must_use]
    pub fn shape(&self, index: u64) -> SampleShape {
        match self.drawn.get(index as usize) {
            Some(pair) => SampleShape::of_bytes(&pair.map(u64::from)),
            None => self.nominal.clone(),
        }
    }

    /// The shape of the largest sample.
    #[must_use]
    pub fn largest(&self) -> SampleShape {
        let bytes = |pair: &&[u32; 2]| u64::from(pair[0]) * u64::from(pair[1]);
        match self.drawn.iter().max_by_key(bytes) {
            Some(pair) => SampleShape::of_bytes(&pair.map(u64::from)),
            None => self.nominal.clone(),
        }
    }

    /// DLIO's `D`: the extent of a sample in each dimension if it is not drawn.
    #[must_use]
    pub fn nominal(&self) -> &SampleShape {
        &self.nominal
    }

    /// Whether all files have the same sample shape.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.drawn.is_empty()
    }
}

fn draw_pairs(
    dimension: f64,
    deviation: f64,
    files: u64,
    draw: SizeDraw,
) -> Result<Vec<[u32; 2]>, TryReserveError> {
    let ranks = match draw {
        SizeDraw::Shared => 1,
        SizeDraw::PerRank { ranks } => ranks.max(1),
    };
    let mut pairs = Vec::new();
    pairs.try_reserve_exact(files as usize)?;
    pairs.resize(files as usize, [0; 2]);
    for rank in 0..ranks {
        let mut generator = Mt19937::new(DLIO_SIZE_SEED.wrapping_add(rank));
        for (index, pair) in pairs.iter_mut().enumerate() {
            let first = generator.next_normal(dimension, deviation);
            let second = generator.next_normal(dimension, deviation);
            if index as u64 % u64::from(ranks) == u64::from(rank) {
                *pair = [truncated(first), truncated(second)];
            }
        }
    }
    Ok(pairs)
}

/// Python's `max(int(value), 1)`.
fn truncated(value: f64) -> u32 {
    // The conversion truncates towards zero as in Python, and saturates.
    (value as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::{FileSizes, SampleShape, SizeDraw, SizeRule};

    const UNET3D: SizeRule =
        SizeRule::Length { mean_bytes: 146_600_628.0, stdev_bytes: 68_341_808.0 };

    fn nominal_side(mean_bytes: f64) -> u64 {
        let rule = SizeRule::Length { mean_bytes, stdev_bytes: 0.0 };
        let sizes = FileSizes::draw(&rule, 3, SizeDraw::Shared);
        assert!(sizes.is_constant());
        assert_eq!(sizes.shape(0), sizes.shape(2));
        sizes.shape(0).dims[0]
    }

    #[test]
    fn unet3d_has_the_sizes_that_dlio_makes() {
        let sizes = FileSizes::draw(&UNET3D, 168, SizeDraw::Shared);
        assert_eq!(sizes.nominal().dims, [12_107, 12_107]);
        assert_eq!(sizes.shape(0).dims, [15_865, 14_125]);
        assert_eq!(sizes.shape(1).dims, [7_745, 12_083]);
        assert_eq!(sizes.shape(2).dims, [13_860, 10_074]);
        let total: u64 = (0..168).map(|index| sizes.shape(index).bytes()).sum();
        assert_eq!(total, 25_285_981_919);
    }

    #[test]
    fn unet3d_at_benchmark_size_has_the_published_spread() {
        let sizes = FileSizes::draw(&UNET3D, 14_000, SizeDraw::Shared);
        let bytes: Vec<u64> = (0..14_000).map(|index| sizes.shape(index).bytes()).collect();
        let mean = bytes.iter().sum::<u64>() as f64 / 14_000.0;
        assert!((mean / 1e6 - 146.50).abs() < 0.01, "mean {mean}");
        let max = *bytes.iter().max().unwrap_or(&0) as f64;
        assert!((max / 1e6 - 417.0).abs() < 0.5, "max {max}");
    }

    #[test]
    fn more_files_only_append() {
        let few = FileSizes::draw(&UNET3D, 10, SizeDraw::Shared);
        let many = FileSizes::draw(&UNET3D, 1000, SizeDraw::Shared);
        assert!((0..10).all(|index| few.shape(index) == many.shape(index)));
    }

    #[test]
    fn workloads_without_deviation_are_square() {
        assert_eq!(nominal_side(114_660.07), 338);
        assert_eq!(nominal_side(322_957.0), 568);
        assert_eq!(nominal_side(2_828_486.0), 1681);
        assert_eq!(nominal_side(0.25), 1);
    }

    #[test]
    fn ranks_of_v3_draw_for_themselves() {
        let shared = FileSizes::draw(&UNET3D, 8, SizeDraw::Shared);
        let one = FileSizes::draw(&UNET3D, 8, SizeDraw::PerRank { ranks: 1 });
        assert_eq!(shared, one);
        let two = FileSizes::draw(&UNET3D, 8, SizeDraw::PerRank { ranks: 2 });
        assert_eq!(two.shape(0), shared.shape(0));
        assert_ne!(two.shape(1), shared.shape(1));
        // numpy: seed(11), normal(12107, 68341808 / 2 / sqrt(146600628), 16), values 2 and 3.
        assert_eq!(two.shape(1).dims, [10739, 4618]);
    }

    #[test]
    fn exact_shapes_are_used_unchanged() {
        let rule = SizeRule::Shape { dims: vec![3, 5], element_bytes: 4 };
        let sizes = FileSizes::draw(&rule, 2, SizeDraw::Shared);
        assert_eq!(sizes.shape(1).bytes(), 60);
    }

    #[test]
    fn absurd_shapes_saturate() {
        let shape = SampleShape { dims: vec![u64::MAX, 9], element_bytes: 8 };
        assert_eq!(shape.bytes(), u64::MAX);
    }
}
