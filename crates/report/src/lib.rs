//! Says what happened.

#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod dataset;
pub mod doctor;
pub mod matrix;
pub mod training;
