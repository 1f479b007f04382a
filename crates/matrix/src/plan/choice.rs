//! Choices of a matrix: closed sets with their command-line names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

use stormlp_core::names::{Named, unknown};
use stormlp_core::path::PathKind;
use stormlp_core::units::{ByteSize, GIB, short_size};

/// An entry of the list of paths to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub enum PathChoice {
    /// `gds`, `cpu-gpu` and `page-cache`, if this machine can run them.
    Auto,
    /// Every path that this machine can run.
    All,
    /// This path.
    #[serde(untagged)]
    One(PathKind),
}

impl PathChoice {
    /// A list of exactly these paths.
    pub fn each(paths: &[PathKind]) -> Vec<Self> {
        paths.iter().copied().map(Self::One).collect()
    }
}

impl FromStr for PathChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "all" => Ok(Self::All),
            name => name.parse().map(Self::One),
        }
    }
}

/// How long a cell runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CellSpan {
    /// For this many seconds, wrapping around at the end of the files.
    Seconds(f64),
    /// This many passes over every thread's part of the files, all of them counted.
    Passes(u32),
    /// Until a steady state, for at most this many seconds.
    Steady(f64),
}

/// State of the page cache before a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum CacheState {
    /// The files are dropped from the page cache before the cell.
    #[default]
    Cold,
    /// The files are read once before the cell.
    Warm,
    /// The cache is left as it is.
    AsIs,
}

impl Named for CacheState {
    const WHAT: &'static str = "a cache state";
}

impl CacheState {
    /// The command-line name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Contents of write buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Fill {
    /// Incompressible bytes.
    #[default]
    Random,
    /// Zeros.
    Zero,
}

impl Named for Fill {
    const WHAT: &'static str = "a way to fill";
}

/// When the files of a writing cell are synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Fsync {
    /// At the end if writes go through the page cache, so that the time includes storage; not if
    /// they bypass it.
    #[default]
    Auto,
    /// Never.
    None,
    /// At the end of every writing cell, within the measured time.
    End,
}

impl Named for Fsync {
    const WHAT: &'static str = "a way to sync";
}

/// Larger transfers do not fit the 32-bit lengths of the system calls.
const LARGEST_BYTES: u64 = GIB;
/// A sweep of more sizes is a typing error.
const MOST_SWEPT: u64 = 10_000;

/// The size of one transfer: fixed, or gdsio's `-i min:max:step`, which cycles through the sizes
/// within one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "SavedSize", into = "SavedSize")]
pub struct IoSize {
    /// The smallest size in bytes.
    pub min_bytes: u64,
    /// The largest size in bytes; buffers have this size.
    pub max_bytes: u64,
    /// The step between sizes in bytes; 0 for a fixed size.
    pub step_bytes: u64,
}

impl IoSize {
    /// One size for every transfer.
    pub fn fixed(bytes: u64) -> Self {
        Self { min_bytes: bytes, max_bytes: bytes, step_bytes: 0 }
    }

    /// Whether every transfer has the same size.
    pub fn is_fixed(self) -> bool {
        self.min_bytes == self.max_bytes
    }

    /// Whether operations and latencies are what transfers of this size are measured for.
    pub fn is_small(self) -> bool {
        self.max_bytes <= 16 << 10
    }

    /// The number of sizes.
    pub fn count(self) -> u64 {
        let range_bytes = self.max_bytes - self.min_bytes;
        range_bytes.checked_div(self.step_bytes).unwrap_or(0) + 1
    }

    /// The size in bytes of transfer number `index` of a thread: sizes cycle in ascending order.
    pub fn nth(self, index: u64) -> u64 {
        self.min_bytes + index % self.count() * self.step_bytes
    }

    /// Parses an entry of `--io-size`: a size, or a sweep; its [sizes](Self::sizes) are to be
    /// measured one after the other.
    ///
    /// # Errors
    /// If it is neither, or a sweep of too many sizes.
    pub fn parse_sweep(text: &str) -> Result<Self, String> {
        let sizes: Self = text.parse()?;
        match sizes.count() {
            ..=MOST_SWEPT => Ok(sizes),
            count => Err(format!("`{text}` has {count} sizes: use at most {MOST_SWEPT}")),
        }
    }

    /// Its sizes, each for every transfer of a cell.
    pub fn sizes(self) -> impl Iterator<Item = Self> {
        (0..self.count()).map(move |index| Self::fixed(self.nth(index)))
    }

    /// The size in a sentence or table: `1 MiB`, or a mix as it is typed.
    pub fn words(self) -> String {
        if self.is_fixed() { ByteSize(self.min_bytes).to_string() } else { self.to_string() }
    }
}

impl FromStr for IoSize {
    type Err = String;

    /// Parses a size, or `min:max:step`.
    fn from_str(text: &str) -> Result<Self, String> {
        let size = |part: &str| match part.parse::<ByteSize>() {
            Ok(ByteSize(bytes @ 1..=LARGEST_BYTES)) => Ok(bytes),
            Ok(_) => {
                Err(format!("`{text}` is not a size from 1 byte to {}", short_size(LARGEST_BYTES)))
            }
            Err(error) => Err(error.to_string()),
        };
        match text.split(':').collect::<Vec<_>>().as_slice() {
            [one] => Ok(Self::fixed(size(one)?)),
            [min, max, step] => {
                let mix =
                    Self { min_bytes: size(min)?, max_bytes: size(max)?, step_bytes: size(step)? };
                if mix.min_bytes > mix.max_bytes {
                    return Err(format!("`{text}` ends below its start"));
                }
                Ok(mix)
            }
            _ => Err(format!("`{text}` is neither a size nor min:max:step")),
        }
    }
}

/// A size as it is saved: a number of bytes, or a mix as it is typed.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum SavedSize {
    Bytes(u64),
    Mix(String),
}

impl From<IoSize> for SavedSize {
    fn from(size: IoSize) -> Self {
        if size.is_fixed() { Self::Bytes(size.min_bytes) } else { Self::Mix(size.to_string()) }
    }
}

impl TryFrom<SavedSize> for IoSize {
    type Error = String;

    fn try_from(saved: SavedSize) -> Result<Self, String> {
        match saved {
            SavedSize::Bytes(bytes) => Ok(Self::fixed(bytes)),
            SavedSize::Mix(text) => text.parse(),
        }
    }
}

impl fmt::Display for IoSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_fixed() {
            f.pad(&short_size(self.min_bytes))
        } else {
            f.pad(&format!(
                "{}:{}:{}",
                short_size(self.min_bytes),
                short_size(self.max_bytes),
                short_size(self.step_bytes)
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_takes_its_sizes_in_turn() {
        let mix = "1M:4M:1M".parse::<IoSize>().unwrap();
        let sizes: Vec<u64> = (0..6).map(|i| mix.nth(i) >> 20).collect();
        assert_eq!(sizes, [1, 2, 3, 4, 1, 2]);
        assert_eq!(mix.to_string(), "1M:4M:1M");
        assert!(IoSize::parse_sweep("1:1G:1").is_err());
        for size in [mix, IoSize::fixed(4096)] {
            let saved = serde_json::to_value(size).unwrap();
            assert_eq!(serde_json::from_value::<IoSize>(saved).unwrap(), size);
        }
        assert_eq!("1M".parse::<IoSize>().unwrap(), IoSize::fixed(1 << 20));
        for bad in ["0", "4M:1M:1M", "1M:4M", "1M:4M:0", "x", "2G"] {
            assert!(bad.parse::<IoSize>().is_err(), "{bad}");
        }
    }
}
