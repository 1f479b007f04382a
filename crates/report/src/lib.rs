//! Says what happened.

#![forbid(unsafe_code)]

pub mod doctor;
