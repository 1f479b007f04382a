//! Where an encoder's buffers go: a file, written in large aligned pieces, several in flight.
//!
//! The first buffer of a file is kept back until there is a second, so that a small file is
//! patched in memory; a larger one has its first 4 KiB written again at the end.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crc_fast::{CrcAlgorithm, Digest, checksum, checksum_combine};
use stormlp_model::operation::Direction;
use stormlp_model::stop::StopToken;
use stormlp_transfer::{Completion, FileId, Slot, Transfer, TransferError, TransferPath};

use crate::content::BLOCK_BYTES;
use crate::format::{ChunkSink, Patch, SinkError};

/// The checksum of manifests.
pub(super) const CHECKSUM: CrcAlgorithm = CrcAlgorithm::Crc64Nvme;

/// A thread's path to storage and its buffers.
pub(super) struct Lane {
    pub(super) path: Box<dyn TransferPath>,
    free: Vec<Slot>,
    done: Vec<Completion>,
    slots: usize,
}

impl Lane {
    pub(super) fn new(mut path: Box<dyn TransferPath>) -> Self {
        let free = path.take_slots();
        Self {
            slots: free.len(),
            done: Vec::with_capacity(free.len()),
            path,
            free,
        }
    }

    fn in_flight(&self) -> usize {
        self.slots - self.free.len()
    }

    /// A free slot, waiting for one if need be.
    fn slot(&mut self) -> Result<Slot, SinkError> {
        loop {
            if let Some(slot) = self.free.pop() {
                return Ok(slot);
            }
            self.reap(1)?;
        }
    }

    /// Waits for `min` transfers and takes their slots back. A write that moved only a part
    /// failed: on a preallocated file that is no ordinary event.
    fn reap(&mut self, min: usize) -> Result<(), SinkError> {
        let mut done = std::mem::take(&mut self.done);
        let waited = self.path.wait(min, &mut done);
        let mut outcome = waited.map_err(into_io);
        for completion in done.drain(..) {
            let wanted = completion.tag as usize;
            match completion.result {
                Ok(moved) if moved == wanted => {}
                Ok(moved) => {
                    let message = format!("wrote {moved} of {wanted} bytes");
                    outcome = Err(io::Error::new(io::ErrorKind::WriteZero, message));
                }
                Err(error) => outcome = Err(into_io(error)),
            }
            self.free.push(completion.slot);
        }
        self.done = done;
        outcome.map_err(SinkError::Io)
    }

    /// Starts writing the first `bytes` bytes of the slot.
    fn write(
        &mut self,
        file: FileId,
        offset: u64,
        slot: Slot,
        bytes: usize,
    ) -> Result<(), SinkError> {
        let transfer = Transfer {
            direction: Direction::Write,
            file,
            offset,
            len: bytes,
            slot,
            tag: bytes as u64,
        };
        self.path.submit(transfer).map_err(|rejected| {
            self.free.push(rejected.slot);
            SinkError::Io(into_io(rejected.error))
        })
    }

    /// Waits for everything in flight; all slots that are not must be free.
    pub(super) fn drain(&mut self) -> Result<(), SinkError> {
        let mut outcome = Ok(());
        while self.in_flight() > 0 {
            let left = self.in_flight();
            if let Err(error) = self.reap(left) {
                outcome = Err(error);
                // A path that can no longer wait would never end this loop.
                if self.in_flight() == left {
                    break;
                }
            }
        }
        outcome
    }
}

/// The system's error behind a failed transfer, so that a full disk can be told from others.
pub(crate) fn into_io(error: TransferError) -> io::Error {
    match error.errno() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::other(error.to_string()),
    }
}

/// One file while it is written.
pub(super) struct FileSink<'a> {
    lane: &'a mut Lane,
    file: FileId,
    stop: &'a StopToken,
    written: &'a AtomicU64,
    current: Option<Slot>,
    /// The first buffer and how much of it is file, until a second one is asked for.
    held: Option<(Slot, usize)>,
    offset: u64,
    head: Vec<u8>,
    rest: Digest,
}

/// What was written.
pub(super) struct Written {
    pub(super) bytes: u64,
    pub(super) crc64: u64,
}

impl<'a> FileSink<'a> {
    pub(super) fn new(
        lane: &'a mut Lane,
        file: FileId,
        stop: &'a StopToken,
        written: &'a AtomicU64,
    ) -> Self {
        Self {
            lane,
            file,
            stop,
            written,
            current: None,
            held: None,
            offset: 0,
            head: Vec::new(),
            rest: Digest::new(CHECKSUM),
        }
    }

    /// Writes what was kept back, corrects the start of the file and waits for the end.
    pub(super) fn finish(mut self, patches: &[Patch]) -> Result<Written, SinkError> {
        let result = self.end(patches);
        self.abandon();
        let drained = self.lane.drain();
        result.and(drained)?;
        let rest_bytes = self.offset - self.head.len() as u64;
        let crc = checksum(CHECKSUM, &self.head);
        Ok(Written {
            bytes: self.offset,
            crc64: checksum_combine(CHECKSUM, crc, self.rest.finalize(), rest_bytes),
        })
    }

    fn end(&mut self, patches: &[Patch]) -> Result<(), SinkError> {
        for patch in patches {
            let place = patch.offset..patch.offset + patch.bytes.len();
            self.head[place].copy_from_slice(&patch.bytes);
        }
        if let Some((mut slot, bytes)) = self.held.take() {
            host(&mut slot)[..self.head.len()].copy_from_slice(&self.head);
            return self.send(0, slot, bytes);
        }
        if patches.is_empty() {
            return Ok(());
        }
        // The first block again: not before the first write of it is over.
        self.abandon();
        self.lane.drain()?;
        let mut slot = self.lane.slot()?;
        let bytes = self.head.len();
        host(&mut slot)[..bytes].copy_from_slice(&self.head);
        self.lane.write(self.file, 0, slot, padded(bytes))
    }

    /// Writes a buffer, zeros up to the next whole block.
    fn send(&mut self, offset: u64, mut slot: Slot, bytes: usize) -> Result<(), SinkError> {
        let whole = padded(bytes);
        host(&mut slot)[bytes..whole].fill(0);
        self.lane.write(self.file, offset, slot, whole)?;
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Gives slots back that never flew.
    fn abandon(&mut self) {
        self.lane.free.extend(self.current.take());
        self.lane
            .free
            .extend(self.held.take().map(|(slot, _)| slot));
    }

    /// Ends a file that will not be finished.
    pub(super) fn cancel(mut self) {
        self.abandon();
        // The file is removed anyway; what its writes answer no longer matters.
        let _ = self.lane.drain();
    }
}

fn host(slot: &mut Slot) -> &mut [u8] {
    slot.host_mut()
        .expect("the paths that write files have host memory")
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK_BYTES)
}

impl ChunkSink for FileSink<'_> {
    fn buffer(&mut self) -> Result<&mut [u8], SinkError> {
        if self.current.is_none() {
            if self.stop.is_stopped() {
                return Err(SinkError::Stopped);
            }
            if let Some((slot, bytes)) = self.held.take() {
                self.send(0, slot, bytes)?;
            }
            self.current = Some(self.lane.slot()?);
        }
        Ok(host(
            self.current.as_mut().expect("a slot was just put there"),
        ))
    }

    fn commit(&mut self, bytes: usize) -> Result<(), SinkError> {
        let Some(mut slot) = self.current.take() else {
            return Ok(());
        };
        let data = &host(&mut slot)[..bytes];
        if self.offset == 0 {
            let head = bytes.min(BLOCK_BYTES);
            self.head.extend_from_slice(&data[..head]);
            self.rest.update(&data[head..]);
            self.held = Some((slot, bytes));
        } else {
            self.rest.update(data);
            self.send(self.offset, slot, bytes)?;
        }
        self.offset += bytes as u64;
        Ok(())
    }
}

/// Gives a file that was written in whole blocks its true size.
pub(super) fn trim(file: &File, bytes: u64) -> io::Result<()> {
    if file.metadata()?.len() == bytes {
        return Ok(());
    }
    file.set_len(bytes)
}
