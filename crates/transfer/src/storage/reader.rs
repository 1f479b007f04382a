//! A file as a stream, for small files that are parsed as they are read.

use std::fs::File;
use std::io;
use std::path::Path;

use super::handle::Access;
use super::interface::Storage;
use crate::error::TransferError;

/// Reads a file from its beginning to its end.
pub struct Reader<'a> {
    storage: &'a dyn Storage,
    path: &'a Path,
    file: File,
    offset: u64,
}

impl<'a> Reader<'a> {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// As [`Storage::open`].
    pub fn open(storage: &'a dyn Storage, path: &'a Path) -> Result<Self, TransferError> {
        let file = storage.open(path, Access::Read, false)?;
        Ok(Self { storage, path, file, offset: 0 })
    }
}

impl io::Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.storage.read_at(&self.file, self.path, self.offset, buffer);
        let read = read.map_err(TransferError::into_io)?;
        self.offset += read as u64;
        Ok(read)
    }
}
