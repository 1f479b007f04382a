//! A transfer matrix for people and for programs: table, gdsio's line, JSON, CSV, Markdown.
//!
//! Nothing is measured or decided here: what is printed is in the report that was given.

mod compare;
mod csv;
mod gdsio;
mod group;
mod numbers;
mod plan;
mod sheet;
mod study;
mod table;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::path::Path;
use std::str::FromStr;

use stormlp_model::matrix::MatrixReport;

pub use self::csv::{HEADER as CSV_HEADER, rows as csv_rows};
pub use gdsio::result_lines as gdsio_lines;
pub use plan::render_plan;

/// How a matrix is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For a terminal.
    Table,
    /// gdsio's result line, one for each cell that ran.
    Gdsio,
    /// The saved report itself.
    Json,
    /// A line for each cell.
    Csv,
    /// A table for a README or a ticket.
    Markdown,
}

/// Which columns a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Columns {
    /// stormlp's own.
    #[default]
    Standard,
    /// The study's table for each kind of I/O: sizes, throughput, mean latency, operations.
    StudyA,
    /// The study's table sorted by throughput.
    StudyB,
}

/// Why a matrix could not be written down.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The columns of the study are tables.
    #[error("--columns study-a and study-b are for the formats table and markdown")]
    Columns,
    /// The report is no JSON, which would be a fault of stormlp.
    #[error("the report cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The report is no CSV, which would be a fault of stormlp.
    #[error("the report cannot be written as CSV: {0}")]
    Csv(#[from] ::csv::Error),
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "table" => Ok(Self::Table),
            "gdsio" => Ok(Self::Gdsio),
            "json" => Ok(Self::Json),
            "csv" => Ok(Self::Csv),
            "markdown" => Ok(Self::Markdown),
            _ => Err(format!(
                "`{text}` is not a format: use table, gdsio, json, csv or markdown"
            )),
        }
    }
}

impl Format {
    /// The format that a file's extension names.
    ///
    /// # Errors
    /// When the extension names none, with those that do.
    pub fn of_file(path: &Path) -> Result<Self, String> {
        let extension = path.extension().and_then(|text| text.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("json") => Ok(Self::Json),
            Some("csv") => Ok(Self::Csv),
            Some("md" | "markdown") => Ok(Self::Markdown),
            Some("gdsio" | "log") => Ok(Self::Gdsio),
            Some("txt") => Ok(Self::Table),
            _ => Err(format!(
                "{}: the extension names no format: use .json, .csv, .md, .txt or .gdsio",
                path.display()
            )),
        }
    }
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "standard" => Ok(Self::Standard),
            "study-a" => Ok(Self::StudyA),
            "study-b" => Ok(Self::StudyB),
            _ => Err(format!(
                "`{text}` is not a set of columns: use standard, study-a or study-b"
            )),
        }
    }
}

/// A report, and what to show of it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The report.
    pub report: &'a MatrixReport,
    /// An earlier one to compare with, cell by cell.
    pub baseline: Option<&'a MatrixReport>,
    /// Which columns a table has.
    pub columns: Columns,
}

/// Writes a report down.
///
/// # Errors
/// When the columns do not go with the format.
pub fn render(format: Format, view: &View<'_>) -> Result<String, RenderError> {
    let is_table = matches!(format, Format::Table | Format::Markdown);
    if view.columns != Columns::Standard && !is_table {
        return Err(RenderError::Columns);
    }
    match format {
        Format::Table => Ok(table::text(&sheet_of(view))),
        Format::Markdown => Ok(table::markdown(&sheet_of(view))),
        Format::Gdsio => Ok(gdsio::result_lines(view.report, false)),
        Format::Json => Ok(serde_json::to_string_pretty(view.report)? + "\n"),
        Format::Csv => Ok(csv::rows(view.report, true)?),
    }
}

fn sheet_of(view: &View<'_>) -> sheet::Sheet {
    match view.columns {
        Columns::Standard => sheet::standard(view),
        Columns::StudyA => study::by_kind(view),
        Columns::StudyB => study::by_throughput(view),
    }
}
