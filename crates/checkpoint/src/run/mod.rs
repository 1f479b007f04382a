//! Runs a checkpoint plan: saves and restores the files of all ranks.
//!
//! A few threads move bytes, each with one transfer path. Ranks are small state machines that take
//! turns on them and share their buffers. Blocking operations (opening, syncing, renaming) are done
//! by the blocking pool. Every checkpoint has a marker that says "incomplete" until its last file
//! is durable, so a partly written checkpoint is never mistaken for a complete one.

pub mod agreement;
mod blocking_pool;
pub mod checkpoint;
mod content;
mod error;
mod folders;
mod mover;
mod overlap;
mod phase;
mod pieces;
mod together;
mod trial;

pub use crate::run::checkpoint::run;
pub use content::CheckpointContent;
pub use error::CheckpointError;
pub use folders::scan;
pub use stormlp_transfer::storage::ScanDepth;

#[cfg(test)]
mod tests;
