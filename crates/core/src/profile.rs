//! Fidelity profiles: which edition of the benchmark a run reproduces.
//!
//! The editions of MLPerf Storage differ in sample order, read pattern and formulas, so every
//! result names the profile it was made under.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

use crate::names::{Named, unknown};

/// An edition of the benchmark, reproduced as it actually behaved, or stormlp's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(Display, EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Profile {
    /// MLPerf Storage v0.5 and v1.0: contiguous ranges, AU from nominal compute.
    V1,
    /// MLPerf Storage v2.0: contiguous ranges, AU from measured compute.
    V2,
    /// MLPerf Storage v3.0: round-robin shards reshuffled every epoch, whole-file reads.
    V3,
    /// Corrected: v3's order, with numerator and denominator over the same window.
    Native,
}

impl Named for Profile {
    const WHAT: &'static str = "a profile";
}

impl Profile {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The edition as the command line and screens name it.
    pub fn edition(self) -> &'static str {
        match self {
            Self::V1 => "1.0",
            Self::V2 => "2.0",
            Self::V3 => "3.0",
            Self::Native => "native",
        }
    }

    /// Parses an edition of the command line.
    ///
    /// # Errors
    /// If there is no such edition.
    pub fn of_edition(text: &str) -> Result<Self, String> {
        let all = [Self::V1, Self::V2, Self::V3, Self::Native];
        let found = all.into_iter().find(|one| one.edition() == text);
        found.ok_or_else(|| "use 1.0, 2.0, 3.0 or native".to_string())
    }

    /// The profile in one line.
    pub fn describe(self) -> &'static str {
        match self {
            Self::V1 => "MLPerf Storage v0.5 and v1.0",
            Self::V2 => "MLPerf Storage v2.0",
            Self::V3 => "MLPerf Storage v3.0",
            Self::Native => "stormlp's corrected definitions",
        }
    }

    /// The edition that published an accelerator's workloads; `None` if no edition did.
    pub fn of_accelerator(accelerator: &str) -> Option<Self> {
        match accelerator {
            "v100" => Some(Self::V1),
            "a100" | "h100" => Some(Self::V2),
            "b200" | "mi355" => Some(Self::V3),
            _ => None,
        }
    }

    /// Whether samples are dealt round robin and reshuffled every epoch.
    pub fn reshuffles(self) -> bool {
        matches!(self, Self::V3 | Self::Native)
    }
}
