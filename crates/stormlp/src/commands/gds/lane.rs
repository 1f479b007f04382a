//! A matrix as the driver runs it.

use std::path::Path;

use stormlp_core::failure::Failure;
use stormlp_core::printable::printable;
use stormlp_core::report::Head;
use stormlp_core::shell::shell_word;
use stormlp_core::transport::Requirement;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::session::Session;
use stormlp_matrix::plan::{CellReport, MatrixPlan, MatrixReport, MatrixResults};
use stormlp_matrix::report::outcome::outcome;
use stormlp_matrix::run::{self as matrix, Folders, agreement};
use stormlp_matrix::show::{beginning, gdsio_footnotes};

use crate::commands::deliver::{Delivery, Format};
use crate::commands::driver::{Lane, Outputs, Running, Start, drive};
use crate::output;

/// A matrix as the driver runs it.
struct Matrix {
    /// Whether a stopped run can be continued.
    is_resumable: bool,
    /// Whether it continues one.
    resumes: bool,
    has_others: bool,
    has_footnotes: bool,
    /// Its folders, until it runs.
    folders: Option<Folders>,
}

/// The report of a new plan.
pub(crate) fn report(plan: MatrixPlan, head: Head) -> MatrixReport {
    let mut report = MatrixReport::new(head, plan, MatrixResults::default());
    report.warnings.clone_from(&report.plan.warnings);
    report
}

/// Runs the remaining cells of a `report`; whether a stopped run can be continued is
/// `is_resumable`.
///
/// # Errors
/// With an exit code of docs/troubleshooting.md.
pub(crate) fn measure(
    mut report: MatrixReport,
    is_resumable: bool,
    delivery: &Delivery,
    (peers, session): (&Peers, &Session),
) -> Result<(), Failure> {
    let hosts = peers.hosts()?;
    for warning in agreement::warnings(peers) {
        report.warn(warning);
    }
    report.results.group = hosts.as_ref().map(|hosts| hosts.facts.clone());
    let folders = matrix::lock(&session.storage, &mut report)?;
    let plan = &report.plan;
    let needs_cufile = plan.cells.iter().any(|cell| cell.transport.path.needs_cufile());
    let opening = beginning(&report);
    let opening: Vec<_> = opening.iter().map(|line| printable(line)).collect();
    let outputs = Outputs::create(&plan.request.name, (delivery, None), (peers, session))?;
    let start = Start {
        opening: opening.join("\n"),
        cufile: needs_cufile
            .then(|| (plan.request.requires(Requirement::Gds), plan.devices.clone())),
        hosts,
        report,
    };
    let lane = Matrix {
        is_resumable,
        resumes: delivery.resumes.is_some(),
        has_others: !peers.is_alone(),
        has_footnotes: delivery.format() == Format::Gdsio && session.group.leads(),
        folders: Some(folders),
    };
    drive(start, lane, outputs, (peers, session))
}

impl Matrix {
    /// The command that continues the run with its report `saved` there.
    fn resume_with(&self, saved: &Path) -> String {
        let command = if self.resumes {
            Session::command_line().to_string()
        } else {
            // The report already has its path.
            let command = Session::command_line().without_option("--results-dir");
            format!("{command} --resume {}", shell_word(&saved.to_string_lossy()))
        };
        if self.has_others {
            format!("continue it under the same launcher: {command}")
        } else {
            command
        }
    }
}

impl Lane<MatrixPlan, MatrixResults> for Matrix {
    fn run(&mut self, begun: MatrixReport, on: Running<'_>) -> Result<MatrixReport, Failure> {
        let Some(folders) = self.folders.take() else {
            return Ok(begun);
        };
        let mut on_cell = |cell: &CellReport| {
            on.progress.cell_finished(cell);
            on.saver.cell(cell);
        };
        Ok(matrix::run((begun, folders), on.hosts, &on.surroundings, &mut on_cell)?)
    }

    fn outcome(&self, report: &MatrixReport, saved: Option<&Path>) -> Result<(), Failure> {
        if self.has_footnotes {
            gdsio_footnotes(report).iter().for_each(output::say);
        }
        let saved = saved.filter(|_| self.is_resumable);
        outcome(report, saved.map(|path| self.resume_with(path)).as_deref())
    }
}
