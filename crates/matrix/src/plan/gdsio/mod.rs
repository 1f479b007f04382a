//! gdsio's arguments and job files, converted to a [`MatrixRequest`](super::request::MatrixRequest).
//!
//! Everything in an existing script is either interpreted as gdsio does or rejected by name; no
//! flag is silently ignored. Sizes are powers of 1024 whatever their spelling, as in gdsio.

mod args;
mod job_file;
mod run;
#[cfg(test)]
mod tests;
mod words;

pub use args::{GdsioArgs, parse_args};
pub use job_file::parse_job_file;
pub use run::{GdsioRun, emulate};
pub use words::in_gdsios_words;
