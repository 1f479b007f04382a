//! Handles that a path can be attached to: an open file, or an object.

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::object::{Client, ObjectFacts, Upload};

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read an existing file.
    Read,
    /// Read and write an existing file.
    ReadWrite,
    /// Read and write a new file; an older file of that name is removed, and anything but a
    /// regular file is an error.
    Create,
}

/// The guarantee that a replaced small file survives a crash in its new form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Guaranteed: its folder is synced too.
    Certain,
    /// It is complete, though possibly the old version.
    Whole,
    /// It may be lost or truncated, like a file that is cheap to recreate.
    Unsynced,
}

/// An open file or object.
#[derive(Debug)]
pub enum Handle {
    /// A file.
    File(File),
    /// An object.
    Object(OpenObject),
}

impl Handle {
    /// Another handle of the same file or object.
    ///
    /// # Errors
    /// When the process may not open more files.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::File(file) => file.try_clone().map(Self::File),
            Self::Object(object) => Ok(Self::Object(object.clone())),
        }
    }

    /// The size of an object that is being read; `None` of anything else.
    pub fn object_bytes(&self) -> Option<u64> {
        match self {
            Self::File(_) => None,
            Self::Object(object) => object.bytes(),
        }
    }
}

/// An object that transfers read or write.
#[derive(Debug, Clone)]
pub struct OpenObject {
    pub(crate) client: Arc<Client>,
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) mode: ObjectMode,
}

/// The use that transfers make of an object. Objects cannot be changed in place, so there are three
/// ways.
#[derive(Debug, Clone)]
pub(crate) enum ObjectMode {
    /// Ranged GETs of the object that was there when it was opened.
    Read(ObjectFacts),
    /// Each write is a PUT of a separate object, below the key.
    Puts,
    /// Each write is a part of an upload.
    Upload(Arc<Upload>),
}

impl From<File> for Handle {
    fn from(file: File) -> Self {
        Self::File(file)
    }
}

impl OpenObject {
    /// The size of the object, if it is being read.
    pub fn bytes(&self) -> Option<u64> {
        match &self.mode {
            ObjectMode::Read(facts) => Some(facts.bytes),
            ObjectMode::Puts | ObjectMode::Upload(_) => None,
        }
    }

    /// The upload, if the object is being created.
    pub fn upload(&self) -> Option<Arc<Upload>> {
        match &self.mode {
            ObjectMode::Upload(upload) => Some(Arc::clone(upload)),
            ObjectMode::Read(_) | ObjectMode::Puts => None,
        }
    }
}

/// The key of the object that a write of `len` bytes at `offset` makes below `key`.
pub(crate) fn put_key(key: &str, offset: u64, len: u64) -> String {
    format!("{key}{PUTS}{}", offset / len.max(1))
}

/// The text between the key of a file and the numbers of the objects that were put for it.
pub const PUTS: &str = ".put/";
