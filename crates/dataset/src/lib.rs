//! Which bytes a sample is: sizes, formats, content, names and the generation of datasets.
//!
//! A format here is bytes and positions only. Nothing in this crate opens a device; the
//! generator writes through `stormlp-transfer`, readers are handed bytes by whoever moved them.

#![forbid(unsafe_code)]

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
