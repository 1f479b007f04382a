//! Errors between storage and an accelerator.

use std::io;
use std::path::{Path, PathBuf};

use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;

use crate::object::{ObjectError, ObjectFault};

/// A transfer, a file or a device failed. Messages state what was attempted and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A system call on a file failed.
    #[error("{action} {path}: {source}")]
    File {
        /// The action, as a verb: `open`, `preallocate`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A read or write in flight failed.
    #[error("{action} failed: {source}")]
    Io {
        /// The action.
        action: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A failed transfer with its file offset.
    #[error("{source}, at byte {offset}")]
    At {
        /// The first byte of the transfer.
        offset: u64,
        /// The underlying error.
        source: Box<TransferError>,
    },
    /// cuFile or CUDA refused or failed.
    #[error("{call} failed: {explanation}")]
    Gpu {
        /// The call that failed.
        call: String,
        /// cuFile's code, or a negative errno; 0 for none.
        code: i32,
        /// The CUDA driver's code, 0 for none.
        cuda_code: i32,
        /// Both codes explained, with a remedy.
        explanation: String,
    },
    /// This machine lacks a requirement of the path.
    #[error("{what} is not available: {reason}")]
    Unavailable {
        /// The path, engine or device.
        what: String,
        /// The attempt and its result.
        reason: String,
        /// The remedy.
        remedy: String,
    },
    /// A request to an object store failed.
    #[error("{0}")]
    Object(Box<ObjectError>),
    /// The buffers of a run could not be allocated.
    #[error(
        "cannot map {bytes} bytes for buffers: {source}; use smaller --io-size, fewer --threads \
         or a lower --queue-depth"
    )]
    Memory {
        /// The requested size.
        bytes: usize,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Errors with which the kernel reports that a device, its connection or its file system failed.
const DEVICE_FAILURES: [i32; 11] = [
    libc::EIO,
    libc::ENODEV,
    libc::ESTALE,
    libc::EREMOTEIO,
    libc::ETIMEDOUT,
    libc::EUCLEAN,
    libc::EBADMSG,
    libc::ENODATA,
    libc::ENOLINK,
    libc::ENOTCONN,
    libc::EHOSTDOWN,
];

/// What to do when a device failed.
pub const DEVICE_HELP: &str =
    "check the kernel log for the device, then run again; `stormlp doctor` shows the storage";

/// What to do when a GPU is lost to the process.
pub(crate) const LOST_GPU_HELP: &str =
    "look for Xid in dmesg; `nvidia-smi` says whether the GPU needs a reset";

/// Whether CUDA's code says that the GPU, or the context on it, is broken for the rest of the
/// process: an uncorrectable error, a failed kernel, or one that has no name (719, 999, 214).
pub(crate) fn is_lost(code: i32) -> bool {
    matches!(code, 214 | 220 | 700 | 702 | 714..=719 | 999)
}

/// What to do when no thread can be started.
pub const THREADS_HELP: &str =
    "use fewer threads, or allow more (ulimit -u, or pids.max of the control group)";

/// What to do when permission was denied.
const PERMISSION_HELP: &str = "change its permissions, or run as a user who may read it";

/// The cause of a failed read of a file, and its remedy. `None` if the error is about the content.
pub fn unread(error: &io::Error) -> Option<(Cause, &'static str)> {
    if let Some(fault) = ObjectFault::behind(error) {
        let cause = if fault.is_failure() { Cause::Storage } else { Cause::Machine };
        return Some((cause, fault.remedy()));
    }
    error.raw_os_error().map(judged)
}

/// The cause of the kernel's error `errno`, and its remedy.
fn judged(errno: i32) -> (Cause, &'static str) {
    match errno {
        errno if DEVICE_FAILURES.contains(&errno) => (Cause::Storage, DEVICE_HELP),
        libc::EACCES | libc::EPERM => (Cause::Machine, PERMISSION_HELP),
        _ => (Cause::Machine, ""),
    }
}

/// A failure while files are looked at, before anything runs.
impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        let known = error.missing().or(error.object_remedy());
        let by_errno = || error.errno().map_or("", |errno| judged(errno).1);
        let remedy = known.unwrap_or_else(by_errno).to_string();
        Self::new(error.cause(), error).with_help(remedy)
    }
}

/// A symbolic link where none is followed, or one that does not lead to a folder: retrying does
/// not help.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct LinkInTheWay(pub(crate) String);

impl TransferError {
    /// Whether a symbolic link was the cause.
    pub fn is_link(&self) -> bool {
        matches!(self.inner(), Self::File { source, .. }
            if source.get_ref().is_some_and(|error| error.is::<LinkInTheWay>()))
    }

    /// Whether the file would have exceeded the size limit of the process or file system.
    pub fn is_too_large(&self) -> bool {
        self.errno() == Some(libc::EFBIG)
    }

    /// Whether no more files may be open, in this process or on this host.
    pub fn is_out_of_files(&self) -> bool {
        matches!(self.errno(), Some(libc::EMFILE | libc::ENFILE))
    }

    /// Whether permission was denied.
    pub fn is_permission_denied(&self) -> bool {
        matches!(self.inner(), Self::File { source, .. }
            if source.kind() == io::ErrorKind::PermissionDenied)
    }

    /// The underlying system error, so that a full disk can be distinguished.
    pub fn into_io(self) -> io::Error {
        match self {
            Self::File { source, .. } | Self::Io { source, .. } | Self::Memory { source, .. } => {
                source
            }
            Self::At { source, .. } => source.into_io(),
            Self::Object(error) => io::Error::other(error.into_fault()),
            other => match other.errno() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::other(other.to_string()),
            },
        }
    }

    /// Whether cuFile had no direct route for the transfer and was not allowed to use another
    /// (`DRIVER_NOT_INITIALIZED` for want of nvidia-fs, `IO_NOT_SUPPORTED`, `BATCH_NOCOMPAT_ERROR`).
    pub fn has_no_direct_route(&self) -> bool {
        matches!(self.inner(), Self::Gpu { code: 5001 | 5008 | 5049, .. })
    }

    /// Whether storage, or the user's quota of it, was full.
    pub fn is_full(&self) -> bool {
        self.errno().is_some_and(is_full)
    }

    /// Whether there is no file of that name. Every other error leaves that open.
    pub fn is_not_found(&self) -> bool {
        match self.inner() {
            Self::File { source, .. } => {
                matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            }
            Self::Object(error) => error.is_not_found(),
            _ => false,
        }
    }

    /// Whether the device, or the connection to it, failed, as opposed to a call that it refused.
    pub fn is_device_failure(&self) -> bool {
        match self.inner() {
            Self::Object(error) => error.is_failure(),
            _ => self.errno().is_some_and(|errno| DEVICE_FAILURES.contains(&errno)),
        }
    }

    /// Whether an object is not the one that was listed, or not its bytes.
    pub fn is_of_other_data(&self) -> bool {
        matches!(self.inner(), Self::Object(error) if error.is_of_data())
    }

    /// Whether the kernel was not asked, or did not refuse: there was a link on the way, or the
    /// content is not text.
    pub fn was_not_asked(&self) -> bool {
        matches!(self.inner(), Self::File { .. }) && self.errno().is_none()
    }

    /// What to do about a request to an object store.
    pub fn object_remedy(&self) -> Option<&'static str> {
        match self.inner() {
            Self::Object(error) => Some(error.remedy()),
            _ => None,
        }
    }

    /// The missing part of this machine, and the remedy; `None` of other errors.
    pub fn missing(&self) -> Option<&str> {
        match self.inner() {
            Self::Unavailable { remedy, .. } => Some(remedy),
            // io_uring was refused a worker.
            error => (error.errno() == Some(libc::ECANCELED)).then_some(THREADS_HELP),
        }
    }

    /// Whether a GPU or its library failed, as opposed to storage.
    pub fn is_of_gpu(&self) -> bool {
        matches!(self.inner(), Self::Gpu { .. })
    }

    /// Whether the GPU is lost to this process: whatever follows on it fails alike.
    pub fn is_lost_gpu(&self) -> bool {
        matches!(self.inner(), Self::Gpu { cuda_code, .. } if is_lost(*cuda_code))
    }

    /// The cause of a failure while files are looked at, before anything runs.
    pub fn cause(&self) -> Cause {
        match self {
            error if error.is_lost_gpu() => Cause::Device,
            error if error.is_device_failure() => Cause::Storage,
            _ => Cause::Machine,
        }
    }

    /// The same error for the file or folder at `path`: its final name instead of a temporary one.
    #[must_use]
    pub fn on(self, path: &Path) -> Self {
        match self {
            Self::File { action, source, .. } => Self::file(action, path, source),
            Self::At { offset, source } => source.on(path).at(offset),
            other => other,
        }
    }

    /// The same error for a transfer starting at `offset`, unless it tells where it was.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        match self {
            Self::At { .. } => self,
            Self::Object(error) if error.offset().is_some() => Self::Object(error),
            source => Self::At { offset, source: Box::new(source) },
        }
    }

    /// The same error with the file's name, which a path does not know.
    #[must_use]
    pub fn named(self, path: &Path) -> Self {
        match self {
            Self::Io { action, source } => {
                Self::file(action.trim_start_matches("the "), path, source)
            }
            Self::Gpu { call, code, cuda_code, explanation } => {
                let call = format!("{call} of {}", path.display());
                Self::Gpu { call, code, cuda_code, explanation }
            }
            Self::At { offset, source } => source.named(path).at(offset),
            other => other,
        }
    }

    /// The file offset at which a transfer failed.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::At { offset, .. } => Some(*offset),
            Self::Object(error) => error.offset(),
            _ => None,
        }
    }

    /// Whether it names an object, and says where in it.
    pub fn is_of_object(&self) -> bool {
        matches!(self.inner(), Self::Object(_))
    }

    /// The error without its location.
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

    /// A call on the file or folder at `path` that cannot be made, for this reason.
    pub(crate) fn refused(action: &'static str, path: &Path, why: impl Into<String>) -> Self {
        Self::file(action, path, io::Error::other(why.into()))
    }

    /// A failed call without a file name.
    pub(crate) fn io<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { action, source: source.into() }
    }

    /// The cause, without the attempted action: for messages that have stated that already.
    pub fn reason(&self) -> String {
        match self.inner() {
            Self::Gpu { explanation, .. } => explanation.clone(),
            Self::Unavailable { reason, .. } => reason.clone(),
            Self::Object(error) => error.reason(),
            error => error.source_error().map(ToString::to_string).unwrap_or_default(),
        }
    }

    /// The kernel's error, if there is one.
    fn source_error(&self) -> Option<&io::Error> {
        match self.inner() {
            Self::File { source, .. } | Self::Io { source, .. } | Self::Memory { source, .. } => {
                Some(source)
            }
            _ => None,
        }
    }

    /// The kernel's error number, if there is one.
    pub fn errno(&self) -> Option<i32> {
        match self.inner() {
            // -1 stands for no reason.
            Self::Gpu { code, .. } if *code < -1 => Some(-code),
            error => error.source_error()?.raw_os_error(),
        }
    }
}

/// Whether the kernel's error number `errno` says that storage, or a quota of it, is full.
pub fn is_full(errno: i32) -> bool {
    matches!(errno, libc::ENOSPC | libc::EDQUOT)
}
