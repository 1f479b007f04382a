//! Says what happened.

pub mod doctor;
