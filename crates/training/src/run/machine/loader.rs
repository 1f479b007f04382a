//! What the two kinds of data loader have in common: they turn finished reads into batches.
//!
//! A loader belongs to one accelerator. It decides which reads may be outstanding and in which
//! order batches are handed over; it never touches a file and never looks at a clock. It is told
//! when reads came back, and tells of a batch when the last of them did.

use std::sync::Arc;

use super::Nanos;
use super::interleave::Interleave;
use super::workers::Workers;

/// Where a sequential reader stands in a record file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cursor {
    /// Records already handed over.
    pub record: u64,
    /// Bytes already read from the file's start.
    pub read_to_bytes: u64,
}

/// What one read is to bring; the I/O side knows which file and bytes that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// The n-th sample of this accelerator in this epoch: open, read, close.
    Sample(u64),
    /// The n-th row group of one worker's share of the files.
    Group {
        /// Which worker.
        worker: u32,
        /// Which of its row groups.
        nth: u64,
    },
    /// The next records of the n-th file of this accelerator.
    Records {
        /// Which of its files.
        file: u64,
        /// Where the previous read ended.
        from: Cursor,
    },
}

/// One read a loader wants, with the lane it occupies until it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaneRead {
    /// Worker or stream; one lane never has more reads in flight than its window.
    pub lane: u64,
    /// What to read.
    pub unit: Unit,
}

/// What a finished read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Landed {
    /// Samples that are complete now.
    pub samples: u64,
    /// For [`Unit::Records`]: where the next read of the file starts.
    pub cursor: Cursor,
    /// For [`Unit::Records`]: whether the file is exhausted.
    pub ended: bool,
}

/// How a read came back to its loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Came {
    /// What it brought.
    pub landed: Landed,
    /// False for a read that was started before the current epoch began, or was never started.
    pub fresh: bool,
    /// When.
    pub at: Nanos,
}

/// What came of asking for the next batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetch {
    /// The batch is there and is consumed now.
    Taken {
        /// Since when it is there.
        ready: Nanos,
    },
    /// Its reads are still under way.
    NotReady,
    /// The epoch has no further batch.
    Exhausted,
}

/// What a loader is given for one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Share {
    /// Whole batches this accelerator can make ([`Workers`] in sample order).
    pub batches: u64,
    /// Row groups of each worker ([`Workers`] by row group); else empty.
    pub groups: Vec<RowGroups>,
    /// Files of this accelerator ([`Interleave`]).
    pub files: u64,
}

/// The row groups of files that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowGroups {
    /// Rows of each group of a file.
    pub of_file: Arc<[u64]>,
    /// How many files.
    pub files: usize,
}

impl RowGroups {
    /// How many groups there are.
    pub fn count(&self) -> usize {
        self.of_file.len() * self.files
    }

    /// Rows of all groups.
    pub fn total_rows(&self) -> u64 {
        self.of_file.iter().sum::<u64>() * self.files as u64
    }

    /// Rows of the `nth` group; 0 where there is none.
    pub fn rows(&self, nth: usize) -> u64 {
        if nth < self.count() { self.of_file[nth % self.of_file.len()] } else { 0 }
    }
}

/// A data loader: PyTorch's workers or TensorFlow's interleave.
#[derive(Debug, Clone)]
pub enum Loader {
    /// PyTorch.
    Workers(Workers),
    /// TensorFlow.
    Interleave(Box<Interleave>),
}

impl Loader {
    /// Starts an epoch; reads that may start now are appended to `out`.
    pub fn begin(&mut self, share: &Share, out: &mut Vec<LaneRead>) {
        match self {
            Self::Workers(workers) => workers.begin(share, out),
            Self::Interleave(interleave) => interleave.begin(share, out),
        }
    }

    /// A read came back; reads that may start now are appended to `out`. Returns how many samples
    /// it brought for the current epoch: a batch that is left over is read to its end for nothing.
    pub fn landed(&mut self, read: LaneRead, came: Came, out: &mut Vec<LaneRead>) -> u64 {
        match self {
            Self::Workers(workers) => workers.landed(read, came, out),
            Self::Interleave(interleave) => interleave.landed(read.lane, came, out),
        }
    }

    /// Samples that a read brings of which `landed` came back; of a row group, its rows.
    pub fn samples_of(&self, unit: Unit, landed: Landed) -> u64 {
        match (self, unit) {
            (Self::Workers(workers), Unit::Group { worker, nth }) => {
                workers.rows_of(worker as usize, nth as usize)
            }
            _ => landed.samples,
        }
    }

    /// Whether the next batch may be there, so that it is worth asking for.
    pub fn may_have_batch(&self) -> bool {
        match self {
            Self::Workers(workers) => workers.has_batch(),
            Self::Interleave(_) => true,
        }
    }

    /// Whether reads that were not started when an epoch ended are still to be made.
    pub fn finishes_leftovers(&self) -> bool {
        match self {
            Self::Workers(workers) => workers.finishes_leftovers(),
            Self::Interleave(_) => false,
        }
    }

    /// Hands over the next batch in order, if it is there; reads that its consumption allows
    /// are appended to `out`.
    pub fn fetch(&mut self, out: &mut Vec<LaneRead>) -> Fetch {
        match self {
            Self::Workers(workers) => workers.fetch(out),
            Self::Interleave(interleave) => interleave.fetch(out),
        }
    }

    /// Ends the epoch: what is in flight still lands, what was not started is forgotten or, in
    /// a loader whose workers persist, finished for nothing before the next epoch's reads.
    pub fn end(&mut self) {
        match self {
            Self::Workers(workers) => workers.end(),
            Self::Interleave(interleave) => interleave.end(),
        }
    }
}
