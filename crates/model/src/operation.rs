//! What a transfer does: its direction, and the order in which it visits a file.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::names::by_name;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From storage to the accelerator.
    Read,
    /// From the accelerator to storage.
    Write,
}

/// A direction with an order of offsets; the four kinds of gdsio's `-I`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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

impl Operation {
    /// All four, in gdsio's order.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::RandRead, Self::RandWrite];

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::RandRead => "randread",
            Self::RandWrite => "randwrite",
        }
    }

    /// Which way the bytes go.
    pub fn direction(self) -> Direction {
        match self {
            Self::Read | Self::RandRead => Direction::Read,
            Self::Write | Self::RandWrite => Direction::Write,
        }
    }

    /// Whether offsets are drawn at random.
    pub fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(&Self::ALL, Self::name, text, "an operation")
    }
}
