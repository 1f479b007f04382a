//! Chooses the next piece of its file for a worker.

use crate::plan::IoSize;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// The parameters of a worker's offsets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OffsetSpec {
    /// Start of the worker's share of the file, in bytes.
    pub(crate) start: u64,
    /// Length of the share in bytes; at least the largest transfer.
    pub(crate) len: u64,
    pub(crate) size: IoSize,
    /// Random or sequential.
    pub(crate) random: bool,
    /// Alignment of random offsets in bytes.
    pub(crate) align: u64,
    pub(crate) seed: u64,
    /// Number of passes over the share; `None` is unlimited.
    pub(crate) passes: Option<u64>,
}

/// A rehearsal touches at most this fraction of a share.
const REHEARSED_PART: u64 = 64;

impl OffsetSpec {
    /// A place where this many transfers hardly affect later ones: two blocks at the end, visited
    /// repeatedly since a cache may then hold them. In a single block, no random offset would be
    /// unaligned. `None` if a block is a large part of the share.
    pub(crate) fn rehearsal(self, transfers: u64) -> Option<Self> {
        let block = self.size.max_bytes.max(1);
        let blocks = self.len / block;
        let before = (blocks >= REHEARSED_PART).then(|| (blocks - 2) * block)?;
        Some(Self {
            // Random offsets have the same alignment as in the cell.
            start: self.start + before - before % self.align.max(1),
            len: 2 * block,
            passes: Some(transfers.div_ceil(2)),
            ..self
        })
    }
}

/// One visit: offset and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Whether it writes; the worker decides.
    pub(crate) is_write: bool,
}

/// The visits of one worker, unlimited or for a number of passes.
#[derive(Debug)]
pub(crate) struct Offsets {
    spec: OffsetSpec,
    random: Xoshiro256PlusPlus,
    /// Offset of the next sequential visit within the share.
    next: u64,
    /// Bytes remaining, if passes are counted.
    left: Option<u64>,
    sizes: u64,
    blocks: u64,
}

impl Offsets {
    /// The visits described by `spec`.
    pub(crate) fn new(spec: OffsetSpec) -> Self {
        let align = spec.align.max(1);
        Self {
            random: Xoshiro256PlusPlus::seed_from_u64(spec.seed),
            next: 0,
            left: spec.passes.map(|passes| passes.saturating_mul(spec.len)),
            sizes: spec.size.count(),
            blocks: (spec.len - spec.size.max_bytes) / align + 1,
            spec: OffsetSpec { align, ..spec },
        }
    }

    /// A random number below `bound`, which must not be 0. The bias of the multiplication is below
    /// bound / 2^64, too small to matter for any file size.
    #[inline]
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Whether the next transfer of a mixed run is a read, with a probability of `percent` in 100.
    #[inline]
    pub(crate) fn draws_read(&mut self, percent: u8) -> bool {
        self.below(100) < u64::from(percent)
    }

    #[inline]
    fn size(&mut self) -> u64 {
        if self.sizes == 1 {
            self.spec.size.min_bytes
        } else {
            self.spec.size.min_bytes + self.below(self.sizes) * self.spec.size.step_bytes
        }
    }

    /// The next visit, or `None` when all passes are done.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Visit> {
        if self.left == Some(0) {
            return None;
        }
        let mut len = self.size();
        let offset = if self.spec.random {
            self.below(self.blocks) * self.spec.align
        } else {
            self.sequential(&mut len)
        };
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(len);
        }
        Some(Visit { offset: self.spec.start + offset, len, is_write: false })
    }

    /// The next sequential offset. A counted pass ends with a shorter visit; an uncounted one wraps
    /// around where no whole visit fits.
    #[inline]
    fn sequential(&mut self, len: &mut u64) -> u64 {
        if self.next >= self.spec.len {
            self.next = 0;
        }
        let rest = self.spec.len - self.next;
        if *len > rest {
            if self.left.is_some() {
                *len = rest;
            } else {
                self.next = 0;
            }
        }
        let offset = self.next;
        self.next += *len;
        offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec(len: u64, size: u64) -> OffsetSpec {
        let size = IoSize::fixed(size);
        OffsetSpec { start: 0, len, size, random: false, align: 4096, seed: 1, passes: Some(1) }
    }

    fn all(spec: OffsetSpec) -> Vec<Visit> {
        let mut offsets = Offsets::new(spec);
        std::iter::from_fn(move || offsets.next()).collect()
    }

    #[test]
    fn a_pass_covers_every_byte_once_the_tail_included() {
        let visits = all(spec(10_000, 4096));
        let ends: Vec<_> = visits.iter().map(|v| (v.offset, v.len)).collect();
        assert_eq!(ends, [(0, 4096), (4096, 4096), (8192, 1808)]);
    }

    #[test]
    fn without_passes_a_sequential_worker_wraps_around_completely() {
        let mut offsets = Offsets::new(OffsetSpec { passes: None, ..spec(10_000, 4096) });
        let starts: Vec<_> = (0..4).filter_map(|_| offsets.next()).map(|v| v.offset).collect();
        assert_eq!(starts, [0, 4096, 0, 4096]);
    }

    #[test]
    fn a_rehearsal_touches_two_blocks_of_many_or_nothing() {
        for (random, align) in [(false, 4096), (true, 4096), (true, 1), (true, 512)] {
            let share =
                OffsetSpec { start: 1 << 20, random, align, ..spec((64 << 12) + 100, 4096) };
            let visits = all(share.rehearsal(8).unwrap());
            assert_eq!(visits.len(), 8);
            let blocks = (1 << 20) + (62 << 12)..=(1 << 20) + (63 << 12);
            let inside = |visit: &Visit| blocks.contains(&visit.offset) && visit.len == 4096;
            assert!(visits.iter().all(inside), "{visits:?}");
            let aligned = |visit: &Visit| visit.offset.is_multiple_of(4096);
            // Rehearsals of unaligned cells are unaligned too.
            assert_eq!(visits.iter().all(aligned), align == 4096, "{visits:?}");
            assert!(visits.iter().all(|visit| visit.offset % align == 0));
        }
        // Blocks that are not a multiple of the alignment of random offsets.
        let odd = OffsetSpec { random: true, ..spec(1 << 20, 5000) };
        let visits = all(odd.rehearsal(8).unwrap());
        assert!(visits.iter().all(|visit| visit.offset % 4096 == 0));
        assert!(spec(63 << 12, 4096).rehearsal(8).is_none());
    }

    proptest! {
        #[test]
        fn every_visit_stays_inside_the_share(
            start in 0u64..1 << 30, blocks in 1u64..1000, kib in 1u64..64, random: bool, seed: u64,
            align in prop::sample::select(vec![1u64, 512, 4096]),
        ) {
            let size = IoSize { min_bytes: kib << 10, max_bytes: kib << 12, step_bytes: 1024 };
            let len = (kib << 12) + blocks * 4096;
            let spec = OffsetSpec { start, len, size, random, align, seed, passes: None };
            let mut offsets = Offsets::new(spec);
            for visit in (0..500).filter_map(|_| offsets.next()) {
                prop_assert!(visit.offset >= start && visit.offset + visit.len <= start + len);
                prop_assert!((kib << 10..=kib << 12).contains(&visit.len));
                if random {
                    prop_assert_eq!((visit.offset - start) % align, 0);
                }
            }
        }

        #[test]
        fn a_mix_has_about_the_share_of_reads_it_was_asked_for(percent in 0u8..=100, seed: u64) {
            let mut offsets = Offsets::new(OffsetSpec { seed, ..spec(1 << 20, 4096) });
            let reads = (0..10_000).filter(|_| offsets.draws_read(percent)).count() as f64;
            prop_assert!((reads / 100.0 - f64::from(percent)).abs() < 3.0);
        }

        #[test]
        fn a_pass_moves_exactly_the_share(len in 4096u64..1 << 22, kib in 1u64..4, passes in 1u64..4) {
            let spec = OffsetSpec { passes: Some(passes), ..spec(len, kib << 10) };
            prop_assert_eq!(all(spec).iter().map(|v| v.len).sum::<u64>(), len * passes);
        }
    }
}
