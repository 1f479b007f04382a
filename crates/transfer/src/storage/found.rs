//! File metadata, directory entries and file systems.

use std::ffi::OsString;
use std::path::Path;

use stormlp_core::facts::Identity;

use crate::error::TransferError;

/// The type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A block device.
    BlockDevice,
    /// A dangling link.
    Nothing,
    /// A link below a held folder, where links are not followed.
    Link,
    /// Something that cannot hold data: a socket, a pipe, a character device.
    Other,
}

/// Metadata of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Its type.
    pub kind: Kind,
    /// Size of a file, or capacity of a device, in bytes.
    pub bytes: u64,
    /// Bytes allocated to a file. Less than its size if it has holes, or if the file system
    /// compresses or packs its data.
    pub allocated_bytes: u64,
    /// The time of the last change (ctime), in nanoseconds since 1970; unlike the modification
    /// time, it cannot be set back.
    pub changed_ns: u64,
    /// The identity of the file within its file system.
    pub identity: Identity,
    /// Whether the name is a link to the file.
    pub link: bool,
    /// The file system: equal for all files that share its space.
    pub file_system_id: u64,
    /// The user who owns it; 0 for objects.
    pub owner: u32,
}

/// The current state of a file recorded in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedState {
    /// The file does not exist.
    Nothing,
    /// The regular file that was recorded, as far as the record identifies it, or an empty one.
    Same(Facts),
    /// Something else (described): it may not have been created by stormlp.
    Other(String),
}

impl RecordedState {
    /// The state of what was `found` of a file recorded with `bytes` and the identity `made`.
    pub(super) fn of(
        found: Result<Option<Facts>, TransferError>,
        bytes: Option<u64>,
        made: Option<Identity>,
    ) -> Result<Self, TransferError> {
        let found = match found {
            // The kernel was never asked, since there is a link on the way.
            Err(error) if error.was_not_asked() => {
                return Ok(Self::Other("behind a link".to_string()));
            }
            found => found?,
        };
        let Some(found) = found else {
            return Ok(Self::Nothing);
        };
        let other_size = bytes.filter(|bytes| *bytes != found.bytes);
        Ok(match other_size {
            _ if found.kind != Kind::File || found.link => Self::Other(found.what().to_string()),
            _ if found.bytes == 0 => Self::Same(found),
            Some(bytes) => Self::Other(format!("a file of {} bytes, not of {bytes}", found.bytes)),
            None if found.is_another(made) => Self::Other(match bytes {
                Some(_) => "another file of the same size".to_string(),
                None => "another file".to_string(),
            }),
            None => Self::Same(found),
        })
    }
}

impl Facts {
    /// The facts of which no more than the type is known.
    pub(super) const fn of(kind: Kind) -> Self {
        Self {
            kind,
            bytes: 0,
            allocated_bytes: 0,
            changed_ns: 0,
            identity: Identity { inode: 0, born_ns: None },
            link: false,
            file_system_id: 0,
            owner: 0,
        }
    }

    /// Whether it is known to differ from the file that was `made`.
    pub fn is_another(&self, made: Option<Identity>) -> bool {
        made.is_some_and(|made| !made.may_be(self.identity))
    }

    /// A description for messages.
    pub fn what(&self) -> &'static str {
        match self.kind {
            _ if self.link => "a link",
            Kind::File => "a file",
            Kind::Folder => "a folder",
            Kind::BlockDevice => "a device",
            Kind::Nothing | Kind::Link => "a link",
            Kind::Other => "a pipe, a socket or a device",
        }
    }
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, without the folder.
    pub name: OsString,
    /// The metadata; of the target if it is a link.
    pub facts: Facts,
}

impl Entry {
    /// The name, if it is valid UTF-8.
    pub fn text(&self) -> Option<&str> {
        self.name.to_str()
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.facts.kind == Kind::File
    }

    /// Whether it is a folder.
    pub fn is_folder(&self) -> bool {
        self.facts.kind == Kind::Folder
    }
}

/// Bytes of the files in one folder: sparse files, and lists of objects, may claim any number.
const MOST_BYTES: u64 = 1 << 53;

/// The entries of a folder whose sizes can be summed up.
pub(super) fn bounded(folder: &Path, entries: Vec<Entry>) -> Result<Vec<Entry>, TransferError> {
    let all = entries.iter().try_fold(0u64, |sum, one| sum.checked_add(one.facts.bytes));
    match all.filter(|bytes| *bytes <= MOST_BYTES) {
        Some(_) => Ok(entries),
        None => {
            let why = "its files have more bytes than any storage";
            Err(TransferError::refused("use the folder", folder, why))
        }
    }
}

/// Space on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes available to unprivileged users.
    pub free_bytes: u64,
    /// Total bytes of the file system.
    pub total_bytes: u64,
}
