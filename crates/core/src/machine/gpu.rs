//! GPUs, their driver, and the other requirements of direct storage.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::fact::Fact;

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
    /// Information from cuFile's driver: properties, routes and the settings that affect them.
    pub cufile_says: Vec<String>,
    /// The nvidia-fs kernel module.
    pub nvidia_fs: Fact<NvidiaFs>,
    /// Whether the kernel has the symbols that cuFile's peer-to-peer mode needs.
    pub kernel_p2pdma: Fact<bool>,
    /// Number of IOMMU groups; 0 means no IOMMU is active.
    pub iommu_groups: Fact<u32>,
    /// IOMMU arguments on the kernel command line.
    pub iommu_arguments: Fact<String>,
    /// PCI bridges that send peer-to-peer traffic through the root complex.
    pub acs_redirecting: Fact<Vec<AcsBridge>>,
}

/// An NVIDIA GPU as seen on the PCI bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciGpu {
    /// PCI address, `0000:3b:00.0`.
    pub pci_address: String,
    /// PCI device number, `0x2330`.
    pub device_id: Fact<String>,
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

/// The nvidia-fs kernel module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvidiaFs {
    /// Its version.
    pub version: String,
    /// GPUs and storage devices it has paired: the content of its `devcount`.
    pub device_count: Fact<String>,
}

/// A PCI bridge with access control services that redirect peer-to-peer requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcsBridge {
    /// PCI address of the bridge.
    pub pci_address: String,
    /// Control bits that are set, in `lspci` notation: `ReqRedir+ CmpltRedir+`.
    pub bits: String,
}
