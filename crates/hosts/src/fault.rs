//! Causes that end a run with files early, in every lane: the folder, its files, its threads, other
//! hosts.

use std::path::{Path, PathBuf};

use stormlp_core::note::Cause;
use stormlp_transfer::error::THREADS_HELP;
use stormlp_transfer::storage::LockError;
use stormlp_transfer::thread_group::{Panicked, ThreadGroupError};
use stormlp_transfer::{DEVICE_HELP, TransferError, fallback};

use crate::error::GroupError;

/// See the [module's description](self).
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Another run holds the folder, or its lock cannot be created.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file, a buffer, a path or a device failed.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The disk filled up.
    #[error("no space left while writing {path}: {}", .source.reason())]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// The failed operation.
        source: TransferError,
    },
    /// `fsync` failed: the kernel may have dropped data it could not write.
    #[error(
        "data loss: fsync of {path} failed ({}); written data may be lost; it was not retried, \
         since that would hide the loss",
        .source.reason()
    )]
    DataLoss {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: TransferError,
    },
    /// Something that stormlp did not make is in the way.
    #[error("{path} is in the way and was not made by stormlp")]
    InTheWay {
        /// The file or folder in the way.
        path: PathBuf,
    },
    /// The cuFile path fell back, and the run forbids fallbacks.
    #[error("{summary}")]
    FellBack {
        /// The path that ran, and that fallbacks are forbidden.
        summary: String,
    },
    /// Another host did not join, or cannot be reached.
    #[error(transparent)]
    Hosts(#[from] GroupError),
    /// A thread of the run panicked, or could not be started.
    #[error(transparent)]
    ThreadGroup(#[from] ThreadGroupError),
}

impl Fault {
    /// An error on `path`, distinguishing a full disk.
    pub fn on(path: &Path, source: TransferError) -> Self {
        match source.is_full() {
            true => Self::NoSpace { path: path.to_path_buf(), source },
            false => Self::Transfer(source.named(path)),
        }
    }

    /// The meaning of a failed `fsync` of `path`: lost data, unless the disk was merely full.
    pub fn on_sync(path: &Path, source: TransferError) -> Self {
        let path = path.to_path_buf();
        match source.is_full() {
            true => Self::NoSpace { path, source },
            false => Self::DataLoss { path, source },
        }
    }

    /// The cause of a failure during a run.
    pub fn cause(&self) -> Cause {
        match self {
            Self::ThreadGroup(ThreadGroupError::Panicked(_)) => Cause::Internal,
            Self::ThreadGroup(ThreadGroupError::Start(_)) => Cause::Resources,
            Self::Hosts(_) => Cause::Hosts,
            Self::Transfer(error) if error.missing().is_some() => Cause::Machine,
            Self::Transfer(error) if error.is_out_of_files() => Cause::Resources,
            Self::Transfer(error) if error.is_of_gpu() => Cause::Device,
            _ => Cause::Storage,
        }
    }

    /// The cause of a failure before anything was moved.
    pub fn cause_before(&self) -> Cause {
        match self {
            Self::Transfer(error)
            | Self::NoSpace { source: error, .. }
            | Self::DataLoss { source: error, .. }
            | Self::Lock(LockError::File(error)) => error.cause(),
            Self::ThreadGroup(ThreadGroupError::Panicked(_)) => Cause::Internal,
            Self::Hosts(_) => Cause::Hosts,
            _ => Cause::Machine,
        }
    }

    /// The next step for the user, unless the lane knows a better one.
    pub fn remedy(&self) -> &str {
        // An object that is missing in the run was there before.
        let of_object = |error: &TransferError| match error.is_not_found() {
            true => None,
            false => error.object_remedy(),
        };
        if let Self::Transfer(error) = self
            && let Some(remedy) = of_object(error)
        {
            return remedy;
        }
        match self {
            Self::Hosts(error) => error.remedy(),
            Self::Lock(LockError::Held { .. }) => "wait for the other run, or use another --dir",
            Self::Lock(LockError::File(_)) => "change its permissions, or use another --dir",
            Self::Transfer(error) if error.is_not_found() => {
                "something removed it during the run: keep other programs out of the folder, or use \
                 another --dir"
            }
            Self::Transfer(error) if error.is_of_gpu() => {
                "`stormlp doctor` shows what can run on this machine"
            }
            Self::Transfer(error) if error.is_out_of_files() => {
                "allow more open files (ulimit -n, or fs.file-max of the host), or use fewer threads"
            }
            Self::Transfer(error) => error.missing().unwrap_or(DEVICE_HELP),
            Self::NoSpace { .. } => "free some space, or use another --dir",
            Self::DataLoss { .. } => {
                "check the kernel log: the device or its connection lost writes"
            }
            Self::InTheWay { .. } => "use another --dir, or move it away",
            Self::FellBack { .. } => fallback::REMEDY,
            Self::ThreadGroup(ThreadGroupError::Start(_)) => THREADS_HELP,
            Self::ThreadGroup(ThreadGroupError::Panicked(_)) => {
                "please report it with the command and stormlp's output"
            }
        }
    }
}

impl From<Panicked> for Fault {
    fn from(panicked: Panicked) -> Self {
        Self::ThreadGroup(panicked.into())
    }
}

/// Lets `?` turn these into a lane's error, by way of the [`Fault`] in it.
#[macro_export]
macro_rules! from_faults {
    ($lane:ty: $($fault:ty),+ $(,)?) => {
        $(impl From<$fault> for $lane {
            fn from(fault: $fault) -> Self {
                Self::Fault(fault.into())
            }
        })+
    };
}
