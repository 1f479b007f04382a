//! Errors in files, reported with name, offset, expected and found values.

use std::io;

use stormlp_core::note::{Cause, Note};

/// A file that violates its format, or could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Bytes that contradict the format.
    #[error("{file}: at byte {offset}: expected {expected}, found {found}")]
    Unexpected {
        /// The file.
        file: String,
        /// Offset in the file.
        offset: u64,
        /// The value that the format, or the workload, expects there.
        expected: String,
        /// The value found.
        found: String,
    },
    /// A read failed in the operating system.
    #[error("{file}: at byte {offset}: cannot read: {source}")]
    Read {
        /// The file.
        file: String,
        /// Offset in the file.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
}

impl FormatError {
    /// The reason why the file could not be read, and the remedy, if it was not its content: then
    /// the file is unknown, and making it again would not help.
    #[must_use]
    pub fn unread(&self) -> Option<Note<Cause>> {
        let Self::Read { source, .. } = self else { return None };
        let (cause, remedy) = stormlp_transfer::unread(source)?;
        Some(Note::new(cause, self.to_string(), remedy))
    }

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
        let found = format!("the end of the file at byte {file_bytes}");
        Self::unexpected(file, offset, expected, found)
    }

    /// The file that the error refers to.
    #[must_use]
    pub fn file(&self) -> &str {
        match self {
            Self::Unexpected { file, .. } | Self::Read { file, .. } => file,
        }
    }
}
