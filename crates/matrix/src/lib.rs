//! The transfer matrix: `gds`, `gdsio`, `--find-knee`.
//!
//! Cells are combinations of path, operation, size, threads and depth; each is measured separately.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

#[cfg(test)]
extern crate self as stormlp_matrix;

pub mod plan;
pub mod report;
pub mod run;
pub mod show;
