//! `cpu-gpu`, `cpu-async-gpu` and `page-cache`: a bounce buffer in host memory, then a copy.
//!
//! Slot n of accelerator memory and bounce buffer n of host memory belong together. A read goes
//! file → bounce buffer → slot, a write slot → bounce buffer → file; either is over only when
//! both of its halves are.

use std::fs::File;
use std::os::fd::BorrowedFd;

use stormlp_model::evidence::{DirectIo, Evidence};
use stormlp_model::operation::Direction;
use stormlp_model::path::PathKind;

use super::host::outcome;
use super::{Completion, DirectWatch, FileId, Rejected, Transfer, TransferPath};
use crate::accelerator::{AcceleratorBuffer, CopyDirection, CopyQueue, QueuedCopy};
use crate::cuda::Pins;
use crate::engine::{Engine, EngineBuffer, Io, IoDone};
use crate::error::TransferError;
use crate::slot::{Slot, SlotMemory};

/// What is known of slot n while it is in flight.
struct Pending {
    transfer: Option<(Direction, FileId, u64, usize, u64)>,
    memory: Option<Box<dyn AcceleratorBuffer>>,
    bounce: Option<EngineBuffer>,
    moved: usize,
}

/// An engine to bounce buffers, and a copy beyond them.
pub(crate) struct BouncePath {
    kind: PathKind,
    engine: Box<dyn Engine>,
    pending: Vec<Pending>,
    slots: Vec<Slot>,
    copies: Option<Box<dyn CopyQueue>>,
    copying: usize,
    reading: usize,
    over: Vec<IoDone>,
    copied: Vec<QueuedCopy>,
    ready: Vec<Completion>,
    direct: DirectWatch,
    /// Keeps the bounce buffers pinned; last, since copies must have ended before.
    _pins: Option<Pins>,
}

impl BouncePath {
    /// A path over `engine`; copies run in `copies` where there is one, else on this thread.
    /// `pins` are kept for as long as the path.
    pub(crate) fn new(
        kind: PathKind,
        mut engine: Box<dyn Engine>,
        memory: Vec<Box<dyn AcceleratorBuffer>>,
        copies: Option<Box<dyn CopyQueue>>,
        pins: Option<Pins>,
    ) -> Self {
        let capacity = memory.len();
        let pending = engine
            .take_buffers()
            .into_iter()
            .map(|bounce| Pending {
                transfer: None,
                memory: None,
                bounce: Some(bounce),
                moved: 0,
            })
            .collect();
        let slots = (0..)
            .zip(memory)
            .map(|(index, buffer)| Slot::accelerator_memory(index, buffer))
            .collect();
        Self {
            kind,
            engine,
            pending,
            slots,
            copies,
            copying: 0,
            reading: 0,
            over: Vec::with_capacity(capacity),
            copied: Vec::with_capacity(capacity),
            ready: Vec::with_capacity(capacity),
            direct: DirectWatch::default(),
            _pins: pins,
        }
    }

    /// The read or write of slot `index`'s bounce buffer, or the completion when it cannot start.
    fn start_io(&mut self, index: usize) {
        let pending = &mut self.pending[index];
        let (direction, file, offset, len, tag) = pending.transfer.expect("a transfer in flight");
        let buffer = pending
            .bounce
            .take()
            .expect("the bounce buffer of an idle slot");
        let io = Io {
            direction,
            file,
            offset,
            len,
            buffer,
            tag,
        };
        match self.engine.submit(io) {
            Ok(()) => self.reading += 1,
            Err(refused) => {
                let (io, error) = *refused;
                self.pending[index].bounce = Some(io.buffer);
                self.finish(index, Err(error));
            }
        }
    }

    /// Copies between slot `index` and its bounce buffer, here or in the queue.
    fn start_copy(&mut self, index: usize, direction: CopyDirection, len: usize) {
        let pending = &mut self.pending[index];
        let mut copy = QueuedCopy {
            direction,
            host: pending
                .bounce
                .take()
                .expect("the bounce buffer of an idle slot")
                .bytes,
            accelerator: pending
                .memory
                .take()
                .expect("the memory of a slot in flight"),
            len,
            tag: index as u64,
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

    /// A copy is over: a read is complete, a write may now go to the file.
    fn end_copy(&mut self, copy: QueuedCopy) {
        let index = copy.tag as usize;
        let pending = &mut self.pending[index];
        pending.bounce = Some(EngineBuffer {
            index: index as u32,
            bytes: copy.host,
        });
        pending.memory = Some(copy.accelerator);
        let moved = pending.moved;
        match (copy.direction, copy.result) {
            (_, Err(error)) => self.finish(index, Err(error)),
            (CopyDirection::ToAccelerator, Ok(())) => self.finish(index, Ok(moved)),
            (CopyDirection::ToHost, Ok(())) => self.start_io(index),
        }
    }

    /// A read or write of the engine is over: a read is still to be copied, a write is complete.
    fn end_io(&mut self, over: IoDone) {
        let index = over.buffer.index as usize;
        let pending = &mut self.pending[index];
        pending.bounce = Some(over.buffer);
        self.reading -= 1;
        let (direction, ..) = pending.transfer.expect("a transfer in flight");
        match (direction, outcome(over.result)) {
            (Direction::Read, Ok(moved)) if moved > 0 => {
                pending.moved = moved;
                self.start_copy(index, CopyDirection::ToAccelerator, moved);
            }
            (_, result) => self.finish(index, result),
        }
    }

    /// Slot `index` goes back to its owner.
    fn finish(&mut self, index: usize, result: Result<usize, TransferError>) {
        let pending = &mut self.pending[index];
        let (.., tag) = pending.transfer.take().expect("a transfer in flight");
        let memory = pending
            .memory
            .take()
            .expect("the memory of a slot in flight");
        let slot = Slot::accelerator_memory(index as u32, memory);
        self.ready.push(Completion { slot, tag, result });
    }

    /// Takes up everything that is over without waiting for more.
    fn collect(&mut self, wait_io: usize, wait_copies: usize) -> Result<(), TransferError> {
        let mut over = std::mem::take(&mut self.over);
        let result = self.engine.wait(wait_io, &mut over);
        over.drain(..).for_each(|over| self.end_io(over));
        self.over = over;
        result?;
        if let Some(queue) = &mut self.copies {
            let mut copied = std::mem::take(&mut self.copied);
            queue.wait(wait_copies, &mut copied);
            self.copying -= copied.len();
            copied.drain(..).for_each(|copy| self.end_copy(copy));
            self.copied = copied;
        }
        Ok(())
    }
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
        let Transfer {
            direction,
            file,
            offset,
            len,
            slot,
            tag,
        } = transfer;
        let index = slot.index();
        let SlotMemory::Accelerator(memory) = slot.memory else {
            unreachable!("bounce paths hand out accelerator slots only")
        };
        let pending = &mut self.pending[index];
        pending.memory = Some(memory);
        pending.transfer = Some((direction, file, offset, len, tag));
        match direction {
            Direction::Read => self.start_io(index),
            Direction::Write => self.start_copy(index, CopyDirection::ToHost, len),
        }
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        let min = min.min(self.ready.len() + self.reading + self.copying);
        self.collect(0, 0)?;
        while self.ready.len() < min {
            // Block on one side only: on the files while any is read, else on the copies.
            let (io, copies) = if self.reading > 0 { (1, 0) } else { (0, 1) };
            self.collect(io, copies)?;
        }
        done.append(&mut self.ready);
        Ok(())
    }

    fn wake_on(&mut self, eventfd: BorrowedFd<'_>) -> Result<bool, TransferError> {
        // A wake would have to end the loop above early; transfers end it soon enough.
        let _ = eventfd;
        Ok(false)
    }

    fn evidence(&self) -> Evidence {
        let (direct_io, effective) = self.direct.verdict(self.kind);
        let route = match direct_io {
            DirectIo::Honoured => "O_DIRECT to a bounce buffer, flag still set on every file",
            DirectIo::Refused => "the file system refused O_DIRECT: through the page cache",
            DirectIo::NotAsked => "through the page cache to a bounce buffer",
        };
        let copy = if self.copies.is_some() {
            "copied beside the next read (one transfer more in flight than the queue depth)"
        } else {
            "then copied"
        };
        Evidence {
            effective_path: Some(effective),
            summary: format!("{route}, {copy} to accelerator memory"),
            direct_io,
            engine: Some(self.engine.facts()),
            cufile: None,
        }
    }
}
