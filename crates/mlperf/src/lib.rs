//! MLPerf Storage's rules, editions and official files, and submissions that are held against them.

#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod dlio;
pub mod official;
pub mod python_json;
pub mod show;
pub mod submission;
pub mod training;
