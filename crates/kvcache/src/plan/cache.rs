//! Which objects a client has, where each is, and which go to make room: memory of the host first,
//! if it has any for objects, then storage. No I/O and no threads: whoever moves objects asks for
//! the next step.

use std::collections::HashMap;

/// Share of the memory that objects may fill; storage may be full.
const MEMORY_TARGET: f64 = 0.8;
/// A larger share of the memory is too much for one object.
const MOST_OF_MEMORY: f64 = 0.95;
/// While the memory holds less than this share of it, it accepts every object.
const EMPTY: f64 = 0.05;
/// While it holds less than this share, no object is demoted for a large object.
const NEARLY_EMPTY: f64 = 0.2;
/// An object is large that needs more than this share of the space for objects.
const LARGE: f64 = 0.5;

/// Where an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// In memory of the host.
    Memory,
    /// In a file.
    Storage,
}

/// An object. One that is busy is read, written or moved by one thread, which is the only one to use
/// it meanwhile.
#[derive(Debug, Clone)]
struct Entry {
    tokens: u32,
    bytes: u64,
    tier: Tier,
    /// Its place in the order of use, and how often it was used.
    used: (u64, u32),
    busy: bool,
}

/// The answer to a claim of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// There is none of this name.
    Absent,
    /// Another thread uses it.
    Busy,
    /// It is the caller's until it is released, and has so many tokens.
    Held(Tier, u32),
}

/// The next step for an object that needs room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// There is room, and it is reserved.
    Place,
    /// First this object, which the caller holds now, goes to storage.
    Demote(Victim),
    /// First this object, which the caller holds now, is deleted.
    Delete(Victim),
    /// Other threads use all objects that could go.
    Wait,
    /// It never fits.
    TooLarge {
        /// Room for all objects.
        capacity_bytes: u64,
    },
}

/// An object that makes room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// Its name.
    pub key: String,
    /// Its tokens.
    pub tokens: u32,
    /// Its size in bytes.
    pub bytes: u64,
}

/// All objects of a client.
#[derive(Debug)]
pub struct Cache {
    entries: HashMap<String, Entry>,
    memory_bytes: u64,
    storage_bytes: u64,
    /// Bytes of the objects in each, with reserved room.
    in_memory: u64,
    in_storage: u64,
    uses: u64,
}

impl Cache {
    /// An empty cache with room for so many bytes.
    pub fn new(memory_bytes: u64, storage_bytes: u64) -> Self {
        Self {
            entries: HashMap::new(),
            memory_bytes,
            storage_bytes,
            in_memory: 0,
            in_storage: 0,
            uses: 0,
        }
    }

    /// Whether there is an object of this name.
    pub fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Objects in storage.
    pub fn stored(&self) -> impl Iterator<Item = &str> {
        let stored = self.entries.iter().filter(|(_, entry)| entry.tier == Tier::Storage);
        stored.map(|(key, _)| key.as_str())
    }

    /// Reserves an object for use.
    pub fn claim(&mut self, key: &str) -> Claim {
        let Some(entry) = self.entries.get_mut(key) else {
            return Claim::Absent;
        };
        if entry.busy {
            return Claim::Busy;
        }
        entry.busy = true;
        self.uses += 1;
        entry.used = (self.uses, entry.used.1 + 1);
        Claim::Held(entry.tier, entry.tokens)
    }

    /// An object that the caller holds, to be [deleted](Self::deleted).
    pub fn held(&self, key: &str) -> Option<Victim> {
        let entry = self.entries.get(key)?;
        Some(Victim { key: key.to_string(), tokens: entry.tokens, bytes: entry.bytes })
    }

    /// Gives back an object that was claimed.
    pub fn release(&mut self, key: &str) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.busy = false;
        }
    }

    /// Where a new object of this size belongs.
    pub fn tier_of(&self, bytes: u64) -> Tier {
        let (memory, needed) = (self.memory_bytes as f64, bytes as f64);
        let filled = self.in_memory as f64;
        let target = MEMORY_TARGET * memory;
        let fits = filled + needed <= target || filled < EMPTY * memory;
        let is_in_vain = filled < NEARLY_EMPTY * memory && needed > LARGE * target;
        if needed <= MOST_OF_MEMORY * memory && (fits || !is_in_vain) {
            Tier::Memory
        } else {
            Tier::Storage
        }
    }

    /// The next step to have room for so many bytes.
    pub fn make_room(&mut self, tier: Tier, bytes: u64) -> Step {
        let (limit, filled) = match tier {
            Tier::Memory => ((self.memory_bytes as f64 * MEMORY_TARGET) as u64, self.in_memory),
            Tier::Storage => (self.storage_bytes, self.in_storage),
        };
        if filled + bytes <= limit || (tier == Tier::Memory && filled == 0) {
            *self.filled(tier) += bytes;
            return Step::Place;
        }
        match self.victim(tier) {
            Some(victim) if tier == Tier::Memory => Step::Demote(victim),
            Some(victim) => Step::Delete(victim),
            None if bytes > limit && tier == Tier::Storage => {
                Step::TooLarge { capacity_bytes: limit }
            }
            None => Step::Wait,
        }
    }

    /// Of the objects that no thread uses, the one that was not used for the longest; it is the
    /// caller's now.
    fn victim(&mut self, tier: Tier) -> Option<Victim> {
        let idle = self.entries.iter_mut().filter(|(_, entry)| entry.tier == tier && !entry.busy);
        let (key, entry) = idle.min_by_key(|(_, entry)| entry.used)?;
        entry.busy = true;
        Some(Victim { key: key.clone(), tokens: entry.tokens, bytes: entry.bytes })
    }

    /// Adds an object for which room was made; it is the caller's until it is released.
    pub fn add(&mut self, key: &str, tokens: u32, bytes: u64, tier: Tier) {
        self.uses += 1;
        let entry = Entry { tokens, bytes, tier, used: (self.uses, 1), busy: true };
        self.entries.insert(key.to_string(), entry);
    }

    /// Gives up room that was made for an object which was not added.
    pub fn give_up(&mut self, bytes: u64, tier: Tier) {
        *self.filled(tier) -= bytes;
    }

    /// A victim is in storage now, where room was made for it.
    pub fn demoted(&mut self, victim: &Victim) {
        self.in_memory -= victim.bytes;
        if let Some(entry) = self.entries.get_mut(&victim.key) {
            (entry.tier, entry.busy) = (Tier::Storage, false);
        }
    }

    /// A victim is gone.
    pub fn deleted(&mut self, victim: &Victim) {
        self.in_storage -= victim.bytes;
        self.entries.remove(&victim.key);
    }

    fn filled(&mut self, tier: Tier) -> &mut u64 {
        match tier {
            Tier::Memory => &mut self.in_memory,
            Tier::Storage => &mut self.in_storage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(cache: &mut Cache, key: &str, bytes: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        let tier = cache.tier_of(bytes);
        loop {
            let step = cache.make_room(tier, bytes);
            steps.push(step.clone());
            match step {
                Step::Place => break,
                Step::Delete(victim) => cache.deleted(&victim),
                Step::Demote(victim) => {
                    assert_eq!(cache.make_room(Tier::Storage, victim.bytes), Step::Place);
                    cache.demoted(&victim);
                }
                Step::Wait | Step::TooLarge { .. } => return steps,
            }
        }
        cache.add(key, 1, bytes, tier);
        cache.release(key);
        steps
    }

    fn victim(key: &str, bytes: u64) -> Victim {
        Victim { key: key.to_string(), tokens: 1, bytes }
    }

    #[test]
    fn the_least_recently_used_of_three_objects_makes_room() {
        let mut cache = Cache::new(0, 100);
        for key in ["a", "b", "c"] {
            assert_eq!(put(&mut cache, key, 30), [Step::Place]);
        }
        assert_eq!(cache.claim("a"), Claim::Held(Tier::Storage, 1));
        assert_eq!(cache.claim("a"), Claim::Busy);
        cache.release("a");
        assert_eq!(put(&mut cache, "d", 30), [Step::Delete(victim("b", 30)), Step::Place]);
        assert_eq!(cache.claim("b"), Claim::Absent);
        assert!(cache.has("a") && cache.has("c") && cache.has("d"));
        assert_eq!(cache.stored().count(), 3);
    }

    #[test]
    fn objects_in_use_stay_and_what_is_too_large_is_refused() {
        let mut cache = Cache::new(0, 100);
        put(&mut cache, "a", 60);
        cache.claim("a");
        assert_eq!(put(&mut cache, "b", 60), [Step::Wait]);
        cache.release("a");
        assert_eq!(put(&mut cache, "b", 60), [Step::Delete(victim("a", 60)), Step::Place]);
        let steps = put(&mut cache, "c", 101);
        assert_eq!(steps, [Step::Delete(victim("b", 60)), Step::TooLarge { capacity_bytes: 100 }]);
        assert_eq!(put(&mut cache, "d", 100), [Step::Place]);
    }

    #[test]
    fn memory_is_filled_to_four_fifths_and_then_demoted_from() {
        let mut cache = Cache::new(100, 1000);
        assert_eq!(put(&mut cache, "a", 30), [Step::Place]);
        assert_eq!(put(&mut cache, "b", 30), [Step::Place]);
        assert_eq!(cache.stored().count(), 0);
        assert_eq!(put(&mut cache, "c", 30), [Step::Demote(victim("a", 30)), Step::Place]);
        assert_eq!(cache.stored().collect::<Vec<_>>(), ["a"]);
        // Too large for memory.
        assert_eq!(cache.tier_of(96), Tier::Storage);
        // Nearly empty, and the object is large: demoting what is there would not be enough.
        let mut cache = Cache::new(100, 1000);
        put(&mut cache, "a", 15);
        assert_eq!(cache.tier_of(70), Tier::Storage);
        assert_eq!(cache.tier_of(65), Tier::Memory);
        // Memory that holds nothing takes more than four fifths.
        let mut cache = Cache::new(100, 1000);
        assert_eq!(put(&mut cache, "a", 90), [Step::Place]);
        assert_eq!(cache.stored().count(), 0);
    }
}
