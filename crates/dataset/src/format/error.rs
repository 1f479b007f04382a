//! What can be wrong with a file, said so that it can be found: name, offset, expected, found.

use std::io;

/// A file that is not what its format says, or could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Bytes that contradict the format.
    #[error("{file}: at byte {offset}: expected {expected}, found {found}")]
    Unexpected {
        /// The file.
        file: String,
        /// Where in the file.
        offset: u64,
        /// What the format, or the workload, wants there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The file ends before something that must be in it.
    #[error(
        "{file}: at byte {offset}: expected {expected}, found the end of the file at byte {file_bytes}"
    )]
    Truncated {
        /// The file.
        file: String,
        /// Where the missing part would start.
        offset: u64,
        /// What is missing.
        expected: String,
        /// The size of the file in bytes.
        file_bytes: u64,
    },
    /// The operating system refused a read.
    #[error("{file}: at byte {offset}: cannot read: {source}")]
    Read {
        /// The file.
        file: String,
        /// Where in the file.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
}

impl FormatError {
    pub(crate) fn unexpected(
        file: &str,
        offset: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::Unexpected {
            file: file.to_string(),
            offset,
            expected: expected.into(),
            found: found.into(),
        }
    }

    pub(crate) fn truncated(
        file: &str,
        offset: u64,
        expected: impl Into<String>,
        file_bytes: u64,
    ) -> Self {
        Self::Truncated { file: file.to_string(), offset, expected: expected.into(), file_bytes }
    }

    /// The file that the error is about.
    #[must_use]
    pub fn file(&self) -> &str {
        match self {
            Self::Unexpected { file, .. }
            | Self::Truncated { file, .. }
            | Self::Read { file, .. } => file,
        }
    }
}
