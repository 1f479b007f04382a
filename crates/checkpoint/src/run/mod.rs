//! Runs a checkpoint plan: saves and restores the files of all ranks.
//!
//! A few threads move bytes, each with one transfer path. Ranks are small state machines that take
//! turns on them and share their buffers. Blocking operations (opening, syncing, renaming) are done
//! by clerks. Every checkpoint has a marker that says "incomplete" until its last file is durable,
//! so a partly written checkpoint is never taken for a complete one.

pub mod agreement;
pub mod checkpoint;
mod clerk;
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
pub use folders::{Look, scan};

#[cfg(test)]
mod tests;
