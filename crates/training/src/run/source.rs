//! Which bytes a read is: the seam between the loaders, which count samples, and the files.

use std::path::PathBuf;

use stormlp_dataset::format::Span;

use super::error::TrainError;
use super::machine::{Cursor, Landed, ReadRequest};
use super::requests::Requests;

/// The stretches of one read, in the order in which they are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extents {
    /// One stretch.
    One(Span),
    /// Several, as the columns of a row group.
    Many(Vec<Span>),
    /// A file of so many bytes, in the reads of a library.
    File(Requests, u64),
}

impl Extents {
    /// The `nth` stretch.
    pub fn nth(&self, nth: usize) -> Option<Span> {
        match self {
            Self::One(extent) => (nth == 0).then_some(*extent),
            Self::Many(extents) => extents.get(nth).copied(),
            Self::File(requests, file_bytes) => requests.nth(nth, *file_bytes),
        }
    }
}

/// What of a file is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reads {
    /// Stretches that are known beforehand.
    Known {
        /// The stretches in order.
        extents: Extents,
        /// Whether more reads of this lane go to the same file, so that it stays open.
        keep_open: bool,
        /// What the read brings once all of it is there.
        landed: Landed,
    },
    /// The next records of a record file: as many reads in a row as it takes until at least one
    /// record is whole. Their headers say where they end.
    Records {
        /// Where the previous read ended.
        from: Cursor,
        /// Bytes of one read; under direct I/O a multiple of 4096.
        transfer_bytes: u64,
    },
}

/// What an I/O thread is to do for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPlan {
    /// Number of the file.
    pub file: usize,
    /// What to read of it.
    pub reads: Reads,
    /// What is looked at in the bytes that come.
    pub framing: Option<Framing>,
}

/// Headers at known places of whole files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// A zip's first member with numpy's header in it, and the zip's directory.
    Npz,
    /// numpy's header.
    Npy,
}

/// A file of the dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    /// Where it lies.
    pub path: PathBuf,
    /// How long it is; a file of another length at the time of the run is an error.
    pub bytes: u64,
}

/// A dataset in the order of one epoch.
pub trait Source: Send + Sync {
    /// The files by number.
    fn files(&self) -> &[DataFile];

    /// What a request stands for.
    ///
    /// # Errors
    /// When the framing that tells it cannot be read or is corrupt.
    fn plan(&self, request: &ReadRequest) -> Result<ReadPlan, TrainError>;
}
