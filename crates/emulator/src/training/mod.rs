//! Training: the emulated accelerators, their loaders, and what keeps them waiting.

pub mod crew;
pub mod error;
mod handles;
mod io;
mod job;
pub mod machine;
mod pacer;
mod shared;
pub mod source;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod crew_tests;
