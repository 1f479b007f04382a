//! What can go wrong between storage and an accelerator.

use std::io;
use std::path::{Path, PathBuf};

/// A transfer, a file or a device failed. Messages say what was tried and what to do now.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A system call on a file failed.
    #[error("{action} {path}: {source}")]
    File {
        /// What was being done, as a verb: `open`, `preallocate`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A read or write in flight failed.
    #[error("{action} failed: {source}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A failure of a transfer, and where in the file it was to begin.
    #[error("{source}, at byte {offset}")]
    At {
        /// The first byte of the transfer.
        offset: u64,
        /// What failed.
        source: Box<TransferError>,
    },
    /// cuFile refused or failed.
    #[error("{call} failed: {explanation}")]
    CuFile {
        /// The call that failed.
        call: &'static str,
        /// cuFile's code, or a negative errno.
        code: i32,
        /// The CUDA driver's code behind it, 0 for none.
        cuda_code: i32,
        /// Both codes in words, with what to do.
        explanation: String,
    },
    /// CUDA refused or failed.
    #[error("CUDA {call} failed: {explanation}")]
    Cuda {
        /// The call that failed.
        call: &'static str,
        /// The driver's words.
        explanation: String,
    },
    /// This machine lacks what the path needs.
    #[error("{what} is not available: {reason}")]
    Unavailable {
        /// The path, engine or device.
        what: String,
        /// What was tried and what came back.
        reason: String,
        /// What would make it work.
        remedy: String,
    },
    /// The buffers of a run could not be had.
    #[error(
        "cannot map {bytes} bytes for buffers: {source}; use smaller --io-size, fewer --threads \
         or a lower --queue-depth"
    )]
    Memory {
        /// How much was asked for.
        bytes: usize,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// A link where none is followed, or one that leads to no folder: trying again does not mend it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct LinkInTheWay(pub(crate) String);

impl TransferError {
    /// Whether a link was in the way.
    pub fn is_link(&self) -> bool {
        matches!(self.inner(), Self::File { source, .. }
            if source.get_ref().is_some_and(|error| error.is::<LinkInTheWay>()))
    }

    /// Whether the file would have become larger than the process or the file system allows.
    pub fn is_too_large(&self) -> bool {
        self.errno() == Some(libc::EFBIG)
    }

    /// Whether the system refused it for want of a permission.
    pub fn is_permission_denied(&self) -> bool {
        matches!(self.inner(), Self::File { source, .. }
            if source.kind() == io::ErrorKind::PermissionDenied)
    }

    /// The system's own error, so that a full disk can be told from others.
    pub fn into_io(self) -> io::Error {
        match self {
            Self::File { source, .. } | Self::Io { source, .. } | Self::Memory { source, .. } => {
                source
            }
            Self::At { source, .. } => source.into_io(),
            other => match other.errno() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::other(other.to_string()),
            },
        }
    }

    /// Whether cuFile had no direct route for the transfer, and was not to take another
    /// (`IO_NOT_SUPPORTED`, `BATCH_NOCOMPAT_ERROR`).
    pub fn has_no_direct_route(&self) -> bool {
        matches!(self.inner(), Self::CuFile { code: 5008 | 5049, .. })
    }

    /// Whether there was no space left.
    pub fn is_full(&self) -> bool {
        self.errno() == Some(libc::ENOSPC)
    }

    /// Whether nothing was there.
    pub fn is_not_found(&self) -> bool {
        matches!(self.inner(), Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// The same failure of the file or folder at `path`: the name it was to have, not the one it
    /// had meanwhile.
    #[must_use]
    pub fn on(self, path: &Path) -> Self {
        match self {
            Self::File { action, source, .. } => Self::file(action, path, source),
            Self::At { offset, source } => source.on(path).at(offset),
            other => other,
        }
    }

    /// The same failure of a transfer that was to begin at `offset`.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        match self {
            Self::At { .. } => self,
            source => Self::At { offset, source: Box::new(source) },
        }
    }

    /// The same failure with the file's name, which a path does not know.
    #[must_use]
    pub fn named(self, path: &Path) -> Self {
        match self {
            Self::Io { action, source } => {
                Self::file(action.trim_start_matches("the "), path, source)
            }
            Self::At { offset, source } => source.named(path).at(offset),
            other => other,
        }
    }

    /// The failure without its place.
    pub fn inner(&self) -> &Self {
        match self {
            Self::At { source, .. } => source.inner(),
            other => other,
        }
    }

    /// A failed call on the file or folder at `path`.
    pub fn file(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File { action, path: path.into(), source }
    }

    /// A failed call that names no file.
    pub(crate) fn io<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { action, source: source.into() }
    }

    /// Why it failed, without what was tried: for messages that have said that already.
    pub fn reason(&self) -> String {
        match self {
            Self::File { source, .. } | Self::Io { source, .. } | Self::Memory { source, .. } => {
                source.to_string()
            }
            Self::At { source, .. } => source.reason(),
            Self::CuFile { explanation, .. } | Self::Cuda { explanation, .. } => {
                explanation.clone()
            }
            Self::Unavailable { reason, .. } => reason.clone(),
        }
    }

    /// The kernel's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::File { source, .. } | Self::Io { source, .. } | Self::Memory { source, .. } => {
                source.raw_os_error()
            }
            Self::At { source, .. } => source.errno(),
            Self::CuFile { code, .. } if *code < 0 => Some(-code),
            _ => None,
        }
    }
}
