//! The path that moves no bytes: measures the upper limit of the harness itself.

use std::fs::File;

use stormlp_core::evidence::Evidence;
use stormlp_core::path::PathKind;

use crate::error::TransferError;
use crate::region::HostBuffer;
use crate::transfer::FileId;
use crate::transfer::{Completion, Rejected, Transfer, TransferPath};
use crate::transfer::{Slot, SlotMemory};

/// Completes every transfer immediately and touches neither file nor buffer.
pub(crate) struct NullPath {
    slots: Vec<Slot>,
    done: Vec<Completion>,
    files: u32,
}

impl NullPath {
    pub(crate) fn new(host: Vec<HostBuffer>) -> Self {
        let slots = Slot::all(host.into_iter().map(SlotMemory::Host));
        Self { done: Vec::with_capacity(slots.len()), slots, files: 0 }
    }
}

impl TransferPath for NullPath {
    fn attach(&mut self, _file: File) -> Result<FileId, TransferError> {
        self.files += 1;
        Ok(FileId(self.files - 1))
    }

    fn detach(&mut self, _file: FileId) -> Result<(), TransferError> {
        Ok(())
    }

    fn take_slots(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.slots)
    }

    #[inline]
    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        self.done.push(Completion { slot: transfer.slot, result: Ok(transfer.place.len) });
        Ok(())
    }

    #[inline]
    fn wait(&mut self, _min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        done.append(&mut self.done);
        Ok(())
    }

    fn evidence(&self) -> Evidence {
        Evidence {
            effective_path: Some(PathKind::Null),
            summary: "no bytes were moved; the figure is the ceiling of stormlp itself".to_string(),
            ..Evidence::default()
        }
    }
}
