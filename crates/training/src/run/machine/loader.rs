//! The two data loaders as one: they turn completed reads into batches.
//!
//! A loader belongs to one accelerator. It decides which reads may be outstanding and the order in
//! which batches are delivered; it never accesses a file or a clock. It receives the completion
//! times of reads, and a batch is ready when its last read has completed.

use super::interleave::Interleave;
use super::reads::{CompletedRead, Fetch, LaneRead, ReadResult, Share, Unit};
use super::workers::Workers;

/// A data loader: PyTorch's workers or TensorFlow's interleave.
#[derive(Debug, Clone)]
pub enum Loader {
    /// PyTorch.
    Workers(Workers),
    /// TensorFlow.
    Interleave(Box<Interleave>),
}

impl Loader {
    /// Starts an epoch; appends reads that may start now to `out`.
    pub fn begin(&mut self, share: &Share, out: &mut Vec<LaneRead>) {
        match self {
            Self::Workers(workers) => workers.begin(share, out),
            Self::Interleave(interleave) => interleave.begin(share, out),
        }
    }

    /// Handles a completed read; appends reads that may start now to `out`. Returns the number of
    /// samples for the current epoch: leftover batches are read to the end but discarded.
    pub fn landed(&mut self, read: LaneRead, came: CompletedRead, out: &mut Vec<LaneRead>) -> u64 {
        match self {
            Self::Workers(workers) => workers.landed(read, came, out),
            Self::Interleave(interleave) => interleave.landed(read.lane, came, out),
        }
    }

    /// Samples of a read that returned `landed`; for a row group, its rows.
    pub fn samples_of(&self, unit: Unit, landed: ReadResult) -> u64 {
        match (self, unit) {
            (Self::Workers(workers), Unit::Group { worker, nth }) => {
                workers.rows_of(worker as usize, nth as usize)
            }
            _ => landed.samples,
        }
    }

    /// Whether the next batch may be ready, so that a fetch is worth trying.
    pub fn may_have_batch(&self) -> bool {
        match self {
            Self::Workers(workers) => workers.has_batch(),
            Self::Interleave(_) => true,
        }
    }

    /// Whether reads not started at the end of an epoch are still performed.
    pub fn finishes_leftovers(&self) -> bool {
        match self {
            Self::Workers(workers) => workers.finishes_leftovers(),
            Self::Interleave(_) => false,
        }
    }

    /// Delivers the next batch in order, if ready; appends reads that its consumption permits to
    /// `out`.
    pub fn fetch(&mut self, out: &mut Vec<LaneRead>) -> Fetch {
        match self {
            Self::Workers(workers) => workers.fetch(out),
            Self::Interleave(interleave) => interleave.fetch(out),
        }
    }

    /// Ends the epoch. Reads in flight still complete. Reads not yet started are dropped or, with
    /// persistent workers, performed and discarded before the next epoch's reads.
    pub fn end(&mut self) {
        match self {
            Self::Workers(workers) => workers.end(),
            Self::Interleave(interleave) => interleave.end(),
        }
    }
}
