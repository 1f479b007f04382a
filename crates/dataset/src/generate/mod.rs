//! Dataset generation: parallel over files, direct to storage, and resumable.
//!
//! [`run`] makes no decisions: a [`GeneratePlan`] says which dataset goes where and which existing
//! files may be removed. Each file is written under a temporary name, renamed once it is complete,
//! and then listed in the journal. So a killed run leaves no file that looks finished but is not.

mod error;
mod file;
mod lanes;
pub(crate) mod plan;
mod run;
mod sink;
mod survey;
mod thread_group;
mod verify;

#[cfg(test)]
mod panic_tests;

pub use crate::report::{GenerateReport, Verification};
pub use error::GenerateError;
pub use plan::{Existing, GeneratePlan, check_room, default_threads, room};
pub use run::{GeneratedFiles, Generation, Share, check, check_space, run};
pub use survey::unlisted_objects;
pub use verify::{FileState, removable, state_of, verify};
