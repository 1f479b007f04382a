//! The storage behind a folder: file system, options, block devices down to the members.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::Fact;

/// The storage behind a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageFacts {
    /// The folder that was asked about.
    pub directory: PathBuf,
    /// The folder that was looked at: the nearest one that exists, without links.
    pub examined: Fact<PathBuf>,
    /// What was asked about, where it is no folder.
    #[serde(default)]
    pub target: Option<TargetFacts>,
    /// The file system.
    pub filesystem: Fact<Filesystem>,
    /// What becomes of `O_DIRECT` there.
    pub direct_io: Fact<DirectSupport>,
    /// The block devices below it, the one with the file system first, members after the device
    /// they carry.
    pub devices: Fact<Vec<BlockDevice>>,
}

/// A file or block device that was asked about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TargetFacts {
    /// A regular file.
    File {
        /// Its size in bytes.
        bytes: u64,
        /// Space that it takes on its file system, in bytes.
        allocated_bytes: u64,
    },
    /// A block device.
    BlockDevice {
        /// Where its own file system is mounted; not those of its partitions.
        mounted_at: Vec<PathBuf>,
        /// Devices that are made of it or lie in it: partitions, md, device mapper.
        carries: Vec<String>,
    },
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filesystem {
    /// Its type as the kernel names it: `ext4`, `xfs`, `nfs4`.
    pub kind: String,
    /// Its magic number from `statfs(2)`; two kinds of one name can differ here.
    pub magic: u64,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Device or server.
    pub source: String,
    /// Options of this mount.
    pub mount_options: String,
    /// Options of the file system, the same for all its mounts.
    pub super_options: String,
    /// Size in bytes.
    pub total_bytes: u64,
    /// Bytes that this user can still write.
    pub free_bytes: u64,
}

/// What becomes of `O_DIRECT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectSupport {
    /// Whether an aligned write with `O_DIRECT` succeeded (a read, where nothing can be written).
    pub honoured: bool,
    /// What was tried and what came back.
    pub tried: String,
    /// Alignment of buffers in bytes that the file system asks for (`statx(2)`).
    pub memory_align_bytes: Fact<u32>,
    /// Alignment of offsets and sizes in bytes that the file system asks for.
    pub offset_align_bytes: Fact<u32>,
}

/// What a block device is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "lowercase")]
pub enum BlockKind {
    /// A disk, or what the machine takes for one.
    Disk,
    /// A part of a disk.
    Partition,
    /// Linux software RAID.
    Md,
    /// Device mapper: LVM, dm-crypt, multipath.
    #[strum(serialize = "dm")]
    DeviceMapper,
    /// A file as a device.
    Loop,
}

impl BlockKind {
    /// The name for people.
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
    /// What it is.
    pub kind: BlockKind,
    /// How deep it lies below the file system's own device, which is 0.
    pub depth: u32,
    /// Names of the devices it is made of.
    pub members: Vec<String>,
    /// What md or device mapper does with them: `raid0`, `LVM-…`.
    pub layout: Option<String>,
    /// Model, as the device says.
    pub model: Fact<String>,
    /// Version of its firmware, as the device says.
    pub firmware: Fact<String>,
    /// Size in bytes.
    pub size_bytes: Fact<u64>,
    /// Settings of its queue; a partition has none of its own.
    pub queue: Option<QueueFacts>,
    /// NUMA node of the device.
    pub numa_node: Option<u32>,
    /// PCI address of the controller.
    pub pci_address: Option<String>,
    /// The link that it has to itself; devices that share a controller's have none.
    pub pcie_link: Fact<PcieLink>,
}

/// The PCI Express link of a device, as it is trained now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcieLink {
    /// Its speed as the kernel writes it: `16.0 GT/s PCIe`.
    pub speed: String,
    /// Its lanes.
    pub lanes: u32,
}

impl PcieLink {
    /// What its lanes carry in a second, encoding taken off and protocol not, in bytes; `None`
    /// for a speed that is not one of a link.
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
    /// Smallest unit it writes without reading, in bytes.
    pub physical_block_bytes: Fact<u32>,
    /// I/O scheduler.
    pub scheduler: Fact<String>,
    /// Read-ahead of buffered reads, in KiB.
    pub read_ahead_kib: Fact<u32>,
    /// Merging of requests: 0 on, 1 simple merges only, 2 off.
    pub nomerges: Fact<u8>,
    /// Largest request the kernel makes, in KiB.
    pub max_sectors_kib: Fact<u32>,
    /// Largest request the device takes, in KiB.
    pub max_hw_sectors_kib: Fact<u32>,
    /// Pieces of memory in one request.
    pub max_segments: Fact<u32>,
    /// Requests the queue holds.
    pub nr_requests: Fact<u32>,
    /// Write cache: `write back` or `write through`.
    pub write_cache: Fact<String>,
    /// Target latency of write-back throttling in microseconds; 0 is off.
    pub wbt_latency_us: Fact<u64>,
    /// Whether the queue can be polled (`RWF_HIPRI`, IOPOLL).
    pub io_poll: Fact<bool>,
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
