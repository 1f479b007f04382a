//! Reading framing: the file as a source of bytes, and a window of a file that returns errors
//! instead of panics.

use std::io;
use std::path::{Path, PathBuf};

use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Access, Handle, Storage};

use super::error::FormatError;

/// A byte range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl Span {
    /// Offset after the last byte.
    #[must_use]
    pub fn end(self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// A file that framing can be read from.
pub trait ReadAt {
    /// The size of the file in bytes.
    fn file_bytes(&self) -> u64;

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// If the file is too short or cannot be read.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for &[u8] {
    fn file_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let end = start.checked_add(buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        let source = self.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(source);
        Ok(())
    }
}

/// Bytes read at once of an object, where a request costs more than these do.
const AHEAD_BYTES: u64 = 1 << 20;

/// An open file or object and its size.
pub struct OpenFile<'a> {
    storage: &'a dyn Storage,
    path: PathBuf,
    file: Handle,
    bytes: u64,
    /// Bytes of an object that were read ahead, and their offset.
    ahead: (u64, Vec<u8>),
}

impl<'a> OpenFile<'a> {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// If it cannot be opened or is not a regular file: opening a pipe would block until someone
    /// writes to it.
    pub fn open(storage: &'a dyn Storage, path: &Path) -> Result<Self, TransferError> {
        let bytes = storage.regular_file(path)?;
        Ok(Self {
            storage,
            path: path.to_path_buf(),
            file: storage.handle(path, Access::Read, false)?,
            bytes,
            ahead: (0, Vec::new()),
        })
    }

    fn read_through(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            let (at, rest) = (offset + filled as u64, &mut buffer[filled..]);
            let read = self.storage.read_from(&self.file, &self.path, at, rest);
            match read.map_err(TransferError::into_io)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        Ok(())
    }
}

impl ReadAt for OpenFile<'_> {
    fn file_bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let wanted = buffer.len() as u64;
        if matches!(self.file, Handle::File(_)) || wanted >= AHEAD_BYTES {
            return self.read_through(offset, buffer);
        }
        if offset < self.ahead.0 || offset + wanted > self.ahead.0 + self.ahead.1.len() as u64 {
            let bytes = AHEAD_BYTES.min(self.bytes.saturating_sub(offset));
            let mut ahead = vec![0; bytes as usize];
            self.read_through(offset, &mut ahead)?;
            self.ahead = (offset, ahead);
        }
        (&self.ahead.1[..]).read_at(offset - self.ahead.0, buffer)
    }
}

/// Reads `span` of the file; an error if the file is too short.
pub(crate) fn read_span(
    name: &str,
    source: &mut dyn ReadAt,
    span: Span,
    what: &str,
) -> Result<Vec<u8>, FormatError> {
    let file_bytes = source.file_bytes();
    if span.end() > file_bytes {
        return Err(FormatError::truncated(name, span.offset, what, file_bytes));
    }
    let mut buffer = vec![0; span.bytes as usize];
    source.read_at(span.offset, &mut buffer).map_err(|source| FormatError::Read {
        file: name.to_string(),
        offset: span.offset,
        source,
    })?;
    Ok(buffer)
}

/// Bytes of a file starting at `offset`, with little-endian fields.
#[derive(Clone, Copy)]
pub(crate) struct ByteWindow<'a> {
    pub(crate) name: &'a str,
    pub(crate) offset: u64,
    pub(crate) bytes: &'a [u8],
}

impl<'a> ByteWindow<'a> {
    pub(crate) fn new(name: &'a str, offset: u64, bytes: &'a [u8]) -> Self {
        Self { name, offset, bytes }
    }

    /// The `len` bytes at `at`, relative to the window's start.
    pub(crate) fn take(&self, at: usize, len: usize, what: &str) -> Result<&'a [u8], FormatError> {
        at.checked_add(len).and_then(|end| self.bytes.get(at..end)).ok_or_else(|| {
            FormatError::truncated(
                self.name,
                self.offset.saturating_add(at as u64),
                what,
                self.offset.saturating_add(self.bytes.len() as u64),
            )
        })
    }

    pub(crate) fn u16(&self, at: usize, what: &str) -> Result<u16, FormatError> {
        let bytes = self.take(at, 2, what)?;
        Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    pub(crate) fn u32(&self, at: usize, what: &str) -> Result<u32, FormatError> {
        let bytes = self.take(at, 4, what)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    pub(crate) fn u64(&self, at: usize, what: &str) -> Result<u64, FormatError> {
        let low = u64::from(self.u32(at, what)?);
        let high = u64::from(self.u32(at + 4, what)?);
        Ok(high << 32 | low)
    }

    /// Fails unless the bytes at `at` equal `expected`.
    pub(crate) fn expect(&self, at: usize, expected: &[u8], what: &str) -> Result<(), FormatError> {
        let found = self.take(at, expected.len(), what)?;
        if found == expected {
            return Ok(());
        }
        Err(self.wrong(at, format!("{what} ({})", hex(expected)), hex(found)))
    }

    /// An error about the bytes at `at`.
    pub(crate) fn wrong(
        &self,
        at: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        FormatError::unexpected(self.name, self.offset.saturating_add(at as u64), expected, found)
    }
}

/// Bytes in readable form.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(" ")
}
