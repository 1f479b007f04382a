//! The state before a run: the folder of the objects, as found by a scan.

use stormlp_core::facts::FolderFacts;

use super::trace::{TraceError, TraceFormat};

/// A trace, as found by reading it once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFacts {
    /// Its format.
    pub format: TraceFormat,
    /// Requests or operations.
    pub entries: u64,
    /// Lines without work for storage: objects in memory, requests without tokens.
    pub skipped: u64,
    /// From the first to the last, in nanoseconds.
    pub span_ns: u64,
    /// Maximum tokens of an object, or of the full blocks of a prompt.
    pub most_tokens: u32,
    /// The first line that is wrong, if any.
    pub wrong: Option<TraceError>,
}

/// The folder of the objects, and its contents.
#[derive(Debug, Clone, PartialEq)]
pub struct KvcacheFacts {
    /// The folder itself.
    pub folder: FolderFacts,
    /// Bytes of the objects that an earlier run left.
    pub left_bytes: u64,
    /// The name of an entry that stormlp did not make.
    pub foreign: Option<String>,
    /// The trace to replay, if there is one.
    pub trace: Option<TraceFacts>,
}
