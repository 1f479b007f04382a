//! The chunks of serving engines and the files they are in, shared by all threads; and the chunks that wait
//! to be written.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Access, Storage};

use crate::plan::{
    BLOCK_BYTES, ChunkId, Chunks, Content, KNOWN_BY_BYTES, KvcachePlan, Layout, Model, Noise, Pass,
    Prompts, ServingPlan, file_name,
};

/// See the [module's description](self).
pub(super) struct ChunkFiles<'a> {
    pub(super) storage: &'a dyn Storage,
    folder: &'a Path,
    pub(super) plan: &'a ServingPlan,
    model: &'a Model,
    seed: u64,
    chunks: Mutex<Chunks>,
    /// Files of several chunks that exist.
    packs: Mutex<u64>,
}

/// How the names of chunks begin.
const CHUNK: &str = "chunk_";

/// The name of a chunk, from which its content follows.
fn key_of(id: ChunkId) -> String {
    format!("{CHUNK}{id:016x}")
}

fn pack_name(nth: u64) -> String {
    format!("pack_{nth:06}")
}

/// Whether an object or file has the name of a chunk.
pub(super) fn is_chunk(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix(CHUNK)?.split_once('.'));
    number.is_some_and(|(number, _)| {
        u64::from_str_radix(number, 16).is_ok_and(|id| name == Some(&file_name(&key_of(id))))
    })
}

impl ChunkFiles<'_> {
    /// Which chunks are on storage.
    pub(super) fn chunks(&self) -> MutexGuard<'_, Chunks> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The leading chunks of a prompt, to be read now, and the chunks that are neither stored nor
    /// being written.
    pub(super) fn take(&self, prompt: &[ChunkId]) -> (Vec<ChunkId>, Vec<ChunkId>) {
        let mut chunks = self.chunks();
        let found = chunks.take(prompt);
        let absent = prompt[found.len()..].iter().copied().filter(|id| !chunks.has(*id));
        (found, absent.collect())
    }

    /// The bytes of a chunk.
    pub(super) fn content(&self, id: ChunkId) -> Content {
        Content::new(self.model, &key_of(id), self.plan.chunk_tokens.into(), self.seed)
    }

    /// The file of a chunk that is being read or written, and the byte in it at which the chunk begins.
    pub(super) fn spot(&self, id: ChunkId) -> (PathBuf, u64) {
        match self.plan.layout {
            Layout::Files => (self.path(&key_of(id)), 0),
            Layout::Packed => {
                let (place, per_file) = (self.chunks().place_of(id), self.plan.chunks_per_file());
                // The first block identifies the file.
                let offset = BLOCK_BYTES + place % per_file * self.plan.chunk_bytes;
                (self.path(&pack_name(place / per_file)), offset)
            }
        }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(file_name(key))
    }

    /// Removes the file of a chunk that was deleted, if it has one.
    pub(super) fn remove(&self, id: ChunkId) -> Result<(), TransferError> {
        match self.plan.layout {
            Layout::Files => self.storage.remove(&self.path(&key_of(id))).map(drop),
            Layout::Packed => Ok(()),
        }
    }

    /// Creates the file that several chunks share, if need be, and those before it.
    pub(super) fn create_packs(&self, id: ChunkId, noise: &Noise) -> Result<(), TransferError> {
        let nth = self.chunks().place_of(id) / self.plan.chunks_per_file();
        // Other threads wait: it is one file in hundreds of chunks.
        let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        while *packs <= nth {
            self.create_pack(*packs, noise)?;
            *packs += 1;
        }
        Ok(())
    }

    /// Its beginning is one large object's, so that it is known like any other.
    fn create_pack(&self, nth: u64, noise: &Noise) -> Result<(), TransferError> {
        let (name, per_file) = (pack_name(nth), self.plan.chunks_per_file());
        let path = self.path(&name);
        let file = self.storage.open(&path, Access::Create, false)?;
        let chunks = per_file.min(self.plan.most_chunks - nth * per_file);
        let bytes = BLOCK_BYTES + chunks * self.plan.chunk_bytes;
        let tokens = bytes.div_ceil(self.model.bytes_per_token());
        let mut start = [0; KNOWN_BY_BYTES];
        Content::new(self.model, &name, tokens, self.seed).fill(noise, 0, &mut start);
        self.storage.write_at(&file, &path, 0, &start)?;
        self.storage.preallocate(&file, &path, bytes)
    }

    /// Removes all files, once all threads are done.
    pub(super) fn clear(&self) -> Result<(), TransferError> {
        let packs = *self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        let paths: Vec<PathBuf> = match self.plan.layout {
            Layout::Files => self.chunks().ids().map(|id| self.path(&key_of(id))).collect(),
            // Also one that could not be created.
            Layout::Packed => (0..=packs).map(|nth| self.path(&pack_name(nth))).collect(),
        };
        self.storage.remove_all(&paths).map(drop)
    }
}

/// The chunks and the prompts that begin with them: of one trial, or of several that go on where the one
/// before has ended.
pub(super) struct ServingState<'a> {
    pub(super) files: ChunkFiles<'a>,
    pub(super) prompts: Mutex<Prompts>,
    /// Whether prompts begin with prefixes that are there beforehand; a trace's prompts do not.
    has_first: bool,
}

impl<'a> ServingState<'a> {
    /// Empty storage, for one pass of a `plan`.
    pub(super) fn new(
        (storage, folder): (&'a dyn Storage, &'a Path),
        (plan, pass, serving): (&KvcachePlan, &'a Pass, &'a ServingPlan),
    ) -> Self {
        let chunks = Mutex::new(Chunks::new(serving.most_chunks));
        let (model, seed) = (&pass.model, plan.seed.into());
        let packs = Mutex::new(0);
        Self {
            files: ChunkFiles { storage, folder, plan: serving, model, seed, chunks, packs },
            prompts: Mutex::new(Prompts::new(serving, plan.seed)),
            has_first: serving.prefixes > 0,
        }
    }

    /// The chunks that are there when a trial begins: of the prefixes that prompts begin with by now, as
    /// far as there is room for them. Only those are written that no earlier trial has left.
    pub(super) fn first(&self) -> First {
        let mut prompts = self.prompts.lock().unwrap_or_else(PoisonError::into_inner);
        prompts.begin_anew();
        let mut all = if self.has_first { prompts.first_chunks() } else { Vec::new() };
        all.truncate(usize::try_from(self.files.plan.most_chunks).unwrap_or(usize::MAX));
        First {
            sample: all.first().copied(),
            missing: self.files.chunks().missing(&all),
            taken: AtomicUsize::new(0),
        }
    }
}

/// Checks before a trial.
pub(super) struct First {
    /// A chunk to read, which shows the route.
    pub(super) sample: Option<ChunkId>,
    /// Chunks to write.
    pub(super) missing: Vec<ChunkId>,
    /// How many of these threads have taken.
    pub(super) taken: AtomicUsize,
}

/// Chunks that wait to be written in the background.
pub(super) struct WriteQueue {
    waiting: Mutex<VecDeque<ChunkId>>,
    changed: Condvar,
    most: usize,
}

impl WriteQueue {
    pub(super) fn new(most: u32) -> Self {
        Self { waiting: Mutex::default(), changed: Condvar::new(), most: most as usize }
    }

    /// Adds chunks in their order as far as there is room; how many are left.
    pub(super) fn add(&self, chunks: &[ChunkId]) -> usize {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = chunks.iter();
        while let Some(id) = left.as_slice().first() {
            if !waiting.contains(id) {
                if waiting.len() >= self.most {
                    break;
                }
                waiting.push_back(*id);
            }
            left.next();
        }
        drop(waiting);
        self.changed.notify_all();
        left.len()
    }

    /// Waits a while for room.
    pub(super) fn wait_for_room(&self, patience: Duration) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |waiting: &mut VecDeque<ChunkId>| waiting.len() >= self.most;
        drop(self.changed.wait_timeout_while(waiting, patience, is_full));
    }

    /// The next chunk to write; `None` if there is none for a while.
    pub(super) fn next(&self, patience: Duration) -> Option<ChunkId> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(waiting, patience, |all| all.is_empty());
        let next = waited.unwrap_or_else(PoisonError::into_inner).0.pop_front();
        self.changed.notify_all();
        next
    }

    /// How many wait.
    pub(super) fn len(&self) -> u64 {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_known_by_its_name() {
        let is_chunk = |name: &str| is_chunk(&Path::new("s3://bucket/kv").join(name));
        assert!(is_chunk(&file_name(&key_of(7 << 24 | 3))));
        for other in ["chunk_7.npy", "chunk_0000000000000007", "pack_000000.npy", "chunk_x.npy"] {
            assert!(!is_chunk(other), "{other}");
        }
    }

    #[test]
    fn what_has_no_room_is_left_and_nothing_waits_twice() {
        let queue = WriteQueue::new(3);
        assert_eq!(queue.add(&[1, 2]), 0);
        assert_eq!(queue.add(&[2, 3, 4, 5]), 2);
        queue.wait_for_room(Duration::ZERO);
        assert_eq!(queue.next(Duration::ZERO), Some(1));
        assert_eq!(queue.add(&[4]), 0);
        let rest: Vec<_> = std::iter::from_fn(|| queue.next(Duration::ZERO)).collect();
        assert_eq!((rest, queue.len()), (vec![2, 3, 4], 0));
    }
}
