//! Errors of dataset generation.

use std::path::PathBuf;

use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::units::ByteSize;
use stormlp_transfer::error::THREADS_HELP;
use stormlp_transfer::storage::LockError;
use stormlp_transfer::thread_group::ThreadGroupError;
use stormlp_transfer::{DEVICE_HELP, TransferError};

use crate::manifest::ManifestError;

/// Why a dataset was not generated, or is invalid.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The folder holds files.
    #[error("{} holds {what}", folder.display())]
    Occupied {
        /// The dataset folder.
        folder: PathBuf,
        /// Its contents: a complete dataset, an unfinished one, or files of unknown origin.
        what: String,
        /// Whether `--resume` would continue it.
        resumable: bool,
    },
    /// The folder holds a different dataset than the one to continue.
    #[error(
        "{} holds a different dataset: it was made with {theirs}, but this run requests {ours}",
        folder.display()
    )]
    Another {
        /// The dataset folder.
        folder: PathBuf,
        /// The difference as found.
        theirs: String,
        /// The difference as requested.
        ours: String,
    },
    /// Another run holds the folder.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// The dataset does not fit.
    #[error(
        "{} has {} free, but the dataset needs about {}",
        folder.display(), ByteSize(*free_bytes), ByteSize(*needed_bytes)
    )]
    Space {
        /// The dataset folder.
        folder: PathBuf,
        /// Free space in bytes.
        free_bytes: u64,
        /// Additional space needed in bytes.
        needed_bytes: u64,
    },
    /// A prerequisite of the first file is missing: a folder, the buffers, the I/O engine, a limit on
    /// the size of files, or the old dataset was changed.
    #[error("{what}")]
    Setup {
        /// The missing part, and why.
        what: String,
        /// The remedy; empty if the reason is sufficient.
        remedy: String,
    },
    /// The manifest or the journal failed.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Writing or reading a file failed.
    #[error(transparent)]
    File(#[from] TransferError),
    /// Storage failed before the first file of this run.
    #[error(transparent)]
    NotBegun(TransferError),
    /// The format cannot hold a file.
    #[error("{0}")]
    Format(String),
    /// A thread panicked, or could not be started.
    #[error(transparent)]
    ThreadGroup(#[from] ThreadGroupError),
    /// The user stopped the run.
    #[error("stopped with {what}")]
    Stopped {
        /// How far it came.
        what: String,
        /// Whether it made files, and did not only check them.
        wrote: bool,
    },
}

impl GenerateError {
    pub(super) fn setup(error: TransferError) -> Self {
        if error.is_link() || error.is_device_failure() {
            Self::NotBegun(error)
        } else {
            let remedy = error.object_remedy().or(error.missing()).unwrap_or_default();
            Self::Setup { what: error.to_string(), remedy: remedy.to_string() }
        }
    }

    /// The same of a run that has not made a file yet, if it is about a request to an object store.
    pub(super) fn before_the_first(self) -> Self {
        match self {
            Self::File(error) | Self::Manifest(ManifestError::File(error))
                if error.object_remedy().is_some() =>
            {
                Self::NotBegun(error)
            }
            other => other,
        }
    }

    /// Whether a link was in the way, inside the dataset folder or in place of it.
    #[must_use]
    pub fn is_link(&self) -> bool {
        self.transfer().is_some_and(TransferError::is_link)
    }

    /// Whether a file was larger than the process or the file system allows.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.transfer().is_some_and(TransferError::is_too_large)
    }

    /// Whether the storage was full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Space { .. } => true,
            _ => self.transfer().is_some_and(TransferError::is_full),
        }
    }

    /// The failed operation on a file, its list or a folder.
    fn transfer(&self) -> Option<&TransferError> {
        match self {
            Self::File(error)
            | Self::NotBegun(error)
            | Self::Manifest(ManifestError::File(error)) => Some(error),
            _ => None,
        }
    }
}

/// Advice for a limit below the size of a dataset file.
pub(super) const LARGER_FILES: &str = "raise the limit on the size of files (ulimit -f)";

impl GenerateError {
    /// The failure of a command. The same files are continued by the command `resume`, and made
    /// anew by `overwrite`.
    pub fn failure(self, resume: &str, overwrite: &str) -> Failure {
        let remedy = self.remedy(resume, overwrite);
        Failure::new(self.cause(), self).with_help(remedy)
    }

    fn cause(&self) -> Cause {
        match self {
            error if error.is_link() || error.is_too_large() => Cause::Machine,
            Self::Locked(LockError::File(error)) => error.cause(),
            Self::Occupied { .. }
            | Self::Locked(_)
            | Self::Setup { .. }
            | Self::ThreadGroup(ThreadGroupError::Start(_))
            | Self::Space { .. } => Cause::Machine,
            Self::Another { .. } | Self::Format(_) => Cause::Plan,
            Self::Stopped { .. } => Cause::Stopped,
            Self::File(error) if error.missing().is_some() => Cause::Machine,
            Self::NotBegun(error) => error.cause(),
            Self::File(_) | Self::Manifest(_) => Cause::Storage,
            Self::ThreadGroup(_) => Cause::Internal,
        }
    }

    fn remedy(&self, resume: &str, overwrite: &str) -> String {
        match self {
            error if error.is_link() => {
                "remove the link and put the data itself there, or choose another --dir".to_string()
            }
            error if error.is_too_large() => {
                format!("{LARGER_FILES}, then continue with `{resume}`")
            }
            Self::Occupied { resumable: true, .. } => format!(
                "`{resume}` continues or repairs it, `--check` checks it, `--overwrite` recreates \
                 it"
            ),
            Self::Occupied { .. } => {
                format!("choose another --dir, or remove it with `{overwrite}`")
            }
            Self::Another { .. } => {
                "give the options it was made with, or --overwrite to recreate it".to_string()
            }
            Self::ThreadGroup(ThreadGroupError::Start(_)) => THREADS_HELP.to_string(),
            Self::Space { .. } => {
                "free some space, choose another --dir, or use fewer --files".to_string()
            }
            Self::Stopped { wrote: true, .. } => format!("continue with `{resume}`"),
            Self::Stopped { .. } => "no file was changed; --check starts over".to_string(),
            Self::File(_) | Self::Manifest(_) if self.is_full() => format!(
                "free some space and continue with `{resume}`; the files made so far are complete"
            ),
            Self::File(error) if error.missing().is_some() => {
                error.missing().unwrap_or_default().to_string()
            }
            Self::NotBegun(error) => error.object_remedy().unwrap_or(DEVICE_HELP).to_string(),
            Self::File(error) => {
                let first = of_object(error);
                format!("{first}the files made so far are complete: continue with `{resume}`")
            }
            Self::Manifest(ManifestError::Unusable { .. }) => {
                "choose another --dir, or remove the folder yourself".to_string()
            }
            Self::Manifest(ManifestError::File(error)) => {
                let first = of_object(error);
                format!("{first}once it can be read and written, continue with `{resume}`")
            }
            Self::ThreadGroup(_) => {
                format!("please report it; `{resume}` keeps the complete files and makes the rest")
            }
            Self::Setup { remedy, .. } => remedy.clone(),
            Self::Locked(_) | Self::Format(_) => String::new(),
        }
    }
}

/// The first step for a failed request to an object store; empty for a file.
fn of_object(error: &TransferError) -> String {
    error.object_remedy().map_or_else(String::new, |remedy| format!("{remedy}; "))
}
