//! The on-disk formats: bytes and positions only.
//!
//! A [`Format`] writes a file as a stream of buffers, and finds its way in the framing of a
//! file that lies there. Who moves the bytes, and how, is somebody else's business.

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
mod thrift;

pub use bytes::{OpenFile, ReadAt, Span};
pub use error::FormatError;

use stormlp_transfer::TransferError;

use crate::content::FileContent;
use crate::sizes::SampleShape;

/// One file to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSpec {
    /// Samples in the file.
    pub samples: u64,
    /// The shape of each of them.
    pub shape: SampleShape,
    /// The dataset's nominal shape; tfrecord stores it with every sample, as DLIO does.
    pub nominal: SampleShape,
    /// What fills the samples.
    pub content: FileContent,
}

/// Takes the bytes of one file in order.
pub trait ChunkSink {
    /// A buffer for the next bytes of the file: whole 4 KiB blocks, at a file offset that is a
    /// multiple of 4 KiB. Its contents are unspecified; until it is committed, the same buffer
    /// comes again with what was put there.
    ///
    /// # Errors
    /// When an earlier write failed or the user stopped the run.
    fn buffer(&mut self) -> Result<&mut [u8], SinkError>;

    /// The first `bytes` bytes of the buffer are the next of the file; fewer than all only at
    /// the end of the file.
    ///
    /// # Errors
    /// When writing failed.
    fn commit(&mut self, bytes: usize) -> Result<(), SinkError>;
}

/// Why a sink takes no more.
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
    /// The sink took no more.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The format cannot hold what was asked for.
    #[error("{0}")]
    Format(String),
}

/// Bytes that could only be known at the end, for a place in the first 4 KiB of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// Where they go; `offset + bytes.len()` is at most 4096.
    pub offset: usize,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// What remains to be done after the last buffer of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finish {
    /// Corrections near the start of the file.
    pub patches: Vec<Patch>,
    /// Small files that belong to this one.
    pub side_files: Vec<SideFile>,
}

/// A small file that belongs to a data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideFile {
    /// Where it lies.
    pub place: SidePlace,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// Where a side file lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SidePlace {
    /// Beside the data file, with this appended to its name.
    Suffix(&'static str),
    /// In `index/{train|valid}` of the dataset folder, with this appended to the file's name.
    IndexFolder(&'static str),
}

/// Where the samples of a file lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLayout {
    /// Samples in the file.
    pub samples: u64,
    /// What a reader of single samples finds.
    pub spans: Spans,
}

/// The positions of samples in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spans {
    /// All samples lie interleaved in one stretch, which has to be read whole.
    Interleaved(Span),
    /// Records of one size, one after the other.
    Records {
        /// The payload of the first record.
        first: Span,
        /// Bytes from the start of one payload to that of the next.
        stride: u64,
    },
    /// Each sample, or group of samples, has a place of its own.
    Each(Vec<Span>),
}

impl FileLayout {
    /// Payload bytes of all samples together.
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
    /// The exact size of the file in bytes; `None` where only writing it tells.
    fn file_bytes(&self, file: &FileSpec) -> Option<u64>;

    /// Writes the file.
    ///
    /// # Errors
    /// When the sink takes no more, or the format cannot hold the samples.
    fn encode(&self, file: &FileSpec, sink: &mut dyn ChunkSink) -> Result<Finish, EncodeError>;

    /// Reads the framing of the file `name` and tells where its samples lie.
    ///
    /// # Errors
    /// When the framing is not what the format wants; arbitrary bytes never panic.
    fn inspect(&self, name: &str, source: &mut dyn ReadAt) -> Result<FileLayout, FormatError>;
}

/// More than any file system holds in one file; sums of a few such sizes still fit in 64 bits.
const MAX_PAYLOAD_BYTES: u64 = 1 << 60;

/// Payload bytes of all samples of a file.
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

/// A file that is one sample as a whole.
fn one_sample(name: &str, source: &mut dyn ReadAt) -> Result<FileLayout, FormatError> {
    let bytes = source.file_bytes();
    if bytes == 0 {
        return Err(FormatError::truncated(name, 0, "a sample", 0));
    }
    Ok(FileLayout { samples: 1, spans: Spans::Interleaved(Span { offset: 0, bytes }) })
}

#[cfg(test)]
pub(crate) mod testing;
