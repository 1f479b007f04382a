//! The storage behind a directory: file system, options, block devices down to the members.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::fact::Fact;
use crate::facts::DeviceOfStorage;

/// The storage behind a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageFacts {
    /// The requested directory.
    pub directory: PathBuf,
    /// The directory that was examined: the nearest existing one, with links resolved.
    pub examined: Fact<PathBuf>,
    /// The file system.
    pub filesystem: Fact<Filesystem>,
    /// Whether `O_DIRECT` works there.
    pub direct_io: Fact<DirectSupport>,
    /// The block devices below it, starting with the one that holds the file system, members after
    /// the device they form.
    pub devices: Fact<Vec<BlockDevice>>,
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filesystem {
    /// Its type by the kernel's name: `ext4`, `xfs`, `nfs4`.
    pub kind: String,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Source device or server.
    pub source: String,
    /// Options of this mount.
    pub mount_options: String,
    /// Options of the file system, shared by all its mounts.
    pub super_options: String,
    /// Size in bytes.
    pub total_bytes: u64,
    /// Bytes available to this user.
    pub free_bytes: u64,
}

/// Whether `O_DIRECT` works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectSupport {
    /// Whether an aligned write with `O_DIRECT` succeeded (or a read, if writing is impossible).
    pub honoured: bool,
    /// The attempt and its result.
    pub tried: String,
    /// Alignment of offsets and sizes in bytes that the file system requires (`statx(2)`).
    pub offset_align_bytes: Fact<u32>,
}

/// One block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockDevice {
    /// Depth below the file system's device, which is 0.
    pub depth: u32,
    /// Names of its member devices.
    pub members: Vec<String>,
    /// Its facts, as in reports.
    #[serde(flatten)]
    pub facts: DeviceOfStorage,
}

/// The PCI Express link of a device, as currently trained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcieLink {
    /// Link speed in kernel notation: `16.0 GT/s PCIe`.
    pub speed: String,
    /// Number of lanes.
    pub lanes: u32,
}

impl std::fmt::Display for PcieLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let speed = self.speed.strip_suffix(" PCIe").unwrap_or(&self.speed);
        write!(f, "PCIe {speed} x{}", self.lanes)
    }
}

/// The name of data that no program can name.
pub const UNKNOWN_CONTENT: &str = "unknown";

/// The contents of a block device that is to be overwritten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceContent {
    /// The kernel, or another program, has opened it exclusively.
    InUse,
    /// It could not be examined, for this reason.
    Unexamined(String),
    /// File systems, partition tables and members of larger devices, on it and on its partitions, as
    /// util-linux names them.
    Carries(Vec<String>),
}
