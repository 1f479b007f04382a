//! Tests the threads on real files: every path that works without a GPU reads all of them, and
//! errors end the run without hanging it.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use stormlp_core::path::{EngineKind, PathKind};
use stormlp_dataset::format::Span;
use stormlp_hosts::fault::Fault;
use stormlp_transfer::thread_group::{Panicked, ThreadGroupError};
use stormlp_transfer::{Accelerator, AcceleratorSet, HostStandIn, engine};

use super::error::TrainError;
use super::io::IoTally;
use super::io::ThreadGroupSpec;
use super::machine::{
    BlockTally, ClientWork, Halt, Interleave, InterleaveConfig, Loader, Pace, PhaseSpec,
    ReadRequest, ReadResult, Share, Unit, Workers, WorkersConfig,
};
use super::source::{DataFile, Extents, ReadPlan, Reads, Source};
use super::thread_group::ThreadGroup;
use stormlp_test_support::{Builder, SEAMS};

const FILES: u64 = 12;
const FILE_BYTES: u64 = 700_001;

/// Twelve files with one sample or three records each.
struct Files {
    files: Vec<DataFile>,
    /// The sample at which the test source panics.
    panics_at: Option<u64>,
    _folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(".").unwrap();
        let files = (0..FILES).map(|number| {
            let path = folder.path().join(format!("{number}"));
            fs::write(&path, vec![number as u8; FILE_BYTES as usize]).unwrap();
            DataFile { path, bytes: FILE_BYTES }
        });
        Self { files: files.collect(), panics_at: None, _folder: folder }
    }
}

impl Source for Files {
    fn files(&self) -> &[DataFile] {
        &self.files
    }

    fn plan(&self, request: &ReadRequest) -> Result<ReadPlan, TrainError> {
        if let (Unit::Sample(nth), Some(at)) = (request.read.unit, self.panics_at) {
            assert_ne!(nth, at, "a sample that should not be");
        }
        let (file, offset, bytes, landed) = match request.read.unit {
            Unit::Sample(nth) => {
                let landed = ReadResult { samples: 1, ..ReadResult::default() };
                (nth % FILES, 0, FILE_BYTES, landed)
            }
            Unit::Records { file, from } => {
                let record = from.record + 1;
                let mut cursor = from;
                cursor.record = record;
                let landed = ReadResult { samples: 1, cursor, ended: record == 3 };
                (file, from.record * 200_000, 200_000, landed)
            }
            Unit::Group { .. } => panic!("no row groups here"),
        };
        Ok(ReadPlan {
            file: file as usize,
            reads: Reads::Known {
                extents: Extents::One(Span { offset, bytes }),
                keep_open: matches!(request.read.unit, Unit::Records { .. }),
                landed,
            },
            framing: None,
        })
    }
}

fn phase(accelerators: usize, steps: u64) -> PhaseSpec {
    let share = Share { batches: steps, files: FILES, ..Share::default() };
    PhaseSpec {
        steps,
        barrier: true,
        barrier_ns: 0,
        fetch_after_last: false,
        exclude_start_steps: 1,
        exclude_end_steps: 0,
        checkpoint_steps: None,
        writes_checkpoints: false,
        compute: Pace::Constant(200_000),
        late_counts: false,
        preprocess: Pace::Constant(0),
        client: ClientWork::default(),
        shares: vec![share; accelerators],
    }
}

fn whole_files() -> Loader {
    Loader::Workers(Workers::new(WorkersConfig {
        read_threads: 4,
        batches_outstanding: 4,
        batch_size: 2,
        persistent: false,
        group_window: 1,
    }))
}

fn records() -> Loader {
    Loader::Interleave(Box::new(Interleave::new(InterleaveConfig {
        read_threads: 4,
        batch_size: 2,
        shuffle_size: 2,
        batches_ahead: 2,
        keep_every: 1,
        repeat: true,
    })))
}

type Outcome = (Vec<Vec<BlockTally>>, IoTally, Option<TrainError>);

fn run(path: PathKind, engine: EngineKind, loader: &Loader, files: Files) -> Outcome {
    run_phase(path, engine, loader, files, phase(2, 6))
}

fn spec(path: PathKind, engine: EngineKind) -> ThreadGroupSpec {
    ThreadGroupSpec {
        storage: Arc::new(stormlp_transfer::storage::Disk),
        transport: stormlp_fixtures::transport(path, engine),
        accelerators: host_memory(),
        head_from_bytes: None,
    }
}

fn host_memory() -> AcceleratorSet {
    let host_memory: Arc<dyn Accelerator> = Arc::new(HostStandIn);
    host_memory.into()
}

fn run_phase(
    path: PathKind,
    engine: EngineKind,
    loader: &Loader,
    files: Files,
    phase: PhaseSpec,
) -> Outcome {
    run_on(&spec(path, engine), loader, files, phase)
}

fn run_on(spec: &ThreadGroupSpec, loader: &Loader, files: Files, phase: PhaseSpec) -> Outcome {
    let loaders = vec![loader.clone(), loader.clone()];
    let thread_group = ThreadGroup::start(spec, loaders, false, None).unwrap();
    // A run that already failed does not begin.
    if thread_group.shared.begin(Arc::new(files), phase) {
        let halt = thread_group.shared.wait(Duration::from_secs(60));
        assert_eq!(halt, Some(Halt::PhaseOver), "the run hangs");
    }
    let blocks = thread_group.shared.with(|machine, _| machine.blocks());
    let shared = Arc::clone(&thread_group.shared);
    (blocks, thread_group.stop(), shared.take_failure())
}

/// Engines available on this machine.
fn engines() -> Vec<EngineKind> {
    let mut engines = vec![EngineKind::Psync];
    match engine::uring::probe() {
        Ok(_) => engines.extend([EngineKind::Uring, EngineKind::TokioUring]),
        Err(error) => stormlp_fixtures::skipped(error, "permit io_uring"),
    }
    engines
}

#[test]
fn every_path_and_engine_reads_whole_files() {
    let paths = [
        PathKind::Null,
        PathKind::Buffered,
        PathKind::Cpu,
        PathKind::PageCache,
        PathKind::CpuGpu,
        PathKind::CpuAsyncGpu,
    ];
    for engine in engines() {
        for path in paths {
            let (blocks, tally, failure) = run(path, engine, &whole_files(), Files::new());
            assert!(failure.is_none(), "{path} {engine}: {failure:?}");
            for block in blocks {
                assert_eq!((block[0].steps, block[0].complete), (6, true));
            }
            assert_eq!(tally.reads, 24, "{path} {engine}");
            assert_eq!(tally.bytes, 24 * FILE_BYTES, "{path} {engine}");
        }
    }
}

#[test]
fn streams_are_read_record_by_record() {
    for engine in engines() {
        let (blocks, tally, failure) = run(PathKind::Buffered, engine, &records(), Files::new());
        assert!(failure.is_none(), "{engine}: {failure:?}");
        assert!(blocks.iter().all(|block| block[0].steps == 6));
        assert_eq!(tally.bytes, tally.reads * 200_000);
        assert!(tally.reads >= 24, "{}", tally.reads);
    }
}

#[test]
fn a_truncated_file_ends_the_run_and_is_named() {
    let files = Files::new();
    let bad = files.files[7].path.clone();
    fs::write(&bad, b"short").unwrap();
    let (_, _, failure) = run(PathKind::Buffered, EngineKind::Psync, &whole_files(), files);
    let message = failure.unwrap().to_string();
    assert!(message.contains(&bad.display().to_string()), "{message}");
    assert!(message.contains("has 5 bytes, but had 700001"), "{message}");
}

#[test]
fn a_missing_file_ends_the_run_and_is_named() {
    let files = Files::new();
    let bad = files.files[7].path.clone();
    fs::remove_file(&bad).unwrap();
    let (_, _, failure) = run(PathKind::Buffered, EngineKind::Psync, &whole_files(), files);
    let message = failure.unwrap().to_string();
    assert!(message.contains(&bad.display().to_string()), "{message}");
}

/// Asserts that a thread with a name that starts with `name` panicked with the given message.
fn assert_panicked(failure: Option<TrainError>, name: &str, said: &str) {
    let Some(TrainError::Fault(Fault::ThreadGroup(ThreadGroupError::Panicked(panicked)))) = failure
    else {
        panic!("the panic was lost: {failure:?}");
    };
    let Panicked { thread, message } = panicked;
    assert!(thread.starts_with(name), "{thread}");
    assert!(message.contains(said), "{message}");
}

#[test]
fn a_panic_in_an_io_thread_ends_the_run_with_an_error() {
    for engine in engines() {
        let files = Files { panics_at: Some(9), ..Files::new() };
        let (blocks, _, failure) = run(PathKind::Buffered, engine, &whole_files(), files);
        assert_panicked(failure, "io-", "a sample that should not be");
        assert!(blocks.iter().flatten().all(|block| !block.complete));
    }
}

#[test]
fn a_path_that_panics_ends_the_run_with_an_error() {
    for (seam, broken) in SEAMS {
        let mut spec = spec(PathKind::Buffered, EngineKind::Psync);
        spec.storage = Arc::new(Builder::of(broken));
        let outcome = run_on(&spec, &whole_files(), Files::new(), phase(2, 6));
        assert_panicked(outcome.2, "io-", &format!("broken {seam}"));
    }
}

#[test]
fn a_panic_with_the_machine_locked_ends_the_run_with_an_error() {
    let spec = PhaseSpec {
        preprocess: Pace::Drawn(Box::new(|| panic!("a draw that should not be"))),
        ..phase(2, 6)
    };
    let (path, engine) = (PathKind::Null, EngineKind::Psync);
    let (_, _, failure) = run_phase(path, engine, &whole_files(), Files::new(), spec);
    assert_panicked(failure, "io-", "a draw that should not be");
}

#[test]
fn a_panic_in_the_pacer_ends_the_run_with_an_error() {
    let draw = || {
        let name = std::thread::current().name().map(str::to_string);
        assert_ne!(name.as_deref(), Some("pacer"), "a fault in the pacer");
        1_000_000
    };
    let spec = PhaseSpec { compute: Pace::Drawn(Box::new(draw)), ..phase(2, 10_000) };
    let (path, engine) = (PathKind::Null, EngineKind::Psync);
    let (_, _, failure) = run_phase(path, engine, &whole_files(), Files::new(), spec);
    assert_panicked(failure, "pacer", "a fault in the pacer");
}
