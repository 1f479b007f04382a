//! cuFile's environment variables: the path of its log, and whether it may fall back.
//!
//! By default `cufile.log` appears in the current directory. The library has parameters for the
//! log's name and folder, but 1.16 to 1.20 accept and ignore them (tested); they read the
//! environment at the time of the first call that logs.

use std::path::Path;

use crate::environment;

/// The variable with the path of cuFile's log.
pub(super) const LOG_VARIABLE: &str = "CUFILE_LOGFILE_PATH";

/// Sends cuFile's log to `file`, unless the environment already names a location; returns whether
/// it did.
///
/// Call this before the process starts its first thread, other than the one that handles signals,
/// and before cuFile is opened: changing the environment while other threads may read it is
/// undefined behaviour, so with more threads it stays unchanged, and `cufile.log` is in the current
/// directory.
pub fn send_log_to(file: &Path) -> bool {
    !environment::is_set(LOG_VARIABLE) && environment::set(LOG_VARIABLE, file)
}

/// Forbids compatibility mode for libraries that only read the environment (up to 1.13); call it
/// like [`send_log_to`]. [`super::Driver::open`] forbids it for newer ones, and fails if the
/// library does not confirm that it is forbidden.
pub fn forbid_compat_mode() {
    // Libraries up to 1.14 have no parameter for it.
    environment::set("CUFILE_ALLOW_COMPAT_MODE", "false");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_other_threads_the_environment_is_left_alone() {
        // The test harness runs this alongside its main thread.
        if std::env::var_os(LOG_VARIABLE).is_none() {
            assert!(!send_log_to(Path::new("/nowhere/cufile.log")));
            assert!(std::env::var_os(LOG_VARIABLE).is_none());
        }
    }
}
