//! Facts about the host: plain data, gathered elsewhere, used by plans and reports.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::location::Location;
use crate::path::{EngineKind, PathKind};
use crate::threads::HostNode;
use crate::warning::{Warning, WarningKind};

/// Memory of the program itself, its threads and its state for the plan, generously estimated.
pub const PROCESS_BYTES: u64 = 24 << 20;

/// Whether a file system type keeps its files in memory: it has no backing storage, and its pages
/// cannot be dropped.
pub fn keeps_files_in_memory(file_system: &str) -> bool {
    matches!(file_system, "tmpfs" | "ramfs")
}

/// Whether files on this file system type may be remote. For FUSE only its server knows.
pub fn is_on_network(file_system: &str) -> bool {
    let known = "9p afs beegfs ceph cifs glusterfs gpfs lustre nfs nfs4 orangefs panfs pvfs2 smb3 vastfs \
                 wekafs";
    known.split(' ').any(|name| name == file_system) || file_system.starts_with("fuse")
}

/// Whether a file system type gives a file the same inode number on every mount. Without that, a
/// file can only be identified by its name.
pub fn keeps_inode_numbers(file_system: &str) -> bool {
    !matches!(file_system, "vfat" | "msdos" | "exfat") && !file_system.starts_with("fuse")
}

/// A file found in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundFile {
    /// Its name relative to the directory: `train/img_000_of_168.npz`.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A folder that a run is going to use, existing or about to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct FolderFacts {
    /// The folder as given.
    pub path: Location,
    /// Whether it is writable or can be created.
    pub writable: Availability,
    /// Free bytes of its file system for an unprivileged user; `None` if the storage does not tell.
    pub free_bytes: Option<u64>,
    /// File system identity, equal for folders that share its space.
    pub file_system_id: u64,
    /// Type of the file system: `xfs`, `tmpfs`; `None` if unknown.
    pub file_system: Option<String>,
    /// Whether files in it can be opened with `O_DIRECT`, as far as that was tried.
    pub direct: Availability,
}

/// Identifies a file within a file system, whatever its name and content. The birth time
/// distinguishes it from a later file that reuses the inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The inode number.
    pub inode: u64,
    /// The birth time in nanoseconds since 1970, if the file system records it.
    pub born_ns: Option<u64>,
}

impl Identity {
    /// Whether both may identify the same file: one kernel may report a birth time where an older
    /// one did not.
    pub fn may_be(self, other: Self) -> bool {
        let same_birth = match (self.born_ns, other.born_ns) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        self.inode == other.inode && same_birth
    }
}

/// Whether a feature can be used on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Availability {
    /// It is usable.
    #[default]
    Available,
    /// It is not usable.
    Unavailable {
        /// The reason: the attempt and its result.
        fact: String,
        /// How to make it available.
        remedy: String,
    },
}

impl Availability {
    /// Unavailable because of `fact`; `remedy` would fix it.
    pub fn unavailable(fact: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Unavailable { fact: fact.into(), remedy: remedy.into() }
    }

    /// Whether it is usable.
    pub fn is_available(&self) -> bool {
        matches!(self, Self::Available)
    }

    /// Why it is not usable.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Available => None,
            Self::Unavailable { fact, .. } => Some(fact),
        }
    }
}

/// An accelerator of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcceleratorFacts {
    /// CUDA device index.
    pub index: u32,
    /// Product name.
    pub name: String,
    /// PCI address, `0000:3b:00.0`.
    pub pci_address: Option<String>,
    /// NUMA node of the device.
    pub numa_node: Option<u32>,
    /// Current PCIe link, `32.0 GT/s PCIe x16`: an idle GPU may train it down.
    pub pcie_link: Option<String>,
    /// Memory of the device in bytes.
    pub memory_bytes: Option<u64>,
    /// Size of BAR1 in bytes: the memory that can be mapped for peer-to-peer transfers; `None` for
    /// a part of a GPU, which shares it.
    pub bar1_bytes: Option<u64>,
    /// Memory that was free when it was probed, in bytes.
    pub free_memory_bytes: Option<u64>,
    /// The kind of share if it is only part of a GPU.
    pub part: Option<GpuPart>,
}

/// Part of a GPU that CUDA shows as a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GpuPart {
    /// A slice of a partitioned GPU (MIG).
    MigSlice,
    /// A virtual GPU of a hypervisor (vGPU).
    Virtual,
}

impl GpuPart {
    /// The part in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::MigSlice => "a MIG slice of a GPU",
            Self::Virtual => "a virtual GPU",
        }
    }
}

/// Limits of libcufile that a plan has to keep, as the library reports them or else its documented
/// defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CuFileLimits {
    /// Stream transfers in flight in a process (`execution.max_io_queue_depth`).
    pub stream_transfers: u64,
    /// Bytes of GPU memory that may be registered (`properties.max_device_pinned_mem_size_kb`).
    pub registered_bytes: u64,
    /// The buffers of compatibility mode: their size in bytes and their number
    /// (`properties.posix_pool_slab_size_kb`, `posix_pool_slab_count`), smallest first.
    pub posix_pool: Vec<(u64, u64)>,
    /// Entries of a batch (`properties.io_batchsize`).
    pub batch_entries: u64,
    /// Whether the library reports any direct route; without one all transfers use compatibility
    /// mode.
    pub has_direct_route: bool,
    /// The settings of cufile.json that the library does not report: their limits are the documented
    /// defaults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
}

impl CuFileLimits {
    /// The setting of `stream_transfers`.
    pub const QUEUE_DEPTH: &str = "execution.max_io_queue_depth";
    /// The setting of `registered_bytes`.
    pub const PINNED_MEMORY: &str = "properties.max_device_pinned_mem_size_kb";
    /// The setting of the numbers in `posix_pool`.
    pub const POOL_COUNT: &str = "properties.posix_pool_slab_count";
    /// The setting of `batch_entries`.
    pub const BATCH_SIZE: &str = "properties.io_batchsize";

    /// The documented defaults.
    pub fn defaults(has_direct_route: bool) -> Self {
        let settings = [Self::QUEUE_DEPTH, Self::PINNED_MEMORY, Self::POOL_COUNT, Self::BATCH_SIZE];
        Self {
            assumed: settings.map(str::to_string).to_vec(),
            stream_transfers: 128,
            registered_bytes: 32 << 30,
            posix_pool: vec![(4 << 10, 128), (1 << 20, 64), (16 << 20, 64)],
            batch_entries: 128,
            has_direct_route,
        }
    }

    /// A setting, and whether its limit is assumed.
    pub fn named(&self, setting: &str) -> String {
        match self.assumed.iter().any(|known| known == setting) {
            true => format!("{setting}: assumed, not read from cufile.json"),
            false => setting.to_string(),
        }
    }
}

/// CUDA's default when `CUDA_DEVICE_MAX_CONNECTIONS` is not set.
pub const DEFAULT_CUDA_CONNECTIONS: u32 = 8;

/// NVIDIA GPUs visible on the PCI bus but not to CUDA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HiddenGpus {
    /// Their PCI addresses, `0000:3b:00.0`.
    pub pci_addresses: Vec<String>,
    /// Why CUDA does not see them.
    pub reason: String,
}

impl HiddenGpus {
    /// The problem in a sentence.
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

/// Whether a transfer path can run here, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathSupport {
    /// The path.
    pub path: PathKind,
    /// Whether it can run.
    pub availability: Availability,
}

/// A block device below the storage of a run; facts the kernel does not report are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceOfStorage {
    /// The kernel's name: `nvme0n1`.
    pub name: String,
    /// Device type: `disk`, `partition`, `md`, `dm`, `loop`.
    pub kind: String,
    /// How md or device mapper combines the devices listed after it: `raid0`, `LVM`.
    pub layout: Option<String>,
    /// Model, as reported by the device.
    pub model: Option<String>,
    /// Firmware version.
    pub firmware: Option<String>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// PCI address of the controller, `0000:3b:00.0`.
    pub pci_address: Option<String>,
    /// The device's unshared PCI Express link: `PCIe 16.0 GT/s x4`.
    pub pcie_link: Option<String>,
    /// NUMA node of the device.
    pub numa_node: Option<u32>,
    /// Queue settings.
    pub queue: Option<QueueOfStorage>,
}

/// Settings of a block device's queue under the kernel's names; those the kernel does not report
/// are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueOfStorage {
    /// I/O scheduler: `none`, `mq-deadline`.
    pub scheduler: Option<String>,
    /// Queue size in requests.
    pub nr_requests: Option<u32>,
    /// Read-ahead of buffered reads, in KiB.
    pub read_ahead_kb: Option<u32>,
    /// Largest request the kernel issues, in KiB.
    pub max_sectors_kb: Option<u32>,
    /// Largest request the device accepts, in KiB.
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

/// The storage behind the directories and files of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StorageOfRun {
    /// The directories, files and devices of the run that lie on it.
    pub paths: Vec<PathBuf>,
    /// Type of the file system: `xfs`, `nfs4`; `None` for a block device without one.
    pub file_system: Option<String>,
    /// Mount options: the mount's first, then the file system's.
    pub mount_options: Option<String>,
    /// The block devices below it, members after the device they form; partitions omitted.
    pub devices: Vec<DeviceOfStorage>,
}

/// The host, as far as plans and reports need it.
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
    /// Memory that this process may use by its cgroup or `ulimit -v`, in bytes, if less than the
    /// physical memory.
    pub memory_limit_bytes: Option<u64>,
    /// Limits of the control group on CPU time and block devices: `0.20 CPUs (cpu.max)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_limits: Vec<String>,
    /// Locked-memory limit of this process in bytes; `None` means unlimited.
    pub locked_memory_limit_bytes: Option<u64>,
    /// Limit on open files of this process.
    pub open_files_limit: u64,
    /// Whether io_uring may be used.
    pub io_uring: Availability,
    /// Whether this stormlp includes the tokio-uring engine.
    pub tokio_uring: Availability,
    /// The accelerators CUDA can use.
    pub accelerators: Vec<AcceleratorFacts>,
    /// How many streams a GPU processes concurrently (`CUDA_DEVICE_MAX_CONNECTIONS`).
    pub cuda_connections: u32,
    /// Size in bytes of cuFile's buffer for transfers without a direct route; it bounds the entries
    /// of a batch.
    pub cufile_buffer_bytes: Option<u64>,
    /// Limits of libcufile; `None` if its driver does not open.
    pub cufile_limits: Option<CuFileLimits>,
    /// Whether libcufile keeps per-route statistics (from 1.15 on); `None` if it was not queried.
    pub cufile_statistics: Option<bool>,
    /// GPUs visible on the bus where CUDA has none; `None` if CUDA was not queried.
    pub hidden_gpus: Option<HiddenGpus>,
    /// CUDA's reason for reporting no device, if it gave one; `None` if it reports one or was not
    /// queried.
    pub cuda_problem: Option<String>,
    /// `CUDA_VISIBLE_DEVICES`, which hides GPUs from CUDA, if it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_visible_devices: Option<String>,
    /// Variables that change the libraries or the memory of this process: `LD_PRELOAD=x.so`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// The NUMA nodes with the CPUs this process may use; empty if the kernel reports none.
    pub numa_nodes: Vec<HostNode>,
    /// For each path, whether it can run.
    pub paths: Vec<PathSupport>,
    /// The storage used by the run.
    pub storage: Vec<StorageOfRun>,
    /// Version of stormlp.
    pub stormlp_version: String,
    /// Whether stormlp was built with optimisations.
    pub release_build: bool,
}

impl HostFacts {
    /// Warns that a debug build may itself be the bottleneck.
    pub fn debug_build(&self) -> Option<Warning> {
        let (fact, remedy) = ("this is a debug build", "measure with `cargo build --release`");
        (!self.release_build).then(|| Warning::new(WarningKind::DebugBuild, fact, remedy))
    }

    /// Memory a run can use: up to a limit if there is one, otherwise all of it.
    pub fn usable_memory_bytes(&self) -> u64 {
        self.memory_limit_bytes.unwrap_or(self.memory_bytes).min(self.memory_bytes)
    }

    /// Whether `engine` can run here.
    pub fn engine(&self, engine: EngineKind) -> &Availability {
        match engine {
            // Sockets are everywhere; whether this build has the client is said when it is opened.
            EngineKind::Psync => &Availability::Available,
            EngineKind::TokioUring if !self.tokio_uring.is_available() => &self.tokio_uring,
            EngineKind::Uring | EngineKind::TokioUring => &self.io_uring,
        }
    }

    /// Whether `path` can run here; a path that was not probed cannot.
    pub fn support(&self, path: PathKind) -> Availability {
        if path == PathKind::S3 {
            // Sockets are everywhere; the endpoint itself reports its limits.
            return Availability::Available;
        }
        self.paths.iter().find(|support| support.path == path).map_or_else(
            || Availability::unavailable("it was not probed", "run `stormlp doctor`"),
            |support| support.availability.clone(),
        )
    }
}
