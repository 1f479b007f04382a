//! The bytes of samples: sizes, formats, content, names and the generation of datasets.
//!
//! A format here is only bytes and positions. This crate opens no device: the generator writes
//! through `stormlp-transfer`, and readers receive bytes from their caller.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod content;
pub mod dataset;
pub mod format;
pub mod generate;
pub mod inventory;
pub mod manifest;
pub mod names;
pub mod report;
pub mod section;
pub mod sizes;
pub mod spec;
