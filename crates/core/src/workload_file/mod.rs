//! Workload files: one table of keys defines how each is read into a workload and written from it.
//!
//! A lane has a workload `W` and a [`Table`] of its keys. Reading goes through the file and
//! `--params`, reports every error with its line and column, and applies the values in the table's
//! order to a workload that holds the defaults. Writing uses the same places, so the two cannot
//! disagree.

mod fault;
mod field;
mod params;
pub mod place;
mod read;
mod table;
mod write;

use serde::{Deserialize, Serialize};

pub use fault::{Fault, WorkloadError};
pub use field::{Field, count, number, shown, text, wants};
pub use read::Contents;
pub use table::{Key, Table};
pub use write::{line, sections};

/// A key that was accepted but has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyNote {
    /// The key's path, `reader.pin_memory`.
    pub key: String,
    /// Its value, in one line.
    #[serde(default)]
    pub value: String,
    /// Why it has no effect.
    pub reason: String,
}
