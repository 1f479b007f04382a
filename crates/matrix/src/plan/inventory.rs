//! What is there before a matrix runs: the folders and files it names, as a scan found them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::manifest::DataManifest;
use stormlp_core::facts::{Availability, FoundFile};
use stormlp_core::machine::DeviceClaims;

/// What a path on disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// Nothing is there yet.
    Missing,
    /// A regular file.
    Regular,
    /// A block device.
    BlockDevice,
    /// Something transfers cannot end in: a folder, a socket, a character device.
    Other,
}

/// Something in a data folder that no matrix may use: a link, a pipe, a folder, or a file that
/// somebody put in the place of one of stormlp's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherFile {
    /// Its name in the folder.
    pub name: String,
    /// What it is.
    pub what: String,
}

/// A data folder, existing or about to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FolderFacts {
    /// The folder, as it was given.
    pub path: PathBuf,
    /// Whether it is there.
    pub exists: bool,
    /// Whether files can be made in it, or it can be made.
    pub writable: Availability,
    /// What an ordinary user may still write, in bytes.
    pub free_bytes: u64,
    /// An identity of the file system, equal for folders that share its space.
    pub file_system_id: u64,
    /// Type of the file system: `xfs`, `tmpfs`.
    pub file_system: Option<String>,
    /// Whether files here can be opened with `O_DIRECT`.
    pub direct: Availability,
    /// What offsets and sizes must be multiples of for `O_DIRECT`, in bytes.
    pub direct_alignment_bytes: u64,
    /// What a manifest says stormlp made here.
    pub manifest: Option<DataManifest>,
    /// Why the manifest in this folder cannot be used: it is malformed, newer, or another
    /// command's. `None` when there is none, or a good one.
    pub manifest_problem: Option<String>,
    /// The regular files in it.
    pub files: Vec<FoundFile>,
    /// How many bytes of those that the manifest lists lie in holes, by their names.
    pub hole_bytes: BTreeMap<String, u64>,
    /// The names of those that have the size that the manifest says and are not the files that were
    /// made: copies of them, which may be read, or files of somebody's own.
    pub copies: Vec<String>,
    /// What else lies in it.
    pub others: Vec<OtherFile>,
}

/// A file or device that was named outright.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileFacts {
    /// The file, as it was given.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// Its size in bytes; a device's capacity.
    pub bytes: u64,
    /// How many of its bytes lie in holes, for which no device has data.
    pub hole_bytes: u64,
    /// Whether it can be read (or, when missing, made).
    pub readable: Availability,
    /// Whether it can be written.
    pub writable: Availability,
    /// What an ordinary user may still write to its file system, in bytes.
    pub free_bytes: u64,
    /// An identity of the file system, equal for files that share its space.
    pub file_system_id: u64,
    /// Type of the file system it lies on: `xfs`, `tmpfs`; `None` for a device.
    pub file_system: Option<String>,
    /// Whether it can be opened with `O_DIRECT`.
    pub direct: Availability,
    /// What offsets and sizes must be multiples of for `O_DIRECT`, in bytes.
    pub direct_alignment_bytes: u64,
    /// Whether it holds the pattern that the request compares with, in at least half of the places
    /// that were examined; `None` if not requested.
    pub holds_pattern: Option<bool>,
    /// Who uses it as a block device, and what lies on one; `None` for what is neither file nor
    /// device.
    pub claims: Option<DeviceClaims>,
}

/// What a scan of the folders and files of a request found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetInventory {
    /// One for each folder of the request.
    pub folders: Vec<FolderFacts>,
    /// One for each file of the request.
    pub files: Vec<FileFacts>,
}

impl TargetInventory {
    /// The facts of a folder of the request.
    pub fn folder(&self, path: &Path) -> Option<&FolderFacts> {
        self.folders.iter().find(|folder| folder.path == path)
    }

    /// The facts of a file of the request.
    pub fn file(&self, path: &Path) -> Option<&FileFacts> {
        self.files.iter().find(|file| file.path == path)
    }
}
