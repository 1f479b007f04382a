//! `cpu` and `buffered`: straight to host memory, with `O_DIRECT` or through the page cache.

use std::fs::File;
use std::os::fd::BorrowedFd;

use stormlp_core::evidence::{DirectIo, Evidence};
use stormlp_core::path::PathKind;

use super::{DirectWatch, PathSpec};
use crate::engine::{self, Engine};
use crate::error::TransferError;
use crate::transfer::FileId;
use crate::transfer::Slot;
use crate::transfer::{Completion, Rejected, Transfer, TransferPath};

/// The path's slots are its engine's.
pub(crate) struct HostPath {
    kind: PathKind,
    engine: Box<dyn Engine>,
    direct: DirectWatch,
}

impl HostPath {
    pub(crate) fn new(spec: PathSpec) -> Result<Self, TransferError> {
        Ok(Self {
            kind: spec.kind,
            engine: engine::build(spec.engine, spec.host, spec.submit_batch, spec.max_files)?,
            direct: DirectWatch::default(),
        })
    }
}

impl TransferPath for HostPath {
    fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
        self.direct.see(&file);
        self.engine.attach(file)
    }

    fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        self.engine.detach(file)
    }

    fn take_slots(&mut self) -> Vec<Slot> {
        self.engine.take_slots()
    }

    #[inline]
    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        self.engine.submit(transfer)
    }

    #[inline]
    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        self.engine.wait(min, done)
    }

    fn wake_on(&mut self, eventfd: BorrowedFd<'_>) -> Result<bool, TransferError> {
        self.engine.wake_on(eventfd)
    }

    fn evidence(&self) -> Evidence {
        let (direct_io, effective) = self.direct.verdict(self.kind);
        let summary = match direct_io {
            DirectIo::Honoured => "O_DIRECT to host memory, flag still set on every file",
            DirectIo::Refused => "the file system refused or buffered O_DIRECT: through its cache",
            DirectIo::NotAsked => "through the page cache to host memory",
        };
        Evidence {
            effective_path: Some(effective),
            summary: summary.to_string(),
            direct_io,
            engine: Some(self.engine.facts()),
            ..Evidence::default()
        }
    }
}
