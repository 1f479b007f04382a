//! Says what happened: a lane builds a [`document::Document`] from its report, and the renderers
//! draw documents.

#![forbid(unsafe_code)]

mod around;
pub mod chart;
pub mod checkpoint;
pub mod comparison;
pub mod csv;
pub mod dataset;
pub mod doctor;
pub mod document;
mod hosts;
pub mod html;
pub mod markdown;
pub mod matrix;
pub mod numbers;
pub mod openmetrics;
mod outcome;
pub mod records;
pub mod series;
pub mod settings;
mod shown;
pub mod stamp;
mod storage;
pub mod text;
pub mod training;

pub use self::outcome::Outcome;
pub use self::shown::{Lane, Shown, Subject, contradictions, status};

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
