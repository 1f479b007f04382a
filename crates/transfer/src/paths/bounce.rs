//! `cpu-gpu`, `cpu-async-gpu` and `page-cache`: a bounce buffer in host memory, then a copy.
//!
//! Slot n of accelerator memory is paired with bounce buffer n of host memory. A read goes file →
//! bounce buffer → slot, a write slot → bounce buffer → file; either is complete only when both
//! halves are.

use std::fs::File;
use std::os::fd::BorrowedFd;

use stormlp_core::evidence::{DirectIo, Evidence};
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;

use super::idle::NAP;
use super::{DirectWatch, PathSpec};
use crate::accelerator::device::{CopyQueue, QueuedCopy};
use crate::cuda::Pins;
use crate::engine::{self, Engine};
use crate::error::TransferError;
use crate::transfer::FileId;
use crate::transfer::{Completion, FileRange, Rejected, Transfer, TransferPath};
use crate::transfer::{Slot, SlotMemory};

/// Slot n and its bounce buffer, unless the engine or the copy queue holds them.
struct BouncePair {
    place: Option<FileRange>,
    memory: Option<Slot>,
    bounce: Option<Slot>,
    moved: usize,
}

/// An engine for the bounce buffers, followed by a copy.
pub(crate) struct BouncePath {
    kind: PathKind,
    engine: Box<dyn Engine>,
    pairs: Vec<BouncePair>,
    slots: Vec<Slot>,
    copies: Option<Box<dyn CopyQueue>>,
    copying: usize,
    reading: usize,
    over: Vec<Completion>,
    copied: Vec<QueuedCopy>,
    ready: Vec<Completion>,
    direct: DirectWatch,
    /// Keeps the bounce buffers pinned, if the accelerator benefits; last, since copies must have
    /// ended before.
    pins: Option<Pins>,
}

impl BouncePath {
    /// A path over the buffers of `spec`; copies run in `copies` if given, otherwise on this
    /// thread.
    pub(crate) fn new(
        spec: PathSpec,
        copies: Option<Box<dyn CopyQueue>>,
    ) -> Result<Self, TransferError> {
        spec.accelerator.bind_thread()?;
        let pins = spec.accelerator.pin(&spec.host)?;
        let mut engine = engine::build(spec.engine, spec.host, spec.submit_batch, spec.max_files)?;
        let pair =
            |bounce| BouncePair { place: None, memory: None, bounce: Some(bounce), moved: 0 };
        let capacity = spec.accelerator_buffers.len();
        let memory = spec.accelerator_buffers.into_iter();
        Ok(Self {
            kind: spec.kind,
            pairs: engine.take_slots().into_iter().map(pair).collect(),
            engine,
            slots: Slot::all(memory.map(SlotMemory::Accelerator)),
            copies,
            copying: 0,
            reading: 0,
            over: Vec::with_capacity(capacity),
            copied: Vec::with_capacity(capacity),
            ready: Vec::with_capacity(capacity),
            direct: DirectWatch::default(),
            pins,
        })
    }

    /// The place of the transfer on slot `index`.
    fn place(&self, index: usize) -> FileRange {
        self.pairs[index].place.expect("a transfer in flight")
    }

    /// The bounce buffer of slot `index`, which must be here.
    fn take_bounce(&mut self, index: usize) -> Slot {
        let bounce = self.pairs[index].bounce.take();
        bounce.expect("the bounce buffer of an idle slot")
    }

    /// The memory of slot `index`, which must be here.
    fn take_memory(&mut self, index: usize) -> Slot {
        let memory = self.pairs[index].memory.take();
        memory.expect("the memory of a slot in flight")
    }

    /// Starts the read or write of slot `index`'s bounce buffer; completes the transfer if that
    /// fails.
    fn start_io(&mut self, index: usize) {
        let place = self.place(index);
        let mut slot = self.take_bounce(index);
        slot.set_written(self.pairs[index].memory.as_ref().map_or(0, Slot::written));
        match self.engine.submit(Transfer { place, slot }) {
            Ok(()) => self.reading += 1,
            Err(Rejected { slot, error }) => {
                self.pairs[index].bounce = Some(slot);
                self.finish(index, Err(error));
            }
        }
    }

    /// Copies between slot `index` and its bounce buffer, synchronously or in the queue.
    fn start_copy(&mut self, index: usize, len: usize) {
        let mut copy = QueuedCopy {
            direction: self.place(index).direction,
            host: self.take_bounce(index),
            accelerator: self.take_memory(index),
            len,
            result: Ok(()),
        };
        if let Some(queue) = &mut self.copies {
            queue.enqueue(copy);
            self.copying += 1;
        } else {
            copy.run();
            self.end_copy(copy);
        }
    }

    /// After a copy: a read is complete, a write can now go to the file.
    fn end_copy(&mut self, copy: QueuedCopy) {
        let index = copy.accelerator.index();
        let pair = &mut self.pairs[index];
        pair.bounce = Some(copy.host);
        pair.memory = Some(copy.accelerator);
        let moved = pair.moved;
        match (copy.direction, copy.result) {
            (_, Err(error)) => self.finish(index, Err(error)),
            (Direction::Read, Ok(())) => self.finish(index, Ok(moved)),
            (Direction::Write, Ok(())) => self.start_io(index),
        }
    }

    /// After I/O: a read still has to be copied, a write is complete.
    fn end_io(&mut self, over: Completion) {
        let index = over.slot.index();
        self.pairs[index].bounce = Some(over.slot);
        self.reading -= 1;
        match (self.place(index).direction, over.result) {
            (Direction::Read, Ok(moved)) if moved > 0 => {
                self.pairs[index].moved = moved;
                self.start_copy(index, moved);
            }
            (_, result) => self.finish(index, result),
        }
    }

    /// Completes slot `index`.
    fn finish(&mut self, index: usize, result: Result<usize, TransferError>) {
        let slot = self.take_memory(index);
        self.ready.push(Completion { slot, result });
    }

    /// Collects completed reads and writes, waiting as `wait` says.
    fn collect_io(&mut self, wait: IoWait) -> Result<(), TransferError> {
        let mut over = std::mem::take(&mut self.over);
        let result = match wait {
            IoWait::Sample => self.engine.wait(0, &mut over),
            IoWait::Briefly => self.engine.wait_briefly(NAP, &mut over),
            IoWait::ForOne => self.engine.wait(1, &mut over),
        };
        over.drain(..).for_each(|over| self.end_io(over));
        self.over = over;
        result
    }

    /// Collects completed copies, waiting for `min` of them.
    fn collect_copies(&mut self, min: usize) {
        if let Some(queue) = &mut self.copies {
            let mut copied = std::mem::take(&mut self.copied);
            queue.wait(min, &mut copied);
            self.copying -= copied.len();
            copied.drain(..).for_each(|copy| self.end_copy(copy));
            self.copied = copied;
        }
    }
}

/// How long to wait for reads and writes.
#[derive(Clone, Copy)]
enum IoWait {
    Sample,
    /// Until there is one, or it is time to poll the copies again.
    Briefly,
    ForOne,
}

impl TransferPath for BouncePath {
    fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
        self.direct.see(&file);
        self.engine.attach(file)
    }

    fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        self.engine.detach(file)
    }

    fn take_slots(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.slots)
    }

    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        let Transfer { place, slot } = transfer;
        let (index, written) = (slot.index(), slot.written());
        let pair = &mut self.pairs[index];
        (pair.place, pair.memory) = (Some(place), Some(slot));
        match place.direction {
            Direction::Read => self.start_io(index),
            // Of a short write no more than was asked for has been copied: the rest is copied too.
            Direction::Write => self.start_copy(index, written + place.len),
        }
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        let min = min.min(self.ready.len() + self.reading + self.copying);
        self.collect_copies(0);
        // Polling costs a system call: skip it if the wait that follows does the same.
        let waits_for_io = self.ready.len() < min && self.copying == 0 && self.reading > 0;
        // A blocking engine would run the next read before it releases a finished copy.
        let looks = !self.engine.blocks() || self.ready.len() < min.max(1);
        if looks && !waits_for_io {
            self.collect_io(IoWait::Sample)?;
        }
        while self.ready.len() < min {
            match (self.reading, self.copying) {
                (0, _) => self.collect_copies(1),
                (_, 0) => self.collect_io(IoWait::ForOne)?,
                _ => {
                    self.collect_io(IoWait::Briefly)?;
                    self.collect_copies(0);
                }
            }
        }
        done.append(&mut self.ready);
        Ok(())
    }

    fn wake_on(&mut self, eventfd: BorrowedFd<'_>) -> Result<bool, TransferError> {
        // A wake-up would have to end the loop above early; transfers end it soon enough.
        let _ = eventfd;
        Ok(false)
    }

    fn evidence(&self) -> Evidence {
        let (direct_io, effective) = self.direct.verdict(self.kind);
        let route = match direct_io {
            DirectIo::Honoured => "O_DIRECT to a bounce buffer, flag still set on every file",
            DirectIo::Refused => "the file system refused or buffered O_DIRECT: through its cache",
            DirectIo::NotAsked => "through the page cache to a bounce buffer",
        };
        let copy = if self.copies.is_some() {
            "copied during the next read (one transfer more in flight than the queue depth)"
        } else {
            "then copied"
        };
        let mut engine = self.engine.facts();
        let shortfall = self.pins.as_ref().and_then(Pins::shortfall);
        engine.fallbacks.extend(shortfall.map(str::to_string));
        Evidence {
            effective_path: Some(effective),
            summary: format!("{route}, {copy} to accelerator memory"),
            direct_io,
            engine: Some(engine),
            ..Evidence::default()
        }
    }
}
