//! A problem or an observation: a fact and its remedy.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The beginning of the fact that storage returned wrong data, which outweighs all other facts.
pub const DATA_MISMATCH: &str = "DATA MISMATCH";

/// A fact with its remedy: a problem of a request or the cause of a failed run, depending on
/// `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Note<K> {
    /// The subject.
    pub kind: K,
    /// The measured or found fact and its place, with units.
    pub fact: String,
    /// What to do now; empty if the fact is sufficient, or no remedy is known.
    pub remedy: String,
}

impl<K> Note<K> {
    /// A note about `kind`.
    pub fn new(kind: K, fact: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind, fact: fact.into(), remedy: remedy.into() }
    }
}

impl<K> fmt::Display for Note<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fact)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

/// Why a command cannot start, or failed. It determines the exit code, as docs/troubleshooting.md
/// lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A bug in stormlp.
    Internal,
    /// The command line is invalid.
    Usage,
    /// The workload and options do not make a valid plan.
    Plan,
    /// This machine lacks something: a device, a path, permission, data.
    Machine,
    /// This machine has too little space or memory. The plan can still be shown.
    Capacity,
    /// A limit of this machine or its user: no more threads could be started.
    Resources,
    /// A file of the dataset could not be read or has unexpected content.
    Dataset,
    /// A checkpoint could not be written during training.
    Checkpoint,
    /// Storage rejected an operation, filled up, or returned wrong data.
    Storage,
    /// The transfer path or a device failed.
    Device,
    /// Another host of the run failed or did not respond.
    Hosts,
    /// The run completed but missed its target.
    MissedTarget,
    /// A comparison found a regression.
    Regressed,
    /// The user stopped it; partial results were saved.
    Stopped,
}

impl Cause {
    /// The exit code of a command that ends with this cause; the only place that assigns them.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Internal => 1,
            Self::Usage => 2,
            Self::Plan => 3,
            Self::Machine | Self::Capacity | Self::Resources => 4,
            Self::Dataset | Self::Checkpoint | Self::Storage | Self::Device | Self::Hosts => 5,
            Self::MissedTarget => 6,
            Self::Regressed => 7,
            Self::Stopped => 130,
        }
    }
}
