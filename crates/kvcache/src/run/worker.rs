//! A thread that serves requests, one at a time.

use std::path::PathBuf;

use stormlp_hosts::fault::Fault;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Access, Handle};

use super::error::KvcacheError;
use super::mover::{Cut, Mover, ObjectToRead};
use super::store::Store;
use crate::plan::{
    Cache, Content, Model, Next, Request, Step, Tier, Victim, Work, file_bytes, file_name,
};
use crate::report::Timed;

/// The state that the threads of a trial share.
pub(super) struct Shared<'a> {
    pub(super) model: &'a Model,
    pub(super) next: &'a (dyn Fn(u64) -> Result<Next, KvcacheError> + Sync),
    pub(super) store: &'a Store,
}

/// See the [module's description](self).
pub(super) struct Worker<'m, 'a> {
    pub(super) mover: Mover<'m>,
    pub(super) shared: &'a Shared<'a>,
}

impl Worker<'_, '_> {
    /// Changes which objects there are.
    fn change<T>(&self, change: impl FnOnce(&mut Cache) -> T) -> T {
        self.shared.store.change(|state| change(&mut state.cache))
    }

    /// Serves requests until the time is over.
    pub(super) fn serve_all(&mut self) -> Result<(), Cut> {
        while !self.mover.is_over() {
            match (self.shared.next)(self.mover.now_ns()).map_err(Cut::Failed)? {
                Next::Take(Work::Serve { request, context_tokens, has_prompt, others }, _) => {
                    self.serve(&request, context_tokens, has_prompt, &others)?;
                }
                Next::Take(Work::Operate { key, write_tokens }, sent_ns) => {
                    self.operate(&key, write_tokens, sent_ns)?;
                }
                Next::At(due_ns) => self.mover.sleep_until(due_ns),
                // Prompts have separate threads.
                Next::Take(Work::Load(_), _) | Next::Finished => return Ok(()),
            }
        }
        Ok(())
    }

    /// Reads or writes an object as a trace says.
    fn operate(&mut self, key: &str, write_tokens: Option<u32>, sent_ns: u64) -> Result<(), Cut> {
        let taken_ns = self.mover.now_ns();
        let storage_ns = match write_tokens {
            Some(tokens) => self.replace(key, tokens)?,
            None => {
                let found = self.read(key)?;
                self.mover.count(|tally| match found {
                    Some(_) => tally.lookups.own_hits += 1,
                    None => tally.lookups.own_misses += 1,
                });
                found.unwrap_or(0)
            }
        };
        let (now_ns, late) = (self.mover.now_ns(), self.mover.is_late());
        self.mover.count(|tally| {
            tally.timings.served([sent_ns, taken_ns, now_ns], storage_ns);
            tally.requests.count(late);
        });
        Ok(())
    }

    /// Writes an object in place of an older one of its name.
    fn replace(&mut self, key: &str, tokens: u32) -> Result<u64, Cut> {
        if let Some(older) = self.shared.store.begin(key, self.mover.ends)? {
            self.mover.stage.storage.remove(&self.path_of(key))?;
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
        let taken_ns = self.mover.now_ns();
        let mut storage_ns = 0;
        for other in others {
            let found = self.read(other)?;
            storage_ns += found.unwrap_or(0);
            self.mover.count(|tally| match found {
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
        let (now_ns, late) = (self.mover.now_ns(), self.mover.is_late());
        self.mover.count(|tally| {
            let request_ns = now_ns.saturating_sub(request.sent_ns);
            tally.keep([request_ns, storage_ns, write_ns], decode_ns);
            tally.timings.served([request.sent_ns, taken_ns, now_ns], storage_ns);
            tally.lookups.prompt_misses += u64::from(has_prompt);
            tally.served(request, late);
        });
        Ok(())
    }

    /// Reads a request's object once, and once more for each batch of tokens; one that was deleted
    /// meanwhile is written again instead.
    fn decode(
        &mut self,
        request: &Request,
        context_tokens: u32,
        has_prompt: bool,
    ) -> Result<u64, Cut> {
        let key = &request.key;
        let Some(mut storage_ns) = self.read(key)? else {
            self.mover.count(|tally| tally.lookups.own_misses += 1);
            return self.write(key, context_tokens);
        };
        self.mover.count(|tally| {
            tally.lookups.own_hits += 1;
            tally.lookups.own_hits_with_prompt += u64::from(has_prompt);
        });
        for _ in 0..request.further_reads() {
            storage_ns += self.read(key)?.unwrap_or(0);
        }
        Ok(storage_ns)
    }

    fn path_of(&self, key: &str) -> PathBuf {
        self.mover.stage.folder.join(file_name(key))
    }

    fn content(&self, key: &str, tokens: u32) -> Content {
        let seed = self.mover.stage.plan.seed.into();
        Content::new(self.shared.model, key, tokens.into(), seed)
    }

    /// Reads an object; the time that storage took in nanoseconds, or `None` if there is none.
    fn read(&mut self, key: &str) -> Result<Option<u64>, Cut> {
        let Some((tier, tokens)) = self.shared.store.claim(key, self.mover.ends)? else {
            return Ok(None);
        };
        let read = match tier {
            Tier::Storage => {
                let verify = self.mover.stage.plan.request.run.verify;
                self.mover.read(&[ObjectToRead {
                    path: self.path_of(key),
                    offset: 0,
                    bytes: file_bytes(self.shared.model, tokens.into()),
                    content: verify.then(|| self.content(key, tokens)),
                }])
            }
            Tier::Memory => {
                self.mover.count(|tally| tally.lookups.memory_hits += 1);
                Ok(0)
            }
        };
        self.change(|cache| cache.release(key));
        read.map(Some)
    }

    /// Writes an object once fewer are being written; the time that storage took.
    fn write(&mut self, key: &str, tokens: u32) -> Result<u64, Cut> {
        let asked = self.mover.driver.now();
        self.shared.store.take_slot(self.mover.ends)?;
        let waited_ns = self.mover.driver.now().nanos_since(asked);
        self.mover.count(|tally| tally.timings.record(Timed::SlotWait, waited_ns));
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

    /// Makes room for an object; the time that storage took for demoted objects.
    fn make_room(&mut self, tier: Tier, bytes: u64) -> Result<u64, Cut> {
        let mut storage_ns = 0;
        loop {
            match self.shared.store.make_room(tier, bytes, self.mover.ends)? {
                Step::Demote(victim) => {
                    let demoted = self.demote(&victim);
                    storage_ns +=
                        demoted.inspect_err(|_| self.change(|cache| cache.release(&victim.key)))?;
                }
                Step::Delete(victim) => {
                    self.mover.stage.storage.remove(&self.path_of(&victim.key))?;
                    self.change(|cache| cache.deleted(&victim));
                    self.mover.count(|tally| tally.evictions.deleted += 1);
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
        self.mover.count(|tally| tally.evictions.demoted += 1);
        Ok(storage_ns)
    }

    /// Writes a file and syncs it; the rest of a failed write is removed.
    fn write_file(&mut self, key: &str, tokens: u32) -> Result<u64, Cut> {
        let path = self.path_of(key);
        let written = self.write_and_sync(key, tokens, &path);
        if written.is_err() {
            self.mover.stage.storage.discard(&path);
        }
        written
    }

    fn write_and_sync(&mut self, key: &str, tokens: u32, path: &PathBuf) -> Result<u64, Cut> {
        let content = self.content(key, tokens);
        let creating = self.mover.driver.now();
        let handle = self.mover.open(path, Access::Create, content.bytes())?;
        let other = handle.try_clone();
        let other = other.map_err(|source| TransferError::file("open", path, source))?;
        let making_ns = self.mover.write(&content, (handle, path, 0), content.bytes())?;
        let syncing = self.mover.driver.now();
        if let Handle::File(file) = &other {
            let synced = self.mover.stage.storage.sync(file, path);
            synced.map_err(|error| Cut::Failed(Fault::on_sync(path, error).into()))?;
        }
        let fsync_ns = self.mover.driver.now().nanos_since(syncing);
        // Making the content is the work of a server, not of its storage.
        let write_ns = syncing.nanos_since(creating).saturating_sub(making_ns);
        let late = self.mover.is_late();
        self.mover.count(|tally| {
            tally.written.count_object(late);
            tally.written.count_bytes(content.bytes(), late);
            tally.timings.record(Timed::Write, write_ns);
            tally.timings.record(Timed::Fsync, fsync_ns);
            tally.timings.record(Timed::Persist, write_ns + fsync_ns);
        });
        Ok(write_ns + fsync_ns)
    }
}
