//! Sink of an encoder's buffers: a file, written in large aligned pieces with several in flight.
//!
//! The first buffer of a file is held back until there is a second, so that a small file is patched
//! in memory. For a larger file, the first 4 KiB are rewritten at the end. An object's first
//! buffer is written last.

use std::fs::File;
use std::io;
use std::path::Path;

use crc_fast::{CrcAlgorithm, Digest, checksum, checksum_combine};
use stormlp_core::operation::Direction;
use stormlp_core::stop::StopToken;
use stormlp_transfer::storage::Storage;
use stormlp_transfer::{Driver, FileId, FileRange, Slot};

use crate::content::BLOCK_BYTES;
use crate::format::{ChunkSink, Patch, SinkError};

/// The checksum used in manifests.
pub(super) const CHECKSUM: CrcAlgorithm = CrcAlgorithm::Crc64Nvme;

/// A thread's path to storage and its buffers.
pub(super) type Writer<'a> = Driver<'a, ()>;

/// A free slot; waits for one if necessary.
fn slot(driver: &mut Writer<'_>) -> Result<Slot, SinkError> {
    loop {
        if let Some(slot) = driver.take_slot() {
            return Ok(slot);
        }
        reap(driver, 1)?;
    }
}

/// Waits for `min` transfers and reclaims their slots.
fn reap(driver: &mut Writer<'_>, min: usize) -> Result<(), SinkError> {
    let mut outcome = driver.wait(min);
    while let Some(landed) = driver.next_landed() {
        if let Err(error) = landed.result {
            outcome = Err(error);
        }
        driver.put_back(landed.slot);
    }
    outcome.map_err(SinkError::Io)
}

/// Waits for everything in flight, with an error unless all of it was written.
fn drain(driver: &mut Writer<'_>) -> Result<(), SinkError> {
    let mut outcome = Ok(());
    while driver.in_flight() > 0 {
        let left = driver.in_flight();
        if let Err(error) = reap(driver, left) {
            outcome = Err(error);
            // A path that can no longer wait would make this loop endless.
            if driver.in_flight() == left {
                break;
            }
        }
    }
    outcome
}

/// Where buffers are written.
pub(super) enum FileTarget<'a> {
    /// A file attached to the driver's path, written in whole blocks with several in flight.
    Path(FileId),
    /// An object attached to the driver's path, each buffer of which is a part. Its first part
    /// stays here until the end, since parts cannot be changed.
    Object(FileId),
    /// A separate file, written with plain calls.
    File(PlainFile<'a>),
}

/// A small file with a single writer.
pub(super) struct PlainFile<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) file: File,
    pub(super) path: &'a Path,
}

/// A file being written.
pub(super) struct FileSink<'a, 'd> {
    driver: &'a mut Writer<'d>,
    target: FileTarget<'a>,
    stop: &'a StopToken,
    current: Option<Slot>,
    /// The first buffer and how much of it is used, until a second one is requested.
    held: Option<(Slot, usize)>,
    offset: u64,
    head: Vec<u8>,
    rest: Digest,
}

/// Summary of a written file.
pub(super) struct Written {
    pub(super) bytes: u64,
    pub(super) crc64: u64,
}

impl<'a, 'd> FileSink<'a, 'd> {
    pub(super) fn new(
        driver: &'a mut Writer<'d>,
        target: FileTarget<'a>,
        stop: &'a StopToken,
    ) -> Self {
        Self {
            driver,
            target,
            stop,
            current: None,
            held: None,
            offset: 0,
            head: Vec::new(),
            rest: Digest::new(CHECKSUM),
        }
    }

    /// Writes the held buffer, patches the start of the file and waits for completion.
    pub(super) fn finish(mut self, patches: &[Patch]) -> Result<Written, SinkError> {
        let result = self.end(patches);
        self.abandon();
        let drained = drain(self.driver);
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
        // Rewrites the first block, but only after its first write has completed.
        self.abandon();
        drain(self.driver)?;
        let mut slot = slot(self.driver)?;
        let bytes = self.head.len();
        host(&mut slot)[..bytes].copy_from_slice(&self.head);
        self.send(0, slot, bytes)
    }

    /// Writes a buffer; for the driver's path, zero-padded to a whole block.
    fn send(&mut self, offset: u64, mut slot: Slot, bytes: usize) -> Result<(), SinkError> {
        match &self.target {
            FileTarget::Path(file) => {
                let len = padded(bytes);
                host(&mut slot)[bytes..len].fill(0);
                let place = FileRange { direction: Direction::Write, file: *file, offset, len };
                self.driver.submit(slot, place, ())
            }
            FileTarget::Object(file) => {
                let place =
                    FileRange { direction: Direction::Write, file: *file, offset, len: bytes };
                self.driver.submit(slot, place, ())
            }
            FileTarget::File(PlainFile { storage, file, path }) => {
                let data = &host(&mut slot)[..bytes];
                let written = storage.write_at(file, path, offset, data);
                self.driver.put_back(slot);
                written
            }
        }
        .map_err(SinkError::Io)
    }

    /// Releases slots that were never submitted.
    fn abandon(&mut self) {
        let held = self.held.take().map(|(slot, _)| slot);
        for slot in self.current.take().into_iter().chain(held) {
            self.driver.put_back(slot);
        }
    }

    /// Abandons a file that will not be finished.
    pub(super) fn cancel(mut self) {
        self.abandon();
        // The file is removed anyway, so the results of its writes no longer matter.
        let _ = drain(self.driver);
    }
}

fn host(slot: &mut Slot) -> &mut [u8] {
    slot.host_mut().expect("the paths that write files have host memory")
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK_BYTES)
}

impl ChunkSink for FileSink<'_, '_> {
    fn buffer(&mut self) -> Result<&mut [u8], SinkError> {
        if self.current.is_none() {
            if self.stop.is_stopped() {
                return Err(SinkError::Stopped);
            }
            if !matches!(self.target, FileTarget::Object(_))
                && let Some((slot, bytes)) = self.held.take()
            {
                self.send(0, slot, bytes)?;
            }
            self.current = Some(slot(self.driver)?);
        }
        Ok(host(self.current.as_mut().expect("a slot was just put there")))
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

/// Truncates a file that was written in whole blocks to its true size.
pub(super) fn trim(file: &File, bytes: u64) -> io::Result<()> {
    if file.metadata()?.len() == bytes {
        return Ok(());
    }
    file.set_len(bytes)
}
