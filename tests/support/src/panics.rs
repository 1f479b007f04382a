//! A path that panics where a test wants it to.

use std::fs::File;
use std::sync::Mutex;

use stormlp_core::evidence::Evidence;
use stormlp_transfer::storage::{Disk, Storage};
use stormlp_transfer::{
    Completion, FileId, PathSpec, Rejected, Slot, Transfer, TransferError, TransferPath, build_path,
};

/// A function that builds a path.
pub type BuildPath = fn(PathSpec) -> Result<Box<dyn TransferPath>, TransferError>;

/// The files of this machine, with paths that a test's function builds if it has one.
#[derive(Default)]
pub struct Builder(pub Mutex<Option<BuildPath>>);

impl Builder {
    /// Builds paths with `build`.
    pub fn of(build: BuildPath) -> Self {
        Self(Mutex::new(Some(build)))
    }
}

impl Storage for Builder {
    fn path(&self, spec: PathSpec) -> Result<Box<dyn TransferPath>, TransferError> {
        let build = *self.0.lock().unwrap();
        match build {
            Some(build) => build(spec),
            None => Disk.path(spec),
        }
    }
}

/// Builders of paths that panic: on building or attaching a file, before the start gate; in the
/// third transfer, after it.
pub const SEAMS: [(&str, BuildPath); 4] = [
    ("build", |_| panic!("broken build")),
    ("attach", |spec| Panicking::over(spec, "attach")),
    ("submit", |spec| Panicking::over(spec, "submit")),
    ("wait", |spec| Panicking::over(spec, "wait")),
];

struct Panicking {
    inner: Box<dyn TransferPath>,
    at: &'static str,
    calls: u32,
}

impl Panicking {
    fn over(spec: PathSpec, at: &'static str) -> Result<Box<dyn TransferPath>, TransferError> {
        let inner = build_path(spec)?;
        Ok(Box::new(Self { inner, at, calls: 0 }))
    }

    fn pass(&mut self, seam: &str) {
        self.calls += u32::from(self.at == seam);
        assert!(self.calls < 3, "broken {seam}");
    }
}

impl TransferPath for Panicking {
    fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
        self.calls += 2;
        self.pass("attach");
        self.calls = 0;
        self.inner.attach(file)
    }
    fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        self.inner.detach(file)
    }
    fn take_slots(&mut self) -> Vec<Slot> {
        self.inner.take_slots()
    }
    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        self.pass("submit");
        self.inner.submit(transfer)
    }
    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        self.pass("wait");
        self.inner.wait(min, done)
    }
    fn evidence(&self) -> Evidence {
        self.inner.evidence()
    }
}
