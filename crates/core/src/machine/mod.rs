//! What `stormlp doctor` reports about a machine: plain data, each value either known or unknown
//! with a reason. Gathered by `transfer::probe`, rendered by `show::doctor`.

mod advice;
mod claims;
mod client;
mod fact;
mod gpu;
mod storage;

use serde::{Deserialize, Serialize};

use crate::facts::{Availability, HostFacts};
use crate::warning::Warning;

pub use advice::advice;
pub use claims::{DeviceClaims, Signature};
pub use client::{Drive, Link, SystemFacts};
pub use fact::Fact;
pub use gpu::{AcsBridge, GpuFacts, LibraryFacts, NvidiaFs, PciGpu};
pub use storage::{
    BlockDevice, BlockKind, DirectSupport, Filesystem, PcieLink, QueueFacts, StorageFacts,
    TargetFacts,
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
    /// io_uring in detail.
    pub io_uring: IoUringFacts,
    /// GPUs, their drivers and libraries.
    pub gpu: GpuFacts,
    /// The storage behind the requested directory.
    pub storage: StorageFacts,
    /// What is worth changing before measuring; see [`advice`].
    pub warnings: Vec<Warning>,
}

/// How this stormlp was built, where that limits what it can do.
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
    /// CPU quota of the control group, in CPUs; `None` without a quota.
    pub quota_cpus: Option<f64>,
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

/// io_uring in detail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoUringFacts {
    /// The sysctl `kernel.io_uring_disabled`: 0 allows everybody, 1 a group, 2 nobody.
    pub disabled_setting: Fact<u8>,
    /// Set-up flags that the hot loop prefers, and whether this kernel supports them.
    pub flags: Vec<RingFlag>,
}

/// One flag of `io_uring_setup`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingFlag {
    /// The kernel's name: `DEFER_TASKRUN`.
    pub name: String,
    /// Whether a ring can be set up with it.
    pub availability: Availability,
}
