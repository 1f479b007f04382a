//! The operation of a transfer: its direction and access order.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

use crate::names::{Named, unknown};

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From storage to the accelerator.
    Read,
    /// From the accelerator to storage.
    Write,
}

/// A direction with an access order; the four kinds of gdsio's `-I`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(Display, EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Operation {
    /// Sequential read (`-I 0`).
    Read,
    /// Sequential write (`-I 1`).
    Write,
    /// Random read (`-I 2`).
    RandRead,
    /// Random write (`-I 3`).
    RandWrite,
}

impl Named for Operation {
    const WHAT: &'static str = "an operation";
}

impl Operation {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The name of a cell in which this percentage of transfers are reads: `randrw 70/30`.
    pub fn of_mix(self, read_percent: Option<u8>) -> String {
        let Some(reads) = read_percent else {
            return self.name().to_string();
        };
        let name = if self.is_random() { "randrw" } else { "rw" };
        format!("{name} {reads}/{}", 100 - reads.min(100))
    }

    /// The direction of the transfer.
    pub fn direction(self) -> Direction {
        match self {
            Self::Read | Self::RandRead => Direction::Read,
            Self::Write | Self::RandWrite => Direction::Write,
        }
    }

    /// Whether offsets are random.
    pub fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite)
    }
}
