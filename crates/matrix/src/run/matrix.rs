//! The whole matrix: prepares it, runs cell after cell and reports each.

use std::path::Path;
use std::sync::Arc;

use crate::plan::{
    CellPlan, CellReport, CellStatus, ContentState, FilePlan, MatrixPlan, MatrixReport, find_knees,
    likely_left, next_cell,
};
use stormlp_core::event::Event;
use stormlp_core::evidence::{DirectIo, Evidence};
use stormlp_core::facts::Availability;
use stormlp_core::note::{Cause, DATA_MISMATCH};
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;
use stormlp_core::report::Ending;
use stormlp_core::transport::Requirement;
use stormlp_core::units::counted;
use stormlp_core::warning::WarningKind;
use stormlp_transfer::error::THREADS_HELP;
use stormlp_transfer::page_cache::Residency;
use stormlp_transfer::storage::Storage;
use stormlp_transfer::telemetry::Instruments;
use stormlp_transfer::thread_group::ThreadGroupError;
use stormlp_transfer::{Backing, TransferError};

use super::beside::Side;
use super::cell::{Bench, CellMeasurement};
use super::error::MatrixError;
use super::merge;
use super::numbers::numbers;
use super::prepare::{Folders, files_of, make_files, remove_files, residency, set_cache};
use super::regions::Regions;
use super::verification::verification;
use super::warnings;
use super::worker::{WorkerFailure, WorkerOutcome};
use stormlp_hosts::multi_host::Hosts;
use stormlp_transfer::evidence;
use stormlp_transfer::fallback::{self, hold_cufile};
use stormlp_transfer::run_context::RunContext;
use stormlp_transfer::run_context::now;

/// Creates and locks the folders of the report's plan, so that no run is announced and then
/// refused.
///
/// # Errors
/// If a folder is in use or cannot be created, or its manifest is unusable.
pub fn lock(storage: &Arc<dyn Storage>, report: &mut MatrixReport) -> Result<Folders, MatrixError> {
    for warning in storage.warnings() {
        report.warn(warning);
    }
    Folders::enter(Arc::clone(storage), &report.plan)
}

/// Runs every cell of the report's plan that is not done yet, and calls `on_cell` after each, so
/// that no result is lost if a later one fails. With other `hosts`, the report covers all of them;
/// if they are unreachable during a cell, only this host's results are passed on, and the report
/// omits the cell.
///
/// # Errors
/// If files cannot be created or buffers cannot be allocated. A failed cell becomes an entry of the
/// report and the matrix continues; a panic ends it, as the report's ending says.
pub fn run(
    (mut report, mut folders): (MatrixReport, Folders),
    hosts: Option<&Hosts>,
    surroundings: &RunContext<'_>,
    on_cell: &mut dyn FnMut(&CellReport),
) -> Result<MatrixReport, MatrixError> {
    let plan = report.plan.clone();
    let &RunContext { storage, observer, stop } = surroundings;
    // Without runnable cells, the files are not needed.
    let needs_files = likely_left(&plan, &report.results, &[]).0 > 0;
    let side = Side::new(hosts);
    if side.has_hosts() {
        report.results.hosts = merge::shares(&report.results.cells);
    }
    side.works(stop)?;
    let made = !needs_files || make_files(&plan, &mut folders, observer, stop)?;
    if side.edge()? || !made {
        end(&mut report, Ending::Stopped);
        return Ok(report);
    }
    side.works(stop)?;
    let needs_cufile =
        |cell: &CellPlan| cell.transport.path.needs_cufile() && cell.availability.is_available();
    let (required, stats) =
        (plan.request.requires(Requirement::Gds), plan.request.tune.machine.cufile_stats);
    // Cells that need a library that does not open say why.
    let _cufile = hold_cufile(plan.cells.iter().any(needs_cufile), required, stats).ok().flatten();
    let mut regions = Regions::of_plan(&plan)?;
    let gpus = plan.devices.iter().filter_map(|device| device.gpu_index());
    let instruments = Instruments::around(places(&plan), gpus, plan.request.tune.machine.telemetry);
    let mut matrix = Matrix {
        bench: Bench {
            plan: &plan,
            storage: &**storage,
            instruments: &instruments,
            observer,
            stop,
            side,
        },
        folders: &mut folders,
        backing: regions.backing(),
        begun: 0,
        left: (0, 0.0),
        fault: None,
    };
    matrix.cells(&mut report, &mut regions, on_cell)?;
    if let Some(fault) = matrix.fault {
        end(&mut report, fault);
        return Ok(report);
    }
    // For a run without remaining cells.
    matrix.bench.side.edge()?;
    let stopped = matrix.bench.side.is_stopped(stop) || hosts.is_some_and(Hosts::are_apart);
    if needs_files && let Some(warning) = remove_files(&plan, &mut folders)? {
        report.warn(warning);
    }
    end(&mut report, if stopped { Ending::Stopped } else { Ending::Complete });
    Ok(report)
}

/// Whether a run ended because other hosts are unreachable.
fn lacks_hosts(ending: &Ending) -> bool {
    matches!(ending, Ending::Failed(note) if note.kind == Cause::Hosts)
}

/// The ending for unreachable hosts.
fn lost(error: &MatrixError) -> Ending {
    let remedy = if let MatrixError::Hosts(error) = error { error.remedy() } else { "" };
    Ending::failed(Cause::Hosts, error.to_string(), remedy)
}

/// The folders of a plan, and the named files and devices.
fn places(plan: &MatrixPlan) -> impl Iterator<Item = &Path> {
    let folders = plan.folders.iter().map(|folder| folder.folder());
    let named = plan.files.iter().filter(|file| file.folder.is_none());
    folders.chain(named.map(|file| &*file.path))
}

/// Records how and when the matrix ended and, once all cells are done, the warning that compares
/// them.
fn end(report: &mut MatrixReport, ending: Ending) {
    if ending != Ending::Stopped
        && let Some(warning) = warnings::near_null_path(report)
    {
        report.warn(warning);
    }
    report.results.find_knee = find_knees(report);
    report.ending = ending;
    report.head.ended_at = Some(now());
}

/// A running matrix.
struct Matrix<'a> {
    bench: Bench<'a>,
    folders: &'a mut Folders,
    backing: Backing,
    /// Number of cells started.
    begun: u64,
    /// The number of remaining cells, for a search the expected one, and their estimated duration
    /// in seconds.
    left: (u64, f64),
    /// A fault of stormlp itself, which ends the matrix.
    fault: Option<Ending>,
}

impl Matrix<'_> {
    /// Runs the remaining cells until the run must end.
    fn cells(
        &mut self,
        report: &mut MatrixReport,
        regions: &mut Regions,
        on_cell: &mut dyn FnMut(&CellReport),
    ) -> Result<(), MatrixError> {
        let plan = self.bench.plan;
        let mut tried = vec![false; plan.cells.len()];
        while self.fault.is_none() && !self.bench.side.is_stopped(self.bench.stop) {
            // All hosts have the same results and so choose the same cell.
            let Some(index) = next_cell(plan, &report.results, &tried) else {
                break;
            };
            regions.reset(plan)?;
            self.left = likely_left(plan, &report.results, &tried);
            tried[index] = true;
            match self.next(index, &plan.cells[index], regions, on_cell) {
                Ok(Some(whole)) => report.results.push(whole),
                Ok(None) if self.fault.is_none() => break,
                Ok(None) => {}
                Err(error) => self.fault = Some(lost(&error)),
            }
            report.results.hosts = merge::shares(&report.results.cells);
        }
        Ok(())
    }

    /// Runs and reports one cell: the results of all hosts, or `None` if other hosts are
    /// unreachable.
    fn next(
        &mut self,
        index: usize,
        cell: &CellPlan,
        regions: &mut Regions,
        on_cell: &mut dyn FnMut(&CellReport),
    ) -> Result<Option<CellReport>, MatrixError> {
        let side = &self.bench.side;
        side.begin(self.bench.stop)?;
        let mut own = self.cell(index, cell, regions);
        let side = &self.bench.side;
        if let Err(error) = side.lost() {
            self.fault = Some(lost(&error));
            // Whatever the other hosts did meanwhile, it is not a measurement of all hosts.
            if let Some(numbers) = &mut own.measurement {
                numbers.interrupted = true;
            }
        }
        if own.measurement.is_none() && self.fault.as_ref().is_some_and(lacks_hosts) {
            // The cell did not even start, so it did not fail.
            return Ok(None);
        }
        let whole = match self.fault.is_some() && side.has_hosts() {
            // The other hosts learn of it at the end of the run.
            true => Ok(None),
            false => side.whole(self.bench.plan, &own, self.bench.stop),
        };
        if let Ok(Some(whole)) = &whole {
            on_cell(whole);
        }
        whole
    }

    /// Runs one cell and creates its entry, whatever happens.
    fn cell(&mut self, index: usize, cell: &CellPlan, regions: &mut Regions) -> CellReport {
        if cell.availability != Availability::Available {
            return CellReport::without_numbers(index, cell, "");
        }
        let started = self.started(cell);
        self.bench.observer.event(&started);
        match self.measure(index, cell, regions) {
            Ok(entry) => entry,
            Err(error) => {
                if let MatrixError::Hosts(_) = &error {
                    self.fault = Some(lost(&error));
                }
                if let MatrixError::Transfer(error) = &error {
                    self.end_if_lost(error);
                }
                if let MatrixError::ThreadGroup(ThreadGroupError::Panicked(panic)) = &error {
                    self.fault = Some(Ending::failed(
                        Cause::Internal,
                        panic.to_string(),
                        "please report it with the command and stormlp's output; the cells \
                         before it are complete",
                    ));
                }
                failed(index, cell, self.bench.plan.request.requires(Requirement::Gds), &error)
            }
        }
    }

    /// Ends the matrix if its GPU is lost: every cell that follows would fail alike.
    fn end_if_lost(&mut self, error: &TransferError) {
        if error.is_lost_gpu() {
            let remedy = fallback::remedy(false, error).unwrap_or_default();
            self.fault = Some(Ending::failed(Cause::Device, error.to_string(), remedy));
        }
    }

    /// The event for the start of `cell`.
    fn started(&mut self, cell: &CellPlan) -> Event {
        let request = &self.bench.plan.request;
        let (left, seconds) = self.left;
        let of = self.begun + left.max(1);
        self.begun += 1;
        Event::CellStarted {
            label: format!(
                "{} {} {}, {}, depth {}",
                cell.transport.path,
                cell.op.of_mix(request.read_percent),
                cell.io_size,
                counted(cell.transport.threads as u64, "thread"),
                cell.transport.queue_depth
            ),
            number: self.begun,
            of,
            // A search decides as it goes.
            about: request.find_knee,
            estimated_seconds: cell.estimated_seconds,
            // Rounding may make the difference slightly negative.
            after_seconds: (seconds - cell.estimated_seconds).max(0.0),
        }
    }

    /// Prepares the page cache, runs the cell, and computes its results.
    fn measure(
        &mut self,
        index: usize,
        cell: &CellPlan,
        regions: &mut Regions,
    ) -> Result<CellReport, MatrixError> {
        let plan = self.bench.plan;
        let files = files_of(plan, cell);
        self.note_writes(cell, &files)?;
        if cell.transport.path != PathKind::Null {
            set_cache(self.bench.storage, plan.request.cache, &files, self.bench.observer)?;
        }
        let before = residency(self.bench.storage, files.iter().copied());
        let measured = self.bench.run(cell, regions)?;
        for outcome in &measured.outcomes {
            if let Some(WorkerFailure::Transfer { error, .. }) = &outcome.failure {
                self.end_if_lost(error);
            }
        }
        let after = residency(self.bench.storage, files.iter().copied());
        Ok(self.entry(index, cell, measured, before, after))
    }

    /// Updates the manifests with the future contents before files are written.
    fn note_writes(&mut self, cell: &CellPlan, files: &[&FilePlan]) -> Result<(), MatrixError> {
        let plan = self.bench.plan;
        let writes = cell.op.direction() == Direction::Write || plan.request.read_percent.is_some();
        // A write makes another object than the one that is read.
        if !writes || matches!(cell.transport.path, PathKind::S3 | PathKind::Null) {
            return Ok(());
        }
        let pattern = ContentState::Pattern { seed: plan.request.tune.seed };
        let keeps = |file: &&FilePlan| {
            file.content == Some(pattern) && (plan.request.verify || plan.request.tune.regenerate)
        };
        let (kept, other): (Vec<&FilePlan>, Vec<&FilePlan>) =
            files.iter().copied().partition(keeps);
        self.folders.note(plan, &kept, Some(pattern))?;
        self.folders.note(plan, &other, Some(ContentState::Other))
    }

    /// The entry of a cell that ran to its end or broke.
    fn entry(
        &self,
        index: usize,
        cell: &CellPlan,
        measured: CellMeasurement,
        before: Option<Residency>,
        after: Option<Residency>,
    ) -> CellReport {
        let plan = self.bench.plan;
        let all: Vec<&Evidence> = measured.outcomes.iter().map(|o| &o.evidence).collect();
        let mut evidence = evidence::combine(cell.transport.path, &all);
        if let Some(evidence) = evidence.as_mut().filter(|_| !plan.request.open_direct) {
            evidence.direct_io = DirectIo::NotAsked;
        }
        let verification = verification(plan, cell, &measured.outcomes);
        let failure = first_failure(plan, cell, &measured.outcomes);
        let mut entry = CellReport::without_numbers(index, cell, "no bytes were transferred");
        if let Some(mut numbers) = numbers(plan, cell, measured).map(warnings::with_levels) {
            numbers.page_cache_share = before.map(Residency::share);
            numbers.page_cache_share_after = after.map(Residency::share);
            numbers.buffers_backing = self.backing;
            (entry.status, entry.reason) = (CellStatus::Ok, None);
            if let Some(evidence) = &evidence {
                entry.effective_path = evidence.effective_path;
                entry.warnings = warnings::of_cell(plan, cell, evidence, &numbers);
            }
            entry.measurement = Some(numbers);
        }
        let measured = entry.measurement.as_ref();
        let broken = || broken_demand(plan, cell, evidence.as_ref()?, measured?.operations);
        if let Some(reason) = failure.or_else(broken) {
            entry.status = CellStatus::Failed;
            // It ended early.
            let of_course = [WarningKind::TooShort, WarningKind::NoSteadyState];
            entry.warnings.retain(|warning| !of_course.contains(&warning.kind));
            entry.errno = reason.errno;
            entry.remedy = reason.remedy;
            entry.reason = Some(reason.text);
        }
        entry.evidence = evidence;
        entry.verification = verification;
        entry
    }
}

/// Why a cell is not valid.
struct Reason {
    text: String,
    errno: Option<i32>,
    remedy: Option<String>,
}

impl Reason {
    /// A reason that says what to do itself.
    fn saying(text: String) -> Self {
        Self { text, errno: None, remedy: None }
    }
}

/// The entry of a cell that failed during setup.
fn failed(index: usize, cell: &CellPlan, require_gds: bool, error: &MatrixError) -> CellReport {
    let mut entry = CellReport::without_numbers(index, cell, &error.to_string());
    if let MatrixError::ThreadGroup(ThreadGroupError::Start(source)) = error {
        entry.errno = source.raw_os_error();
        entry.remedy = Some(THREADS_HELP.to_string());
    }
    if let MatrixError::Transfer(transfer) = error {
        entry.errno = transfer.errno();
        let known = transfer.missing().or(transfer.object_remedy());
        let remedy = known.or(fallback::remedy(require_gds, transfer));
        entry.remedy = remedy.map(str::to_string);
        if transfer.missing().is_some() {
            entry.status = CellStatus::Unavailable;
        }
    }
    entry
}

/// A requirement of the user that the run did not meet.
fn broken_demand(
    plan: &MatrixPlan,
    cell: &CellPlan,
    evidence: &Evidence,
    transfers: u64,
) -> Option<Reason> {
    if plan.request.requires(Requirement::Direct) && evidence.direct_io == DirectIo::Refused {
        let text = "the file system refused or buffered O_DIRECT, which --require direct forbids"
            .to_string();
        return Some(Reason::saying(text));
    }
    let path = cell.transport.path;
    let text = fallback::broken_demand(
        plan.request.requires(Requirement::Gds),
        path,
        evidence,
        transfers,
    )?;
    Some(Reason::saying(text))
}

/// The first worker's failure, with file and position.
fn first_failure(plan: &MatrixPlan, cell: &CellPlan, outcomes: &[WorkerOutcome]) -> Option<Reason> {
    let workers = &plan.thread_groups[cell.thread_group].workers;
    let (worker, failure) = workers
        .iter()
        .zip(outcomes)
        .find_map(|(worker, outcome)| Some((worker, outcome.failure.as_ref()?)))?;
    let file = plan.files[worker.file].path.display();
    Some(match failure {
        // It names the object and the position.
        WorkerFailure::Transfer { error, .. } if error.is_of_object() => Reason {
            text: format!("{}: {}", cell.op, error.inner()),
            errno: None,
            remedy: error.object_remedy().map(str::to_string),
        },
        WorkerFailure::Transfer { visit, error } => Reason {
            text: format!(
                "{} of {} bytes at offset {} of {file}: {}{}",
                cell.op,
                visit.len,
                visit.offset,
                error.inner(),
                // The rest of a short write fails further on.
                match error.offset() {
                    Some(at) if at != visit.offset => format!(", at byte {at}"),
                    _ => String::new(),
                }
            ),
            errno: error.errno(),
            remedy: fallback::remedy(plan.request.requires(Requirement::Gds), error)
                .map(str::to_string),
        },
        WorkerFailure::Short { visit, moved } => Reason {
            text: format!(
                "{moved} of {} bytes at offset {} of {file}: it was truncated, or is too small",
                visit.len, visit.offset
            ),
            errno: None,
            remedy: Some(
                "run again to recreate a file that stormlp made; use a smaller --file-size for \
                 another"
                    .to_string(),
            ),
        },
        WorkerFailure::Mismatch { visit, mismatch } => Reason {
            text: format!(
                "{DATA_MISMATCH} {file} at offset {}: read {:#04x}, expected {:#04x}",
                visit.offset + mismatch.at as u64,
                mismatch.found,
                mismatch.expected
            ),
            errno: None,
            remedy: Some(
                "lay it out again with the same --tune seed, or look for corruption".to_string(),
            ),
        },
        WorkerFailure::Sync { error } => Reason {
            text: format!("fsync of {file} failed, its data may be lost: {error}"),
            errno: error.raw_os_error(),
            remedy: None,
        },
    })
}
