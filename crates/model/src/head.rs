//! What every saved report begins with.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::facts::HostFacts;
use crate::warning::Warning;

/// The version of the saved report's format. It goes up when an old reader would misread a new
/// file; added fields do not raise it.
pub const FORMAT_VERSION: u32 = 1;

/// Which command made a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ReportKind {
    /// A transfer matrix.
    Gds,
    /// A training run.
    Train,
    /// A checkpoint run.
    Checkpoint,
}

impl ReportKind {
    /// The name of the command.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The first fields of every saved report; flattened into it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportHead {
    /// Version of the format.
    pub format_version: u32,
    /// Which command made it.
    pub kind: ReportKind,
    /// The command line, as it was typed.
    pub command: String,
    /// When the run started, RFC 3339 in UTC.
    pub started_at: String,
    /// The machine it ran on.
    pub host: HostFacts,
    /// What the reader should know before trusting the numbers.
    pub warnings: Vec<Warning>,
}

impl ReportHead {
    /// A head of the current format version, without warnings.
    pub fn new(kind: ReportKind, command: String, started_at: String, host: HostFacts) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            kind,
            command,
            started_at,
            host,
            warnings: Vec::new(),
        }
    }
}

/// A saved report that this program cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Written by a newer stormlp.
    #[error(
        "the report has format version {found}, this stormlp reads up to {FORMAT_VERSION}; \
         use a newer stormlp"
    )]
    Newer {
        /// The version in the file.
        found: u64,
    },
    /// Not a report at all.
    #[error("the file is no stormlp report: {0}")]
    NoReport(String),
}

/// Checks the version of a saved report before anything else of it is read.
///
/// # Errors
/// When `format_version` is missing, no number, or newer than this program.
pub fn check_format(report: &serde_json::Value) -> Result<(), FormatError> {
    match report
        .get("format_version")
        .and_then(serde_json::Value::as_u64)
    {
        Some(found) if found <= u64::from(FORMAT_VERSION) => Ok(()),
        Some(found) => Err(FormatError::Newer { found }),
        None => Err(FormatError::NoReport(
            "`format_version` is missing".to_string(),
        )),
    }
}
