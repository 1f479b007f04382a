//! Resumes a matrix: the plan is made again from the options, and only the results are taken from
//! the saved report. Completed cells are not run again.
//!
//! On several hosts the leading process has the report, and tells the others what is complete.

use std::path::Path;

use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::report::ReportKind;
use stormlp_hosts::party::Party;
use stormlp_hosts::savers::Savers;
use stormlp_hosts::session::Session;
use stormlp_matrix::plan::{MatrixPlan, MatrixReport, Saved};

use super::finish::Run;
use crate::any_report::AnyReport;
use crate::commands::deliver::Delivery;
use crate::commands::saved;

/// Reads a saved report, which must have as many hosts as there are now.
///
/// # Errors
/// If it cannot be read, or belongs to another command or other hosts.
pub(super) fn read(path: &Path, party: &Party) -> Result<Saved, Failure> {
    let path = saved::file(path)?;
    let AnyReport::Gds(report) = saved::of_kind(&path, ReportKind::Gds)? else {
        return Err(Failure::usage("--resume continues a report of `stormlp gds`"));
    };
    Saved::new(path, report, &party.names())
}

/// Resumes a run, which is saved at `path` again; `saved` is the report there, in the leading
/// process.
///
/// # Errors
/// With exit code 3 if it is from other machines or another matrix; all processes fail alike.
pub(super) fn go_on(
    (path, saved): (&Path, Option<Saved>),
    (plan, facts): (MatrixPlan, HostFacts),
    party: &Party,
    delivery: &Delivery,
    session: &Session,
) -> Result<Run, Failure> {
    let taken = party.agree(saved.map(|saved| saved.take(&plan, &facts)).transpose())?;
    for warning in taken.iter().flat_map(|taken| &taken.changed).filter(|_| !session.quiet) {
        session.say(format!("warning: {warning}"));
    }
    let taken = party.from_first(&taken)?;
    let mut head = delivery.head(facts, session);
    head.started_at = taken.head.started_at;
    for (key, value) in taken.head.tags {
        head.tags.entry(key).or_insert(value);
    }
    let savers = Savers::resume(&saved::file(path)?, ReportKind::Gds, session);
    let mut report = MatrixReport::new(head, plan, taken.results);
    report.warnings.clone_from(&report.plan.warnings);
    for warning in taken.warnings.into_iter().chain(taken.changed) {
        report.warn(warning);
    }
    Ok(Run { report, savers, resume_with: None })
}
