//! The prompts of a serving engine: each begins with a prefix that earlier prompts have, or with a
//! new one. Later prompts begin with that once it is written: prompts without a stored prefix need
//! no time, and would bring new prefixes faster than they are written. No clock.

use std::collections::{BTreeMap, VecDeque};

use stormlp_core::mt19937::Mt19937;

use super::chunks::ChunkId;
use super::serving::ServingPlan;

/// Bits of a chunk's name that count the chunks of a prefix.
const CHUNK_BITS: u32 = 24;

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The chunks of its prefix.
    pub chunks: Vec<ChunkId>,
    /// All its tokens.
    pub tokens: u32,
    /// When it is sent, in nanoseconds since the start; `None` as soon as a thread is free.
    pub sent_ns: Option<u64>,
}

/// Makes the prompts of a seed.
pub struct Prompts {
    random: Mt19937,
    chunk_tokens: u32,
    prefix_tokens: Vec<u32>,
    new_tokens: u32,
    /// The prefixes that prompts begin with, by number: all were written once. And how many there are.
    known: VecDeque<u64>,
    most: usize,
    begun: u64,
    /// New prefixes, and how many chunks of each are left to be written.
    coming: BTreeMap<u64, u64>,
    /// Prefixes of dropped chunks: a later prompt brings them again.
    again: VecDeque<u64>,
    /// The share of prompts with a new prefix.
    new_share: f64,
    /// Prompts a second, and the time of the last one.
    rate: Option<f64>,
    last_seconds: f64,
}

impl Prompts {
    /// The prompts of a plan, which know its first prefixes.
    pub fn new(plan: &ServingPlan, seed: u32) -> Self {
        let most = plan.prefixes.max(1);
        Self {
            random: Mt19937::new(seed),
            chunk_tokens: plan.chunk_tokens,
            prefix_tokens: plan.prefix_tokens.clone(),
            new_tokens: plan.new_tokens,
            known: (0..u64::from(most)).collect(),
            most: most as usize,
            begun: most.into(),
            coming: BTreeMap::new(),
            again: VecDeque::new(),
            new_share: 1.0 / (1.0 + plan.reads_per_prefix),
            rate: plan.requests_per_second,
            last_seconds: 0.0,
        }
    }

    /// The chunks of the prefixes that are known now.
    pub fn first_chunks(&self) -> Vec<ChunkId> {
        self.known.iter().flat_map(|prefix| self.chunks_of(*prefix)).collect()
    }

    fn tokens_of(&self, prefix: u64) -> u32 {
        let place = (prefix % self.prefix_tokens.len() as u64) as usize;
        self.prefix_tokens[place]
    }

    fn count_of(&self, prefix: u64) -> u64 {
        u64::from(self.tokens_of(prefix) / self.chunk_tokens)
    }

    fn chunks_of(&self, prefix: u64) -> impl Iterator<Item = ChunkId> + use<> {
        (0..self.count_of(prefix)).map(move |nth| (prefix << CHUNK_BITS) | nth)
    }

    /// A chunk is on storage. With the last of a new prefix prompts begin with that one, and no longer
    /// with the oldest.
    pub fn written(&mut self, id: ChunkId) {
        let prefix = id >> CHUNK_BITS;
        let Some(left) = self.coming.get_mut(&prefix) else { return };
        *left -= 1;
        if *left == 0 {
            self.coming.remove(&prefix);
            self.again.retain(|one| *one != prefix);
            self.known.pop_front();
            self.known.push_back(prefix);
        }
    }

    /// A chunk is not going to be written for the prompt that brought it.
    pub fn dropped(&mut self, id: ChunkId) {
        let prefix = id >> CHUNK_BITS;
        if self.coming.contains_key(&prefix) && !self.again.contains(&prefix) {
            self.again.push_back(prefix);
        }
    }

    /// No chunk waits to be written any more: all new prefixes have to be brought again.
    pub fn begin_anew(&mut self) {
        self.again = self.coming.keys().copied().collect();
    }

    /// The prefix of a prompt that is new.
    fn new_prefix(&mut self) -> u64 {
        self.again.pop_front().unwrap_or_else(|| {
            self.begun += 1;
            let prefix = self.begun - 1;
            self.coming.insert(prefix, self.count_of(prefix));
            prefix
        })
    }

    /// The next prompt.
    pub fn draw(&mut self) -> Prompt {
        let prefix = if self.random.next_f64() < self.new_share {
            self.new_prefix()
        } else {
            let nth = self.random.next_below(self.most as u32) as usize;
            self.known[nth]
        };
        let sent_ns = self.rate.map(|rate| {
            // Times between the requests of many independent users.
            self.last_seconds -= (1.0 - self.random.next_f64()).ln() / rate;
            (self.last_seconds * 1e9) as u64
        });
        let tokens = self.tokens_of(prefix) + self.new_tokens;
        Prompt { chunks: self.chunks_of(prefix).collect(), tokens, sent_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> ServingPlan {
        ServingPlan {
            prefixes: 10,
            prefix_tokens: vec![512, 1024],
            reads_per_prefix: 4.0,
            new_tokens: 100,
            requests_per_second: Some(50.0),
            ..ServingPlan::fixture()
        }
    }

    #[test]
    fn a_prefix_is_read_as_often_as_it_is_asked_for() {
        let mut prompts = Prompts::new(&plan(), 42);
        assert_eq!(prompts.first_chunks().len(), 5 * 2 + 5 * 4);
        let all: Vec<Prompt> = (0..20_000).map(|_| prompts.draw()).collect();
        let begun = (prompts.begun - 10) as f64;
        assert!((20_000.0 / begun / 5.0 - 1.0).abs() < 0.05, "{begun}");
        for prompt in &all {
            let tokens = prompt.chunks.len() as u32 * 256 + 100;
            assert!(prompt.tokens == tokens && [2, 4].contains(&prompt.chunks.len()));
        }
        let last = all.last().and_then(|one| one.sent_ns).unwrap() as f64 / 1e9;
        assert!((last / 400.0 - 1.0).abs() < 0.05, "{last}");
        assert!(all.is_sorted_by_key(|one| one.sent_ns));
    }

    #[test]
    fn a_new_prefix_is_known_once_it_is_written_and_comes_again_if_it_was_dropped() {
        let mut prompts = Prompts::new(&plan(), 42);
        let next_new = |prompts: &mut Prompts| {
            let known = prompts.first_chunks();
            let mut drawn = (0..1000).map(|_| prompts.draw().chunks);
            drawn.find(|chunks| !known.contains(&chunks[0])).unwrap()
        };
        let first = next_new(&mut prompts);
        let second = next_new(&mut prompts);
        assert_ne!(first, second);
        prompts.dropped(first[1]);
        assert_eq!(next_new(&mut prompts), first);
        for id in &first[1..] {
            prompts.written(*id);
        }
        assert!(!prompts.first_chunks().contains(&first[0]));
        prompts.written(first[0]);
        let now = prompts.first_chunks();
        assert!(now.ends_with(&first) && !now.contains(&0), "{now:?}");
        prompts.begin_anew();
        assert_eq!(next_new(&mut prompts), second);
    }

    #[test]
    fn a_seed_has_its_prompts() {
        let first = |seed| {
            let mut prompts = Prompts::new(&plan(), seed);
            (0..50).map(|_| prompts.draw()).collect::<Vec<_>>()
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }
}
