//! What is known of the host: plain data, gathered elsewhere, read by plans and reports.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::path::{EngineKind, PathKind};
use crate::placement::HostNode;

/// Whether a type of file system keeps its files in memory: there is no storage behind it, and no
/// page of a file can be dropped.
pub fn keeps_files_in_memory(file_system: &str) -> bool {
    matches!(file_system, "tmpfs" | "ramfs")
}

/// Whether files of a type of file system may lie behind a network: for FUSE only its server knows.
pub fn is_on_network(file_system: &str) -> bool {
    const NAMES: [&str; 16] = [
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "glusterfs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "orangefs",
        "panfs",
        "pvfs2",
        "smb3",
        "vastfs",
        "wekafs",
    ];
    NAMES.contains(&file_system) || file_system.starts_with("fuse")
}

/// Whether a type of file system gives a file the same inode number whenever it is mounted: without
/// that nothing but its name tells which file one is.
pub fn keeps_inode_numbers(file_system: &str) -> bool {
    !matches!(file_system, "vfat" | "msdos" | "exfat") && !file_system.starts_with("fuse")
}

/// A file found in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundFile {
    /// Its name in the folder: `train/img_000_of_168.npz`.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Which file of a file system one is, whatever it is called and holds. The time of birth tells it
/// from a later one that was given the same inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The number of its inode.
    pub inode: u64,
    /// When it was made, in nanoseconds since 1970, where the file system knows.
    pub born_ns: Option<u64>,
}

impl Identity {
    /// Whether both may be of the same file: a kernel may tell a time of birth that an older one did
    /// not.
    pub fn may_be(self, other: Self) -> bool {
        let same_birth = match (self.born_ns, other.born_ns) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        self.inode == other.inode && same_birth
    }
}

/// Whether something can be used on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Availability {
    /// It can.
    #[default]
    Available,
    /// It cannot.
    Unavailable {
        /// Why not: what was tried and what came back.
        reason: String,
        /// What would make it work.
        remedy: String,
    },
}

impl Availability {
    /// It cannot be used, for `reason`; `remedy` would mend that.
    pub fn unavailable(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), remedy: remedy.into() }
    }

    /// Whether it can be used.
    pub fn is_available(&self) -> bool {
        matches!(self, Self::Available)
    }

    /// Why it cannot be used.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Available => None,
            Self::Unavailable { reason, .. } => Some(reason),
        }
    }
}

/// One accelerator of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcceleratorFacts {
    /// Index as CUDA counts.
    pub index: u32,
    /// Product name.
    pub name: String,
    /// PCI address, `0000:3b:00.0`.
    pub pci_address: Option<String>,
    /// NUMA node the device hangs on.
    pub numa_node: Option<u32>,
    /// Memory of the device in bytes.
    pub memory_bytes: Option<u64>,
    /// Size of BAR1 in bytes: what can be mapped for peer-to-peer transfers.
    pub bar1_bytes: Option<u64>,
}

/// What CUDA takes where `CUDA_DEVICE_MAX_CONNECTIONS` is not set.
pub const DEFAULT_CUDA_CONNECTIONS: u32 = 8;

fn default_cuda_connections() -> u32 {
    DEFAULT_CUDA_CONNECTIONS
}

/// NVIDIA GPUs that the PCI bus shows and CUDA does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HiddenGpus {
    /// Their PCI addresses, `0000:3b:00.0`.
    pub pci_addresses: Vec<String>,
    /// Why CUDA does not show them.
    pub reason: String,
}

impl HiddenGpus {
    /// What is wrong, in a sentence.
    pub fn words(&self) -> String {
        let (what, them) = match self.pci_addresses.as_slice() {
            [_] => ("a GPU", "it"),
            _ => ("GPUs", "them"),
        };
        format!(
            "the PCI bus shows {what} ({}), but CUDA does not offer {them}: {}",
            self.pci_addresses.join(", "),
            self.reason
        )
    }
}

/// Whether one transfer path can run here, and why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathSupport {
    /// The path.
    pub path: PathKind,
    /// Whether it can run.
    pub availability: Availability,
}

/// One block device below the storage of a run; what the kernel does not tell is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceOfStorage {
    /// The kernel's name: `nvme0n1`.
    pub name: String,
    /// What it is: `disk`, `md`, `dm`, `loop`.
    pub kind: String,
    /// What md or device mapper does with the devices after it: `raid0`, `LVM`.
    pub layout: Option<String>,
    /// Model, as the device says.
    pub model: Option<String>,
    /// Version of its firmware.
    pub firmware: Option<String>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// PCI address of the controller, `0000:3b:00.0`.
    pub pci_address: Option<String>,
    /// The PCI Express link that it has to itself: `PCIe 16.0 GT/s x4`.
    pub pcie_link: Option<String>,
    /// What that link carries in a second, encoding taken off, in bytes.
    pub pcie_bytes_per_second: Option<u64>,
    /// NUMA node of the device.
    pub numa_node: Option<u32>,
    /// Settings of its queue; reports from before they were looked at have none.
    #[serde(default)]
    pub queue: Option<QueueOfStorage>,
}

/// Settings of a block device's queue under the kernel's names; what the kernel does not tell is
/// left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueOfStorage {
    /// I/O scheduler: `none`, `mq-deadline`.
    pub scheduler: Option<String>,
    /// Requests that the queue holds.
    pub nr_requests: Option<u32>,
    /// Read-ahead of buffered reads, in KiB.
    pub read_ahead_kb: Option<u32>,
    /// Largest request that the kernel makes, in KiB.
    pub max_sectors_kb: Option<u32>,
    /// Largest request that the device takes, in KiB.
    pub max_hw_sectors_kb: Option<u32>,
    /// Merging of requests: 0 on, 1 simple merges only, 2 off.
    pub nomerges: Option<u8>,
    /// Whether it is a spinning disk.
    pub rotational: Option<bool>,
    /// Write cache: `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Target latency of write-back throttling in microseconds; 0 is off.
    pub wbt_lat_usec: Option<u64>,
}

/// The storage behind the folders and files of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StorageOfRun {
    /// The folders, files and devices of the run that lie on it.
    pub paths: Vec<PathBuf>,
    /// Type of the file system: `xfs`, `nfs4`; `None` for a block device without one.
    pub file_system: Option<String>,
    /// Options with which it is mounted, the mount's own before the file system's.
    pub mount_options: Option<String>,
    /// The block devices below it, members after the device they carry; partitions left out.
    pub devices: Vec<DeviceOfStorage>,
}

impl StorageOfRun {
    /// What the links of its disks carry together, in bytes a second; `None` where one of them
    /// is not known.
    pub fn link_bytes_per_second(&self) -> Option<u64> {
        let disks = self.devices.iter().filter(|device| device.kind == "disk");
        let links: Option<Vec<u64>> = disks.map(|disk| disk.pcie_bytes_per_second).collect();
        links.filter(|links| !links.is_empty()).map(|links| links.iter().sum())
    }
}

/// The host, as far as plans and reports need to know it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostFacts {
    /// Name of the host.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model name.
    pub cpu_model: String,
    /// CPUs this process may run on.
    pub cpus: u32,
    /// Physical memory in bytes.
    pub memory_bytes: u64,
    /// The cgroup's memory limit in bytes, where it is lower than the physical memory.
    pub memory_limit_bytes: Option<u64>,
    /// Locked-memory limit of this process in bytes; `None` is unlimited.
    pub locked_memory_limit_bytes: Option<u64>,
    /// Limit on open files of this process.
    pub open_files_limit: u64,
    /// Whether io_uring may be used.
    pub io_uring: Availability,
    /// Whether this stormlp has the engine tokio-uring; reports from before it could be left out
    /// do not say.
    #[serde(default)]
    pub tokio_uring: Availability,
    /// The accelerators CUDA can use.
    pub accelerators: Vec<AcceleratorFacts>,
    /// How many streams a GPU works on side by side (`CUDA_DEVICE_MAX_CONNECTIONS`).
    #[serde(default = "default_cuda_connections")]
    pub cuda_connections: u32,
    /// Bytes of cuFile's buffer for what has no direct route, which bounds the entries of a batch.
    #[serde(default)]
    pub cufile_buffer_bytes: Option<u64>,
    /// Whether libcufile keeps statistics that tell routes (from 1.15 on); `None` where it was not
    /// asked.
    #[serde(default)]
    pub cufile_statistics: Option<bool>,
    /// GPUs that the bus shows where CUDA has none; `None` where CUDA was not asked.
    #[serde(default)]
    pub hidden_gpus: Option<HiddenGpus>,
    /// Why CUDA shows no device, where it said so; `None` where it shows one or was not asked.
    #[serde(default)]
    pub cuda_problem: Option<String>,
    /// The NUMA nodes with the CPUs that this process may use; none where the kernel shows none.
    #[serde(default)]
    pub numa_nodes: Vec<HostNode>,
    /// For each path whether it can run.
    pub paths: Vec<PathSupport>,
    /// The storage that the run uses; reports from before it was looked at have none.
    #[serde(default)]
    pub storage: Vec<StorageOfRun>,
    /// Version of stormlp.
    pub stormlp_version: String,
    /// Whether stormlp was built with optimisations.
    pub release_build: bool,
}

/// For tests, of this crate and of others.
#[cfg(any(test, feature = "fixtures"))]
impl HostFacts {
    /// A host without a GPU on which nothing was probed.
    #[must_use]
    pub fn fixture() -> Self {
        Self {
            hostname: "node7".to_string(),
            kernel: "6.8".to_string(),
            cpu_model: "a CPU".to_string(),
            cpus: 2,
            memory_bytes: 64 << 30,
            memory_limit_bytes: None,
            locked_memory_limit_bytes: None,
            open_files_limit: 1 << 20,
            io_uring: Availability::Available,
            tokio_uring: Availability::Available,
            accelerators: Vec::new(),
            cuda_connections: DEFAULT_CUDA_CONNECTIONS,
            cufile_buffer_bytes: None,
            cufile_statistics: None,
            hidden_gpus: None,
            cuda_problem: None,
            numa_nodes: Vec::new(),
            paths: Vec::new(),
            storage: Vec::new(),
            stormlp_version: "0.1.0".to_string(),
            release_build: true,
        }
    }
}

impl HostFacts {
    /// Memory a run can count on: the cgroup's limit when there is one, else all of it.
    pub fn usable_memory_bytes(&self) -> u64 {
        self.memory_limit_bytes.unwrap_or(self.memory_bytes).min(self.memory_bytes)
    }

    /// Whether `engine` can run here.
    pub fn engine(&self, engine: EngineKind) -> &Availability {
        match engine {
            EngineKind::Psync => &Availability::Available,
            EngineKind::TokioUring if !self.tokio_uring.is_available() => &self.tokio_uring,
            EngineKind::Uring | EngineKind::TokioUring => &self.io_uring,
        }
    }

    /// Whether `path` can run here; a path nobody probed cannot.
    pub fn support(&self, path: PathKind) -> Availability {
        self.paths.iter().find(|support| support.path == path).map_or_else(
            || Availability::unavailable("it was not probed", "run `stormlp doctor`"),
            |support| support.availability.clone(),
        )
    }
}
