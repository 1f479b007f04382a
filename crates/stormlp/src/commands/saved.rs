//! Saved reports, read back.

use std::fs;
use std::path::Path;

use anyhow::Context;
use stormlp_model::matrix::MatrixReport;
use stormlp_model::report::AnyReport;

use crate::exit::Failure;

/// Reads a saved report of any kind.
///
/// # Errors
/// With exit code 4 when the file cannot be read, and 3 when it is no report or a newer one.
pub(crate) fn any(path: &Path) -> Result<AnyReport, Failure> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the report {}", path.display()))
        .map_err(|error| {
            Failure::machine(error).with_help("`stormlp report DIR` lists the reports of a folder")
        })?;
    AnyReport::from_json(&text)
        .with_context(|| format!("{} cannot be used", path.display()))
        .map_err(Failure::no_plan)
}

/// Reads a saved report of a matrix.
///
/// # Errors
/// As [`any`], and when it is the report of another command.
pub(crate) fn matrix(path: &Path) -> Result<MatrixReport, Failure> {
    match any(path)? {
        AnyReport::Gds(report) => Ok(report),
        other => Err(Failure::no_plan(anyhow::anyhow!(
            "{} is the report of `stormlp {}`, and the one of a matrix is needed",
            path.display(),
            other.head().kind.name()
        ))),
    }
}
