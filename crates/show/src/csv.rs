//! The records of a document as CSV, for spreadsheets and scripts.

use crate::document::Document;

/// The rows, below a header line if `with_header`.
///
/// # Errors
/// If a row does not fit the header, which would be a bug in stormlp.
pub fn render(document: &Document, with_header: bool) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    if with_header {
        writer.write_record(&document.records.columns)?;
    }
    for row in document.records.text() {
        writer.write_record(row)?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
