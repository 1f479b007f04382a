//! `cpu` and `buffered`: straight to host memory, with `O_DIRECT` or through the page cache.

use std::fs::File;
use std::os::fd::BorrowedFd;

use stormlp_model::evidence::{DirectIo, Evidence};
use stormlp_model::path::PathKind;

use super::{Completion, DirectWatch, FileId, Rejected, Transfer, TransferPath};
use crate::engine::{Engine, EngineBuffer, Io, IoDone};
use crate::error::TransferError;
use crate::slot::{Slot, SlotMemory};

/// An engine's buffers as slots.
pub(crate) struct HostPath {
    kind: PathKind,
    engine: Box<dyn Engine>,
    over: Vec<IoDone>,
    direct: DirectWatch,
}

impl HostPath {
    /// A path over `engine`, which has `depth` buffers.
    pub(crate) fn new(kind: PathKind, engine: Box<dyn Engine>, depth: usize) -> Self {
        Self {
            kind,
            engine,
            over: Vec::with_capacity(depth),
            direct: DirectWatch::default(),
        }
    }
}

/// The engine's buffer inside a slot of host memory.
fn into_buffer(slot: Slot) -> EngineBuffer {
    let index = slot.index() as u32;
    match slot.memory {
        SlotMemory::Host(bytes) => EngineBuffer { index, bytes },
        SlotMemory::Accelerator(_) => unreachable!("host paths hand out host slots only"),
    }
}

/// The slot around an engine's buffer.
fn into_slot(buffer: EngineBuffer) -> Slot {
    Slot::host_memory(buffer.index, buffer.bytes)
}

/// The kernel's answer to a read or write, in the words of this crate.
pub(super) fn outcome(result: std::io::Result<usize>) -> Result<usize, TransferError> {
    result.map_err(|source| TransferError::Io {
        action: "the read or write",
        source,
    })
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
        self.engine
            .take_buffers()
            .into_iter()
            .map(into_slot)
            .collect()
    }

    #[inline]
    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        let Transfer {
            direction,
            file,
            offset,
            len,
            slot,
            tag,
        } = transfer;
        let io = Io {
            direction,
            file,
            offset,
            len,
            buffer: into_buffer(slot),
            tag,
        };
        self.engine.submit(io).map_err(|refused| {
            let (io, error) = *refused;
            Rejected {
                slot: into_slot(io.buffer),
                tag: io.tag,
                error,
            }
        })
    }

    #[inline]
    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        self.engine.wait(min, &mut self.over)?;
        done.extend(self.over.drain(..).map(|over| Completion {
            slot: into_slot(over.buffer),
            tag: over.tag,
            result: outcome(over.result),
        }));
        Ok(())
    }

    fn wake_on(&mut self, eventfd: BorrowedFd<'_>) -> Result<bool, TransferError> {
        self.engine.wake_on(eventfd)
    }

    fn evidence(&self) -> Evidence {
        let (direct_io, effective) = self.direct.verdict(self.kind);
        let summary = match direct_io {
            DirectIo::Honoured => "O_DIRECT to host memory, flag still set on every file",
            DirectIo::Refused => "the file system refused O_DIRECT: through the page cache",
            DirectIo::NotAsked => "through the page cache to host memory",
        };
        Evidence {
            effective_path: Some(effective),
            summary: summary.to_string(),
            direct_io,
            engine: Some(self.engine.facts()),
            cufile: None,
        }
    }
}
