//! Output: a lane builds a [`document::Document`] from its report, and the renderers draw
//! documents.

#![forbid(unsafe_code)]

pub mod chart;
pub mod comparison;
pub mod csv;
pub mod doctor;
pub mod document;
pub mod hosts;
pub mod html;
pub mod markdown;
pub mod numbers;
pub mod objects;
pub mod openmetrics;
pub mod outcome;
pub mod records;
pub mod search;
pub mod series;
pub mod series_csv;
pub mod settings;
pub mod shown;
pub mod stamp;
pub mod storage;
pub mod telemetry;
pub mod text;
mod xml;

pub use self::outcome::Outcome;
pub use self::shown::{Lane, Shown, Subject, status};

#[cfg(test)]
mod tests;
