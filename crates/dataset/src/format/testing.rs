//! Test helpers common to all formats: an in-memory sink and an in-memory file.

#![allow(clippy::unwrap_used)]

use super::error::FormatError;
use super::{ChunkSink, FileLayout, FileSpec, Finish, Format, SinkError};
use crate::content::{Content, FileContent};
use crate::section::{ElementType, ParquetColumn};
use crate::sizes::SampleShape;

/// Collects a file through buffers of `chunk` bytes.
pub(crate) struct VecSink {
    pub(crate) bytes: Vec<u8>,
    buffer: Vec<u8>,
    ended: bool,
}

impl VecSink {
    pub(crate) fn new(chunk: usize) -> Self {
        Self { bytes: Vec::new(), buffer: vec![0xee; chunk], ended: false }
    }
}

impl ChunkSink for VecSink {
    fn buffer(&mut self) -> Result<&mut [u8], SinkError> {
        assert!(!self.ended, "nothing follows a buffer that was not filled");
        Ok(&mut self.buffer)
    }

    fn commit(&mut self, bytes: usize) -> Result<(), SinkError> {
        self.ended = bytes < self.buffer.len();
        self.bytes.extend_from_slice(&self.buffer[..bytes]);
        Ok(())
    }
}

pub(crate) fn spec(samples: u64, dims: &[u64]) -> FileSpec {
    FileSpec {
        samples,
        shape: SampleShape::of_bytes(dims),
        nominal: SampleShape::of_bytes(dims),
        content: FileContent { kind: Content::Random, seed: 1, file: 2 },
    }
}

/// The whole file with its patches applied, and the remaining finish steps.
pub(crate) fn encode(format: &dyn Format, file: &FileSpec, chunk: usize) -> (Vec<u8>, Finish) {
    let mut sink = VecSink::new(chunk);
    let finish = format.encode(file, &mut sink).unwrap();
    let mut bytes = sink.bytes;
    for patch in &finish.patches {
        assert!(patch.offset + patch.bytes.len() <= 4096);
        bytes[patch.offset..patch.offset + patch.bytes.len()].copy_from_slice(&patch.bytes);
    }
    (bytes, finish)
}

pub(crate) fn inspect(format: &dyn Format, bytes: &[u8]) -> Result<FileLayout, FormatError> {
    let mut source = bytes;
    format.inspect("file", &mut source)
}

/// Asserts that neither truncated nor altered files make the format panic.
pub(crate) fn assert_robust(format: &dyn Format, good: &[u8], at: usize, value: u8, keep: usize) {
    let _ = inspect(format, &good[..keep.min(good.len())]);
    let mut altered = good.to_vec();
    if let Some(byte) = altered.get_mut(at) {
        *byte = value;
    }
    let _ = inspect(format, &altered);
    let _ = inspect(format, &altered[keep.min(altered.len())..]);
}

/// A column that is read.
pub(crate) fn column(name: &str, dtype: ElementType, size: u64) -> ParquetColumn {
    ParquetColumn { name: name.to_string(), dtype, size, read: true }
}
