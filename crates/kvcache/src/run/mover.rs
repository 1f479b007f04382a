//! The part that all threads of a trial have in common: they move objects in pieces, several at a time
//! if the path can, and count with all other threads.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use stormlp_core::evidence::Evidence;
use stormlp_core::location::names_object;
use stormlp_core::operation::Direction;
use stormlp_core::stop::Ends;
use stormlp_hosts::fault::Fault;
use stormlp_transfer::object::PART_BYTES;
use stormlp_transfer::storage::{Access, Handle, is_direct_refused};
use stormlp_transfer::{CompletedTransfer, Driver, FileId, FileRange, Slot, Stamp, TransferError};

use super::error::KvcacheError;
use super::stage::Stage;
use super::tally::Tally;
use crate::plan::Content;
use crate::report::Timed;

/// How often a thread without work checks whether the run is to end.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// Residency is looked at for one in so many reads of a thread, the first included.
const SAMPLE_EVERY: u64 = 16;

/// Why a thread stops in the middle of its work.
pub(super) enum Cut {
    /// The time is over, the user stopped the run, or another thread failed.
    Ends,
    /// Storage failed.
    Failed(KvcacheError),
}

impl From<TransferError> for Cut {
    fn from(error: TransferError) -> Self {
        Self::Failed(error.into())
    }
}

/// The results of a thread in addition to its counts.
pub(super) struct WorkerResult {
    pub(super) evidence: Evidence,
    pub(super) failure: Option<KvcacheError>,
}

/// An object to read; its content is given if it is compared.
pub(super) struct ObjectToRead {
    pub(super) path: PathBuf,
    /// Where it begins in its file.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) content: Option<Content>,
}

/// A transfer in flight: which of the objects, from which byte on, and how many.
pub(super) struct Piece {
    nth: usize,
    at: u64,
    len: usize,
}

/// An object that is being read.
struct Open {
    file: FileId,
    opening: Stamp,
    left: u64,
}

/// See the [module's description](self).
pub(super) struct Mover<'a> {
    pub(super) driver: Driver<'a, Piece>,
    pub(super) stage: &'a Stage<'a>,
    pub(super) ends: Ends<'a>,
    tally: &'a Mutex<Tally>,
    /// The start of the trial.
    pub(super) start: Instant,
    /// Whether the work is not measured yet, and not counted.
    pub(super) rehearses: bool,
    reads: u64,
    /// The expected bytes of a piece that is compared.
    expected: Vec<u8>,
    /// Memory of the host for a piece, if transfers end in memory that the CPU cannot access.
    scratch: Vec<u8>,
}

impl<'a> Mover<'a> {
    pub(super) fn new(
        mut driver: Driver<'a, Piece>,
        stage: &'a Stage<'a>,
        ends: Ends<'a>,
        tally: &'a Mutex<Tally>,
    ) -> Self {
        let needs_scratch = driver.idle().iter().any(|slot| slot.host().is_none());
        let scratch = if needs_scratch { stage.plan.transport.chunk_bytes as usize } else { 0 };
        Self {
            driver,
            stage,
            ends,
            tally,
            start: Instant::now(),
            rehearses: false,
            reads: 0,
            expected: Vec::new(),
            scratch: vec![0; scratch],
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Whether the window is over.
    pub(super) fn is_late(&self) -> bool {
        self.start.elapsed() >= self.stage.window()
    }

    /// Whether no more work is begun.
    pub(super) fn is_over(&self) -> bool {
        self.ends.are_near() || self.is_late()
    }

    /// Sleeps until work is due, but not beyond the window, and not for long.
    pub(super) fn sleep_until(&self, due_ns: u64) {
        let until = due_ns.min(self.stage.window().as_nanos() as u64);
        thread::sleep(Duration::from_nanos(until.saturating_sub(self.now_ns())).min(TICK));
    }

    /// Counts something with all other threads.
    pub(super) fn count(&self, add: impl FnOnce(&mut Tally)) {
        if !self.rehearses {
            add(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Opens the file of an object, or an object of a bucket, with a known size if it is read.
    pub(super) fn open(&self, path: &Path, access: Access, bytes: u64) -> Result<Handle, Cut> {
        let (storage, is_direct) = (self.stage.storage, self.stage.is_direct());
        let opened = match access {
            Access::Read if names_object(path) => storage.known_object(path, bytes),
            _ => storage.handle(path, access, is_direct),
        };
        opened.map_err(|error| match is_direct && is_direct_refused(&error) {
            true => Cut::Failed(KvcacheError::NotDirect { path: path.to_path_buf() }),
            false => failed_on(path)(error),
        })
    }

    /// Reads objects; the time until the last byte is there, in nanoseconds.
    pub(super) fn read(&mut self, objects: &[ObjectToRead]) -> Result<u64, Cut> {
        let began = self.driver.now();
        let mut open: Vec<Option<Open>> = Vec::with_capacity(objects.len());
        let (mut nth, mut at) = (0, 0);
        loop {
            while nth < objects.len() && self.driver.has_room() && !self.ends.are_near() {
                let ObjectToRead { path, offset, bytes, .. } = &objects[nth];
                if at == 0 {
                    open.push(Some(self.open_to_read(&objects[nth])?));
                }
                let len = self.stage.plan.transport.chunk_bytes.min(bytes - at);
                if let Some(Some(object)) = open.get(nth) {
                    let piece = Piece { nth, at, len: len as usize };
                    let place = (Direction::Read, object.file, offset + at);
                    let slot = self.driver.take_slot().expect("there is room");
                    self.submit(slot, place, piece, path)?;
                }
                at += len;
                if at == *bytes {
                    (nth, at) = (nth + 1, 0);
                }
            }
            if self.driver.in_flight() == 0 {
                let is_whole = nth == objects.len();
                let nanos = self.driver.now().nanos_since(began);
                return if is_whole { Ok(nanos) } else { Err(Cut::Ends) };
            }
            self.driver.wait(1)?;
            while let Some(landed) = self.driver.next_landed() {
                self.land(landed, objects, &mut open)?;
            }
        }
    }

    /// Opens an object and has the kernel drop its pages, of some with a look at whether it did.
    fn open_to_read(&mut self, object: &ObjectToRead) -> Result<Open, Cut> {
        let (storage, path) = (self.stage.storage, &object.path);
        let opening = self.driver.now();
        let handle = self.open(path, Access::Read, object.bytes)?;
        if let Handle::File(file) = &handle
            && !self.stage.is_direct()
        {
            let is_sampled = self.reads.is_multiple_of(SAMPLE_EVERY);
            self.reads += 1;
            let before = if is_sampled { storage.residency(path)? } else { None };
            storage.forget(file, path)?;
            let after = if before.is_some() { storage.residency(path)? } else { None };
            if let Some((before, after)) = before.zip(after) {
                self.count(|tally| tally.sample(1, before, after));
            }
        }
        Ok(Open { file: self.driver.attach(handle)?, opening, left: object.bytes })
    }

    fn submit(
        &mut self,
        slot: Slot,
        (direction, file, offset): (Direction, FileId, u64),
        piece: Piece,
        path: &Path,
    ) -> Result<(), Cut> {
        let place = FileRange { direction, file, offset, len: piece.len };
        self.driver.submit(slot, place, piece).map_err(failed_on(path))
    }

    /// Counts a piece that was read, and closes an object of which all has been.
    fn land(
        &mut self,
        landed: CompletedTransfer<Piece>,
        objects: &[ObjectToRead],
        open: &mut [Option<Open>],
    ) -> Result<(), Cut> {
        let Piece { nth, at, len } = landed.tag;
        let ObjectToRead { path, offset, bytes, .. } = &objects[nth];
        let byte = self.difference(&landed, &objects[nth])?;
        self.driver.put_back(landed.slot);
        if let Some(byte) = byte {
            return Err(Cut::Failed(KvcacheError::Mismatch { path: path.clone(), byte }));
        }
        let read = landed.result.map_err(failed_on(path))?;
        if read < len {
            // Pieces land in any order, so the file itself says where it ends.
            let found = self.stage.storage.found(path)?.bytes.min(offset + at + read as u64);
            let expected = offset + bytes;
            let short = KvcacheError::Short { path: path.clone(), found, expected };
            return Err(Cut::Failed(short));
        }
        let object = open[nth].as_mut().expect("it is open while a piece of it is in flight");
        object.left -= read as u64;
        let (file, is_whole) = (object.file, object.left == 0);
        let nanos = self.driver.now().nanos_since(object.opening);
        let late = self.is_late();
        self.count(|tally| {
            tally.read.count_bytes(read as u64, late);
            if is_whole {
                tally.read.count_object(late);
                tally.timings.record(Timed::Read, nanos);
            }
        });
        if is_whole {
            self.driver.detach(file)?;
            open[nth] = None;
        }
        Ok(())
    }

    /// The byte of its object in which a piece differs from the bytes written, if it is compared.
    fn difference(
        &mut self,
        landed: &CompletedTransfer<Piece>,
        object: &ObjectToRead,
    ) -> Result<Option<u64>, TransferError> {
        let Piece { at, len, .. } = landed.tag;
        let Some(content) =
            object.content.as_ref().filter(|_| matches!(landed.result, Ok(read) if read == len))
        else {
            return Ok(None);
        };
        let found = match landed.slot.host() {
            Some(buffer) => &buffer[..len],
            None => {
                landed.slot.copy_out(&mut self.scratch[..len])?;
                &self.scratch[..len]
            }
        };
        Ok(content.difference(self.stage.noise, at, found, &mut self.expected))
    }

    /// Writes `bytes` of an object at `offset` of its file: its content, and zeros after it. The time that making the content
    /// took, in nanoseconds.
    pub(super) fn write(
        &mut self,
        content: &Content,
        (handle, path, offset): (Handle, &Path, u64),
        bytes: u64,
    ) -> Result<u64, Cut> {
        // An object of a bucket is uploaded as a whole, in parts of a fixed size.
        let is_upload = names_object(path);
        let most = if is_upload { PART_BYTES } else { u64::MAX };
        let file = self.driver.attach(handle)?;
        // A killed run leaves a file that is known by its beginning, so that is there before all else.
        let (mut at, mut has_beginning, mut content_ns) = (0, false, 0);
        while at < bytes || self.driver.in_flight() > 0 {
            let is_cut = self.ends.are_near() && !is_upload;
            while at < bytes && self.driver.has_room() && (at == 0 || has_beginning) && !is_cut {
                let len = most.min(self.stage.plan.transport.chunk_bytes).min(bytes - at);
                let mut slot = self.driver.take_slot().expect("there is room");
                let making = self.driver.now();
                self.fill(content, at, len as usize, &mut slot)?;
                content_ns += self.driver.now().nanos_since(making);
                let piece = Piece { nth: 0, at, len: len as usize };
                self.submit(slot, (Direction::Write, file, offset + at), piece, path)?;
                at += len;
            }
            if self.driver.in_flight() == 0 {
                return Err(Cut::Ends);
            }
            self.driver.wait(1)?;
            while let Some(landed) = self.driver.next_landed() {
                self.driver.put_back(landed.slot);
                landed.result.map_err(failed_on(path))?;
                has_beginning = true;
            }
        }
        self.driver.detach(file)?;
        Ok(content_ns)
    }

    /// Puts a piece of an object into a slot.
    fn fill(
        &mut self,
        content: &Content,
        at: u64,
        len: usize,
        slot: &mut Slot,
    ) -> Result<(), TransferError> {
        let own = content.bytes().saturating_sub(at).min(len as u64) as usize;
        let noise = self.stage.noise;
        let fill = |buffer: &mut [u8]| {
            content.fill(noise, at, &mut buffer[..own]);
            buffer[own..].fill(0);
        };
        match slot.host_mut() {
            Some(buffer) => fill(&mut buffer[..len]),
            None => {
                fill(&mut self.scratch[..len]);
                slot.copy_in(&self.scratch[..len])?;
            }
        }
        Ok(())
    }

    /// Ends the other threads if `work` failed, and returns this one's results.
    pub(super) fn finish(self, work: Result<(), Cut>) -> WorkerResult {
        let failure = match work {
            Ok(()) | Err(Cut::Ends) => None,
            Err(Cut::Failed(error)) => {
                self.ends.failed.stop();
                Some(error)
            }
        };
        WorkerResult { evidence: self.driver.evidence(), failure }
    }
}

/// The failure of a transfer of `path`.
pub(super) fn failed_on(path: &Path) -> impl Fn(TransferError) -> Cut {
    move |error| Cut::Failed(Fault::on(path, error).into())
}
