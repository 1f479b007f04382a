//! Maps reads to bytes: the interface between the loaders, which count samples, and the files.

use std::path::PathBuf;

use stormlp_dataset::format::Span;

use super::error::TrainError;
use super::machine::{Cursor, ReadRequest, ReadResult};
use super::requests::Requests;

/// The extents of one read, in read order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extents {
    /// One extent.
    One(Span),
    /// Several extents, such as the columns of a row group.
    Many(Vec<Span>),
    /// A file of this many bytes, in the reads of a library.
    File(Requests, u64),
}

impl Extents {
    /// The `nth` extent.
    pub fn nth(&self, nth: usize) -> Option<Span> {
        match self {
            Self::One(extent) => (nth == 0).then_some(*extent),
            Self::Many(extents) => extents.get(nth).copied(),
            Self::File(requests, file_bytes) => requests.nth(nth, *file_bytes),
        }
    }
}

/// What to read from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reads {
    /// Extents known in advance.
    Known {
        /// The extents in order.
        extents: Extents,
        /// Whether later reads of this lane use the same file, so that it stays open.
        keep_open: bool,
        /// The result of the read once it is complete.
        landed: ReadResult,
    },
    /// The next records of a record file: sequential reads until at least one record is complete.
    /// Their headers give their lengths.
    Records {
        /// Where the previous read ended.
        from: Cursor,
        /// Bytes per read; under direct I/O a multiple of 4096.
        transfer_bytes: u64,
    },
}

/// The work of an I/O thread for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPlan {
    /// Index of the file.
    pub file: usize,
    /// What to read from it.
    pub reads: Reads,
    /// What to validate in the data.
    pub framing: Option<Framing>,
}

/// Headers at known positions of whole files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// A zip's first member with its numpy header, and the zip's directory.
    Npz,
    /// numpy's header.
    Npy,
}

/// A file of the dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    /// Its path.
    pub path: PathBuf,
    /// Its length; a different length during the run is an error.
    pub bytes: u64,
}

/// A dataset in the order of one epoch.
pub trait Source: Send + Sync {
    /// The files by index.
    fn files(&self) -> &[DataFile];

    /// The read plan of a request.
    ///
    /// # Errors
    /// When the framing that locates it cannot be read or is corrupt.
    fn plan(&self, request: &ReadRequest) -> Result<ReadPlan, TrainError>;
}
