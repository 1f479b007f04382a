//! A thread that serves requests, one at a time.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use stormlp_core::evidence::Evidence;
use stormlp_core::operation::Direction;
use stormlp_core::stop::Ends;
use stormlp_transfer::page_cache::Residency;
use stormlp_transfer::storage::{Access, Storage};
use stormlp_transfer::{Driver, FileRange, Slot, TransferError};

use super::error::KvcacheError;
use super::requests::{Next, Work};
use super::store::{Ending, Store};
use super::tally::Tally;
use super::trial::Stage;
use crate::plan::{Cache, Content, End, Model, Request, Step, Tier, Victim, file_bytes, file_name};
use crate::report::Timed;

/// How often a thread without work checks whether the run is to end.
const TICK: Duration = Duration::from_millis(50);
/// Residency is looked at for one in so many reads of a thread, the first included.
const SAMPLE_EVERY: u64 = 16;

/// What the threads of a trial share.
pub(super) struct Shared<'a> {
    pub(super) stage: &'a Stage<'a>,
    pub(super) model: &'a Model,
    pub(super) ends: Ends<'a>,
    /// What to do now, in nanoseconds since the start.
    pub(super) next: &'a (dyn Fn(u64) -> Result<Next<Work>, KvcacheError> + Sync),
    pub(super) store: &'a Store,
    pub(super) tally: &'a Mutex<Tally>,
}

/// Why a thread stops in the middle of a request.
pub(super) enum Cut {
    /// The time is over, the user stopped the run, or another thread failed.
    Ends,
    /// Storage failed.
    Failed(KvcacheError),
}

impl From<Ending> for Cut {
    fn from(_: Ending) -> Self {
        Self::Ends
    }
}

impl From<TransferError> for Cut {
    fn from(error: TransferError) -> Self {
        Self::Failed(error.into())
    }
}

/// What a transfer does with an object.
#[derive(Clone, Copy)]
enum Does<'c> {
    Write(&'c Content),
    /// Reads it; with content it is compared.
    Read(Option<&'c Content>),
}

/// The results of a thread besides what it counted.
pub(super) struct WorkerResult {
    pub(super) evidence: Evidence,
    pub(super) failure: Option<KvcacheError>,
}

/// Bytes of a transfer within the window and after it, and its time.
#[derive(Default)]
struct Transferred {
    bytes: u64,
    late_bytes: u64,
    nanos: u64,
}

/// Has the kernel drop a file's pages; of a sample of a thread's `reads` their residency before and
/// after, if the kernel reports it.
pub(super) fn drop_cached(
    storage: &dyn Storage,
    (file, path): (&File, &Path),
    reads: &mut u64,
) -> Result<Option<(Residency, Residency)>, TransferError> {
    let is_sampled = reads.is_multiple_of(SAMPLE_EVERY);
    *reads += 1;
    let residency = || match storage.residency(path) {
        Err(error) if error.is_permission_denied() => Ok(None),
        looked => looked.map(Some),
    };
    let before = if is_sampled { residency()? } else { None };
    storage.forget(file, path)?;
    Ok(if before.is_some() { before.zip(residency()?) } else { None })
}

/// Ends the other threads if `work` failed, and returns what this one shows.
pub(super) fn finished(work: Result<(), Cut>, ends: Ends<'_>, evidence: Evidence) -> WorkerResult {
    let failure = match work {
        Ok(()) | Err(Cut::Ends) => None,
        Err(Cut::Failed(error)) => {
            ends.failed.stop();
            Some(error)
        }
    };
    WorkerResult { evidence, failure }
}

/// See the [module's description](self).
pub(super) struct Worker<'a> {
    driver: Driver<'a, ()>,
    shared: &'a Shared<'a>,
    start: Instant,
    reads: u64,
    /// What a piece should be, if it is compared.
    expected: Vec<u8>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(driver: Driver<'a, ()>, shared: &'a Shared<'a>) -> Self {
        Self { driver, shared, start: Instant::now(), reads: 0, expected: Vec::new() }
    }

    /// Serves requests from `start` until the time is over.
    pub(super) fn run(mut self, start: Instant) -> WorkerResult {
        self.start = start;
        let work = self.serve_all();
        finished(work, self.shared.ends, self.driver.evidence())
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Whether the window is over.
    fn is_late(&self) -> bool {
        self.start.elapsed() >= self.shared.stage.window()
    }

    /// Whether a request is to be left as it is.
    fn ends(&self) -> bool {
        self.shared.ends.are_near()
            || (self.shared.stage.plan.request.end == End::Fixed && self.is_late())
    }

    /// Changes which objects there are.
    fn change<T>(&self, change: impl FnOnce(&mut Cache) -> T) -> T {
        self.shared.store.change(|state| change(&mut state.cache))
    }

    /// Counts something with all other threads.
    fn count(&self, add: impl FnOnce(&mut Tally)) {
        add(&mut self.shared.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn serve_all(&mut self) -> Result<(), Cut> {
        while !self.shared.ends.are_near() && !self.is_late() {
            let now_ns = self.now_ns();
            match (self.shared.next)(now_ns).map_err(Cut::Failed)? {
                Next::Take(Work::Serve { request, context_tokens, has_prompt, others }, _) => {
                    self.serve(&request, context_tokens, has_prompt, &others)?;
                }
                Next::Take(Work::Operate { key, write_tokens }, sent_ns) => {
                    self.operate(&key, write_tokens, sent_ns)?;
                }
                Next::Finished => return Ok(()),
                Next::At(due_ns) => {
                    let until = due_ns.min(self.shared.stage.window().as_nanos() as u64);
                    let wait = Duration::from_nanos(until.saturating_sub(now_ns));
                    thread::sleep(wait.min(TICK));
                }
            }
        }
        Ok(())
    }

    /// Reads or writes an object as a trace says.
    fn operate(&mut self, key: &str, write_tokens: Option<u32>, sent_ns: u64) -> Result<(), Cut> {
        let taken_ns = self.now_ns();
        let storage_ns = match write_tokens {
            Some(tokens) => self.replace(key, tokens)?,
            None => {
                let found = self.read(key)?;
                self.count(|tally| match found {
                    Some(_) => tally.lookups.own_hits += 1,
                    None => tally.lookups.own_misses += 1,
                });
                found.unwrap_or(0)
            }
        };
        let (now_ns, late) = (self.now_ns(), self.is_late());
        self.count(|tally| {
            tally.timings.served([sent_ns, taken_ns, now_ns], storage_ns);
            tally.replayed.get_or_insert_default().count(late);
        });
        Ok(())
    }

    /// Writes an object in place of an older one of its name.
    fn replace(&mut self, key: &str, tokens: u32) -> Result<u64, Cut> {
        if let Some(older) = self.shared.store.begin(key, || self.ends())? {
            self.shared.stage.storage.remove(&self.path_of(key))?;
            self.change(|cache| cache.deleted(&older));
        }
        let written = self.write(key, tokens);
        self.shared.store.done(key);
        written
    }

    fn serve(
        &mut self,
        request: &Request,
        context_tokens: u32,
        has_prompt: bool,
        others: &[String],
    ) -> Result<(), Cut> {
        let taken_ns = self.now_ns();
        let mut storage_ns = 0;
        for other in others {
            let found = self.read(other)?;
            storage_ns += found.unwrap_or(0);
            self.count(|tally| match found {
                Some(_) => tally.lookups.other_turn_hits += 1,
                None => tally.lookups.other_turn_misses += 1,
            });
        }
        let mut write_ns = 0;
        if !self.change(|cache| cache.has(&request.key)) {
            write_ns = self.write(&request.key, context_tokens)?;
        }
        let decode_ns = if request.decodes() {
            Some(self.decode(request, context_tokens, has_prompt)?)
        } else {
            None
        };
        storage_ns += write_ns + decode_ns.unwrap_or(0);
        let (now_ns, late) = (self.now_ns(), self.is_late());
        self.count(|tally| {
            let request_ns = now_ns.saturating_sub(request.sent_ns);
            tally.keep([request_ns, storage_ns, write_ns], decode_ns);
            tally.timings.served([request.sent_ns, taken_ns, now_ns], storage_ns);
            tally.lookups.prompt_misses += u64::from(has_prompt);
            tally.served(request, late);
        });
        Ok(())
    }

    /// Reads a request's own object once, and once more for each batch of tokens; one that was
    /// deleted meanwhile is written again instead.
    fn decode(
        &mut self,
        request: &Request,
        context_tokens: u32,
        has_prompt: bool,
    ) -> Result<u64, Cut> {
        let key = &request.key;
        let Some(mut storage_ns) = self.read(key)? else {
            self.count(|tally| tally.lookups.own_misses += 1);
            return self.write(key, context_tokens);
        };
        self.count(|tally| {
            tally.lookups.own_hits += 1;
            tally.lookups.own_hits_with_prompt += u64::from(has_prompt);
        });
        for _ in 0..request.further_reads() {
            storage_ns += self.read(key)?.unwrap_or(0);
        }
        Ok(storage_ns)
    }

    fn path_of(&self, key: &str) -> PathBuf {
        self.shared.stage.folder.join(file_name(key))
    }

    /// Reads an object; the time that storage took in nanoseconds, or `None` if there is none.
    fn read(&mut self, key: &str) -> Result<Option<u64>, Cut> {
        let Some((tier, tokens)) = self.shared.store.claim(key, || self.ends())? else {
            return Ok(None);
        };
        let read = match tier {
            Tier::Storage => self.read_file(key, tokens),
            Tier::Memory => {
                self.count(|tally| tally.lookups.memory_hits += 1);
                Ok(0)
            }
        };
        self.change(|cache| cache.release(key));
        read.map(Some)
    }

    fn read_file(&mut self, key: &str, tokens: u32) -> Result<u64, Cut> {
        let path = self.path_of(key);
        let opening = self.driver.now();
        let file = self.shared.stage.storage.open(&path, Access::Read, false)?;
        let opened_ns = self.driver.now().nanos_since(opening);
        let sample = drop_cached(self.shared.stage.storage, (&file, &path), &mut self.reads)?;
        if let Some((before, after)) = sample {
            self.count(|tally| tally.sample(1, before, after));
        }
        let bytes = file_bytes(self.shared.model, tokens.into());
        let shared = self.shared;
        let content =
            shared.stage.plan.request.verify.then(|| {
                Content::new(shared.model, key, tokens.into(), shared.stage.plan.seed.into())
            });
        let (moved, ended) = self.transfer(file, &path, bytes, Does::Read(content.as_ref()));
        let read_ns = opened_ns + moved.nanos;
        let is_whole = ended.is_ok();
        // Of a read that failed nothing counts.
        if !matches!(ended, Err(Cut::Failed(_))) {
            let late = self.is_late();
            self.count(|tally| {
                tally.read.bytes += moved.bytes;
                tally.read.late_bytes += moved.late_bytes;
                if is_whole {
                    tally.read.count_object(late);
                    tally.timings.record(Timed::Read, read_ns);
                }
            });
        }
        ended.map(|()| read_ns)
    }

    /// Writes an object once fewer others are being written; the time that storage took.
    fn write(&mut self, key: &str, tokens: u32) -> Result<u64, Cut> {
        let asked = self.driver.now();
        self.shared.store.take_slot(|| self.ends())?;
        let waited_ns = self.driver.now().nanos_since(asked);
        self.count(|tally| tally.timings.record(Timed::SlotWait, waited_ns));
        let placed = self.place(key, tokens);
        self.shared.store.give_slot();
        placed
    }

    fn place(&mut self, key: &str, tokens: u32) -> Result<u64, Cut> {
        let bytes = file_bytes(self.shared.model, tokens.into());
        let tier = self.change(|cache| cache.tier_of(bytes));
        let mut storage_ns = self.make_room(tier, bytes)?;
        if tier == Tier::Storage {
            let written = self.write_file(key, tokens);
            storage_ns +=
                written.inspect_err(|_| self.change(|cache| cache.give_up(bytes, tier)))?;
        }
        self.shared.store.add(key, tokens, bytes, tier);
        Ok(storage_ns)
    }

    /// Makes room for an object; the time that storage took for what was demoted.
    fn make_room(&mut self, tier: Tier, bytes: u64) -> Result<u64, Cut> {
        let mut storage_ns = 0;
        loop {
            match self.shared.store.make_room(tier, bytes, || self.ends())? {
                Step::Demote(victim) => {
                    let demoted = self.demote(&victim);
                    storage_ns +=
                        demoted.inspect_err(|_| self.change(|cache| cache.release(&victim.key)))?;
                }
                Step::Delete(victim) => {
                    self.shared.stage.storage.remove(&self.path_of(&victim.key))?;
                    self.change(|cache| cache.deleted(&victim));
                    self.count(|tally| tally.evictions.deleted += 1);
                }
                Step::Place | Step::Wait => return Ok(storage_ns),
                Step::TooLarge { capacity_bytes } => {
                    return Err(Cut::Failed(KvcacheError::TooLarge { bytes, capacity_bytes }));
                }
            }
        }
    }

    fn demote(&mut self, victim: &Victim) -> Result<u64, Cut> {
        let mut storage_ns = self.make_room(Tier::Storage, victim.bytes)?;
        let written = self.write_file(&victim.key, victim.tokens);
        let give_up = |cache: &mut Cache| cache.give_up(victim.bytes, Tier::Storage);
        storage_ns += written.inspect_err(|_| self.change(give_up))?;
        self.change(|cache| cache.demoted(victim));
        self.count(|tally| tally.evictions.demoted += 1);
        Ok(storage_ns)
    }

    /// Writes a file and syncs it; what is left of one that could not be written is removed.
    fn write_file(&mut self, key: &str, tokens: u32) -> Result<u64, Cut> {
        let path = self.path_of(key);
        let written = self.write_and_sync(key, tokens, &path);
        if written.is_err() {
            self.shared.stage.storage.discard(&path);
        }
        written
    }

    fn write_and_sync(&mut self, key: &str, tokens: u32, path: &Path) -> Result<u64, Cut> {
        let shared = self.shared;
        let full = |error| Cut::Failed(KvcacheError::on(path, error));
        let content = Content::new(shared.model, key, tokens.into(), shared.stage.plan.seed.into());
        let creating = self.driver.now();
        let file = shared.stage.storage.open(path, Access::Create, false).map_err(full)?;
        let handle =
            file.try_clone().map_err(|source| TransferError::file("open", path, source))?;
        let created_ns = self.driver.now().nanos_since(creating);
        let (moved, ended) = self.transfer(file, path, content.bytes(), Does::Write(&content));
        ended?;
        let syncing = self.driver.now();
        let synced = shared.stage.storage.sync(&handle, path);
        synced.map_err(|error| Cut::Failed(KvcacheError::on_sync(path, error)))?;
        let fsync_ns = self.driver.now().nanos_since(syncing);
        let (write_ns, late) = (created_ns + moved.nanos, self.is_late());
        self.count(|tally| {
            tally.written.count_object(late);
            tally.written.count_bytes(content.bytes(), late);
            tally.timings.record(Timed::Write, write_ns);
            tally.timings.record(Timed::Fsync, fsync_ns);
            tally.timings.record(Timed::Persist, write_ns + fsync_ns);
        });
        Ok(write_ns + fsync_ns)
    }

    /// Moves a whole file, one call after the other. What was moved counts also if it ends early.
    fn transfer(
        &mut self,
        file: File,
        path: &Path,
        bytes: u64,
        does: Does<'_>,
    ) -> (Transferred, Result<(), Cut>) {
        let mut moved = Transferred::default();
        let ended = self.pieces(file, path, bytes, does, &mut moved);
        (moved, ended)
    }

    fn pieces(
        &mut self,
        file: File,
        path: &Path,
        bytes: u64,
        does: Does<'_>,
        moved: &mut Transferred,
    ) -> Result<(), Cut> {
        let id = self.driver.attach(file)?;
        let direction = match does {
            Does::Write(_) => Direction::Write,
            Does::Read(_) => Direction::Read,
        };
        let mut offset = 0;
        let ended = loop {
            if offset == bytes {
                break Ok(());
            }
            if self.ends() {
                break Err(Cut::Ends);
            }
            let len = self.shared.stage.plan.transport.chunk_bytes.min(bytes - offset) as usize;
            let mut slot = self.driver.take_slot().expect("one transfer at a time");
            if let (Does::Write(content), Some(buffer)) = (does, slot.host_mut()) {
                content.fill(self.shared.stage.noise, offset, &mut buffer[..len]);
            }
            let submitted = self.driver.now();
            let place = FileRange { direction, file: id, offset, len };
            let landed = self.driver.submit(slot, place, ()).and_then(|()| self.landed());
            let (slot, found) = match landed {
                Ok(landed) => landed,
                Err(error) => break Err(Cut::Failed(KvcacheError::on(path, error))),
            };
            moved.nanos += self.driver.now().nanos_since(submitted);
            if let Err(error) = self.check(slot, found, (offset, len), path, does) {
                break Err(Cut::Failed(error));
            }
            *if self.is_late() { &mut moved.late_bytes } else { &mut moved.bytes } += len as u64;
            offset += len as u64;
        };
        self.driver.detach(id)?;
        ended
    }

    /// Waits for the transfer in flight: its buffer, and how many bytes it moved.
    fn landed(&mut self) -> Result<(Slot, usize), TransferError> {
        self.driver.wait(1)?;
        let landed = self.driver.next_landed().expect("a wait returns what is in flight");
        match landed.result {
            Ok(found) => Ok((landed.slot, found)),
            Err(error) => {
                self.driver.put_back(landed.slot);
                Err(error)
            }
        }
    }

    /// Checks that a transfer moved all it was to, and read what was written; frees its buffer.
    fn check(
        &mut self,
        mut slot: Slot,
        found: usize,
        (offset, len): (u64, usize),
        path: &Path,
        does: Does<'_>,
    ) -> Result<(), KvcacheError> {
        let byte = match (does, slot.host_mut()) {
            (Does::Read(Some(content)), Some(buffer)) if found == len => content.difference(
                self.shared.stage.noise,
                offset,
                &buffer[..len],
                &mut self.expected,
            ),
            _ => None,
        };
        self.driver.put_back(slot);
        let path = || path.to_path_buf();
        if let Some(byte) = byte {
            return Err(KvcacheError::Mismatch { path: path(), byte });
        }
        if found < len {
            let (found, expected) = (offset + found as u64, offset + len as u64);
            return Err(KvcacheError::Short { path: path(), found, expected });
        }
        Ok(())
    }
}
