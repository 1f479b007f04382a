//! `gds-async` and `gds-batch-stream`: cuFile's stream interface.
//!
//! Every slot has a stream of its own, so that a queue depth means transfers side by side: work
//! on one stream is done in order. `gds-async` hands each transfer in as it comes and takes up
//! whichever is over. `gds-batch-stream` keeps them until somebody waits, hands them in together
//! and waits for all of them, as a batch does.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;

use stormlp_model::evidence::Evidence;
use stormlp_model::path::PathKind;

use super::gds_common::{Flying, GdsCommon};
use super::{Completion, FileId, PathSpec, Rejected, Transfer, TransferPath};
use crate::cuda::Stream;
use crate::cufile::{CuFileError, FileStream};
use crate::error::TransferError;
use crate::slot::Slot;

/// A stream, known to cuFile, with at most one transfer on it.
struct Lane {
    // Before `stream`: deregistered, then destroyed.
    file_stream: FileStream,
    stream: Stream,
}

/// Hands transfers to streams, one stream a slot.
pub(crate) struct GdsStreamPath {
    // Before `common`: streams end before their files are deregistered.
    lanes: Vec<Lane>,
    common: GdsCommon,
    flying: Flying,
    /// Slots of transfers that have not been handed in.
    kept: Vec<usize>,
    /// Slots of transfers on their streams, the oldest first.
    started: VecDeque<usize>,
    /// Whether transfers are handed in and taken up together.
    together: bool,
}

impl GdsStreamPath {
    /// A path over the buffers of `spec`, on streams of its accelerator.
    pub(crate) fn new(spec: PathSpec) -> Result<Self, TransferError> {
        let together = spec.kind == PathKind::GdsBatchStream;
        let accelerator = Arc::clone(&spec.accelerator);
        // Asked for first, so that a device without streams is the reason that is given.
        let streams: Vec<Stream> = (0..spec.accelerator_buffers.len())
            .map(|_| accelerator.stream())
            .collect::<Result<_, _>>()?;
        let common = GdsCommon::new(spec)?;
        let capacity = common.slot_count();
        let mut lanes = Vec::with_capacity(capacity);
        for stream in streams {
            let driver = Arc::clone(&common.driver);
            // Sizes and offsets of a run need not be aligned, so that is not promised.
            // SAFETY: the stream is of the context made current by `GdsCommon::new`, and the lane
            // drops the registration first.
            let file_stream = unsafe { FileStream::register(driver, stream.raw().cast(), false) }?;
            lanes.push(Lane {
                file_stream,
                stream,
            });
        }
        Ok(Self {
            lanes,
            flying: Flying::new(capacity),
            kept: Vec::with_capacity(capacity),
            started: VecDeque::with_capacity(capacity),
            together,
            common,
        })
    }

    /// Hands the transfer of slot `index` to its stream.
    fn start(&mut self, index: usize) -> Result<(), CuFileError> {
        let Transfer { place, slot } = self.flying.get(index);
        let file = self.common.attached(place);
        // SAFETY: the lane is idle, since its slot was free. The slot owns its memory and stays in
        // `flying`, its file in `common`, until the stream is idle again; dropping the path waits
        // for that or leaks them. `accept` has checked the length, and the device's context is
        // current on this thread since the path was built.
        unsafe {
            self.lanes[index].file_stream.start(
                place.direction,
                file,
                slot.start(),
                place.len,
                place.offset,
            )?;
        }
        self.started.push_back(index);
        Ok(())
    }

    /// Takes up the transfer of slot `index`, whose stream is idle.
    fn land(&mut self, index: usize) -> Option<Completion> {
        // SAFETY: the stream has been seen idle since the transfer was handed in.
        let result = unsafe { self.lanes[index].file_stream.outcome() };
        self.flying.land(index, result)
    }

    /// Hands in what was kept; what cuFile does not take has failed.
    fn hand_in(&mut self, done: &mut Vec<Completion>) {
        for place in 0..self.kept.len() {
            let index = self.kept[place];
            if let Err(error) = self.start(index) {
                done.extend(self.flying.land(index, Err(error)));
            }
        }
        self.kept.clear();
    }

    /// Takes up every transfer whose stream is idle.
    fn poll(&mut self, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        for _ in 0..self.started.len() {
            let Some(index) = self.started.pop_front() else {
                break;
            };
            match self.lanes[index].stream.is_idle() {
                Ok(true) => done.extend(self.land(index)),
                Ok(false) => self.started.push_back(index),
                Err(error) => {
                    self.started.push_back(index);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Waits for the oldest transfer and takes it up.
    fn wait_for_oldest(&mut self, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        if let Some(index) = self.started.front().copied() {
            self.lanes[index].stream.synchronize()?;
            self.started.pop_front();
            done.extend(self.land(index));
        }
        Ok(())
    }
}

impl TransferPath for GdsStreamPath {
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
        if self.together {
            self.kept.push(index);
        } else if let Err(error) = self.start(index)
            && let Some(Transfer { slot, .. }) = self.flying.take(index)
        {
            let error = error.into();
            return Err(Rejected { slot, error });
        }
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        let before = done.len();
        self.hand_in(done);
        let mut wanted = min;
        if self.together && min > 0 {
            wanted = usize::MAX;
        }
        self.poll(done)?;
        while done.len() - before < wanted && !self.started.is_empty() {
            self.wait_for_oldest(done)?;
            self.poll(done)?;
        }
        Ok(())
    }

    fn evidence(&self) -> Evidence {
        self.common.evidence()
    }
}

impl Drop for GdsStreamPath {
    fn drop(&mut self) {
        let idle = self
            .lanes
            .iter()
            .all(|lane| lane.stream.synchronize().is_ok());
        if !idle {
            // Something may still write to these slots and arguments, so they are never freed.
            self.flying.leak();
            std::mem::forget(std::mem::take(&mut self.lanes));
            self.common.leak_files();
        }
    }
}
