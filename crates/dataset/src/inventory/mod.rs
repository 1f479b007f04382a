//! The contents of a dataset folder: files, sizes, and a manifest if stormlp made it.
//!
//! A folder made by DLIO, without a manifest, is equally valid: files are found as in DLIO, by
//! suffix, in `train/` and `valid/` or one level of subfolders, in the order of their names.
//! [`check`] compares the findings with a workload's requirements.

mod check;
pub mod facts;
mod scan;

pub use check::{Finding, check, inspect};
pub use facts::planned;
pub use scan::{FoundDataset, FoundSplit, ScanError, scan};
