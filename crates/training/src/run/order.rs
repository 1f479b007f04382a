//! The order of files and samples by profile: the samples of each accelerator in each epoch.

use stormlp_core::mt19937::Mt19937;

use super::dataset::EpochIndex;

/// Contiguous ranges in name order, the same in every epoch. PyTorch's loader actually read these
/// up to v2.0, whether shuffled or not: DLIO's sampler yields indices in ascending order.
#[derive(Debug, Clone, Copy)]
pub struct Contiguous {
    /// Number of files.
    pub files: u64,
    /// Samples per file.
    pub samples_per_file: u64,
    /// Number of accelerators.
    pub accelerators: u64,
}

impl Contiguous {
    /// Samples in each range but the last.
    fn size(&self) -> u64 {
        (self.files * self.samples_per_file).div_ceil(self.accelerators)
    }

    /// Samples of one accelerator.
    pub fn samples(&self, accelerator: u32) -> u64 {
        let all = self.files * self.samples_per_file;
        let start = u64::from(accelerator) * self.size();
        self.size().min(all.saturating_sub(start))
    }
}

impl EpochIndex for Contiguous {
    fn sample(&self, accelerator: u32, nth: u64) -> (u64, u64) {
        let sample = u64::from(accelerator) * self.size() + nth;
        (sample / self.samples_per_file % self.files, sample % self.samples_per_file)
    }

    fn file(&self, accelerator: u32, nth: u64) -> u64 {
        self.sample(accelerator, nth * self.samples_per_file).0
    }
}

/// Every R-th file starting at the accelerator's rank, as dealt by `tf.data`'s `shard`; all files
/// for every accelerator if there are fewer files than accelerators.
#[derive(Debug, Clone, Copy)]
pub struct Strided {
    /// Number of files.
    pub files: u64,
    /// Samples per file.
    pub samples_per_file: u64,
    /// Number of accelerators.
    pub accelerators: u64,
}

impl Strided {
    /// Number of files of one accelerator.
    pub fn files_of(&self, accelerator: u32) -> u64 {
        if self.files < self.accelerators {
            return self.files;
        }
        (self.files - u64::from(accelerator)).div_ceil(self.accelerators)
    }
}

impl EpochIndex for Strided {
    fn sample(&self, accelerator: u32, nth: u64) -> (u64, u64) {
        let file = self.file(accelerator, nth / self.samples_per_file);
        (file, nth % self.samples_per_file)
    }

    fn file(&self, accelerator: u32, nth: u64) -> u64 {
        if self.files < self.accelerators {
            return nth % self.files;
        }
        (u64::from(accelerator) + nth * self.accelerators) % self.files
    }
}

/// The order of TensorFlow's generators over files other than records, as DLIO up to v2.0 feeds them:
/// before each epoch the list of files is shuffled again, from its last order; each of a rank's threads
/// has a contiguous part of its samples, and batches come from the threads in turn.
///
/// DLIO looks up a rank's place in the list for its first file alone: all further files are the
/// same on all ranks.
#[derive(Debug, Clone)]
pub struct Generated {
    files: Vec<u32>,
    /// Each rank's part of the samples.
    parts: Contiguous,
    threads: u64,
    batch_size: u64,
}

impl Generated {
    /// The order of `epoch` (from 1) over `parts`, of accelerators that each have so many reading
    /// `threads`.
    pub fn new(
        parts: Contiguous,
        (threads, batch_size): (u64, u64),
        shuffle: Option<Reshuffle>,
        epoch: u32,
    ) -> Self {
        let mut files: Vec<u32> = (0..parts.files as u32).collect();
        if let Some(Reshuffle { seed, change_epoch }) = shuffle {
            for epoch in 1..=u64::from(epoch) {
                let seed = seed + if change_epoch { epoch } else { 0 };
                Mt19937::new(seed as u32).shuffle(&mut files);
            }
        }
        Self { files, parts, threads: threads.max(1), batch_size: batch_size.max(1) }
    }

    /// The place among a rank's samples of the `nth` that is delivered.
    fn place(&self, nth: u64) -> u64 {
        let (threads, batch_size) = (self.threads, self.batch_size);
        let of_thread = self.parts.size() / threads;
        let whole = of_thread / batch_size * batch_size;
        if nth < whole * threads {
            let (batch, in_batch) = (nth / batch_size, nth % batch_size);
            return batch % threads * of_thread + batch / threads * batch_size + in_batch;
        }
        // An incomplete batch comes last.
        let (rest, beyond) = (nth - whole * threads, of_thread - whole);
        if rest < beyond * threads {
            rest / beyond * of_thread + whole + rest % beyond
        } else {
            nth
        }
    }
}

impl EpochIndex for Generated {
    fn sample(&self, accelerator: u32, nth: u64) -> (u64, u64) {
        let Contiguous { files, samples_per_file, accelerators } = self.parts;
        let place = self.place(nth);
        let nth_file = if place == 0 {
            u64::from(accelerator) * (files / accelerators)
        } else {
            place / samples_per_file
        };
        let sample = u64::from(accelerator) * self.parts.size() + place;
        (u64::from(self.files[(nth_file % files) as usize]), sample % samples_per_file)
    }

    fn file(&self, accelerator: u32, nth: u64) -> u64 {
        self.sample(accelerator, nth * self.parts.samples_per_file).0
    }
}

/// How files are redealt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reshuffle {
    /// The seed.
    pub seed: u64,
    /// `seed_change_epoch`: whether the epoch is added to the seed of the first shuffle. It is
    /// always added to the second shuffle's seed, as in DLIO.
    pub change_epoch: bool,
}

/// Round-robin shards of equal length, redealt every epoch if files are shuffled (v3.0).
#[derive(Debug, Clone)]
pub struct Resharded {
    samples_per_file: u64,
    /// Files by accelerator.
    shards: Vec<Vec<u32>>,
}

impl Resharded {
    /// The shards of `epoch` (from 1): each accelerator shuffles its shard with seed + epoch (or
    /// with the seed alone, see [`Reshuffle::change_epoch`]) and deals it round-robin to all,
    /// beginning with itself; it then shuffles the received samples with seed + epoch + 31 × rank.
    /// Each epoch starts from the result of the previous one.
    pub fn new(
        files: u64,
        samples_per_file: u64,
        accelerators: u64,
        shuffle: Option<Reshuffle>,
        epoch: u32,
    ) -> Self {
        let ranks = accelerators as usize;
        let each = files / accelerators;
        let mut shards: Vec<Vec<u32>> = (0..accelerators)
            .map(|rank| (0..each).map(|nth| (rank + nth * accelerators) as u32).collect())
            .collect();
        if let Some(reshuffle) = shuffle {
            for epoch in 1..=u64::from(epoch) {
                shards = reshard(shards, ranks, reshuffle, epoch);
            }
        }
        Self { samples_per_file, shards }
    }

    /// Number of files of one accelerator.
    pub fn files_of(&self, accelerator: u32) -> u64 {
        self.shards[accelerator as usize].len() as u64
    }
}

fn reshard(
    mut shards: Vec<Vec<u32>>,
    ranks: usize,
    Reshuffle { seed, change_epoch }: Reshuffle,
    epoch: u64,
) -> Vec<Vec<u32>> {
    let own_seed = seed + if change_epoch { epoch } else { 0 };
    let mut dealt = vec![Vec::new(); ranks];
    for (rank, shard) in shards.iter_mut().enumerate() {
        Mt19937::new(own_seed as u32).shuffle(shard);
        for (nth, file) in shard.iter().enumerate() {
            dealt[(nth + rank) % ranks].push(*file);
        }
    }
    for (rank, shard) in dealt.iter_mut().enumerate() {
        Mt19937::new((seed + epoch + 31 * rank as u64) as u32).shuffle(shard);
    }
    dealt
}

impl EpochIndex for Resharded {
    fn sample(&self, accelerator: u32, nth: u64) -> (u64, u64) {
        let file = self.file(accelerator, nth / self.samples_per_file);
        (file, nth % self.samples_per_file)
    }

    fn file(&self, accelerator: u32, nth: u64) -> u64 {
        let shard = &self.shards[accelerator as usize];
        // A shard that was dealt fewer files wraps around.
        u64::from(shard[nth as usize % shard.len().max(1)])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn contiguous_ranges_follow_the_names() {
        let order = Contiguous { files: 3, samples_per_file: 2, accelerators: 4 };
        // Six samples on four accelerators: ceil(6 / 4) = 2 each while they last.
        let counts: Vec<u64> = (0..4).map(|rank| order.samples(rank)).collect();
        assert_eq!(counts, [2, 2, 2, 0]);
        assert_eq!(order.sample(1, 0), (1, 0));
        assert_eq!(order.sample(2, 1), (2, 1));
    }

    #[test]
    fn fewer_files_than_accelerators_are_read_by_all() {
        let order = Strided { files: 3, samples_per_file: 5, accelerators: 4 };
        assert_eq!((order.files_of(0), order.files_of(3)), (3, 3));
        assert_eq!(order.file(3, 0), 0);
    }

    /// The files of both accelerators in `epoch`.
    fn dealt(change_epoch: bool, epoch: u32) -> Vec<u64> {
        let reshuffle = Reshuffle { seed: 123, change_epoch };
        let order = Resharded::new(10, 1, 2, Some(reshuffle), epoch);
        let files = (0..2).flat_map(|rank| (0..5).map(move |nth| (rank, nth)));
        files.map(|(rank, nth)| order.file(rank, nth)).collect()
    }

    #[test]
    fn a_fixed_seed_still_reshuffles_every_epoch() {
        // Matches numpy's generator and shuffle.
        assert_eq!(dealt(false, 1), [2, 7, 4, 8, 1, 6, 9, 3, 0, 5]);
        assert_eq!(dealt(false, 2), [7, 1, 6, 0, 4, 5, 2, 9, 8, 3]);
        assert_eq!(dealt(true, 1), [0, 7, 8, 4, 3, 6, 5, 1, 2, 9]);
    }

    fn parts(files: u64, samples_per_file: u64, accelerators: u64) -> Contiguous {
        Contiguous { files, samples_per_file, accelerators }
    }

    /// The files of both accelerators in `epoch`, by one thread each.
    fn generated(epoch: u32) -> Vec<u64> {
        let reshuffle = Reshuffle { seed: 123, change_epoch: true };
        let order = Generated::new(parts(10, 1, 2), (1, 1), Some(reshuffle), epoch);
        let files = (0..2).flat_map(|rank| (0..5).map(move |nth| (rank, nth)));
        files.map(|(rank, nth)| order.file(rank, nth)).collect()
    }

    #[test]
    fn generators_shuffle_all_files_again_in_each_epoch() {
        // numpy's own, by `random.seed(123 + epoch)` and `random.shuffle` of the last epoch's list. Beyond
        // its first file a rank reads the same as the rest.
        assert_eq!(generated(1), [6, 8, 3, 5, 4, 0, 8, 3, 5, 4]);
        assert_eq!(generated(2), [1, 8, 6, 9, 4, 0, 8, 6, 9, 4]);
    }

    #[test]
    fn generators_threads_take_turns_by_the_batch() {
        let order = Generated::new(parts(9, 1, 1), (2, 2), None, 3);
        let files: Vec<u64> = (0..9).map(|nth| order.file(0, nth)).collect();
        assert_eq!(files, [0, 1, 4, 5, 2, 3, 6, 7, 8]);
    }

    proptest! {
        #[test]
        fn generators_deliver_every_sample_of_a_rank_once(
            files in 1u64..60, samples_per_file in 1u64..5, threads in 1u64..6, batch in 1u64..6,
        ) {
            let parts = parts(files, samples_per_file, 1);
            let (order, all) = (Generated::new(parts, (threads, batch), None, 1), parts.samples(0));
            let places: HashSet<u64> = (0..all).map(|nth| order.place(nth)).collect();
            prop_assert_eq!(places, (0..all).collect::<HashSet<u64>>());
        }

        #[test]
        fn strides_deal_every_file_once(files in 1u64..200, accelerators in 1u64..20) {
            prop_assume!(files >= accelerators);
            let order = Strided { files, samples_per_file: 1, accelerators };
            let mut seen = HashSet::new();
            for rank in 0..accelerators as u32 {
                for nth in 0..order.files_of(rank) {
                    prop_assert!(seen.insert(order.file(rank, nth)));
                }
            }
            prop_assert_eq!(seen.len() as u64, files);
        }

        #[test]
        fn every_epoch_deals_the_same_files_in_equal_shards(
            files in 1u64..300, accelerators in 1u64..12, epoch in 1u32..4, seed in 0u64..1000,
            change_epoch: bool,
        ) {
            prop_assume!(files >= accelerators);
            let reshuffle = Reshuffle { seed, change_epoch };
            let order = Resharded::new(files, 1, accelerators, Some(reshuffle), epoch);
            let each = files / accelerators;
            let mut seen = HashSet::new();
            for rank in 0..accelerators as u32 {
                prop_assert_eq!(order.files_of(rank), each);
                for nth in 0..each {
                    prop_assert!(seen.insert(order.file(rank, nth)));
                }
            }
            prop_assert_eq!(seen.len() as u64, each * accelerators);
        }
    }
}
