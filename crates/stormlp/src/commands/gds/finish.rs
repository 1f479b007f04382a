//! Runs a plan, saves after every cell, and reports the outcome.

use stormlp_core::report::{Ending, PartOf};
use stormlp_core::shell::shell_word;
use stormlp_core::units::{ByteSize, counted, format_duration};
use stormlp_hosts::company::Company;
use stormlp_matrix::plan::gdsio::in_gdsios_words;
use stormlp_matrix::plan::{CellReport, CellStatus, MatrixPlan, MatrixReport, likely_left};
use stormlp_matrix::run as matrix;
use stormlp_matrix::run::{FinishedCell, MatrixError};
use stormlp_matrix::show as matrix_report;
use stormlp_transfer::TransferError;
use stormlp_transfer::crew::CrewError;
use stormlp_transfer::surroundings::Surroundings;

use crate::commands::deliver::{Delivery, Format};
use crate::output;
use crate::progress::Progress;
use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_hosts::fate::{blame_launcher, shared_fate};
use stormlp_hosts::savers::{Savers, copy_of};
use stormlp_hosts::session::Session;

/// A matrix ready to run: its plan, its completed cells, and where it is saved.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) report: MatrixReport,
    pub(crate) savers: Savers,
    /// The cells measured by this host before, if it is one of several.
    pub(crate) own: Vec<CellReport>,
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
    let locked = matrix::lock(&session.storage, run.report).map_err(matrix_failure)?;
    let report = locked.report();
    announce(report, session);
    let mut own = run.own;
    savers.begin(report, |of| own_part(report, &own, of))?;
    if (report.plan.cells.iter()).any(|cell| cell.transport.path.needs_cufile()) {
        savers.prepare_cufile(report.plan.request.require_gds);
    }
    let progress = Progress::new(session.quiet);
    let surroundings =
        Surroundings { storage: &session.storage, observer: &progress, stop: &session.stop };
    let mut on_cell = |measured: FinishedCell<'_>| {
        progress.cell_finished(measured.whole);
        savers.cell(measured.own, measured.whole);
        // A cell interrupted before is measured again.
        own.retain(|one| one.cell != measured.own.cell);
        own.push(measured.own.clone());
    };
    let mut report = matrix::run_in_company(locked, company, &surroundings, &mut on_cell)
        .map_err(matrix_failure)?;
    let hosts = match company {
        Company::Hosts(hosts) => Some(hosts),
        Company::Alone | Company::From(_) => None,
    };
    blame_launcher(&mut report.ending, hosts, &session.stop);
    let resume_with = run.resume_with.as_deref();
    let own = |of| own_part(&report, &own, of);
    let went = delivery.finish(savers, (&report, own), session, |_| {
        if delivery.format() == Format::Gdsio && session.group.leads() {
            // gdsio's line has no room for the table's footnotes.
            explain(&report);
        }
        verdict(&report, resume_with)
    });
    went.map_err(|failure| shared_fate(failure, &report.ending, hosts))
}

/// The part of one of several hosts of a matrix: `whole` with only its own `cells`.
fn own_part(whole: &MatrixReport, cells: &[CellReport], of: PartOf) -> MatrixReport {
    let mut part = copy_of(whole, of);
    part.results.hosts.clear();
    part.results.find_knee = None;
    part.results.cells = cells.to_vec();
    part
}

/// Prints the estimated duration and the data written first.
fn announce(report: &MatrixReport, session: &Session) {
    if session.quiet {
        return;
    }
    let plan = &report.plan;
    let (count, seconds) = likely_left(plan, &report.results, &[]);
    if count == 0 {
        return output::say("no cell is left to measure");
    }
    let cells = if plan.request.find_knee {
        format!("some {count} of {} cells", plan.runnable_cells())
    } else {
        counted(count, "cell")
    };
    if plan.layout_bytes > 0 {
        let fate = if plan.request.remove { "removed afterwards" } else { "kept for the next run" };
        output::say(format!(
            "writing test files first: {} to {} ({fate})",
            ByteSize(plan.layout_bytes),
            places(plan)
        ));
    }
    output::say(format!("{cells} to measure, about {}", format_duration(seconds)));
}

fn places(plan: &MatrixPlan) -> String {
    let folders = plan.folders.iter().map(|folder| folder.path.folder());
    let files = plan.files.iter().filter(|f| f.folder.is_none()).map(|f| f.path.as_path());
    let places: Vec<String> = folders.chain(files).map(|p| p.display().to_string()).collect();
    places.join(", ")
}

/// Prints warnings and reasons on stderr, for a format that cannot contain them.
fn explain(report: &MatrixReport) {
    let mut lines: Vec<String> = Vec::new();
    let mut say = |line: String| {
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    for warning in &report.warnings {
        say(format!("warning: {warning}"));
    }
    for line in matrix_report::reached(report) {
        say(format!("note: {line}"));
    }
    for warning in matrix_report::cell_warnings(report) {
        say(format!("warning: {warning}"));
    }
    for cell in &report.results.cells {
        if cell.status != CellStatus::Ok {
            say(format!("note: {}", not_measured(cell)));
        }
    }
    lines.iter().map(|line| in_gdsios_words(line)).for_each(output::say);
}

fn not_measured(cell: &CellReport) -> String {
    let reason = cell.reason.as_deref().unwrap_or("no reason was recorded");
    format!("{} {}: {reason}", cell.requested_path, cell.op)
}

/// The exit code of a finished report.
fn verdict(report: &MatrixReport, resume_with: Option<&str>) -> Result<(), Failure> {
    if let Ending::Failed(note) = &report.ending {
        return Err(Failure::of_run(note, ""));
    }
    if report.ending == Ending::Stopped {
        let planned = report.plan.cells.len();
        let cut_short = (report.results.cells.iter())
            .filter_map(|cell| cell.measurement.as_ref())
            .any(|numbers| numbers.interrupted);
        let stopped = Failure::stopped(format!(
            "stopped by the user; {} cells are saved{}",
            if report.plan.request.find_knee {
                report.results.cells.len().to_string()
            } else {
                format!("{} of {planned}", report.results.cells.len())
            },
            if cut_short { ", the last cut short" } else { "" }
        ));
        return Err(match resume_with {
            Some(command) => stopped.with_help(command),
            None => stopped,
        });
    }
    let with = |status| report.results.cells.iter().filter(move |cell| cell.status == status);
    let failed = with(CellStatus::Failed).count();
    if let Some(first) = with(CellStatus::Failed).next() {
        if let (Some(EAGAIN), Some(remedy)) = (first.errno, &first.remedy) {
            let what = not_measured(first);
            return Err(Failure::machine(anyhow::anyhow!("{what}")).with_help(remedy));
        }
        return Err(Failure::storage(anyhow::anyhow!(
            "{failed} of {} cells failed; the first: {}",
            report.results.cells.len(),
            not_measured(first)
        ))
        .with_help(
            "the report has the reason for each; `stormlp doctor DIR` examines the storage",
        ));
    }
    match with(CellStatus::Unavailable).next() {
        Some(cell) if report.plan.request.names_paths() => {
            let failure = Failure::machine(anyhow::anyhow!("{}", not_measured(cell)));
            Err(match &cell.remedy {
                Some(remedy) if !remedy.is_empty() => failure.with_help(remedy.clone()),
                _ => failure,
            })
        }
        _ => Ok(()),
    }
}

/// The failure for a matrix that could not run at all, classified by cause.
fn matrix_failure(error: MatrixError) -> Failure {
    let code = match &error {
        MatrixError::Lock(_)
        | MatrixError::Manifest { .. }
        | MatrixError::Replaced { .. }
        | MatrixError::Late { .. } => Cause::Machine,
        MatrixError::Hosts(_) => Cause::Storage,
        MatrixError::Transfer(error) => transfer_code(error),
        MatrixError::Crew(CrewError::Panicked(_)) => Cause::Internal,
        MatrixError::Crew(CrewError::Start(_)) => Cause::Machine,
    };
    let help = match &error {
        MatrixError::Transfer(TransferError::Unavailable { remedy, .. }) => Some(remedy.clone()),
        MatrixError::Transfer(error) if error.errno() == Some(ENOSPC) => {
            Some("free some space, or use a smaller --file-size".to_string())
        }
        MatrixError::Transfer(error) if error.errno() == Some(EFBIG) => Some(
            "raise the limit on the size of files (ulimit -f), or use a smaller --file-size"
                .to_string(),
        ),
        MatrixError::Replaced { .. } => {
            Some("move it away, and keep others out of the folder while a run uses it".to_string())
        }
        MatrixError::Hosts(error) => Some(error.remedy().to_string()),
        MatrixError::Late { .. } => Some(
            "the test files exist now: run again on every host with a later --start-at".to_string(),
        ),
        MatrixError::Crew(CrewError::Start(_)) => Some(
            "use fewer --threads, or allow more (ulimit -u, the control group's pids)".to_string(),
        ),
        _ => None,
    };
    let failure = Failure::new(code, error);
    match help {
        Some(help) => failure.with_help(help),
        None => failure,
    }
}

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EAGAIN: i32 = 11;
const EACCES: i32 = 13;
const EEXIST: i32 = 17;
const EFBIG: i32 = 27;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const ENAMETOOLONG: i32 = 36;
const ELOOP: i32 = 40;
const EDQUOT: i32 = 122;

fn transfer_code(error: &TransferError) -> Cause {
    match (error.inner(), error.errno()) {
        (TransferError::Unavailable { .. } | TransferError::Memory { .. }, _)
        | (_, Some(EPERM | ENOENT | EACCES | EEXIST | EFBIG | ENOSPC | EROFS | ELOOP | ENAMETOOLONG | EDQUOT))
        // Rejected before any system call: a link, a pipe or a device instead of a file.
        | (TransferError::File { .. }, None) => Cause::Machine,
        _ => Cause::Storage,
    }
}
