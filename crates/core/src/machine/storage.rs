//! The storage behind a directory: file system, options, block devices down to the members.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::fact::Fact;

/// The storage behind a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageFacts {
    /// The requested directory.
    pub directory: PathBuf,
    /// The directory that was examined: the nearest existing one, with links resolved.
    pub examined: Fact<PathBuf>,
    /// The requested target, if it is not a directory.
    pub target: Option<TargetFacts>,
    /// The file system.
    pub filesystem: Fact<Filesystem>,
    /// Whether `O_DIRECT` works there.
    pub direct_io: Fact<DirectSupport>,
    /// The block devices below it, starting with the one that holds the file system, members after
    /// the device they form.
    pub devices: Fact<Vec<BlockDevice>>,
}

/// A file or block device that was itself the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TargetFacts {
    /// A regular file.
    File {
        /// Its size in bytes.
        bytes: u64,
        /// Space allocated on its file system, in bytes.
        allocated_bytes: u64,
    },
    /// A block device.
    BlockDevice {
        /// Where its own file system is mounted, excluding those of its partitions.
        mounted_at: Vec<PathBuf>,
        /// Devices built on it: partitions, md, device mapper.
        carries: Vec<String>,
    },
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filesystem {
    /// Its type by the kernel's name: `ext4`, `xfs`, `nfs4`.
    pub kind: String,
    /// Its magic number from `statfs(2)`; file systems that share a name can differ here.
    pub magic: u64,
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
    /// What was tried and the result.
    pub tried: String,
    /// Buffer alignment in bytes that the file system requires (`statx(2)`).
    pub memory_align_bytes: Fact<u32>,
    /// Alignment of offsets and sizes in bytes that the file system requires.
    pub offset_align_bytes: Fact<u32>,
}

/// The kind of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "lowercase")]
pub enum BlockKind {
    /// A disk, or a device presented as one.
    Disk,
    /// A partition.
    Partition,
    /// Linux software RAID.
    Md,
    /// Device mapper: LVM, dm-crypt, multipath.
    #[strum(serialize = "dm")]
    DeviceMapper,
    /// A loop device backed by a file.
    Loop,
}

impl BlockKind {
    /// The display name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// One block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockDevice {
    /// The kernel's name: `nvme0n1`.
    pub name: String,
    /// Device number, `259:0`.
    pub number: String,
    /// Its kind.
    pub kind: BlockKind,
    /// Depth below the file system's own device, which is 0.
    pub depth: u32,
    /// Names of its member devices.
    pub members: Vec<String>,
    /// How md or device mapper combines them: `raid0`, `LVM-…`.
    pub layout: Option<String>,
    /// Model, as reported by the device.
    pub model: Fact<String>,
    /// Firmware version, as reported by the device.
    pub firmware: Fact<String>,
    /// Size in bytes.
    pub size_bytes: Fact<u64>,
    /// Queue settings; a partition has none of its own.
    pub queue: Option<QueueFacts>,
    /// NUMA node of the device.
    pub numa_node: Option<u32>,
    /// PCI address of the controller.
    pub pci_address: Option<String>,
    /// The device's own link; absent for devices that share a controller.
    pub pcie_link: Fact<PcieLink>,
}

/// The PCI Express link of a device, as currently trained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcieLink {
    /// Link speed in kernel notation: `16.0 GT/s PCIe`.
    pub speed: String,
    /// Number of lanes.
    pub lanes: u32,
}

impl PcieLink {
    /// Bandwidth in bytes per second, after encoding but before protocol overhead; `None` if the
    /// speed is not a PCIe speed.
    pub fn bytes_per_second(&self) -> Option<u64> {
        let (number, unit) = self.speed.split_once(' ')?;
        if !unit.starts_with("GT/s") {
            return None;
        }
        let gigatransfers: f64 = number.parse().ok()?;
        let payload = match gigatransfers {
            slow if slow < 8.0 => 8.0 / 10.0,
            fast if fast < 64.0 => 128.0 / 130.0,
            _ => 1.0,
        };
        Some((gigatransfers * 1e9 / 8.0 * payload * f64::from(self.lanes)) as u64)
    }
}

impl std::fmt::Display for PcieLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let speed = self.speed.strip_suffix(" PCIe").unwrap_or(&self.speed);
        write!(f, "PCIe {speed} x{}", self.lanes)
    }
}

/// Settings of a block device's queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueFacts {
    /// Whether it is a spinning disk.
    pub rotational: Fact<bool>,
    /// Smallest unit the device addresses, in bytes.
    pub logical_block_bytes: Fact<u32>,
    /// Smallest unit it writes without read-modify-write, in bytes.
    pub physical_block_bytes: Fact<u32>,
    /// I/O scheduler.
    pub scheduler: Fact<String>,
    /// Read-ahead of buffered reads, in KiB.
    pub read_ahead_kib: Fact<u32>,
    /// Merging of requests: 0 on, 1 simple merges only, 2 off.
    pub nomerges: Fact<u8>,
    /// Largest request the kernel issues, in KiB.
    pub max_sectors_kib: Fact<u32>,
    /// Largest request the device accepts, in KiB.
    pub max_hw_sectors_kib: Fact<u32>,
    /// Maximum memory segments per request.
    pub max_segments: Fact<u32>,
    /// Queue size in requests.
    pub nr_requests: Fact<u32>,
    /// Write cache: `write back` or `write through`.
    pub write_cache: Fact<String>,
    /// Target latency of write-back throttling in microseconds; 0 is off.
    pub wbt_latency_us: Fact<u64>,
    /// Whether the queue can be polled (`RWF_HIPRI`, IOPOLL).
    pub io_poll: Fact<bool>,
}

/// The name of data that no program can name.
pub const UNKNOWN_CONTENT: &str = "unknown";

/// What is on a block device that is to be overwritten.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_carries_what_its_speed_and_lanes_allow() {
        let link = |speed: &str, lanes| PcieLink { speed: speed.to_string(), lanes };
        let gen4 = link("16.0 GT/s PCIe", 4);
        assert_eq!(gen4.to_string(), "PCIe 16.0 GT/s x4");
        assert_eq!(gen4.bytes_per_second(), Some(7_876_923_076));
        assert_eq!(link("2.5 GT/s PCIe", 1).bytes_per_second(), Some(250_000_000));
        assert_eq!(link("Unknown", 4).bytes_per_second(), None);
    }
}
