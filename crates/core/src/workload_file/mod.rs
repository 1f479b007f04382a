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
mod storage;
mod table;

pub use fault::{WorkloadError, WorkloadFault};
pub use field::{Field, count, line, number, shown, text, wants};
pub use params::sets;
pub use storage::folder_in_storage;
pub use table::{Contents, Key, KeyNote, Table, sections};
