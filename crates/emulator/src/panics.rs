//! Panics become errors: a fault in one thread ends the run, and what was measured is saved.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does `work`; a panic in it comes back as what it said of itself.
///
/// What `work` shares with others may be left half done: whoever gets the error ends the run.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| words(&*panic))
}

/// What a panic says; all that std promises is that it can be anything.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_string()
}
