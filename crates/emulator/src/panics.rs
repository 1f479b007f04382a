//! Panics become errors: a fault in one thread ends the run, and what was measured is saved.

use std::panic::{AssertUnwindSafe, catch_unwind};

use stormlp_model::panics::message;

/// Does `work`; a panic in it comes back as what it said of itself.
///
/// What `work` shares with others may be left half done: whoever gets the error ends the run.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message(&*panic))
}
