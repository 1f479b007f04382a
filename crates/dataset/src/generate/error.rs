//! Errors of dataset generation.

use std::fmt::Display;
use std::path::{Path, PathBuf};

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
    /// A prerequisite is missing: the folder's lock, space, the buffers, the I/O engine, a limit on
    /// the size of files; or the old dataset was changed, or the format cannot hold a file.
    #[error("{}", .0.note.fact)]
    Refused(Failure),
    /// The manifest or the journal failed.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Writing or reading a file failed.
    #[error(transparent)]
    File(#[from] TransferError),
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
    /// A lack of this machine.
    pub(super) fn machine(fact: impl Display, remedy: impl Into<String>) -> Self {
        Self::Refused(Failure::saying(Cause::Machine, fact).with_help(remedy))
    }

    /// The dataset does not fit.
    pub(super) fn space(folder: &Path, free_bytes: u64, needed_bytes: u64) -> Self {
        let (free, needed) = (ByteSize(free_bytes), ByteSize(needed_bytes));
        Self::machine(
            format_args!(
                "{} has {free} free, but the dataset needs about {needed}",
                folder.display()
            ),
            "free some space, or choose another --dir; a run that is not CLOSED may use fewer --files",
        )
    }

    /// Storage failed before the first file of this run.
    pub(super) fn setup(error: TransferError) -> Self {
        let (cause, remedy) = if error.is_link() {
            (Cause::Machine, LINK)
        } else if error.is_device_failure() {
            (error.cause(), error.object_remedy().unwrap_or(DEVICE_HELP))
        } else {
            (Cause::Machine, error.object_remedy().or(error.missing()).unwrap_or_default())
        };
        let remedy = remedy.to_string();
        Self::Refused(Failure::new(cause, error).with_help(remedy))
    }

    /// The same of a run that has not made a file yet, if it is about a request to an object store.
    pub(super) fn before_the_first(self) -> Self {
        match self {
            Self::File(error) | Self::Manifest(ManifestError::File(error))
                if error.object_remedy().is_some() =>
            {
                let remedy = error.object_remedy().unwrap_or_default();
                Self::Refused(Failure::new(error.cause(), error).with_help(remedy))
            }
            other => other,
        }
    }
}

impl From<LockError> for GenerateError {
    fn from(error: LockError) -> Self {
        let cause = match &error {
            LockError::File(error) => error.cause(),
            LockError::Held { .. } => Cause::Machine,
        };
        Self::Refused(Failure::new(cause, error))
    }
}

/// Advice for a link inside the dataset folder or in place of it.
const LINK: &str = "remove the link and put the data itself there, or choose another --dir";
/// Advice for a limit below the size of a dataset file.
pub(super) const LARGER_FILES: &str = "raise the limit on the size of files (ulimit -f)";

impl GenerateError {
    /// The failure of a command. The same files are continued by the command `resume`, and made
    /// anew by `overwrite`.
    pub fn failure(self, resume: &str, overwrite: &str) -> Failure {
        let (cause, remedy) = match &self {
            Self::Refused(failure) => return failure.clone(),
            Self::Occupied { resumable, .. } => {
                let remedy = match resumable {
                    true => format!(
                        "`{resume}` continues or repairs it, `--check` checks it, `--overwrite` \
                         recreates it"
                    ),
                    false => format!("choose another --dir, or remove it with `{overwrite}`"),
                };
                (Cause::Machine, remedy)
            }
            Self::Another { .. } => {
                let remedy = "give the options it was made with, or --overwrite to recreate it";
                (Cause::Plan, remedy.to_string())
            }
            Self::ThreadGroup(ThreadGroupError::Start(_)) => {
                (Cause::Machine, THREADS_HELP.to_string())
            }
            Self::ThreadGroup(_) => {
                let kept = "keeps the complete files and makes the rest";
                (Cause::Internal, format!("please report it; `{resume}` {kept}"))
            }
            Self::Stopped { wrote: true, .. } => {
                (Cause::Stopped, format!("continue with `{resume}`"))
            }
            Self::Stopped { .. } => {
                (Cause::Stopped, "no file was changed; --check starts over".to_string())
            }
            Self::Manifest(ManifestError::Unusable { .. }) => {
                let remedy = "choose another --dir, or remove the folder yourself";
                (Cause::Storage, remedy.to_string())
            }
            Self::Manifest(ManifestError::File(error)) => {
                of_file(error, "once it can be read and written,", resume)
            }
            Self::File(error) => of_file(error, "the files made so far are complete:", resume),
        };
        Failure::new(cause, self).with_help(remedy)
    }
}

/// Cause and remedy of a failed operation on a file, its list, a folder or an object; `state` says
/// how far the dataset came.
fn of_file(error: &TransferError, state: &str, resume: &str) -> (Cause, String) {
    if error.is_link() {
        return (Cause::Machine, LINK.to_string());
    }
    if let Some(missing) = error.missing() {
        return (Cause::Machine, missing.to_string());
    }
    if error.is_too_large() {
        return (Cause::Machine, format!("{LARGER_FILES}, then continue with `{resume}`"));
    }
    let remedy = if error.is_full() {
        let complete = "the files made so far are complete";
        format!("free some space and continue with `{resume}`; {complete}")
    } else {
        let first = error.object_remedy().map_or_else(String::new, |remedy| format!("{remedy}; "));
        format!("{first}{state} continue with `{resume}`")
    };
    (Cause::Storage, remedy)
}
