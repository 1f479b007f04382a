//! The cause of AU.

use serde::{Deserialize, Serialize};

/// The main cause of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// None: the accelerators computed nearly all the time.
    Compute,
    /// None, but only because much of the data had been read before AU's window began: storage did
    /// not have to sustain the rate.
    ReadAhead,
    /// Storage.
    Storage,
    /// This host: copying, parsing, too few CPUs.
    Client,
    /// Storage and this host to a similar extent.
    StorageAndClient,
    /// A slower peer.
    Barrier,
    /// The cold start of each epoch.
    Startup,
    /// No measurement.
    #[default]
    Unknown,
}

/// The cause of AU.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The main cause of waiting.
    pub limited_by: Bound,
    /// One sentence with the supporting figures.
    pub sentence: String,
}
