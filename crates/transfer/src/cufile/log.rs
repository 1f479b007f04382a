//! What cuFile takes from the environment: where it writes its log, and whether it may fall back.
//!
//! Without a word from us `cufile.log` appears in the current directory. The library has
//! parameters for the log's name and folder, but 1.16 to 1.20 accept and ignore them (tried);
//! what they heed is the environment at the time of the first call that logs.

use std::path::{Path, PathBuf};

use crate::environment;

/// The variable that cuFile reads the log's path from.
pub(super) const LOG_VARIABLE: &str = "CUFILE_LOGFILE_PATH";

/// The variable by which libraries up to 1.14 take `allow_compat_mode`.
pub(super) const ALLOW_COMPAT: &str = "CUFILE_ALLOW_COMPAT_MODE";

/// What became of a wish for the log's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogDestination {
    /// The log goes to this file.
    File(PathBuf),
    /// The user had chosen a place in the environment, which stands.
    Chosen(PathBuf),
    /// The environment could not be changed any more: `cufile.log` in the current directory.
    CurrentDirectory,
}

/// Sends cuFile's log to `file`, unless the environment names a place already.
///
/// To be called before the process starts its first thread, other than the one that takes signals,
/// and before cuFile is opened: changing the environment while other threads may read it is
/// undefined behaviour, so with more threads nothing is changed and the answer says so.
pub fn send_log_to(file: &Path) -> LogDestination {
    if let Some(chosen) = std::env::var_os(LOG_VARIABLE).filter(|path| !path.is_empty()) {
        return LogDestination::Chosen(chosen.into());
    }
    if environment::set(LOG_VARIABLE, file) {
        LogDestination::File(file.to_path_buf())
    } else {
        LogDestination::CurrentDirectory
    }
}

/// Forbids compatibility mode to libraries that only the environment tells (up to 1.13); to be
/// called like [`send_log_to`]. [`super::Driver::open`] forbids it to the others, and fails where
/// the library does not say that it is forbidden.
pub fn forbid_compat_mode() {
    environment::set(ALLOW_COMPAT, "false");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_other_threads_the_environment_is_left_alone() {
        // The test harness runs this beside its main thread.
        if std::env::var_os(LOG_VARIABLE).is_none() {
            let answer = send_log_to(Path::new("/nowhere/cufile.log"));
            assert_eq!(answer, LogDestination::CurrentDirectory);
            assert!(std::env::var_os(LOG_VARIABLE).is_none());
        }
    }
}
