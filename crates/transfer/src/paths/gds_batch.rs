//! `gds-batch` and `gds-batch-stream`: cuFile's batch interface.
//!
//! `gds-batch` submits a batch with one call and collects it only once all of it is complete;
//! transfers submitted meanwhile form the next batch. `gds-batch-stream` replaces entries as they
//! complete, so that the batch never drains.

use std::fs::File;

use stormlp_core::evidence::Evidence;
use stormlp_core::path::PathKind;

use super::PathSpec;
use super::gds_common::{Flying, GdsCommon};
use crate::cufile::{Batch, BatchEntry};
use crate::error::TransferError;
use crate::transfer::FileId;
use crate::transfer::Slot;
use crate::transfer::{Completion, Rejected, Transfer, TransferPath};

/// Submits the transfers collected since the last batch, or the last `wait`, to cuFile in one call.
pub(crate) struct GdsBatchPath {
    // Before `common`: a batch is destroyed before its files are deregistered.
    batch: Batch,
    common: GdsCommon,
    flying: Flying,
    /// Slots of transfers that have not been submitted to cuFile.
    kept: Vec<usize>,
    /// Completed transfers of a batch that is collected as a whole and is not complete.
    early: Vec<Completion>,
    /// Whether a batch is submitted and collected as a whole.
    whole: bool,
}

impl GdsBatchPath {
    /// A path over the buffers of `spec`, one batch entry each.
    pub(crate) fn new(spec: PathSpec) -> Result<Self, TransferError> {
        let whole = spec.kind == PathKind::GdsBatch;
        let wait = spec.accelerator.wait_mode();
        let common = GdsCommon::new(spec)?;
        let capacity = common.slot_count();
        if let Ok(properties) = common.driver.properties()
            && properties.max_batch_entries < capacity
        {
            let most = properties.max_batch_entries;
            return Err(TransferError::Unavailable {
                what: format!("a batch of {capacity} entries"),
                reason: format!("cuFile accepts at most {most} (properties.io_batchsize)"),
                remedy: format!("use --queue-depth {most} or less, or raise io_batchsize (to 256)"),
            });
        }
        let setting_up = common.calls.enter();
        let batch = Batch::new(std::sync::Arc::clone(&common.driver), capacity.max(1), wait)?;
        drop(setting_up);
        Ok(Self {
            batch,
            flying: Flying::new(capacity),
            kept: Vec::with_capacity(capacity),
            early: Vec::with_capacity(capacity),
            whole,
            common,
        })
    }

    /// Submits pending transfers; if cuFile accepts none of it, all of it fails.
    fn hand_in(&mut self, done: &mut Vec<Completion>) {
        if self.kept.is_empty() {
            return;
        }
        let (flying, common) = (&self.flying, &self.common);
        let entries = self.kept.iter().map(|index| {
            let Transfer { place, slot } = flying.get(*index);
            let entry = BatchEntry {
                direction: place.direction,
                base: slot.start(),
                len: place.len,
                file_offset: place.offset,
                mark: *index,
            };
            (entry, common.attached(place))
        });
        // SAFETY: each slot owns its memory and stays in `flying` until its outcome is back, as
        // does its file in `common`; dropping the path waits for both or leaks them. `accept` has
        // checked the lengths, and the device's context is current since the path was built.
        if let Err(error) = unsafe { self.batch.submit(entries) } {
            for index in self.kept.drain(..) {
                let failed = self.flying.take(index);
                done.extend(failed.map(|failed| self.common.finish(failed, Err(error.clone()))));
            }
        }
        self.kept.clear();
    }
}

impl TransferPath for GdsBatchPath {
    fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
        self.common.attach(file)
    }

    fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        self.common.detach(file, self.flying.iter())
    }

    fn take_slots(&mut self) -> Vec<Slot> {
        self.common.take_slots()
    }

    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        let transfer = self.common.accept(transfer)?;
        let index = self.flying.put(transfer)?;
        self.kept.push(index);
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        let before = done.len();
        let _call = self.common.calls.enter();
        loop {
            if !self.whole || self.batch.in_flight() == 0 {
                self.hand_in(done);
            }
            let missing = min.saturating_sub(done.len() - before);
            let wanted = if self.whole && missing > 0 { self.batch.in_flight() } else { missing };
            let (flying, common, early) = (&mut self.flying, &mut self.common, &mut self.early);
            let waited = self.batch.wait(wanted, |(mark, result)| {
                let over = flying.take(mark);
                early.extend(over.map(|over| common.finish(over, result)));
            });
            waited.map_err(|error| common.lost_or(error))?;
            if !self.whole || self.batch.in_flight() == 0 {
                done.append(early);
            }
            let nothing_left = self.batch.in_flight() == 0 && self.kept.is_empty();
            if done.len() - before >= min || nothing_left {
                return Ok(());
            }
        }
    }

    fn stop_counting(&mut self) {
        self.common.stop_counting();
    }

    fn evidence(&self) -> Evidence {
        self.common.evidence()
    }
}

impl Drop for GdsBatchPath {
    fn drop(&mut self) {
        if self.batch.in_flight() == 0 {
            return;
        }
        let _call = self.common.calls.enter();
        self.batch.cancel();
        let all = self.batch.in_flight();
        if self.batch.wait(all, drop).is_err() {
            // cuFile may still write to these slots.
            self.flying.leak();
            self.common.leak_files();
        }
    }
}
