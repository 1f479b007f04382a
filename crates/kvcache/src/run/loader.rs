//! A thread of a serving engine: loads the prefixes of prompts in bursts, or writes chunks in the
//! background.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use stormlp_hosts::fault::Fault;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Access, Handle};

use super::chunk_files::{ChunkFiles, First, WriteQueue};
use super::error::KvcacheError;
use super::mover::{Cut, Mover, ObjectToRead, TICK, failed_on};
use crate::plan::{ChunkId, Layout, Next, Prompt, Prompts, Work, WriteDecision};
use crate::report::Timed;

/// The state that the threads of a trial share.
pub(super) struct Engine<'a> {
    pub(super) files: &'a ChunkFiles<'a>,
    pub(super) queue: &'a WriteQueue,
    /// Checks before the start.
    pub(super) first: &'a First,
    /// Where new chunks come from, which is to know what became of them.
    pub(super) prompts: &'a Mutex<Prompts>,
    /// Threads that still load.
    pub(super) loading: &'a AtomicU32,
    pub(super) next: &'a (dyn Fn(u64) -> Result<Next, KvcacheError> + Sync),
}

/// See the [module's description](self).
pub(super) struct Loader<'m, 'a> {
    pub(super) mover: Mover<'m>,
    pub(super) engine: &'a Engine<'a>,
}

impl Loader<'_, '_> {
    /// Writes its share of the chunks that are there from the start, and reads one of them: that shows
    /// both routes before anything is measured.
    pub(super) fn prepare(&mut self) -> Result<(), KvcacheError> {
        if self.engine.first.sample.is_none() {
            return Ok(());
        }
        self.mover.rehearses = true;
        self.mover.driver.rehearse();
        let prepared = self.write_first().and_then(|last| self.read_back(last));
        self.mover.driver.rehearsed();
        self.mover.rehearses = false;
        match prepared {
            Ok(()) | Err(Cut::Ends) => Ok(()),
            Err(Cut::Failed(error)) => {
                self.mover.ends.failed.stop();
                Err(error)
            }
        }
    }

    /// The last chunk that it made sure of.
    fn write_first(&mut self) -> Result<Option<ChunkId>, Cut> {
        let First { sample, missing, taken } = self.engine.first;
        let mut last = *sample;
        while !self.mover.ends.are_near() {
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

    /// Serves prompts until the time is over.
    pub(super) fn serve_prompts(&mut self) -> Result<(), Cut> {
        let served = self.serve_all();
        self.engine.loading.fetch_sub(1, Ordering::AcqRel);
        served
    }

    fn serve_all(&mut self) -> Result<(), Cut> {
        while !self.mover.is_over() {
            match (self.engine.next)(self.mover.now_ns()).map_err(Cut::Failed)? {
                Next::Take(Work::Load(prompt), sent_ns) => self.serve(&prompt, sent_ns)?,
                Next::At(due_ns) => self.mover.sleep_until(due_ns),
                // The format of a trace does not change.
                Next::Take(..) | Next::Finished => return Ok(()),
            }
        }
        Ok(())
    }

    fn serve(&mut self, prompt: &Prompt, sent_ns: u64) -> Result<(), Cut> {
        let taken_ns = self.mover.now_ns();
        let (found, absent) = self.engine.files.take(&prompt.chunks);
        let loaded = self.load(&found);
        self.engine.files.chunks().give_back(&found);
        let load_ns = loaded?;
        let (now_ns, late) = (self.mover.now_ns(), self.mover.is_late());
        let plan = self.engine.files.plan;
        let tokens = found.len() as u32 * plan.chunk_tokens;
        let bytes = found.len() as u64 * plan.chunk_bytes;
        self.mover.count(|tally| {
            tally.timings.served([sent_ns, taken_ns, now_ns], load_ns);
            tally.requests.count(late);
            let prompts = tally.prompts();
            prompts.tokens += u64::from(prompt.tokens);
            prompts.loaded_tokens += u64::from(tokens);
            if tokens > 0 {
                tally.timings.loads.record(plan.length_of(tokens), load_ns, tokens, bytes);
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
        while left > 0 && !drops && !self.mover.is_over() {
            queue.wait_for_room(TICK);
            left = queue.add(&absent[absent.len() - left..]);
        }
        let left = &absent[absent.len() - left..];
        if drops {
            self.drop_chunks(left);
        } else {
            // The trial is over.
            self.mover.count(|tally| tally.prompts().waiting += left.len() as u64);
        }
    }

    /// Chunks are not written; a later prompt brings them again.
    fn drop_chunks(&self, ids: &[ChunkId]) {
        if ids.is_empty() {
            return;
        }
        self.mover.count(|tally| tally.prompts().dropped += ids.len() as u64);
        let mut prompts = self.engine.prompts.lock().unwrap_or_else(PoisonError::into_inner);
        ids.iter().for_each(|id| prompts.dropped(*id));
    }

    /// Lets the time pass in which accelerators compute the tokens that were not loaded.
    fn compute(&self, seconds: f64) {
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        while !self.mover.is_over() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(TICK));
        }
    }

    /// Reads chunks; the time until the last is there, in nanoseconds.
    fn load(&mut self, found: &[ChunkId]) -> Result<u64, Cut> {
        let (files, verify) = (self.engine.files, self.mover.stage.plan.request.run.verify);
        let object = |id: &ChunkId| {
            let (path, offset) = files.spot(*id);
            let content = verify.then(|| files.content(*id));
            ObjectToRead { path, offset, bytes: files.plan.chunk_bytes, content }
        };
        let objects: Vec<_> = found.iter().map(object).collect();
        self.mover.read(&objects)
    }

    /// Writes chunks until the time is over or no thread loads any more.
    pub(super) fn write_waiting(&mut self) -> Result<(), Cut> {
        while !self.mover.is_over() {
            match self.engine.queue.next(TICK) {
                Some(id) => self.write_chunk(id)?,
                None if self.engine.loading.load(Ordering::Acquire) == 0 => return Ok(()),
                None => {}
            }
        }
        Ok(())
    }

    /// Writes a chunk, unless it is there; chunks deleted for it are removed first.
    fn write_chunk(&mut self, id: ChunkId) -> Result<(), Cut> {
        let files = self.engine.files;
        let deletes = match files.chunks().begin(id) {
            WriteDecision::Known => return Ok(()),
            WriteDecision::Full => {
                self.drop_chunks(&[id]);
                return Ok(());
            }
            WriteDecision::Write(deletes) => deletes,
        };
        if let Some(victim) = deletes {
            files.remove(victim)?;
            files.chunks().gone(victim);
            self.mover.count(|tally| tally.evictions.deleted += 1);
        }
        let opening = self.mover.driver.now();
        let ((path, offset), bytes) = (files.spot(id), files.plan.chunk_bytes);
        let access = match files.plan.layout {
            Layout::Files => Access::Create,
            Layout::Packed => {
                files.create_packs(id, self.mover.stage.noise)?;
                Access::ReadWrite
            }
        };
        let handle = self.mover.open(&path, access, bytes)?;
        let other = handle.try_clone();
        let other = other.map_err(|source| TransferError::file("open", &path, source))?;
        self.mover.write(&files.content(id), (handle, &path, offset), bytes)?;
        match other {
            // An object is there once its upload is completed.
            Handle::Object(object) => {
                let completed = object.upload().map_or(Ok(()), |upload| upload.complete());
                completed.map_err(failed_on(&path))?;
            }
            // The page cache can drop synced chunks before they are read.
            Handle::File(file) if self.mover.rehearses => {
                let synced = files.storage.sync(&file, &path);
                synced.map_err(|error| Cut::Failed(Fault::on_sync(&path, error).into()))?;
            }
            Handle::File(_) => {}
        }
        let nanos = self.mover.driver.now().nanos_since(opening);
        files.chunks().written(id);
        self.engine.prompts.lock().unwrap_or_else(PoisonError::into_inner).written(id);
        let late = self.mover.is_late();
        self.mover.count(|tally| {
            tally.written.count_object(late);
            tally.written.count_bytes(bytes, late);
            tally.timings.record(Timed::Write, nanos);
        });
        Ok(())
    }
}
