//! cuFile's own counters: operations by route.
//!
//! Level 3 counts for each GPU the transfers over PCI peer-to-peer DMA, through nvidia-fs and
//! through POSIX calls; level 1 inside it counts all reads, writes and batch entries. The
//! structure grew between versions (fields for vectored calls, from 1.19), so it is read as words
//! from a buffer larger than any known layout.

use super::version::LibraryVersion;

/// Buffer size for the statistics; the newest known layout takes 5112 bytes.
const BUFFER_BYTES: usize = 32 << 10;
const BUFFER_WORDS: usize = BUFFER_BYTES / 8;

/// Number of GPUs in level 3.
const MAX_GPUS: usize = 16;
/// Words per GPU in level 3.
const GPU_WORDS: usize = 31;
/// Words of the two histograms that level 2 adds to level 1.
const HISTOGRAM_WORDS: usize = 64;

/// Word offsets in level 1.
mod level_1 {
    pub(super) const READS: usize = 0;
    pub(super) const READ_ERRORS: usize = 1;
    pub(super) const WRITES: usize = 2;
    pub(super) const WRITE_ERRORS: usize = 3;
    pub(super) const BATCH_POSIX_ENQUEUED: usize = 34;
    pub(super) const BATCH_NVFS: usize = 40;
    pub(super) const BATCH_P2P: usize = 42;
    pub(super) const BATCH_AIO: usize = 44;
    pub(super) const BATCH_URING: usize = 46;
    pub(super) const BATCH_TOTAL: usize = 50;
}

/// Word offsets in one GPU's part: reads first, writes 13 words later.
mod gpu {
    pub(super) const P2P_READS: usize = 7;
    pub(super) const NVFS_READS: usize = 8;
    pub(super) const POSIX_READS: usize = 9;
    pub(super) const WRITES_AFTER_READS: usize = 13;
}

/// A buffer for the statistics that meets the library's requirements: zeroed, aligned, large
/// enough.
pub(super) struct RawStatistics(Box<[u64; BUFFER_WORDS]>);

impl RawStatistics {
    pub(super) fn new() -> Self {
        Self(Box::new([0; BUFFER_WORDS]))
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut std::ffi::c_void {
        self.0.as_mut_ptr().cast()
    }
}

/// The counts of cuFile in this process so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouteCounters {
    /// Successful reads, excluding batches.
    pub reads: u64,
    /// Successful writes, excluding batches.
    pub writes: u64,
    /// Failed reads and writes, excluding batches.
    pub errors: u64,
    /// Reads and writes of GPU memory over PCI peer-to-peer DMA.
    pub p2p: u64,
    /// Reads and writes of GPU memory through the nvidia-fs driver.
    pub nvfs: u64,
    /// Reads and writes of GPU memory through POSIX calls.
    pub posix: u64,
    /// Submitted batch entries.
    pub batch_entries: u64,
    /// Batch entries over PCI peer-to-peer DMA.
    pub batch_p2p: u64,
    /// Batch entries through the nvidia-fs driver.
    pub batch_nvfs: u64,
    /// Batch entries through POSIX calls or Linux AIO, which the documentation calls compatibility
    /// mode.
    pub batch_posix: u64,
    /// Batch entries through io_uring, which may move either way: the documentation does not say.
    pub batch_uring: u64,
}

impl RouteCounters {
    /// Parses what the library of `version` wrote; `None` if the layout is unexpected.
    pub(super) fn read(raw: &RawStatistics, version: LibraryVersion) -> Option<Self> {
        let words = &raw.0[..];
        let level_1_words = if version.counts_vectored() { 78 } else { 64 };
        let gpus_at = level_1_words + HISTOGRAM_WORDS;
        // A 32-bit count followed by four bytes of padding.
        let gpus = words[gpus_at] & u64::from(u32::MAX);
        if gpus > MAX_GPUS as u64 {
            return None;
        }
        let sum = |field: usize| -> u64 {
            (0..MAX_GPUS)
                .map(|index| gpus_at + 1 + index * GPU_WORDS + field)
                .map(|read| words[read].saturating_add(words[read + gpu::WRITES_AFTER_READS]))
                .fold(0, u64::saturating_add)
        };
        let batch_posix = [level_1::BATCH_POSIX_ENQUEUED, level_1::BATCH_AIO];
        Some(Self {
            reads: words[level_1::READS],
            writes: words[level_1::WRITES],
            errors: words[level_1::READ_ERRORS].saturating_add(words[level_1::WRITE_ERRORS]),
            p2p: sum(gpu::P2P_READS),
            nvfs: sum(gpu::NVFS_READS),
            posix: sum(gpu::POSIX_READS),
            batch_entries: words[level_1::BATCH_TOTAL],
            batch_p2p: words[level_1::BATCH_P2P],
            batch_nvfs: words[level_1::BATCH_NVFS],
            batch_posix: batch_posix.iter().map(|word| words[*word]).fold(0, u64::saturating_add),
            batch_uring: words[level_1::BATCH_URING],
        })
    }

    /// The counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
            errors: self.errors.saturating_sub(earlier.errors),
            p2p: self.p2p.saturating_sub(earlier.p2p),
            nvfs: self.nvfs.saturating_sub(earlier.nvfs),
            posix: self.posix.saturating_sub(earlier.posix),
            batch_entries: self.batch_entries.saturating_sub(earlier.batch_entries),
            batch_p2p: self.batch_p2p.saturating_sub(earlier.batch_p2p),
            batch_nvfs: self.batch_nvfs.saturating_sub(earlier.batch_nvfs),
            batch_posix: self.batch_posix.saturating_sub(earlier.batch_posix),
            batch_uring: self.batch_uring.saturating_sub(earlier.batch_uring),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(version: LibraryVersion) -> RouteCounters {
        let level_1_words = if version.counts_vectored() { 78 } else { 64 };
        let mut raw = RawStatistics::new();
        raw.0[0] = 5;
        raw.0[2] = 3;
        (raw.0[44], raw.0[46]) = (8, 5);
        let gpus_at = level_1_words + 64;
        raw.0[gpus_at] = 0xdead_beef_0000_0002;
        for (gpu, word, value) in [(0, 7, 1), (1, 8, 2), (1, 9, 3), (1, 20, 10), (15, 22, 40)] {
            raw.0[gpus_at + 1 + gpu * 31 + word] = value;
        }
        RouteCounters::read(&raw, version).unwrap()
    }

    #[test]
    fn an_impossible_layout_is_rejected() {
        let mut raw = RawStatistics::new();
        raw.0[142] = 17;
        let version = LibraryVersion::from_number(1190);
        assert_eq!(RouteCounters::read(&raw, version), None);
    }

    #[test]
    fn counters_are_read_from_either_layout() {
        for number in [1150, 1190] {
            let counters = statistics(LibraryVersion::from_number(number));
            assert_eq!((counters.reads, counters.writes), (5, 3));
            assert_eq!((counters.p2p, counters.nvfs, counters.posix), (11, 2, 43));
            assert_eq!((counters.batch_posix, counters.batch_uring), (8, 5));
        }
    }

    #[test]
    fn only_events_since_the_start_are_counted() {
        let earlier = statistics(LibraryVersion::from_number(1160));
        let mut later = earlier;
        later.posix += 7;
        assert_eq!(later.since(&earlier).posix, 7);
        assert_eq!(later.since(&earlier).reads, 0);
    }
}
