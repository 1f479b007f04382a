//! Panics become errors: a fault in one thread ends the run, and what was measured is saved.

use super::error::TrainError;
use crate::panics::caught;

/// Does `work`; a panic in it comes back as an error that names `thread`.
///
/// What `work` shares with others may be left half done: whoever gets the error ends the run.
pub(super) fn guarded<T>(thread: &str, work: impl FnOnce() -> T) -> Result<T, TrainError> {
    caught(work).map_err(|message| TrainError::Panicked {
        thread: thread.to_string(),
        message,
    })
}
