//! Saved reports, read back: version first, then the rest.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;
use stormlp_model::head::{ReportKind, check_format};
use stormlp_model::matrix::MatrixReport;

use crate::exit::Failure;

/// Reads a saved report of any kind, as far as its version and kind.
///
/// # Errors
/// With exit code 4 when the file cannot be read, and 3 when it is no report or a newer one.
pub(crate) fn any(path: &Path) -> Result<(ReportKind, Value), Failure> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the report {}", path.display()))
        .map_err(|error| {
            Failure::machine(error).with_help("`stormlp report DIR` lists the reports of a folder")
        })?;
    let no_report = |error: anyhow::Error| {
        Failure::no_plan(error.context(format!("{} cannot be used", path.display())))
    };
    let value: Value = serde_json::from_str(&text)
        .context("it is no JSON")
        .map_err(no_report)?;
    check_format(&value).map_err(|error| no_report(error.into()))?;
    let kind = serde_json::from_value(value["kind"].clone())
        .context("it does not say which command made it")
        .map_err(no_report)?;
    Ok((kind, value))
}

/// Reads a saved report of a matrix.
///
/// # Errors
/// As [`any`], and when it is the report of another command.
pub(crate) fn matrix(path: &Path) -> Result<MatrixReport, Failure> {
    let (kind, value) = any(path)?;
    if kind != ReportKind::Gds {
        return Err(Failure::no_plan(anyhow::anyhow!(
            "{} is the report of `stormlp {}`, and the one of a matrix is needed",
            path.display(),
            kind.name()
        )));
    }
    serde_json::from_value(value)
        .with_context(|| format!("{} is damaged", path.display()))
        .map_err(Failure::no_plan)
}
