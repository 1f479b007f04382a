//! Workload files: one table of keys says how each is read into a workload and written out of it.
//!
//! A lane has a workload `W` and a [`Table`] of its keys. Reading goes through the file and
//! `--params`, finds every fault with its line and column, and sets what was said in the table's
//! order over a workload that holds the defaults. Writing asks the same places for their values,
//! so the two cannot disagree.

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

/// A key that was accepted but changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyNote {
    /// The key's path, `reader.pin_memory`.
    pub key: String,
    /// What it is set to, in one line.
    #[serde(default)]
    pub value: String,
    /// Why it changes nothing.
    pub reason: String,
}
