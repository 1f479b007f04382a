//! Shared by the tests of several crates: an object store that fails where a test wants it to, and
//! paths that panic there.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod objects;
mod panics;

pub use objects::{Fault, ObjectServer};
pub use panics::{BuildPath, Builder, SEAMS};
