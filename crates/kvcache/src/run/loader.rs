//! A thread of a serving engine: loads the prefixes of prompts in bursts, or writes chunks in the
//! background.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use stormlp_core::operation::Direction;
use stormlp_core::stop::Ends;
use stormlp_transfer::object::PART_BYTES;
use stormlp_transfer::storage::{Access, Handle};
use stormlp_transfer::{CompletedTransfer, Driver, FileId, FileRange, Slot, Stamp, TransferError};

use super::chunk_files::First;
use super::chunk_files::{ChunkFiles, Spot, WriteQueue};
use super::error::KvcacheError;
use super::requests::Next;
use super::tally::Tally;
use super::trial::Stage;
use super::worker::{Cut, WorkerResult, drop_cached, finished};
use crate::plan::{ChunkId, Content, Prompt, Prompts, Stored, WriteDecision};
use crate::report::Timed;

/// How often a thread without work checks whether the run is to end.
const TICK: Duration = Duration::from_millis(20);

/// What the threads of a trial share.
pub(super) struct Engine<'a> {
    pub(super) stage: &'a Stage<'a>,
    pub(super) files: &'a ChunkFiles<'a>,
    pub(super) queue: &'a WriteQueue,
    /// What is made sure of before the start.
    pub(super) first: &'a First,
    /// Where new chunks come from, which is to know what became of them.
    pub(super) prompts: &'a Mutex<Prompts>,
    /// Threads that still load.
    pub(super) loading: &'a AtomicU32,
    pub(super) next: &'a (dyn Fn(u64) -> Result<Next<Prompt>, KvcacheError> + Sync),
    pub(super) ends: Ends<'a>,
    pub(super) tally: &'a Mutex<Tally>,
}

/// See the [module's description](self).
pub(super) struct Loader<'a> {
    driver: Driver<'a, Piece>,
    engine: &'a Engine<'a>,
    start: Instant,
    reads: u64,
    /// Whether what it does is not measured yet, and not counted.
    rehearses: bool,
    /// What a piece should be, if it is compared.
    expected: Vec<u8>,
    /// Memory of the host for a piece, if transfers end in memory that the CPU cannot access.
    scratch: Vec<u8>,
}

/// A transfer in flight: of which chunk of the burst, from which byte on, and how many.
pub(super) struct Piece {
    nth: usize,
    at: u64,
    len: usize,
}

/// A chunk that is being read.
struct Open {
    file: FileId,
    spot: Spot,
    opening: Stamp,
    left: u64,
    /// What it should be, if it is compared.
    content: Option<Content>,
}

impl<'a> Loader<'a> {
    pub(super) fn new(mut driver: Driver<'a, Piece>, engine: &'a Engine<'a>) -> Self {
        let needs_scratch = driver.idle().iter().any(|slot| slot.host().is_none());
        let scratch =
            vec![
                0;
                if needs_scratch { engine.stage.plan.transport.chunk_bytes as usize } else { 0 }
            ];
        let (start, expected) = (Instant::now(), Vec::new());
        Self { driver, engine, start, reads: 0, rehearses: false, expected, scratch }
    }

    /// Writes its share of the chunks that are there from the start, and reads one of them: that shows
    /// both routes before anything is measured.
    pub(super) fn prepare(&mut self) -> Result<(), KvcacheError> {
        if self.engine.first.sample.is_none() {
            return Ok(());
        }
        self.rehearses = true;
        self.driver.rehearse();
        let prepared = self.write_first().and_then(|last| self.read_back(last));
        self.driver.rehearsed();
        self.rehearses = false;
        match prepared {
            Ok(()) | Err(Cut::Ends) => Ok(()),
            Err(Cut::Failed(error)) => {
                self.engine.ends.failed.stop();
                Err(error)
            }
        }
    }

    /// The last chunk that it made sure of.
    fn write_first(&mut self) -> Result<Option<ChunkId>, Cut> {
        let First { sample, missing, taken } = self.engine.first;
        let mut last = *sample;
        while !self.engine.ends.are_near() {
            let Some(id) = missing.get(taken.fetch_add(1, Ordering::Relaxed)) else { break };
            self.write_chunk(*id)?;
            last = Some(*id);
        }
        Ok(last)
    }

    fn read_back(&mut self, last: Option<ChunkId>) -> Result<(), Cut> {
        let (found, _) = self.engine.files.take(last.as_slice());
        let read = self.load(&found);
        self.engine.files.chunks().give_back(&found);
        read.map(drop)
    }

    /// Serves prompts from `start` until the time is over.
    pub(super) fn load_all(self, start: Instant) -> WorkerResult {
        let engine = self.engine;
        let result = self.run(start, Self::serve_prompts);
        engine.loading.fetch_sub(1, Ordering::AcqRel);
        result
    }

    /// Writes chunks from `start` until the time is over or nobody loads any more.
    pub(super) fn write_all(self, start: Instant) -> WorkerResult {
        self.run(start, Self::write_waiting)
    }

    fn run(mut self, start: Instant, work: fn(&mut Self) -> Result<(), Cut>) -> WorkerResult {
        self.start = start;
        let done = work(&mut self);
        finished(done, self.engine.ends, self.driver.evidence())
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn is_late(&self) -> bool {
        self.start.elapsed() >= self.engine.stage.window()
    }

    fn count(&self, add: impl FnOnce(&mut Tally)) {
        if self.rehearses {
            return;
        }
        add(&mut self.engine.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn serve_prompts(&mut self) -> Result<(), Cut> {
        while !self.is_over() {
            let now_ns = self.now_ns();
            match (self.engine.next)(now_ns).map_err(Cut::Failed)? {
                Next::Take(prompt, sent_ns) => self.serve(&prompt, sent_ns)?,
                Next::At(due_ns) => {
                    let until = due_ns.min(self.engine.stage.window().as_nanos() as u64);
                    thread::sleep(Duration::from_nanos(until.saturating_sub(now_ns)).min(TICK));
                }
                Next::Finished => return Ok(()),
            }
        }
        Ok(())
    }

    fn serve(&mut self, prompt: &Prompt, sent_ns: u64) -> Result<(), Cut> {
        let taken_ns = self.now_ns();
        let (found, absent) = self.engine.files.take(&prompt.chunks);
        let loaded = self.load(&found);
        self.engine.files.chunks().give_back(&found);
        let load_ns = loaded?;
        let (now_ns, late) = (self.now_ns(), self.is_late());
        let plan = self.engine.files.plan;
        let tokens = found.len() as u32 * plan.chunk_tokens;
        let bytes = found.len() as u64 * plan.chunk_bytes;
        self.count(|tally| {
            tally.timings.served([sent_ns, taken_ns, now_ns], load_ns);
            tally.prompts().served(prompt.tokens, tokens, late);
            if tokens > 0 {
                tally.timings.loads.record(plan.length_of(tokens), load_ns, tokens, bytes);
            }
            if let Some(replayed) = &mut tally.replayed {
                replayed.count(late);
            }
        });
        self.hand_over(&absent);
        if let Some(rate) = plan.prefill_tokens_per_second {
            self.compute(f64::from(prompt.tokens - tokens) / rate);
        }
        Ok(())
    }

    /// Has chunks written in the background, if there is room or once there is.
    fn hand_over(&self, absent: &[ChunkId]) {
        let (queue, drops) = (self.engine.queue, self.engine.files.plan.drops);
        let mut left = queue.add(absent);
        while left > 0 && !drops && !self.is_over() {
            queue.wait_for_room(TICK);
            left = queue.add(&absent[absent.len() - left..]);
        }
        let left = &absent[absent.len() - left..];
        if drops {
            self.drop_chunks(left);
        } else {
            // The trial is over.
            self.count(|tally| tally.prompts().waiting += left.len() as u64);
        }
    }

    /// Chunks are not written; a later prompt brings them again.
    fn drop_chunks(&self, ids: &[ChunkId]) {
        if ids.is_empty() {
            return;
        }
        self.count(|tally| tally.prompts().dropped += ids.len() as u64);
        let mut prompts = self.engine.prompts.lock().unwrap_or_else(PoisonError::into_inner);
        ids.iter().for_each(|id| prompts.dropped(*id));
    }

    /// Lets the time pass in which accelerators compute what was not loaded.
    fn compute(&self, seconds: f64) {
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        while !self.is_over() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(TICK));
        }
    }

    fn is_over(&self) -> bool {
        self.engine.ends.are_near() || self.is_late()
    }

    /// Reads chunks, several pieces at a time; the time until the last is there, in nanoseconds.
    fn load(&mut self, found: &[Stored]) -> Result<u64, Cut> {
        let began = self.driver.now();
        let size = self.engine.files.plan.chunk_bytes;
        let mut open: Vec<Option<Open>> = Vec::with_capacity(found.len());
        let (mut nth, mut at) = (0, 0);
        loop {
            while nth < found.len() && self.driver.has_room() {
                if at == 0 {
                    open.push(Some(self.open_chunk(found[nth])?));
                }
                let len = self.engine.stage.plan.transport.chunk_bytes.min(size - at);
                if let Some(Some(chunk)) = open.get(nth) {
                    let piece = Piece { nth, at, len: len as usize };
                    let place = FileRange {
                        direction: Direction::Read,
                        file: chunk.file,
                        offset: chunk.spot.offset + at,
                        len: piece.len,
                    };
                    let slot = self.driver.take_slot().expect("there is room");
                    let path = &chunk.spot.path;
                    let on = |error| Cut::Failed(KvcacheError::on(path, error));
                    self.driver.submit(slot, place, piece).map_err(on)?;
                }
                at += len;
                if at == size {
                    (nth, at) = (nth + 1, 0);
                }
            }
            if self.driver.in_flight() == 0 {
                return Ok(self.driver.now().nanos_since(began));
            }
            self.driver.wait(1)?;
            self.land(&mut open)?;
        }
    }

    fn open_chunk(&mut self, stored: Stored) -> Result<Open, Cut> {
        let files = self.engine.files;
        let spot = files.spot(stored.id, stored.place);
        let opening = self.driver.now();
        let handle = files.open(&spot.path, Access::Read).map_err(Cut::Failed)?;
        self.drop_cached(&handle, &spot.path)?;
        let file = self.driver.attach(handle)?;
        let content = self.engine.stage.plan.request.verify.then(|| files.content(stored.id));
        Ok(Open { file, spot, opening, left: files.plan.chunk_bytes, content })
    }

    /// Has the kernel drop the pages of a file that has some, and looks at some files whether it did.
    fn drop_cached(&mut self, handle: &Handle, path: &Path) -> Result<(), Cut> {
        let (Handle::File(file), false) = (handle, self.engine.files.is_direct) else {
            return Ok(());
        };
        let storage = self.engine.files.storage;
        let sample = drop_cached(storage, (file, path), &mut self.reads)?;
        if let Some((before, after)) = sample {
            self.count(|tally| tally.sample(1, before, after));
        }
        Ok(())
    }

    /// Counts what has arrived, and closes chunks of which all has.
    fn land(&mut self, open: &mut [Option<Open>]) -> Result<(), Cut> {
        while let Some(landed) = self.driver.next_landed() {
            let byte = self.difference(&landed, open)?;
            let Piece { nth, at, len } = landed.tag;
            let chunk = open[nth].as_mut().expect("it is open while a piece of it is in flight");
            self.driver.put_back(landed.slot);
            let path = &chunk.spot.path;
            if let Some(byte) = byte {
                let path = path.clone();
                return Err(Cut::Failed(KvcacheError::Mismatch { path, byte }));
            }
            let read = landed.result.map_err(|error| Cut::Failed(KvcacheError::on(path, error)))?;
            if read < len {
                // What is in flight lands in any order, so the file itself says where it ends.
                let (start, size) = (chunk.spot.offset, self.engine.files.plan.chunk_bytes);
                let found = self.engine.files.storage.found(path)?.bytes;
                let found = found.min(start + at + read as u64);
                let (path, expected) = (path.clone(), start + size);
                return Err(Cut::Failed(KvcacheError::Short { path, found, expected }));
            }
            chunk.left -= read as u64;
            let (is_whole, opening, file) = (chunk.left == 0, chunk.opening, chunk.file);
            let nanos = self.driver.now().nanos_since(opening);
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
        }
        Ok(())
    }

    /// The byte of its chunk in which a piece differs from what was written, if it is compared.
    fn difference(
        &mut self,
        landed: &CompletedTransfer<Piece>,
        open: &[Option<Open>],
    ) -> Result<Option<u64>, TransferError> {
        let Piece { nth, at, len } = landed.tag;
        let content = open[nth].as_ref().and_then(|chunk| chunk.content.as_ref());
        let (Some(content), Ok(read)) = (content, &landed.result) else {
            return Ok(None);
        };
        if *read < len {
            return Ok(None);
        }
        let found = match landed.slot.host() {
            Some(buffer) => &buffer[..len],
            None => {
                landed.slot.copy_out(&mut self.scratch[..len])?;
                &self.scratch[..len]
            }
        };
        Ok(content.difference(self.engine.files.noise, at, found, &mut self.expected))
    }

    fn write_waiting(&mut self) -> Result<(), Cut> {
        while !self.is_over() {
            match self.engine.queue.next(TICK) {
                Some(id) => self.write_chunk(id)?,
                None if self.engine.loading.load(Ordering::Acquire) == 0 => return Ok(()),
                None => {}
            }
        }
        Ok(())
    }

    /// Writes a chunk, unless it is there; what is deleted for it is removed first.
    fn write_chunk(&mut self, id: ChunkId) -> Result<(), Cut> {
        let files = self.engine.files;
        let begun = files.chunks().begin(id);
        let (place, deletes) = match begun {
            WriteDecision::Known => return Ok(()),
            WriteDecision::Full => {
                self.drop_chunks(&[id]);
                return Ok(());
            }
            WriteDecision::At { place, deletes } => (place, deletes),
        };
        if let Some(victim) = deletes {
            files.remove(victim)?;
            files.chunks().gone(victim);
            self.count(|tally| tally.evictions.deleted += 1);
        }
        let opening = self.driver.now();
        let spot = files.spot(id, place);
        let handle = files.open_to_write(place, &spot).map_err(Cut::Failed)?;
        let other = handle.try_clone();
        let other = other.map_err(|source| TransferError::file("open", &spot.path, source))?;
        let file = self.driver.attach(handle)?;
        self.write_pieces(id, file, &spot)?;
        self.driver.detach(file)?;
        self.finish(other, &spot.path).map_err(Cut::Failed)?;
        let nanos = self.driver.now().nanos_since(opening);
        files.chunks().written(id);
        self.engine.prompts.lock().unwrap_or_else(PoisonError::into_inner).written(id);
        let (late, bytes) = (self.is_late(), files.plan.chunk_bytes);
        self.count(|tally| {
            tally.written.count_object(late);
            tally.written.count_bytes(bytes, late);
            tally.timings.record(Timed::Write, nanos);
        });
        Ok(())
    }

    /// Completes what was written: an object is there then. Files are synced before the trial, so
    /// that the page cache can drop them before they are read.
    fn finish(&self, handle: Handle, path: &Path) -> Result<(), KvcacheError> {
        match handle {
            Handle::Object(object) => {
                let completed = object.upload().map_or(Ok(()), |upload| upload.complete());
                completed.map_err(|error| KvcacheError::on(path, error))
            }
            Handle::File(file) if self.rehearses => {
                let synced = self.engine.files.storage.sync(&file, path);
                synced.map_err(|error| KvcacheError::on_sync(path, error))
            }
            Handle::File(_) => Ok(()),
        }
    }

    fn write_pieces(&mut self, id: ChunkId, file: FileId, spot: &Spot) -> Result<(), Cut> {
        let files = self.engine.files;
        let content = files.content(id);
        let size = files.plan.chunk_bytes;
        // An object is uploaded in parts of a fixed size.
        let most = if files.is_bucket { PART_BYTES } else { u64::MAX };
        let on = |error| Cut::Failed(KvcacheError::on(&spot.path, error));
        // A killed run leaves a file that is known by its beginning, so that is there before all else.
        let (mut at, mut has_beginning) = (0, false);
        while at < size || self.driver.in_flight() > 0 {
            while at < size && self.driver.has_room() && (at == 0 || has_beginning) {
                let len = self.engine.stage.plan.transport.chunk_bytes.min(most).min(size - at);
                let mut slot = self.driver.take_slot().expect("there is room");
                self.lay(&content, at, len as usize, &mut slot)?;
                let offset = spot.offset + at;
                let place =
                    FileRange { direction: Direction::Write, file, offset, len: len as usize };
                let piece = Piece { nth: 0, at, len: place.len };
                self.driver.submit(slot, place, piece).map_err(on)?;
                at += len;
            }
            self.driver.wait(1)?;
            while let Some(landed) = self.driver.next_landed() {
                self.driver.put_back(landed.slot);
                landed.result.map_err(on)?;
                has_beginning = true;
            }
        }
        Ok(())
    }

    /// Puts a piece of a chunk into a slot; what is after its content is zero.
    fn lay(
        &mut self,
        content: &Content,
        at: u64,
        len: usize,
        slot: &mut Slot,
    ) -> Result<(), TransferError> {
        let own = content.bytes().saturating_sub(at).min(len as u64) as usize;
        let noise = self.engine.files.noise;
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
}
