//! Says what happened: a lane builds a [`document::Document`] from its report, and the renderers
//! draw documents.

#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod csv;
pub mod dataset;
pub mod doctor;
pub mod document;
pub mod markdown;
pub mod matrix;
pub mod numbers;
pub mod records;
pub mod text;
pub mod training;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
