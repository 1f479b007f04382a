//! MLPerf Storage's editions, official files and submission rules.

#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod dlio;
pub mod kvcache;
pub mod official;
pub mod python_json;
mod sha256;
pub mod show;
pub mod submission;
pub mod training;
