//! The state before a run: the folder of the objects, as found by a scan.

use stormlp_core::facts::Availability;

/// The folder of the objects, existing or about to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct KvcacheFacts {
    /// Whether it is writable or can be created.
    pub writable: Availability,
    /// Free bytes of its file system.
    pub free_bytes: u64,
    /// Objects that an earlier run left.
    pub left_objects: u64,
    /// Their bytes on storage.
    pub left_bytes: u64,
    /// The name of an entry that stormlp did not make.
    pub foreign: Option<String>,
    /// The type of the file system: `xfs`, `tmpfs`; `None` if unknown.
    pub file_system: Option<String>,
}
