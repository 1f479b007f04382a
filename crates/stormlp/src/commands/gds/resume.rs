//! Resumes a matrix: the plan is made again from the options, and only the results are taken from
//! the saved report. Completed cells are not run again.
//!
//! On several hosts the leading process has the report, and tells the other processes which cells
//! are complete.

use std::path::{Path, PathBuf};

use stormlp_core::failure::Failure;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::session::Session;
use stormlp_matrix::plan::{MatrixReport, check_hosts, resumed};

use crate::commands::saved;

/// Reads a saved report, which must have as many hosts as there are now.
///
/// # Errors
/// If it cannot be read, or belongs to another command or other hosts.
pub(super) fn read(path: &Path, peers: &Peers) -> Result<(PathBuf, MatrixReport), Failure> {
    let path = saved::file(path)?;
    let report = saved::gds(&path)?;
    check_hosts(&path, &report, &peers.names())?;
    Ok((path, report))
}

/// Adds the reusable cells of the `saved` report to the `report` of a starting run; the leading
/// process has.
///
/// # Errors
/// With exit code 3 if that is from other machines or another matrix; all processes fail alike.
pub(super) fn add_saved(
    report: &mut MatrixReport,
    saved: Option<(PathBuf, MatrixReport)>,
    peers: &Peers,
    session: &Session,
) -> Result<(), Failure> {
    let taken = saved.map(|saved| resumed(saved, &report.plan, &report.head.host)).transpose();
    let taken = peers.agree(taken)?;
    for warning in taken.iter().flat_map(|taken| &taken.1).filter(|_| !session.quiet) {
        session.say(format!("warning: {warning}"));
    }
    let (taken, changed) = peers.from_first(&taken)?;
    report.head.started_at = taken.head.started_at;
    for (key, value) in taken.head.tags {
        report.head.tags.entry(key).or_insert(value);
    }
    report.results = taken.results;
    for warning in taken.warnings.into_iter().chain(changed) {
        report.warn(warning);
    }
    Ok(())
}
