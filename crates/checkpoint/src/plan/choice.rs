//! The enumerated options of a checkpoint run, with their command-line names.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use stormlp_core::names::{Named, unknown};

/// When written data is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum FsyncPolicy {
    /// Each file is synced before it gets its final name.
    #[default]
    PerFile,
    /// Each rank syncs all its files after writing the last of them.
    PerCheckpoint,
    /// No sync: fast, but not crash-safe.
    None,
}

impl Named for FsyncPolicy {
    const WHAT: &'static str = "a way to sync";
}

impl FsyncPolicy {
    /// The command-line name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// How the tensors of a file are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Container {
    /// Only tensors, back to back, as v3.0's DLIO streams them.
    #[default]
    Raw,
    /// As `torch.save` packs them.
    Torch,
}

impl Named for Container {
    const WHAT: &'static str = "a container";
}

/// The edition that defines read order and arithmetic. Bytes are the same in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum CheckpointProfile {
    /// MLPerf Storage v2.0: files read from start to end, timed on rank 0.
    #[default]
    #[strum(serialize = "2.0")]
    V2,
    /// MLPerf Storage v3.0: files read as four quarters at a time, timed on rank 0.
    #[strum(serialize = "3.0")]
    V3,
    /// Corrected: the slowest rank's duration, total bytes over total time.
    Native,
}

impl Named for CheckpointProfile {
    const WHAT: &'static str = "an edition";
}

impl CheckpointProfile {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Concurrent streams per file when reading, unless the user overrides it.
    pub fn read_streams(self) -> u32 {
        match self {
            Self::V2 | Self::Native => 1,
            Self::V3 => 4,
        }
    }

    /// The edition's metrics.
    pub fn headline(self) -> Arithmetic {
        match self {
            Self::V2 | Self::V3 => Arithmetic::Dlio,
            Self::Native => Arithmetic::AllRanks,
        }
    }
}

/// The arithmetic of a metric. Every report has all three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Arithmetic {
    /// MLPerf's rules: the slowest rank's duration, the lowest rank's throughput.
    MlperfRules,
    /// DLIO: rank 0's duration, all bytes divided by it, the mean of the rates.
    Dlio,
    /// All bytes over the slowest rank's duration, total over total.
    AllRanks,
}

/// How much of a checkpoint to write.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ScaleChoice {
    /// All of it if it fits, otherwise the largest part that fits and lasts about a minute.
    Auto,
    /// This fraction of its bytes, above 0 and at most 1.
    Factor(f64),
}

impl FromStr for ScaleChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        match text.parse::<f64>() {
            Ok(factor) if factor > 0.0 && factor <= 1.0 => Ok(Self::Factor(factor)),
            _ => {
                Err(format!("`{text}` is not a scale: use auto, or a number above 0 and at most 1"))
            }
        }
    }
}

/// Whether a transfer can have this size: whole pages, up to 1 GiB.
pub(super) fn is_chunk(bytes: u64) -> bool {
    (4096..=1 << 30).contains(&bytes) && bytes.is_multiple_of(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for policy in [FsyncPolicy::PerFile, FsyncPolicy::PerCheckpoint, FsyncPolicy::None] {
            assert_eq!(policy.name().parse::<FsyncPolicy>().unwrap(), policy);
        }
        assert_eq!("0.02".parse(), Ok(ScaleChoice::Factor(0.02)));
        for bad in ["0", "-1", "1.5", "NaN", "inf", "all", ""] {
            assert!(bad.parse::<ScaleChoice>().is_err(), "{bad}");
        }
    }
}
