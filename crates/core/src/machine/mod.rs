//! The facts that `stormlp doctor` reports about a machine: plain data, each value either known or
//! unknown with a reason. Gathered by `transfer::probe`, rendered by `show::doctor`.

mod advice;
mod fact;
mod storage;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::facts::HostFacts;
use crate::warning::Warning;

pub use fact::Fact;
pub use storage::{
    BlockDevice, DeviceContent, DirectSupport, Filesystem, PcieLink, StorageFacts, UNKNOWN_CONTENT,
};

/// Version of `doctor`'s JSON format.
pub const FORMAT_VERSION: u32 = 1;

/// Everything `doctor` knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Version of this format, [`FORMAT_VERSION`].
    pub format_version: u32,
    /// The host facts that every report contains.
    pub host: HostFacts,
    /// How this stormlp was built.
    pub build: BuildFacts,
    /// CPUs and NUMA nodes.
    pub processors: ProcessorFacts,
    /// Huge pages and available memory.
    pub memory: MemoryFacts,
    /// GPUs, their drivers and libraries.
    pub gpu: GpuFacts,
    /// The storage behind the requested directory.
    pub storage: StorageFacts,
    /// The changes worth making before measuring; see [`advice`].
    pub warnings: Vec<Warning>,
}

/// How this stormlp was built, if that limits it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildFacts {
    /// Rust's name of the architecture and C library: `x86_64 gnu`.
    pub target: String,
    /// Linked without the dynamic loader, so no GPU library can be opened.
    pub statically_linked: bool,
}

/// CPUs and NUMA nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessorFacts {
    /// Online CPUs, in kernel notation: `0-63`.
    pub online: Fact<String>,
    /// The NUMA nodes.
    pub numa_nodes: Fact<Vec<NumaNode>>,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Its number.
    pub node: u32,
    /// Its CPUs, in kernel notation: `0-31,64-95`.
    pub cpus: String,
    /// Its memory in bytes.
    pub memory_bytes: Fact<u64>,
}

/// Memory, as far as buffers are concerned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFacts {
    /// Memory available to new buffers without swapping, in bytes.
    pub available_bytes: Fact<u64>,
    /// Mode of transparent huge pages: `always`, `madvise`, `never`.
    pub transparent_huge_pages: Fact<String>,
    /// Size of a reserved huge page in bytes.
    pub huge_page_bytes: Fact<u64>,
    /// Reserved huge pages.
    pub huge_pages_total: Fact<u64>,
    /// Unused reserved huge pages.
    pub huge_pages_free: Fact<u64>,
}

/// GPUs, drivers, libraries and the platform between GPU and storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuFacts {
    /// NVIDIA GPUs on the PCI bus, with or without a driver.
    pub devices: Fact<Vec<PciGpu>>,
    /// Version of the NVIDIA kernel driver.
    pub driver_version: Fact<String>,
    /// Whether it is the open kernel module, which PCI peer-to-peer DMA needs.
    pub driver_open: Fact<bool>,
    /// `NVreg_RegistryDwords` the driver was loaded with; peer-to-peer DMA needs a static BAR1.
    pub driver_registry: Fact<String>,
    /// CUDA's driver library.
    pub cuda: LibraryFacts,
    /// The GPUDirect Storage library.
    pub cufile: LibraryFacts,
    /// Every libcufile that was found, the one that is used first.
    pub cufile_candidates: Vec<LibraryCandidate>,
    /// Information from cuFile's driver: properties, routes and the settings that affect them.
    pub cufile_says: Vec<String>,
    /// Version of the nvidia-fs kernel module.
    pub nvidia_fs: Fact<String>,
    /// Whether the kernel has the symbols that cuFile's peer-to-peer mode needs.
    pub kernel_p2pdma: Fact<bool>,
    /// Number of IOMMU groups; 0 means no IOMMU is active.
    pub iommu_groups: Fact<u32>,
    /// PCI bridges that send peer-to-peer traffic through the root complex, each with its control
    /// bits in the notation of `lspci`: `0000:3a:00.0 ReqRedir+ CmpltRedir+`.
    pub acs_redirecting: Fact<Vec<String>>,
}

/// An NVIDIA GPU as seen on the PCI bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciGpu {
    /// PCI address, `0000:3b:00.0`.
    pub pci_address: String,
    /// Product name, from the driver.
    pub name: Fact<String>,
    /// Kernel driver bound to the device.
    pub driver: Fact<String>,
    /// NUMA node; `None` if the platform does not report it.
    pub numa_node: Option<u32>,
    /// Size of BAR1 in bytes.
    pub bar1_bytes: Fact<u64>,
    /// GPU memory offered for peer-to-peer DMA in bytes; 0 means none.
    pub p2p_memory_bytes: Fact<u64>,
    /// Current PCIe link: `32.0 GT/s PCIe x16`.
    pub link: Fact<String>,
}

/// A library opened at run time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryFacts {
    /// Its version, as reported by the library.
    pub version: Fact<String>,
    /// The file that was opened.
    pub found_at: Fact<PathBuf>,
}

/// One of the files that could be opened as a library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryCandidate {
    /// The file.
    pub path: PathBuf,
    /// Where it was found: `a CUDA toolkit`, `$VIRTUAL_ENV`.
    pub origin: String,
    /// Its version as recorded next to it or reported by the library; `None` if unknown.
    pub version: Option<String>,
    /// The CUDA major version that it belongs to; `None` if unknown.
    pub cuda_major: Option<u32>,
    /// Whether it is the one that is used.
    pub taken: bool,
    /// Why it is used or not.
    pub why: String,
}

/// The properties of a machine as a client; unknown ones are left blank.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SystemFacts {
    /// The manufacturer's model name.
    pub model: Option<String>,
    /// Processor name.
    pub cpu_model: Option<String>,
    /// Number of processors.
    pub sockets: Option<u32>,
    /// Number of cores of all processors.
    pub cores: Option<u32>,
    /// Memory in GiB.
    pub memory_gib: Option<u64>,
    /// Name of the operating system: `Ubuntu`.
    pub os_name: Option<String>,
    /// Version of the operating system.
    pub os_version: Option<String>,
    /// Network links.
    pub links: Vec<Link>,
    /// Drives.
    pub drives: Vec<Drive>,
    /// Kernel settings that affect storage, with their values.
    pub sysctl: Vec<(String, String)>,
    /// Environment variables that affect storage.
    pub environment: Vec<(String, String)>,
}

/// Network links of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// `ethernet`, `infiniband` or `other`.
    pub kind: &'static str,
    /// Whether it is up.
    pub is_up: bool,
    /// Speed in Gbit/s, if the kernel reports it.
    pub gbit_per_second: Option<u32>,
    /// Number of such links.
    pub count: u32,
}

/// Drives of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    /// Manufacturer.
    pub vendor: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// `nvme`, `sas`, `sata` or `other`.
    pub interface: &'static str,
    /// Whether it is a spinning disk.
    pub rotational: bool,
    /// Capacity in decimal GB, as manufacturers count.
    pub capacity_gb: u64,
    /// Number of such drives.
    pub count: u32,
}
