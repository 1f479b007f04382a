//! Which chunks of prefixes are on storage, as serving engines keep them: a chunk stands for all
//! tokens up to its end, so only the leading ones of a prompt can be loaded, and the last ones of a
//! prefix go first. No I/O and no threads.

use std::collections::{BTreeMap, HashMap, HashSet};

/// The name of a chunk.
pub type ChunkId = u64;

/// A chunk on storage, which the caller reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Its name.
    pub id: ChunkId,
    /// Its place, if several share a file.
    pub place: u64,
}

/// The answer to a chunk that is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteDecision {
    /// It is on storage, or being written or deleted.
    Known,
    /// All others are in use.
    Full,
    /// The caller writes it to this place; an older one makes room.
    At {
        /// The place.
        place: u64,
        /// What is deleted for it.
        deletes: Option<ChunkId>,
    },
}

#[derive(Debug)]
struct Chunk {
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
    /// Places used so far, and those that are free again.
    places: u64,
    free: Vec<u64>,
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
            places: 0,
            free: Vec::new(),
            uses: 0,
        }
    }

    /// The leading chunks of a prompt that are on storage, which the caller reads now.
    pub fn take(&mut self, prompt: &[ChunkId]) -> Vec<Stored> {
        let stored = |id: &ChunkId| {
            let chunk = self.known.get(id).filter(|chunk| chunk.is_written)?;
            Some(Stored { id: *id, place: chunk.place })
        };
        let found: Vec<Stored> = prompt.iter().map_while(stored).collect();
        // The first chunk is used last: without it the others are of no use.
        for stored in found.iter().rev() {
            self.touch(stored.id);
            if let Some(chunk) = self.known.get_mut(&stored.id) {
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
    pub fn give_back(&mut self, read: &[Stored]) {
        for stored in read {
            if let Some(chunk) = self.known.get_mut(&stored.id) {
                chunk.readers -= 1;
            }
        }
    }

    /// Whether a chunk is on storage or being written.
    pub fn has(&self, id: ChunkId) -> bool {
        self.known.contains_key(&id)
    }

    /// Those of `ids` that are not on storage; all others count as used now.
    pub fn missing(&mut self, ids: &[ChunkId]) -> Vec<ChunkId> {
        ids.iter().rev().for_each(|id| self.touch(*id));
        ids.iter().copied().filter(|id| !self.has(*id)).collect()
    }

    /// Finds a place for a chunk.
    pub fn begin(&mut self, id: ChunkId) -> WriteDecision {
        // A later prompt brings one that is just going.
        if self.has(id) || self.going.contains(&id) {
            return WriteDecision::Known;
        }
        let (place, deletes) = match self.free.pop() {
            Some(place) => (place, None),
            None if self.places < self.most => {
                self.places += 1;
                (self.places - 1, None)
            }
            None => match self.delete() {
                Some((place, victim)) => (place, Some(victim)),
                None => return WriteDecision::Full,
            },
        };
        self.uses += 1;
        self.by_use.insert(self.uses, id);
        self.known.insert(id, Chunk { place, used: self.uses, readers: 0, is_written: false });
        WriteDecision::At { place, deletes }
    }

    /// Forgets the chunk that was not used for the longest; its place is the caller's.
    fn delete(&mut self) -> Option<(u64, ChunkId)> {
        let is_idle = |id: &ChunkId| {
            self.known.get(id).is_some_and(|chunk| chunk.is_written && chunk.readers == 0)
        };
        let (used, id) = self.by_use.iter().find(|(_, id)| is_idle(id)).map(|(a, b)| (*a, *b))?;
        self.by_use.remove(&used);
        self.going.insert(id);
        self.known.remove(&id).map(|chunk| (chunk.place, id))
    }

    /// What was deleted is no longer on storage.
    pub fn gone(&mut self, id: ChunkId) {
        self.going.remove(&id);
    }

    /// A chunk is on storage.
    pub fn written(&mut self, id: ChunkId) {
        if let Some(chunk) = self.known.get_mut(&id) {
            chunk.is_written = true;
        }
    }

    /// All names, also of what is being written or deleted.
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
            if let WriteDecision::At { deletes: Some(victim), .. } = begun {
                chunks.gone(victim);
            }
            chunks.written(*id);
            begun
        });
        begun.collect()
    }

    fn ids(found: &[Stored]) -> Vec<ChunkId> {
        found.iter().map(|stored| stored.id).collect()
    }

    #[test]
    fn only_leading_chunks_are_loaded() {
        let mut chunks = Chunks::new(10);
        put(&mut chunks, &[1, 2, 4]);
        assert_eq!(ids(&chunks.take(&[1, 2, 3, 4])), [1, 2]);
        assert!(chunks.take(&[3, 4]).is_empty());
        // Not before it is written.
        chunks.begin(3);
        assert_eq!(ids(&chunks.take(&[1, 2, 3, 4])), [1, 2]);
        assert_eq!(chunks.begin(3), WriteDecision::Known);
        chunks.written(3);
        assert_eq!(ids(&chunks.take(&[1, 2, 3, 4])), [1, 2, 3, 4]);
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
                WriteDecision::At { deletes, .. } => *deletes,
                _ => None,
            })
            .collect();
        assert_eq!(deleted, [Some(22), Some(21), Some(12)]);
        assert_eq!(ids(&chunks.take(&[11, 12])), [11]);
        assert_eq!(chunks.missing(&[31, 12, 33]), [12]);
    }

    #[test]
    fn what_is_read_stays_and_places_are_used_again() {
        let mut chunks = Chunks::new(2);
        put(&mut chunks, &[1, 2]);
        let read = chunks.take(&[1, 2]);
        assert_eq!(chunks.begin(3), WriteDecision::Full);
        chunks.give_back(&read[1..]);
        assert_eq!(chunks.begin(3), WriteDecision::At { place: 1, deletes: Some(2) });
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
