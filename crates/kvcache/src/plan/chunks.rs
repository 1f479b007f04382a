//! Which chunks of prefixes are on storage, as serving engines keep them: a chunk stands for all
//! tokens up to its end, so only the leading ones of a prompt can be loaded, and the last ones of a
//! prefix go first. No I/O and no threads.

use std::collections::{BTreeMap, HashMap, HashSet};

/// The name of a chunk.
pub type ChunkId = u64;

/// The answer to a chunk that is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteDecision {
    /// It is on storage, or being written or deleted.
    Known,
    /// All further places are in use.
    Full,
    /// The caller writes it, and first deletes this one.
    Write(Option<ChunkId>),
}

#[derive(Debug)]
struct Chunk {
    /// Its place, if several share a file.
    place: u64,
    used: u64,
    /// Requests that read it now.
    readers: u32,
    is_written: bool,
}

/// All chunks.
#[derive(Debug)]
pub struct Chunks {
    known: HashMap<ChunkId, Chunk>,
    by_use: BTreeMap<u64, ChunkId>,
    /// Deleted, but their files may still be there.
    going: HashSet<ChunkId>,
    most: u64,
    uses: u64,
}

impl Chunks {
    /// No chunks, and room for `most`.
    pub fn new(most: u64) -> Self {
        Self {
            known: HashMap::new(),
            by_use: BTreeMap::new(),
            going: HashSet::new(),
            most,
            uses: 0,
        }
    }

    /// The leading chunks of a prompt that are on storage, which the caller reads now.
    pub fn take(&mut self, prompt: &[ChunkId]) -> Vec<ChunkId> {
        let is_written = |id: &ChunkId| self.known.get(id).is_some_and(|chunk| chunk.is_written);
        let found: Vec<ChunkId> = prompt.iter().copied().take_while(is_written).collect();
        // The first chunk is used last: without it the rest is useless.
        for id in found.iter().rev() {
            self.touch(*id);
            if let Some(chunk) = self.known.get_mut(id) {
                chunk.readers += 1;
            }
        }
        found
    }

    fn touch(&mut self, id: ChunkId) {
        self.uses += 1;
        if let Some(chunk) = self.known.get_mut(&id) {
            self.by_use.remove(&chunk.used);
            chunk.used = self.uses;
            self.by_use.insert(self.uses, id);
        }
    }

    /// The caller has read them.
    pub fn give_back(&mut self, read: &[ChunkId]) {
        for id in read {
            if let Some(chunk) = self.known.get_mut(id) {
                chunk.readers -= 1;
            }
        }
    }

    /// Whether a chunk is on storage or being written.
    pub fn has(&self, id: ChunkId) -> bool {
        self.known.contains_key(&id)
    }

    /// The `ids` that are not on storage; all other chunks count as used now.
    pub fn missing(&mut self, ids: &[ChunkId]) -> Vec<ChunkId> {
        ids.iter().rev().for_each(|id| self.touch(*id));
        ids.iter().copied().filter(|id| !self.has(*id)).collect()
    }

    /// Decides whether a chunk is written.
    pub fn begin(&mut self, id: ChunkId) -> WriteDecision {
        // A later prompt brings one that is just going.
        if self.has(id) || self.going.contains(&id) {
            return WriteDecision::Known;
        }
        // Places are given in order, and a chunk leaves `known` only for its successor in the same
        // place: so the number of known chunks is the next free place. Any other removal would
        // leave a gap, and the next chunk would get the place of one that is still there.
        let (mut place, mut deletes) = (self.known.len() as u64, None);
        if place >= self.most {
            let Some((victim, freed)) = self.delete() else { return WriteDecision::Full };
            (place, deletes) = (freed, Some(victim));
        }
        self.uses += 1;
        self.by_use.insert(self.uses, id);
        self.known.insert(id, Chunk { place, used: self.uses, readers: 0, is_written: false });
        WriteDecision::Write(deletes)
    }

    /// The place of a chunk that is being read or written, so that it stays.
    pub fn place_of(&self, id: ChunkId) -> u64 {
        self.known.get(&id).expect("it is in use").place
    }

    /// Forgets the chunk that was not used for the longest, and frees its place.
    fn delete(&mut self) -> Option<(ChunkId, u64)> {
        let is_idle = |id: &ChunkId| {
            self.known.get(id).is_some_and(|chunk| chunk.is_written && chunk.readers == 0)
        };
        let (used, id) = self.by_use.iter().find(|(_, id)| is_idle(id)).map(|(a, b)| (*a, *b))?;
        self.by_use.remove(&used);
        self.going.insert(id);
        self.known.remove(&id).map(|chunk| (id, chunk.place))
    }

    /// Deleted chunks are no longer on storage.
    pub fn gone(&mut self, id: ChunkId) {
        self.going.remove(&id);
    }

    /// A chunk is on storage.
    pub fn written(&mut self, id: ChunkId) {
        if let Some(chunk) = self.known.get_mut(&id) {
            chunk.is_written = true;
        }
    }

    /// All names, also of chunks that are being written or deleted.
    pub fn ids(&self) -> impl Iterator<Item = ChunkId> {
        self.known.keys().chain(&self.going).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(chunks: &mut Chunks, ids: &[ChunkId]) -> Vec<WriteDecision> {
        let begun = ids.iter().map(|id| {
            let begun = chunks.begin(*id);
            if let WriteDecision::Write(Some(victim)) = begun {
                chunks.gone(victim);
            }
            chunks.written(*id);
            begun
        });
        begun.collect()
    }

    #[test]
    fn only_leading_chunks_are_loaded() {
        let mut chunks = Chunks::new(10);
        put(&mut chunks, &[1, 2, 4]);
        assert_eq!(chunks.take(&[1, 2, 3, 4]), [1, 2]);
        assert!(chunks.take(&[3, 4]).is_empty());
        // Not before it is written.
        chunks.begin(3);
        assert_eq!(chunks.take(&[1, 2, 3, 4]), [1, 2]);
        assert_eq!(chunks.begin(3), WriteDecision::Known);
        chunks.written(3);
        assert_eq!(chunks.take(&[1, 2, 3, 4]), [1, 2, 3, 4]);
    }

    #[test]
    fn the_end_of_the_prefix_used_longest_ago_goes_first() {
        let mut chunks = Chunks::new(4);
        put(&mut chunks, &[11, 12, 21, 22]);
        for prompt in [[21, 22], [11, 12]] {
            let read = chunks.take(&prompt);
            chunks.give_back(&read);
        }
        let begun = put(&mut chunks, &[31, 32, 33]);
        let deleted: Vec<_> = begun
            .iter()
            .map(|begun| match begun {
                WriteDecision::Write(deletes) => *deletes,
                _ => None,
            })
            .collect();
        assert_eq!(deleted, [Some(22), Some(21), Some(12)]);
        assert_eq!(chunks.take(&[11, 12]), [11]);
        assert_eq!(chunks.missing(&[31, 12, 33]), [12]);
    }

    #[test]
    fn what_is_read_stays_and_its_room_is_used_again() {
        let mut chunks = Chunks::new(2);
        put(&mut chunks, &[1, 2]);
        let read = chunks.take(&[1, 2]);
        assert_eq!(chunks.begin(3), WriteDecision::Full);
        chunks.give_back(&read[1..]);
        let freed = chunks.place_of(2);
        assert_eq!(chunks.begin(3), WriteDecision::Write(Some(2)));
        assert_eq!((chunks.place_of(1), chunks.place_of(3)), (0, freed));
        // Not before its file is gone.
        assert_eq!(chunks.begin(2), WriteDecision::Known);
        chunks.gone(2);
        // A chunk that is being written does not make room either.
        assert_eq!(chunks.begin(4), WriteDecision::Full);
        let mut left: Vec<ChunkId> = chunks.ids().collect();
        left.sort_unstable();
        assert_eq!(left, [1, 3]);
    }
}
