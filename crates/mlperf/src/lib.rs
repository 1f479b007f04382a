//! MLPerf Storage's editions, official files and submission rules.

#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod dlio;
pub mod kvcache;
pub mod official;
pub mod python_json;
pub mod show;
pub mod submission;
pub mod training;

#[cfg(test)]
#[allow(dead_code, unreachable_pub, reason = "the lanes' tests use the rest")]
mod fixtures;
