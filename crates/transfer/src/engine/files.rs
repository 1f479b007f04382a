//! The table of files attached to an engine; free entries are reused.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};

use crate::error::TransferError;
use crate::transfer::FileId;

/// Files by number.
#[derive(Debug)]
pub(crate) struct AttachedFiles {
    files: Vec<Option<File>>,
    free: Vec<u32>,
}

impl AttachedFiles {
    pub(crate) fn new(max_files: usize) -> Self {
        let max_files = u32::try_from(max_files).unwrap_or(u32::MAX);
        Self { files: (0..max_files).map(|_| None).collect(), free: (0..max_files).rev().collect() }
    }

    pub(crate) fn insert(&mut self, file: File) -> Result<FileId, TransferError> {
        let full = || io::Error::other("its table of files is full");
        let index = (self.free.pop().ok_or_else(full))
            .map_err(TransferError::io("attach a file to an engine"))?;
        self.files[index as usize] = Some(file);
        Ok(FileId(index))
    }

    /// Removes a file.
    pub(crate) fn remove(&mut self, id: FileId) -> Option<File> {
        let file = self.files[id.0 as usize].take();
        if file.is_some() {
            self.free.push(id.0);
        }
        file
    }

    /// The file's descriptor.
    ///
    /// # Panics
    /// When the file was never attached or has been detached: the caller holds a stale id.
    pub(crate) fn fd(&self, id: FileId) -> RawFd {
        self.get(id).as_raw_fd()
    }

    /// The file itself.
    ///
    /// # Panics
    /// As [`Self::fd`].
    pub(crate) fn get(&self, id: FileId) -> &File {
        self.files[id.0 as usize].as_ref().expect("an attached file")
    }
}
