//! A panic in a thread becomes an error of the run, and no thread waits forever.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use stormlp_core::event::Silent;
use stormlp_core::evidence::Evidence;
use stormlp_core::path::EngineKind;
use stormlp_core::stop::StopToken;
use stormlp_transfer::storage::Storage;
use stormlp_transfer::{
    Completion, FileId, PathSpec, Rejected, Slot, Transfer, TransferError, TransferPath, build_path,
};

use super::error::GenerateError;
use super::plan::{Existing, GeneratePlan};
use super::{run, verify};
use crate::content::Content;
use crate::dataset::{Dataset, Recipe};
use crate::format::jpeg::Jpeg;
use crate::format::{
    ChunkSink, EncodeError, FileLayout, FileSpec, Finish, Format, FormatError, ReadAt,
};
use crate::section::{DataFormat, ParquetSpec};
use crate::sizes::{SizeDraw, SizeRule};

/// Panics at the middle file, and at every file that is read.
struct Panics;

const FILES: u64 = 40;

impl Format for Panics {
    fn file_bytes(&self, file: &FileSpec) -> Option<u64> {
        Jpeg.file_bytes(file)
    }

    fn encode(&self, file: &FileSpec, sink: &mut dyn ChunkSink) -> Result<Finish, EncodeError> {
        assert!(file.content.file != FILES / 2, "an injected fault");
        Jpeg.encode(file, sink)
    }

    fn inspect(&self, _name: &str, _source: &mut dyn ReadAt) -> Result<FileLayout, FormatError> {
        panic!("an injected fault")
    }
}

fn dataset() -> Dataset {
    Dataset::new(Recipe {
        format: DataFormat::Jpeg,
        parquet: ParquetSpec { row_group_size: 2, ..ParquetSpec::default() },
        prefix: "img".to_string(),
        train_files: FILES,
        train_subfolders: 0,
        valid_files: 0,
        valid_subfolders: 0,
        samples_per_file: 1,
        size: SizeRule::Length { mean_bytes: 10_000.0, stdev_bytes: 0.0 },
        draw: SizeDraw::Shared,
        content: Content::Random,
        seed: 42,
    })
    .unwrap()
}

fn plan(folder: &Path, dataset: Dataset) -> GeneratePlan {
    GeneratePlan {
        existing: Existing::Resume,
        threads: 3,
        ..GeneratePlan::new(folder.to_path_buf(), "unet3d", "v2", dataset)
    }
}

/// The result of `work`, with a time limit.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (answer, answered) = mpsc::channel();
    thread::spawn(move || answer.send(work()));
    let patience = Duration::from_secs(30);
    answered.recv_timeout(patience).expect("it hangs, or panicked itself")
}

#[test]
fn a_panic_while_writing_ends_the_run_which_can_be_continued() {
    let folder = tempfile::tempdir().unwrap();
    let faulty = plan(folder.path(), dataset().with_format(Box::new(Panics)));
    let error = in_time(move || run(&faulty, &Silent, &StopToken::new())).unwrap_err();
    assert!(matches!(error, GenerateError::ThreadGroup(_)), "{error}");
    let message = error.to_string();
    let said = "panicked: an injected fault; this is a fault of stormlp";
    assert!(message.starts_with("thread writer-") && message.ends_with(said), "{message}");
    let good = plan(folder.path(), dataset());
    let report = run(&good, &Silent, &StopToken::new()).unwrap();
    assert_eq!(report.files_made + report.files_kept, FILES);
    assert!(
        report.files_kept >= FILES / 2 - 2 && report.files_made >= 1,
        "{} kept, {} made",
        report.files_kept,
        report.files_made
    );
}

/// A path that panics when attaching a file, in a submission or in a wait.
struct PanickingPath {
    inner: Box<dyn TransferPath>,
    at: &'static str,
}

impl PanickingPath {
    fn over(spec: PathSpec, at: &'static str) -> Result<Box<dyn TransferPath>, TransferError> {
        let inner = build_path(spec)?;
        Ok(Box::new(Self { inner, at }))
    }
}

impl TransferPath for PanickingPath {
    fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
        assert_ne!(self.at, "attach", "an injected fault");
        self.inner.attach(file)
    }
    fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        self.inner.detach(file)
    }
    fn take_slots(&mut self) -> Vec<Slot> {
        self.inner.take_slots()
    }
    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        assert_ne!(self.at, "submit", "an injected fault");
        self.inner.submit(transfer)
    }
    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        assert_ne!(self.at, "wait", "an injected fault");
        self.inner.wait(min, done)
    }
    fn evidence(&self) -> Evidence {
        self.inner.evidence()
    }
}

/// Storage with paths that panic at this operation.
struct PanicsAt(&'static str);

impl Storage for PanicsAt {
    fn path(&self, spec: PathSpec) -> Result<Box<dyn TransferPath>, TransferError> {
        assert_ne!(self.0, "build", "an injected fault");
        PanickingPath::over(spec, self.0)
    }
}

#[test]
fn a_path_that_panics_ends_the_run_which_can_be_continued() {
    for seam in ["build", "attach", "submit", "wait"] {
        let folder = tempfile::tempdir().unwrap();
        let mut faulty = plan(folder.path(), dataset());
        // Small files are written without a path unless an engine is requested.
        faulty.engine = Some(EngineKind::Psync);
        faulty.storage = Arc::new(PanicsAt(seam));
        let error = in_time(move || run(&faulty, &Silent, &StopToken::new()));
        let message = error.unwrap_err().to_string();
        assert!(message.starts_with("thread writer-"), "{message}");
        assert!(message.contains("an injected fault"), "{message}");
        let good = plan(folder.path(), dataset());
        let report = run(&good, &Silent, &StopToken::new()).unwrap();
        assert_eq!(report.files_made, FILES);
    }
}

#[test]
fn a_panic_while_verifying_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let good = plan(folder.path(), dataset());
    run(&good, &Silent, &StopToken::new()).unwrap();
    // Without a manifest, the format is consulted.
    std::fs::remove_file(folder.path().join(crate::manifest::MANIFEST_NAME)).unwrap();
    let faulty = plan(folder.path(), dataset().with_format(Box::new(Panics)));
    let error = in_time(move || verify(&faulty, &Silent, &StopToken::new())).unwrap_err();
    assert!(matches!(error, GenerateError::ThreadGroup(_)), "{error}");
}
