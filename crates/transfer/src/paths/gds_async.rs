//! `gds-async`: cuFile's stream interface.
//!
//! Every slot has a stream, so that a queue depth means concurrent transfers: work on one stream is
//! executed in order. Transfers are collected in completion order. cuFile writes the number of
//! bytes moved to our memory, so that polling it shows without a call which transfer may be
//! complete, and only its stream is queried. A transfer of 0 bytes leaves no such trace: while no
//! number appears, the streams are queried in turn.

use std::fs::File;
use std::sync::Arc;

use stormlp_core::evidence::Evidence;
use stormlp_core::transport::WaitMode;

use super::PathSpec;
use super::gds_common::{Flying, GdsCommon, rejected};
use super::idle::Idle;
use crate::cuda::Stream;
use crate::cufile::{CuFileError, FileStream};
use crate::error::TransferError;
use crate::transfer::FileId;
use crate::transfer::Slot;
use crate::transfer::{Completion, Rejected, Transfer, TransferPath};

/// A stream registered with cuFile, with at most one transfer on it.
struct StreamLane {
    // Before `stream`: deregistered first, then destroyed.
    file_stream: FileStream,
    stream: Stream,
}

/// Enqueues transfers on streams, one stream per slot.
pub(crate) struct GdsStreamPath {
    // Before `common`: streams end before their files are deregistered.
    lanes: Vec<StreamLane>,
    common: GdsCommon,
    flying: Flying,
    /// Slots of transfers on their streams.
    started: Vec<usize>,
    /// Which of them is queried next if none shows completion.
    turn: usize,
    /// Whether the streams were promised whole 4 KiB blocks.
    page_aligned: bool,
    wait: WaitMode,
}

impl GdsStreamPath {
    /// A path over the buffers of `spec`, on streams of its accelerator.
    pub(crate) fn new(spec: PathSpec) -> Result<Self, TransferError> {
        let page_aligned = spec.page_aligned;
        let accelerator = Arc::clone(&spec.accelerator);
        let wait = accelerator.wait_mode();
        // Requested first, so that a device without streams is the error reported.
        let streams: Vec<Stream> = (0..spec.accelerator_buffers.len())
            .map(|_| accelerator.stream())
            .collect::<Result<_, _>>()?;
        let common = GdsCommon::new(spec)?;
        let capacity = common.slot_count();
        let mut lanes = Vec::with_capacity(capacity);
        let setting_up = common.calls.enter();
        for stream in streams {
            let driver = Arc::clone(&common.driver);
            // SAFETY: the stream is of the context made current by `GdsCommon::new`, and the lane
            // drops the registration first. The lane of the run vouches for `page_aligned`, and
            // `submit` rejects other transfers.
            let file_stream =
                unsafe { FileStream::register(driver, stream.raw().cast(), page_aligned) }?;
            lanes.push(StreamLane { file_stream, stream });
        }
        drop(setting_up);
        Ok(Self {
            lanes,
            flying: Flying::new(capacity),
            started: Vec::with_capacity(capacity),
            turn: 0,
            page_aligned,
            wait,
            common,
        })
    }

    /// Enqueues the transfer of slot `index` on its stream.
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
                (slot.start(), slot.written()),
                place.len,
                place.offset,
            )?;
        }
        self.started.push(index);
        Ok(())
    }

    /// Collects the transfer at `position` of those started if its stream is idle; returns whether
    /// it was.
    fn take_up(
        &mut self,
        position: usize,
        done: &mut Vec<Completion>,
    ) -> Result<bool, TransferError> {
        let index = self.started[position];
        let lane = &self.lanes[index];
        if !lane.stream.is_idle()? {
            return Ok(false);
        }
        // SAFETY: the stream has just been seen idle, after the transfer was handed in.
        let result = unsafe { lane.file_stream.outcome() };
        self.started.swap_remove(position);
        if let Some(transfer) = self.flying.take(index) {
            done.push(self.common.finish(transfer, result));
        }
        Ok(true)
    }

    /// Collects the transfers that show completion or, if none does, the next in turn, if it is
    /// complete; returns whether there was one.
    fn look(&mut self, done: &mut Vec<Completion>) -> Result<bool, TransferError> {
        let mut found = false;
        // From the end: a collected entry is replaced by one that has been checked.
        for position in (0..self.started.len()).rev() {
            let lane = &self.lanes[self.started[position]];
            if lane.file_stream.moved() != 0 {
                found |= self.take_up(position, done)?;
            }
        }
        if !found && !self.started.is_empty() {
            self.turn = (self.turn + 1) % self.started.len();
            found = self.take_up(self.turn, done)?;
        }
        Ok(found)
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
        if self.page_aligned && !transfer.place.is_page_aligned() {
            let reason = "it is not in whole 4 KiB blocks, as its stream requires";
            return Err(rejected(transfer, reason));
        }
        let index = self.flying.put(transfer)?;
        let _call = self.common.calls.enter();
        if let Err(error) = self.start(index)
            && let Some(Transfer { slot, .. }) = self.flying.take(index)
        {
            let error = self.common.lost_or(error);
            return Err(Rejected { slot, error });
        }
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        let before = done.len();
        let _call = self.common.calls.enter();
        let mut idle = Idle::waiting(self.wait);
        loop {
            let found = self.look(done)?;
            if done.len() - before >= min || self.started.is_empty() {
                return Ok(());
            }
            if found { idle.found() } else { idle.rest() }
        }
    }

    fn stop_counting(&mut self) {
        self.common.stop_counting();
    }

    fn evidence(&self) -> Evidence {
        self.common.evidence()
    }
}

impl Drop for GdsStreamPath {
    fn drop(&mut self) {
        let _call = self.common.calls.enter();
        let idle = self.lanes.iter().all(|lane| lane.stream.synchronize().is_ok());
        if !idle {
            // These slots and arguments may still be written to, so they are never freed.
            self.flying.leak();
            std::mem::forget(std::mem::take(&mut self.lanes));
            self.common.leak_files();
        }
    }
}
