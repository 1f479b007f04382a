//! A complete matrix on real files: layout, transfers, verification and results.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use stormlp_core::event::{Event, Observer, Silent};
use stormlp_core::facts::{Availability, HostFacts, PathSupport};
use stormlp_core::operation::Operation;
use stormlp_core::path::PathKind;
use stormlp_core::report::{Ending, Head, ReportKind};
use stormlp_core::stop::StopToken;
use stormlp_core::warning::WarningKind;
use stormlp_matrix::plan::{
    CellSpan, CellStatus, ContentState, DataManifest, MANIFEST_NAME, MatrixReport, MatrixRequest,
    MatrixResults, PathChoice, TargetFolder, TargetInventory, TargetPlace, resolve,
};
use stormlp_matrix::run as matrix;
use stormlp_transfer::run_context::RunContext;
use stormlp_transfer::storage::{Disk, FolderLock, Storage};

const PATHS: [PathKind; 6] = [
    PathKind::Cpu,
    PathKind::Buffered,
    PathKind::CpuGpu,
    PathKind::CpuAsyncGpu,
    PathKind::PageCache,
    PathKind::Null,
];

fn facts() -> HostFacts {
    let mut facts = stormlp_transfer::probe::host_facts();
    let support = |path| PathSupport { path, availability: Availability::Available };
    facts.paths = PATHS.map(support).to_vec();
    facts
}

fn inventory(folder: &Path) -> TargetInventory {
    let manifest = fs::read_to_string(folder.join(MANIFEST_NAME))
        .ok()
        .and_then(|text| DataManifest::parse(&text).ok());
    let files = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| stormlp_core::facts::FoundFile {
            name: entry.file_name().to_string_lossy().into_owned(),
            bytes: entry.metadata().map_or(0, |metadata| metadata.len()),
        })
        .collect();
    let place = TargetPlace {
        writable: Availability::Available,
        free_bytes: Some(1 << 40),
        file_system_id: 1,
        file_system: None,
        direct: Availability::Available,
        direct_alignment_bytes: 4096,
    };
    let empty = TargetFolder::empty(folder.to_path_buf(), true, place);
    TargetInventory { folders: vec![TargetFolder { manifest, files, ..empty }], files: Vec::new() }
}

fn request(folder: &Path) -> MatrixRequest {
    MatrixRequest {
        paths: PathChoice::each(&PATHS),
        ops: vec![Operation::Write, Operation::Read, Operation::RandRead],
        io_sizes: vec![stormlp_matrix::plan::IoSize::fixed(64 << 10)],
        threads: vec![2],
        queue_depths: vec![3],
        file_size_bytes: Some(4 << 20),
        duration: Some(CellSpan::Passes(1)),
        verify: true,
        ..MatrixRequest::plain(folder.to_path_buf())
    }
}

fn run(request: &MatrixRequest, folder: &Path, stop: &StopToken) -> MatrixReport {
    let facts = facts();
    let plan = resolve(request, &facts, &inventory(folder)).expect("a valid request");
    let head = Head::new(ReportKind::Gds, String::new(), String::new(), facts);
    let report = MatrixReport::new(head, plan, MatrixResults::default());
    run_report(report, &Silent, stop)
}

fn run_report(mut report: MatrixReport, observer: &dyn Observer, stop: &StopToken) -> MatrixReport {
    let storage: Arc<dyn Storage> = Arc::new(Disk);
    let folders = matrix::lock(&storage, &mut report).expect("folders of our own");
    let surroundings = RunContext { storage: &storage, observer, stop };
    let report = matrix::run((report, folders), None, &surroundings, &mut |_| {}).expect("a run");
    assert!(report.head.ended_at.is_some());
    report
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(".").expect("a folder")
}

#[test]
fn every_path_moves_and_verifies_every_byte() {
    let folder = folder();
    let report = run(&request(folder.path()), folder.path(), &StopToken::new());
    assert_eq!(report.results.cells.len(), PATHS.len() * 3);
    for cell in &report.results.cells {
        assert_eq!(cell.status, CellStatus::Ok, "{:?}", cell.reason);
        let numbers = cell.result().expect("numbers");
        assert_eq!((numbers.bytes, numbers.operations), (8 << 20, 128));
        assert_eq!(numbers.series.interval_bytes.iter().sum::<u64>(), numbers.bytes);
        assert_eq!(cell.effective_path, Some(cell.requested_path));
        let reads = cell.op != Operation::Write && cell.requested_path != PathKind::Null;
        let checked = cell.verification.as_ref().map_or(0, |checks| checks.checked_bytes);
        assert_eq!(checked, if reads { 8 << 20 } else { 0 }, "{}", cell.requested_path);
        assert_eq!(numbers.memory_emulated, cell.requested_path.ends_in_accelerator());
    }
}

#[test]
fn files_are_noted_in_the_manifest_and_used_again() {
    let folder = folder();
    let request = MatrixRequest { ops: vec![Operation::Read], ..request(folder.path()) };
    run(&request, folder.path(), &StopToken::new());
    let text = fs::read_to_string(folder.path().join(MANIFEST_NAME)).expect("a manifest");
    let manifest = DataManifest::parse(&text).expect("a manifest");
    assert_eq!(manifest.files.len(), 2);
    assert!(manifest.files.iter().all(|file| file.content == ContentState::Pattern { seed: 0 }));
    let again = resolve(&request, &facts(), &inventory(folder.path())).expect("a valid request");
    assert_eq!(again.layout_bytes, 0);
}

#[test]
fn a_truncated_file_fails_its_cells_and_the_matrix_continues() {
    let folder = folder();
    let request = MatrixRequest { ops: vec![Operation::Read], ..request(folder.path()) };
    let facts = facts();
    let made = run(&request, folder.path(), &StopToken::new());
    let plan = resolve(&request, &facts, &inventory(folder.path())).expect("a valid request");
    let file = fs::File::options().write(true).open(&made.plan.files[1].path).expect("a file");
    file.set_len(1 << 20).expect("truncated");
    let head = Head::new(ReportKind::Gds, String::new(), String::new(), facts);
    let report = run_report(
        MatrixReport::new(head, plan, MatrixResults::default()),
        &Silent,
        &StopToken::new(),
    );
    assert_eq!(report.results.cells.len(), PATHS.len());
    for cell in &report.results.cells {
        let broken = cell.requested_path != PathKind::Null;
        assert_eq!(cell.status == CellStatus::Failed, broken);
        if broken {
            let reason = cell.reason.as_ref().expect("a reason");
            assert!(reason.contains("truncated"), "{reason}");
        }
    }
}

#[test]
fn wrong_content_is_reported_with_its_position() {
    let folder = folder();
    let request = MatrixRequest {
        ops: vec![Operation::Read],
        paths: PathChoice::each(&[PathKind::Cpu]),
        ..request(folder.path())
    };
    let made = run(&request, folder.path(), &StopToken::new());
    let path = &made.plan.files[0].path;
    let mut content = fs::read(path).expect("a file");
    content[70_000] ^= 0xff;
    fs::write(path, content).expect("written");
    let report = run(&request, folder.path(), &StopToken::new());
    let checks = report.results.cells[0].verification.as_ref().expect("a verification");
    let first = checks.mismatches.first().expect("a mismatch");
    assert_eq!((report.results.cells[0].status, first.offset_bytes), (CellStatus::Failed, 70_000));
    assert_eq!(&first.file, path);
}

/// Stops the run once a cell has moved something.
struct StopsInACell(StopToken);

impl Observer for StopsInACell {
    fn event(&self, event: &Event) {
        if matches!(event, Event::Moved { bytes: 1.., .. }) {
            self.0.stop();
        }
    }
}

#[test]
fn a_stopped_matrix_keeps_its_cells() {
    let folder = folder();
    let request =
        MatrixRequest { duration: Some(CellSpan::Seconds(60.0)), ..request(folder.path()) };
    let facts = facts();
    let plan = resolve(&request, &facts, &inventory(folder.path())).expect("a valid request");
    let head = Head::new(ReportKind::Gds, String::new(), String::new(), facts);
    let stop = StopToken::new();
    let report = run_report(
        MatrixReport::new(head, plan, MatrixResults::default()),
        &StopsInACell(stop.clone()),
        &stop,
    );
    assert_eq!(report.ending, Ending::Stopped);
    assert_eq!(report.results.cells.len(), 1);
    let numbers = report.results.cells[0].measurement.as_ref().expect("numbers");
    assert!(numbers.interrupted && numbers.bytes > 0);
    let mut kinds = report.results.cells[0].warnings.iter().map(|warning| warning.kind);
    let too_short = kinds.any(|kind| kind == WarningKind::TooShort);
    assert_eq!(too_short, numbers.duration_seconds < 1.0);
}

#[test]
fn a_stopped_layout_claims_no_untouched_files() {
    let folder = folder();
    let verify = MatrixRequest {
        ops: vec![Operation::Read],
        paths: PathChoice::each(&[PathKind::Cpu]),
        ..request(folder.path())
    };
    let write = MatrixRequest { ops: vec![Operation::Write], verify: false, ..verify.clone() };
    run(&write, folder.path(), &StopToken::new());
    let stop = StopToken::new();
    stop.stop();
    assert!(run(&verify, folder.path(), &stop).results.cells.is_empty());
    // The files hold the bytes of the write; a verifying run lays them out before it reads them.
    let report = run(&verify, folder.path(), &StopToken::new());
    assert_eq!(
        report.results.cells[0].status,
        CellStatus::Ok,
        "{:?}",
        report.results.cells[0].reason
    );
}

#[test]
fn a_folder_in_use_is_refused() {
    let folder = folder();
    let _held = FolderLock::take(folder.path()).expect("the lock");
    let facts = facts();
    let request = request(folder.path());
    let plan = resolve(&request, &facts, &inventory(folder.path())).expect("a valid request");
    let head = Head::new(ReportKind::Gds, String::new(), String::new(), facts);
    let mut report = MatrixReport::new(head, plan, MatrixResults::default());
    let disk: Arc<dyn Storage> = Arc::new(Disk);
    let error = matrix::lock(&disk, &mut report).err().expect("held");
    assert!(error.to_string().contains("in use by another"), "{error}");
}
