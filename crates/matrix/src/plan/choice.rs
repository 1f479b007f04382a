//! Choices of a matrix: closed sets with their command-line names.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

use stormlp_core::names::{Named, unknown};
use stormlp_core::path::PathKind;
use stormlp_core::units::{ByteSize, short_size};

/// Which paths to compare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PathChoice {
    /// `gds`, `cpu-gpu` and `page-cache`, if this machine can run them.
    Auto,
    /// Every path that this machine can run.
    All,
    /// The listed paths that this machine can run; used by presets.
    Wanted(Vec<PathKind>),
    /// Exactly these paths; one that cannot run is an error at the end.
    Named(Vec<PathKind>),
}

impl PathChoice {
    /// The paths in table order.
    pub fn paths(&self) -> Vec<PathKind> {
        match self {
            Self::Auto => PathKind::AUTO.to_vec(),
            Self::All => PathKind::ALL.to_vec(),
            Self::Wanted(paths) | Self::Named(paths) => paths.clone(),
        }
    }
}

/// How long a cell runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// For this many seconds, wrapping around at the end of the files.
    Seconds(f64),
    /// This many passes over every thread's part of the files, all of them counted.
    Passes(u32),
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
    /// Incompressible bytes, generated once before the cell.
    #[default]
    Once,
    /// Incompressible bytes, regenerated for every write.
    Every,
    /// Zeros.
    Zero,
}

impl Named for Fill {
    const WHAT: &'static str = "a way to fill";
}

impl Fill {
    /// The command-line name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// When the files of a writing cell are synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Fsync {
    /// At the end if writes go through the page cache, so that the time is that of storage; not if
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

impl Fsync {
    /// The command-line name.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Reads a saved choice; older reports have `true` for the end and `false` for never.
    pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Saved {
            Flag(bool),
            Choice(Fsync),
        }
        Ok(match Saved::deserialize(deserializer)? {
            Saved::Flag(true) => Self::End,
            Saved::Flag(false) => Self::None,
            Saved::Choice(choice) => choice,
        })
    }
}

/// The size of one transfer: fixed, or gdsio's `-i min:max:step`, which cycles through the sizes
/// within one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

    /// The number of sizes.
    pub fn count(self) -> u64 {
        let range_bytes = self.max_bytes - self.min_bytes;
        range_bytes.checked_div(self.step_bytes).unwrap_or(0) + 1
    }

    /// The size in bytes of transfer number `index` of a thread: sizes cycle in ascending order.
    pub fn nth(self, index: u64) -> u64 {
        self.min_bytes + index % self.count() * self.step_bytes
    }

    /// Parses a size, or `min:max:step` as a mix.
    ///
    /// # Errors
    /// If a part is not a size, is zero, or the range is empty.
    pub fn parse_mix(text: &str) -> Result<Self, String> {
        let size = |part: &str| -> Result<u64, String> {
            match part.parse::<ByteSize>() {
                Ok(size) if size.0 > 0 => Ok(size.0),
                Ok(_) => Err(format!("`{text}` has a size of zero")),
                Err(error) => Err(error.to_string()),
            }
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

/// The page type of the buffers of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BufferBacking {
    /// Reserved huge pages (`vm.nr_hugepages`).
    HugeTlb,
    /// Transparent huge pages.
    TransparentHuge,
    /// Mostly small pages.
    SmallPages,
    /// Not reported by the kernel.
    Unknown,
}

impl BufferBacking {
    /// The name shown in tables.
    pub fn words(self) -> &'static str {
        match self {
            Self::HugeTlb => "reserved huge pages",
            Self::TransparentHuge => "transparent huge pages",
            Self::SmallPages => "small pages",
            Self::Unknown => "pages of unknown size",
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_takes_its_sizes_in_turn() {
        let mix = IoSize::parse_mix("1M:4M:1M").unwrap();
        let sizes: Vec<u64> = (0..6).map(|i| mix.nth(i) >> 20).collect();
        assert_eq!(sizes, [1, 2, 3, 4, 1, 2]);
        assert_eq!(mix.to_string(), "1M:4M:1M");
        assert_eq!(IoSize::parse_mix("1M").unwrap(), IoSize::fixed(1 << 20));
        for bad in ["0", "4M:1M:1M", "1M:4M", "1M:4M:0", "x"] {
            assert!(IoSize::parse_mix(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_way_to_sync_is_read_from_reports_of_before() {
        #[derive(Deserialize)]
        struct Plan(#[serde(deserialize_with = "Fsync::read")] Fsync);
        for (text, fsync) in [
            ("true", Fsync::End),
            ("false", Fsync::None),
            ("\"auto\"", Fsync::Auto),
            ("\"none\"", Fsync::None),
        ] {
            assert_eq!(serde_json::from_str::<Plan>(text).unwrap().0, fsync);
        }
        assert!(serde_json::from_str::<Plan>("\"often\"").is_err());
    }
}
