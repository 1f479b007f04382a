//! `pread` and `pwrite` on the calling thread: works everywhere, one operation at a time.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use stormlp_core::evidence::EngineFacts;
use stormlp_core::operation::Direction;
use stormlp_core::path::EngineKind;

use super::{Engine, completion};
use crate::attached::Attached;
use crate::error::TransferError;
use crate::transfer::FileId;
use crate::transfer::Slot;
use crate::transfer::{Completion, Rejected, Transfer};

/// Executes operations inside `wait`, one after the other: with more than one in flight the
/// latency includes queueing time, as on any device with a single server.
pub(crate) struct PsyncEngine {
    files: Attached<File>,
    slots: Vec<Slot>,
    line: VecDeque<Transfer>,
}

impl PsyncEngine {
    pub(crate) fn new(slots: Vec<Slot>, max_files: usize) -> Self {
        Self {
            files: Attached::with_capacity(max_files),
            line: VecDeque::with_capacity(slots.len()),
            slots,
        }
    }

    /// Executes one operation synchronously.
    fn perform(&self, transfer: Transfer) -> Completion {
        let Transfer { place, mut slot } = transfer;
        let file = self.files.get(place.file).expect("an attached file");
        let bytes = slot.part_mut(place.len).expect("engines move host memory");
        let result = loop {
            let result = match place.direction {
                Direction::Read => file.read_at(bytes, place.offset),
                Direction::Write => file.write_at(bytes, place.offset),
            };
            match result {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        completion(slot, result)
    }
}

impl Engine for PsyncEngine {
    fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
        Ok(self.files.insert(file))
    }

    fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        self.files.remove(file);
        Ok(())
    }

    fn take_slots(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.slots)
    }

    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        self.line.push_back(transfer);
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        // At least one, so that a caller that only polls makes progress.
        for _ in 0..min.max(1) {
            let Some(transfer) = self.line.pop_front() else {
                break;
            };
            done.push(self.perform(transfer));
        }
        Ok(())
    }

    fn blocks(&self) -> bool {
        true
    }

    fn facts(&self) -> EngineFacts {
        EngineFacts {
            engine: EngineKind::Psync,
            ring_flags: Vec::new(),
            registered_buffers: false,
            registered_files: false,
            fallbacks: Vec::new(),
        }
    }
}
