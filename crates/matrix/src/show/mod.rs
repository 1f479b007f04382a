//! A transfer matrix as a document, and gdsio's result line.

mod charts;
mod compare;
#[cfg(test)]
#[path = "../../tests/fixtures/mod.rs"]
pub mod fixtures;
mod gdsio;
mod group;
mod knee;
mod lane;
mod mismatch;
mod mix;
mod objects;
mod plan;
mod progress;
mod reach;
mod run;
mod study;
#[cfg(test)]
mod tests;
mod warnings;

pub(crate) use charts::charts;
pub use gdsio::{footnotes as gdsio_footnotes, result_lines as gdsio_lines};
pub use plan::plan;
pub use progress::{beginning, cell_row, cell_row_head};
pub use run::{RECORDS, document};
