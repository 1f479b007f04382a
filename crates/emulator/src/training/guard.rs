//! Panics become errors: a fault in one thread ends the run, and what was measured is saved.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::error::TrainError;

/// Does `work`; a panic in it comes back as an error that names `thread`.
///
/// What `work` shares with others may be left half done: whoever gets the error ends the run.
pub(super) fn guarded<T>(thread: &str, work: impl FnOnce() -> T) -> Result<T, TrainError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| TrainError::Panicked {
        thread: thread.to_string(),
        message: words(&*panic),
    })
}

/// What a panic says of itself.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_string()
}
