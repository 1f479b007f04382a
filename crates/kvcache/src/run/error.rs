//! Errors that end a run early.

use std::path::PathBuf;

use stormlp_core::failure::Failure;
use stormlp_core::note::{Cause, DATA_MISMATCH};
use stormlp_hosts::fault::Fault;
use stormlp_hosts::{GroupError, from_faults};
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::LockError;
use stormlp_transfer::thread_group::{Panicked, ThreadGroupError};

use crate::plan::TraceError;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum KvcacheError {
    /// Folder, files, threads or hosts.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A file is not as long as it was written.
    #[error("{path} ended after {found} bytes; {expected} were written")]
    Short {
        /// The file.
        path: PathBuf,
        /// Actual size in bytes.
        found: u64,
        /// Expected size in bytes.
        expected: u64,
    },
    /// The marker of the folder cannot be used.
    #[error("the marker {path} cannot be read: {reason}")]
    Marker {
        /// The marker.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A line of a trace that is wrong now: the file changed since it was read before the run.
    #[error("trace {path}, {wrong}")]
    Trace {
        /// The file.
        path: PathBuf,
        /// The line and its fault.
        wrong: TraceError,
    },
    /// A byte differs from the one written.
    #[error("{DATA_MISMATCH}: {path}, byte {byte} differs from the one written")]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// Its place in the object.
        byte: u64,
    },
    /// The file system has no `O_DIRECT`.
    #[error("{path} cannot be opened with O_DIRECT on this file system")]
    NotDirect {
        /// The file.
        path: PathBuf,
    },
    /// An object does not fit, whatever is deleted.
    #[error("an object of {bytes} bytes does not fit into the {capacity_bytes} for objects")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// Room for all objects.
        capacity_bytes: u64,
    },
}

from_faults!(KvcacheError: LockError, TransferError, GroupError, ThreadGroupError, Panicked);

impl KvcacheError {
    /// Classifies the cause of a failure during the run.
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Fault(fault) => fault.cause(),
            Self::NotDirect { .. } => Cause::Machine,
            _ => Cause::Storage,
        }
    }

    /// The failure of a run that could not start.
    pub fn not_started(self) -> Failure {
        let cause = match &self {
            Self::Fault(fault) => fault.cause_before(),
            _ => Cause::Machine,
        };
        let remedy = self.remedy().to_string();
        Failure::new(cause, self).with_help(remedy)
    }

    /// The next step for the user.
    pub(super) fn remedy(&self) -> &str {
        match self {
            Self::Fault(Fault::NoSpace { .. }) => {
                "another program filled the disk: free some space, or use a smaller --capacity or \
                 another --dir"
            }
            Self::Fault(Fault::Transfer(error)) if error.is_out_of_files() => {
                "allow more open files (ulimit -n, or fs.file-max of the host), or use a lower \
                 --queue-depth or --concurrency, or fewer --users"
            }
            Self::Fault(fault) => fault.remedy(),
            Self::Short { .. } => {
                "check the kernel log; if another program changed the file, keep it out of the folder"
            }
            Self::Marker { .. } => "use another --dir, or the stormlp that wrote it",
            Self::Mismatch { .. } => {
                "check the kernel log and the device: storage returned wrong data"
            }
            Self::NotDirect { .. } => "use --path buffered, or a --dir on another file system",
            Self::Trace { .. } => "leave the trace as it is while it is replayed",
            Self::TooLarge { .. } => "use a larger --capacity",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::path::Path;

    #[test]
    fn too_many_open_files_are_no_fault_of_the_device() {
        const EIO: i32 = 5;
        const EMFILE: i32 = 24;
        let of = |errno| {
            let (path, source) = (Path::new("kv/chunk"), io::Error::from_raw_os_error(errno));
            KvcacheError::from(Fault::on(path, TransferError::file("open", path, source)))
        };
        let error = of(EMFILE);
        assert_eq!(error.cause(), Cause::Resources);
        assert!(error.remedy().contains("ulimit -n") && error.remedy().contains("--queue-depth"));
        assert_eq!(of(EIO).cause(), Cause::Storage);
    }
}
