//! KV caches of inference servers on storage.
//!
//! The objects, users and requests equal the KV-cache benchmark's of MLPerf Storage v3.0, to the
//! byte: they follow from a seed. A run has users send requests to threads that keep the objects in
//! files.

#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as stormlp_kvcache;

pub mod plan;
pub mod report;
pub mod run;
pub mod show;
