//! The on-disk formats: only bytes and positions.
//!
//! A [`Format`] writes a file as a stream of buffers, and parses the framing of existing files. How
//! the bytes are moved is handled elsewhere.

mod bytes;
pub mod csv;
mod error;
mod framed;
pub mod hdf5;
pub mod indexed_binary;
pub mod jpeg;
pub mod npy;
pub mod npz;
mod npz_read;
pub mod parquet;
mod parquet_footer;
pub mod png;
pub mod tfrecord;
pub mod tfrecord_scan;

pub use bytes::{OpenFile, ReadAt, Span};
pub use error::FormatError;

use stormlp_transfer::TransferError;

use crate::content::FileContent;
use crate::sizes::SampleShape;

/// A file to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSpec {
    /// Samples in the file.
    pub samples: u64,
    /// The shape of each sample.
    pub shape: SampleShape,
    /// The dataset's nominal shape; tfrecord stores it with every sample, as DLIO does.
    pub nominal: SampleShape,
    /// The content of the samples.
    pub content: FileContent,
}

/// Receives the bytes of one file in order.
pub trait ChunkSink {
    /// A buffer for the next bytes of the file: whole 4 KiB blocks, at a file offset that is a
    /// multiple of 4 KiB. Its contents are unspecified. Until it is committed, repeated calls
    /// return the same buffer with its contents intact.
    ///
    /// # Errors
    /// If an earlier write failed or the user stopped the run.
    fn buffer(&mut self) -> Result<&mut [u8], SinkError>;

    /// Commits the first `bytes` bytes of the buffer as the next of the file. Only the end of the
    /// file may commit less than the whole buffer.
    ///
    /// # Errors
    /// If writing failed.
    fn commit(&mut self, bytes: usize) -> Result<(), SinkError>;
}

/// Why a sink stopped accepting data.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The user stopped the run.
    #[error("stopped")]
    Stopped,
    /// Writing failed.
    #[error(transparent)]
    Io(#[from] TransferError),
}

/// Why a file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The sink stopped accepting data.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The format cannot hold the requested samples.
    #[error("{0}")]
    Format(String),
}

/// Bytes that are only known at the end, for an offset in the first 4 KiB of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// Their offset; `offset + bytes.len()` is at most 4096.
    pub offset: usize,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The work that remains after the last buffer of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finish {
    /// Corrections near the start of the file.
    pub patches: Vec<Patch>,
    /// Small files that belong to this file.
    pub side_files: Vec<SideFile>,
}

/// A small file that belongs to a data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideFile {
    /// Its location.
    pub place: SidePlace,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Location of a side file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SidePlace {
    /// Next to the data file, with this appended to its name.
    Suffix(&'static str),
    /// In `index/{train|valid}` of the dataset folder, with this appended to the file's name.
    IndexFolder(&'static str),
}

/// The positions of the samples in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLayout {
    /// Samples in the file.
    pub samples: u64,
    /// The ranges for a reader of individual samples.
    pub spans: Spans,
}

/// The positions of samples in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spans {
    /// All samples are interleaved in one range, which must be read as a whole.
    Interleaved(Span),
    /// Consecutive records of equal size.
    Records {
        /// The payload of the first record.
        first: Span,
        /// Bytes from the start of one payload to the start of the next.
        stride: u64,
    },
    /// Each sample, or group of samples, has a range.
    Each(Vec<Span>),
}

impl FileLayout {
    /// Total payload bytes of all samples.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        match &self.spans {
            Spans::Interleaved(span) => span.bytes,
            Spans::Records { first, .. } => first.bytes.saturating_mul(self.samples),
            Spans::Each(spans) => {
                spans.iter().fold(0, |sum: u64, span| sum.saturating_add(span.bytes))
            }
        }
    }
}

/// One on-disk format.
pub trait Format: Send + Sync {
    /// The exact size of the file in bytes; `None` if it is only known after writing.
    fn file_bytes(&self, file: &FileSpec) -> Option<u64>;

    /// Writes the file.
    ///
    /// # Errors
    /// If the sink stops accepting data, or the format cannot hold the samples.
    fn encode(&self, file: &FileSpec, sink: &mut dyn ChunkSink) -> Result<Finish, EncodeError>;

    /// Reads the framing of the file `name` and returns the positions of its samples.
    ///
    /// # Errors
    /// If the framing violates the format; arbitrary bytes never cause a panic.
    fn inspect(&self, name: &str, source: &mut dyn ReadAt) -> Result<FileLayout, FormatError>;
}

/// More than any file system supports in one file; sums of a few such sizes still fit in 64 bits.
const MAX_PAYLOAD_BYTES: u64 = 1 << 60;

/// Total payload bytes of the samples in a file.
pub(crate) fn total_payload(file: &FileSpec) -> Result<u64, EncodeError> {
    let sample_bytes = file.shape.bytes();
    sample_bytes.checked_mul(file.samples).filter(|bytes| *bytes <= MAX_PAYLOAD_BYTES).ok_or_else(
        || {
            EncodeError::Format(format!(
                "{} samples of {sample_bytes} bytes do not fit in one file: \
                 lower num_samples_per_file or record_length_bytes",
                file.samples
            ))
        },
    )
}

/// A file that is a single sample.
fn one_sample(name: &str, source: &mut dyn ReadAt) -> Result<FileLayout, FormatError> {
    let bytes = source.file_bytes();
    if bytes == 0 {
        return Err(FormatError::truncated(name, 0, "a sample", 0));
    }
    Ok(FileLayout { samples: 1, spans: Spans::Interleaved(Span { offset: 0, bytes }) })
}

#[cfg(test)]
pub(crate) mod testing;
