//! Runs a plan, saves after every cell, and reports the outcome.

use stormlp_core::failure::Failure;
use stormlp_core::shell::shell_word;
use stormlp_hosts::company::Company;
use stormlp_hosts::fate::{blame_launcher, shared_fate};
use stormlp_hosts::savers::Savers;
use stormlp_hosts::session::Session;
use stormlp_matrix::plan::{CellReport, MatrixReport};
use stormlp_matrix::report::outcome::outcome;
use stormlp_matrix::run as matrix;
use stormlp_matrix::show::{beginning, gdsio_footnotes};
use stormlp_transfer::surroundings::Surroundings;

use crate::commands::deliver::{Delivery, Format};
use crate::output;
use crate::progress::Progress;

/// A matrix ready to run: its plan, its completed cells, and where it is saved.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) report: MatrixReport,
    pub(crate) savers: Savers,
    /// The command that resumes it when stopped, if any.
    pub(crate) resume_with: Option<String>,
}

impl Run {
    /// Sets the resume command from the command line; `resumes` says whether that already contains
    /// the option.
    pub(crate) fn resumable(mut self, resumes: bool, session: &Session) -> Self {
        let command = if resumes {
            Session::command_line().to_string()
        } else {
            let report = shell_word(&self.savers.path().to_string_lossy());
            // The report already has its path.
            let command = Session::command_line().without_option("--results-dir");
            format!("{command} --resume {report}")
        };
        self.resume_with = Some(if session.group.is_alone() {
            command
        } else {
            format!("continue it under the same launcher: {command}")
        });
        self
    }
}

/// Runs the matrix, saves it, writes the results, and converts failures to an exit code.
///
/// # Errors
/// With the exit code documented in the README.
pub(crate) fn execute(
    run: Run,
    company: Company<'_>,
    delivery: &Delivery,
    session: &Session,
) -> Result<(), Failure> {
    let mut savers = run.savers;
    let locked = matrix::lock(&session.storage, run.report)?;
    let report = locked.report();
    if !session.quiet {
        beginning(report).iter().for_each(output::say);
    }
    savers.begin(report)?;
    if (report.plan.cells.iter()).any(|cell| cell.transport.path.needs_cufile()) {
        let plan = &report.plan;
        let devices = plan.devices.iter().copied();
        savers.prepare_cufile(plan.request.require_gds, devices, &report.head.host);
    }
    let progress = Progress::new(session.quiet);
    let surroundings =
        Surroundings { storage: &session.storage, observer: &progress, stop: &session.stop };
    let mut on_cell = |cell: &CellReport| {
        progress.cell_finished(cell);
        savers.cell(cell);
    };
    let mut report = matrix::run_in_company(locked, company, &surroundings, &mut on_cell)?;
    let hosts = company.hosts();
    blame_launcher(&mut report.ending, hosts, &session.stop);
    let resume_with = run.resume_with.as_deref();
    let went = delivery.finish(savers, &report, session, |_| {
        if delivery.format() == Format::Gdsio && session.group.leads() {
            gdsio_footnotes(&report).iter().for_each(output::say);
        }
        outcome(&report, resume_with)
    });
    went.map_err(|failure| shared_fate(failure, &report.ending, hosts))
}
