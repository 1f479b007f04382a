//! `gds`: blocking cuFile reads and writes.
//!
//! A blocking call has no queue, so transfers are queued here and executed in `wait`, one after
//! the other: with more than one in flight the latency includes queueing time, as on any device
//! with a single server.

use std::collections::VecDeque;
use std::fs::File;

use stormlp_core::evidence::Evidence;

use super::PathSpec;
use super::gds_common::GdsCommon;
use crate::error::TransferError;
use crate::transfer::FileId;
use crate::transfer::Slot;
use crate::transfer::{Completion, Rejected, Transfer, TransferPath};

/// Reads and writes registered memory with blocking calls.
pub(crate) struct GdsPath {
    common: GdsCommon,
    line: VecDeque<Transfer>,
}

impl GdsPath {
    pub(crate) fn new(spec: PathSpec) -> Result<Self, TransferError> {
        let common = GdsCommon::new(spec)?;
        let line = VecDeque::with_capacity(common.slot_count());
        Ok(Self { common, line })
    }
}

impl TransferPath for GdsPath {
    fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
        self.common.attach(file)
    }

    fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        self.common.detach(file, self.line.iter())
    }

    fn take_slots(&mut self) -> Vec<Slot> {
        self.common.take_slots()
    }

    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        self.line.push_back(self.common.accept(transfer)?);
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        // At least one, so that a caller that only polls makes progress.
        for _ in 0..min.max(1) {
            let Some(transfer) = self.line.pop_front() else {
                break;
            };
            done.push(self.common.perform(transfer));
        }
        Ok(())
    }

    fn stop_counting(&mut self) {
        self.common.stop_counting();
    }

    fn evidence(&self) -> Evidence {
        self.common.evidence()
    }
}
