//! A worker panic before or after the start gate ends the matrix without losing cells.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::plan::{
    CellReport, CellStatus, IoSize, MatrixReport, MatrixRequest, MatrixResults, PathChoice,
    TargetFolder, TargetInventory, TargetPlace, resolve,
};
use stormlp_core::event::Silent;
use stormlp_core::facts::{Availability, PathSupport};
use stormlp_core::note::Cause;
use stormlp_core::operation::Operation;
use stormlp_core::path::PathKind;
use stormlp_core::report::{Ending, Head, ReportKind};
use stormlp_core::stop::StopToken;
use stormlp_transfer::probe;
use stormlp_transfer::storage::Storage;

use super::error::MatrixError;
use crate::run::matrix::{lock, run as run_matrix};
use stormlp_test_support::{BuildPath, Builder, SEAMS};
use stormlp_transfer::run_context::RunContext;

/// A matrix of three reads; the first uses a working path.
fn matrix(folder: &std::path::Path) -> MatrixReport {
    let mut facts = probe::host_facts();
    facts.paths = vec![PathSupport { path: PathKind::Null, availability: Availability::Available }];
    let request = MatrixRequest {
        paths: PathChoice::each(&[PathKind::Null]),
        ops: vec![Operation::Read],
        io_sizes: [4096, 8192, 16384].map(IoSize::fixed).to_vec(),
        threads: vec![3],
        queue_depths: vec![2],
        file_size_bytes: Some(1 << 20),
        duration: Some(crate::plan::CellSpan::Passes(1)),
        ..MatrixRequest::plain(folder.to_path_buf())
    };
    let place = TargetPlace {
        writable: Availability::Available,
        free_bytes: Some(1 << 40),
        file_system_id: 1,
        file_system: None,
        direct: Availability::Available,
        direct_alignment_bytes: 4096,
    };
    let folder = TargetFolder::empty(folder.to_path_buf(), true, place);
    let inventory = TargetInventory { folders: vec![folder], files: Vec::new() };
    let plan = resolve(&request, &facts, &inventory).expect("a valid request");
    let head = Head::new(ReportKind::Gds, String::new(), String::new(), facts);
    MatrixReport::new(head, plan, MatrixResults::default())
}

/// Runs the matrix with paths built by `broken` in its second cell.
fn run(broken: BuildPath) -> (Result<MatrixReport, MatrixError>, Vec<CellReport>) {
    let folder = tempfile::tempdir_in(".").unwrap();
    let builder = Arc::new(Builder::default());
    let storage: Arc<dyn Storage> = builder.clone();
    let mut report = matrix(folder.path());
    let folders = lock(&storage, &mut report).unwrap();
    let mut told = Vec::new();
    let mut on_cell = |cell: &CellReport| {
        *builder.0.lock().unwrap() = Some(broken);
        told.push(cell.clone());
    };
    let surroundings = RunContext { storage: &storage, observer: &Silent, stop: &StopToken::new() };
    let ended = run_matrix((report, folders), None, &surroundings, &mut on_cell);
    (ended, told)
}

#[test]
fn a_panic_in_a_worker_ends_the_matrix_and_keeps_the_cells_before() {
    for (seam, broken) in SEAMS {
        let (answer, answered) = mpsc::channel();
        thread::spawn(move || drop(answer.send(run(broken))));
        let patience = Duration::from_secs(30);
        let (ended, told) = answered.recv_timeout(patience).expect(seam);
        let report = ended.unwrap();
        assert_eq!(told, report.results.cells);
        let Ending::Failed(note) = &report.ending else {
            panic!("{:?}", report.ending);
        };
        assert_eq!(note.kind, Cause::Internal);
        let message = &note.fact;
        assert!(message.starts_with("thread worker-"), "{message}");
        assert!(message.contains(&format!("broken {seam}")), "{message}");
        let cells = &report.results.cells;
        assert_eq!(cells.len(), 2);
        assert_eq!(cells[0].status, CellStatus::Ok, "{:?}", cells[0].reason);
        assert_eq!(cells[1].status, CellStatus::Failed);
        assert_eq!(cells[1].reason.as_deref(), Some(&**message));
    }
}
