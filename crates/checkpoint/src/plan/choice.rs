//! The small choices of a checkpoint run: closed sets with the names of the command line.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use stormlp_core::names::{Named, unknown};

/// When what was written is made to survive a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum FsyncPolicy {
    /// Each file is synced before it gets its final name.
    #[default]
    PerFile,
    /// Each rank syncs all of its files when the last of them is written.
    PerCheckpoint,
    /// Nothing is synced: fast, and lost in a crash.
    None,
}

impl Named for FsyncPolicy {
    const WHAT: &'static str = "a way to sync";
}

impl FsyncPolicy {
    /// The name on the command line.
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
    /// One after the other and nothing else, as v3.0's DLIO streams them.
    #[default]
    Raw,
    /// As `torch.save` packs them.
    Torch,
}

impl Named for Container {
    const WHAT: &'static str = "a container";
}

/// Which edition's order of reads and arithmetic a run follows. Bytes and syncing are the same
/// in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum CheckpointProfile {
    /// MLPerf Storage v2.0: files from start to end, rank 0's stopwatch.
    #[default]
    V2,
    /// MLPerf Storage v3.0: files read as four quarters at a time, rank 0's stopwatch.
    V3,
    /// Corrected: the slowest rank's duration, total over total.
    Native,
}

impl Named for CheckpointProfile {
    const WHAT: &'static str = "a profile";
}

impl CheckpointProfile {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Streams that read one file at the same time, unless the user says otherwise.
    pub fn read_streams(self) -> u32 {
        match self {
            Self::V2 | Self::Native => 1,
            Self::V3 => 4,
        }
    }

    /// Which of the metrics are the profile's own.
    pub fn headline(self) -> Arithmetic {
        match self {
            Self::V2 | Self::V3 => Arithmetic::Dlio,
            Self::Native => Arithmetic::AllRanks,
        }
    }
}

/// Whose arithmetic a metric follows. All three are in every report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Arithmetic {
    /// MLPerf's rules: the slowest rank's duration, the lowest rank's throughput.
    MlperfRules,
    /// DLIO: rank 0's duration, all bytes over it, the mean of the rates.
    Dlio,
    /// All bytes over the slowest rank's duration, total over total.
    AllRanks,
}

/// How much of a checkpoint is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ScaleChoice {
    /// All of it where it fits, else the largest part that fits and ends in about a minute.
    Auto,
    /// This share of its bytes, above 0 and at most 1.
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
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
