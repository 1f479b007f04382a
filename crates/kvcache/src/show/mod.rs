//! Answers about KV caches as documents.

mod size;

pub use size::size;
