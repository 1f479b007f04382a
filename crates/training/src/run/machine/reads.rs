//! Reads, batches and shares of an epoch, as loaders and those who drive them tell each other.

use std::sync::Arc;

use super::queue::Nanos;

/// Position of a sequential reader in a record file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cursor {
    /// Records already delivered.
    pub record: u64,
    /// Bytes already read from the file's start.
    pub read_to_bytes: u64,
}

/// The content of one read; the I/O side maps it to file and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// The n-th sample of this accelerator in this epoch: open, read, close.
    Sample(u64),
    /// The n-th row group of one worker's share of the files.
    Group {
        /// The worker.
        worker: u32,
        /// The index among its row groups.
        nth: u64,
    },
    /// The next records of the n-th file of this accelerator.
    Records {
        /// The index among its files.
        file: u64,
        /// Where the previous read ended.
        from: Cursor,
    },
}

/// A read requested by a loader, with the lane it occupies until it completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaneRead {
    /// Worker or stream; a lane never has more reads in flight than its window.
    pub lane: u64,
    /// What to read.
    pub unit: Unit,
}

/// The result of a completed read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadResult {
    /// Samples completed by this read.
    pub samples: u64,
    /// For [`Unit::Records`]: where the next read of the file starts.
    pub cursor: Cursor,
    /// For [`Unit::Records`]: whether the file is exhausted.
    pub ended: bool,
}

/// The completion of a read, as passed to its loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompletedRead {
    /// The result of the read.
    pub landed: ReadResult,
    /// False for a read that was started before the current epoch, or never started.
    pub fresh: bool,
    /// Time of completion.
    pub at: Nanos,
}

/// The result of fetching the next batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetch {
    /// The batch was ready and is now consumed.
    Taken {
        /// When it became ready.
        ready: Nanos,
    },
    /// Its reads are still in progress.
    NotReady,
    /// The epoch has no more batches.
    Exhausted,
}

/// A loader's share of one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Share {
    /// Whole batches for this accelerator ([`Workers`](super::Workers) in sample order).
    pub batches: u64,
    /// Row groups per worker ([`Workers`](super::Workers) by row group); otherwise empty.
    pub groups: Vec<RowGroups>,
    /// Files of this accelerator ([`Interleave`](super::Interleave)).
    pub files: u64,
}

/// The row groups of identical files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowGroups {
    /// Rows of each group in a file.
    pub of_file: Arc<[u64]>,
    /// Number of files.
    pub files: usize,
}

impl RowGroups {
    /// Number of groups.
    pub fn count(&self) -> usize {
        self.of_file.len() * self.files
    }

    /// Total rows of all groups.
    pub fn total_rows(&self) -> u64 {
        self.of_file.iter().sum::<u64>() * self.files as u64
    }

    /// Rows of the `nth` group; 0 if there is none.
    pub fn rows(&self, nth: usize) -> u64 {
        if nth < self.count() { self.of_file[nth % self.of_file.len()] } else { 0 }
    }
}
