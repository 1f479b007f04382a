//! Runs a plan: users send requests, threads serve them with objects in files.
//!
//! Each thread serves one request at a time, as in the original: it looks for the objects of other
//! turns, writes the request's object, and reads that again and again. The state that all threads
//! share (`store`) decides about writes, places and deletions. The chunks of serving engines have
//! separate threads (`loader`) and state (`chunk_files`).

pub mod agreement;
mod chunk_files;
mod error;
pub mod find_max;
mod folder;
mod loader;
mod mover;
mod requests;
mod stage;
mod store;
mod tally;
mod together;
mod trace;
mod trial;
mod trials;
mod worker;

pub use error::KvcacheError;
pub use folder::{CleanedFolder, clean, scan};
pub use stormlp_transfer::storage::ScanDepth;
pub use trace::scan_trace;
pub use trials::run;

#[cfg(test)]
mod tests;
