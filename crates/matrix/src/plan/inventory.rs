//! The initial state of a matrix's folders and files, as found by a scan.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::manifest::{DataManifest, ListedFile};
use super::matrix_plan::FilePlan;
use stormlp_core::facts::{Availability, FoundFile};
use stormlp_core::machine::DeviceContent;

/// The type of a path on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// The path does not exist.
    Missing,
    /// A regular file.
    Regular,
    /// A block device.
    BlockDevice,
    /// Anything that transfers cannot use: a folder, a socket, a character device.
    Other,
}

/// The file system at a folder or file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetPlace {
    /// Whether the file can be written; whether files can be created in the folder.
    pub writable: Availability,
    /// Free space for an unprivileged user, in bytes; `None` if the storage does not tell.
    pub free_bytes: Option<u64>,
    /// File system identity, equal for places that share its space.
    pub file_system_id: u64,
    /// File system type: `xfs`, `tmpfs`; `None` for a device.
    pub file_system: Option<String>,
    /// Whether files here can be opened with `O_DIRECT`.
    pub direct: Availability,
    /// Required alignment of offsets and sizes for `O_DIRECT`, in bytes.
    pub direct_alignment_bytes: u64,
}

/// A data folder, existing or to be created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetFolder {
    /// The folder as given.
    pub path: PathBuf,
    /// Whether it exists.
    pub exists: bool,
    /// Its file system.
    pub place: TargetPlace,
    /// The manifest of the files stormlp created here.
    pub manifest: Option<DataManifest>,
    /// Why the manifest in this folder cannot be used: it is malformed, newer, or another
    /// command's. `None` if it is valid or missing.
    pub manifest_problem: Option<String>,
    /// The regular files in it.
    pub files: Vec<FoundFile>,
    /// Bytes in holes of each file listed in the manifest, by name.
    pub hole_bytes: BTreeMap<String, u64>,
    /// Files with a size that matches the manifest but which are not the created files: copies,
    /// which may be read, or user files.
    pub copies: Vec<String>,
    /// Its other entries, by name: links, pipes, folders, and files that replaced stormlp's.
    pub others: BTreeMap<String, String>,
}

impl TargetFolder {
    /// A folder without files.
    pub fn empty(path: PathBuf, exists: bool, place: TargetPlace) -> Self {
        Self {
            path,
            exists,
            place,
            manifest: None,
            manifest_problem: None,
            files: Vec::new(),
            hole_bytes: BTreeMap::new(),
            copies: Vec::new(),
            others: BTreeMap::new(),
        }
    }

    /// The size of a regular file in it, in bytes.
    pub(super) fn found_bytes(&self, name: &str) -> Option<u64> {
        self.files.iter().find(|file| file.name == name).map(|file| file.bytes)
    }

    /// The manifest's entry of a file.
    pub(super) fn listed(&self, name: &str) -> Option<&ListedFile> {
        self.manifest.as_ref()?.file(name)
    }
}

/// An explicitly named file or device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileFacts {
    /// The file as given.
    pub path: PathBuf,
    /// Its type.
    pub kind: FileKind,
    /// Its size in bytes; a device's capacity.
    pub bytes: u64,
    /// Bytes in holes, for which no device holds data.
    pub hole_bytes: u64,
    /// Whether stormlp created it, by its mark; `false` also where the file system keeps none.
    pub marked: bool,
    /// Whether it can be read or, if missing, created.
    pub readable: Availability,
    /// Its file system.
    pub place: TargetPlace,
    /// Whether at least half of the sampled places hold the pattern to compare with; `None` if no
    /// comparison was requested.
    pub holds_pattern: Option<bool>,
    /// The content of a block device that is to be overwritten.
    pub device: Option<DeviceContent>,
}

/// Results of scanning the folders and files of a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetInventory {
    /// One entry for each folder of the request.
    pub folders: Vec<TargetFolder>,
    /// One entry for each file of the request.
    pub files: Vec<FileFacts>,
}

impl TargetInventory {
    /// The facts of a folder of the request.
    pub fn folder(&self, path: &Path) -> Option<&TargetFolder> {
        self.folders.iter().find(|folder| folder.path == path)
    }

    /// The facts of a file of the request.
    pub fn file(&self, path: &Path) -> Option<&FileFacts> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The file system at a planned file.
    pub(super) fn place(&self, file: &FilePlan) -> Option<&TargetPlace> {
        match file.folder {
            Some(_) => Some(&self.folder(file.path.parent()?)?.place),
            None => Some(&self.file(&file.path)?.place),
        }
    }

    /// The size of an entry in place of a file that is to be made in a folder.
    pub(super) fn old_bytes(&self, file: &FilePlan) -> u64 {
        let name = file.path.file_name().and_then(|name| name.to_str());
        let folder = file.path.parent().and_then(|parent| self.folder(parent));
        folder.zip(name).and_then(|(folder, name)| folder.found_bytes(name)).unwrap_or_default()
    }

    /// The free space of all its folders and files.
    pub(crate) fn free_bytes(&mut self) -> impl Iterator<Item = &mut u64> {
        let folders = self.folders.iter_mut().map(|folder| &mut folder.place);
        let places = folders.chain(self.files.iter_mut().map(|file| &mut file.place));
        places.filter_map(|place| place.free_bytes.as_mut())
    }
}
