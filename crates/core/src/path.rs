//! The transfer paths: the ways bytes can get between storage and an accelerator.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

use crate::names::{Named, unknown, unknown_among};

/// A transfer path; the names of `--path`.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum PathKind {
    /// cuFile read and write straight to registered memory.
    Gds,
    /// O_DIRECT into host memory.
    Cpu,
    /// Through the page cache into host memory.
    #[default]
    Buffered,
    /// O_DIRECT to a bounce buffer, then a copy to accelerator memory.
    CpuGpu,
    /// Like `CpuGpu`, with the copy overlapping the next read.
    CpuAsyncGpu,
    /// Through the page cache, then a copy to accelerator memory.
    PageCache,
    /// cuFile's stream API.
    GdsAsync,
    /// cuFile's batch API, one batch after another.
    GdsBatch,
    /// cuFile's batch API, with completed entries replaced individually: a continuous stream.
    GdsBatchStream,
    /// Recorded when a cuFile path got no direct route: cuFile's compatibility mode, i.e. POSIX
    /// reads and writes inside the library. It cannot be requested, only found to have run.
    GdsCompat,
    /// GET and PUT of objects into host memory: the only path to `s3://`, and only to it.
    S3,
    /// Moves no bytes: measures the ceiling of the harness itself.
    Null,
}

impl PathKind {
    /// Every path to files that can be requested, in gdsio's order, `buffered` after `cpu`, `null`
    /// last.
    pub const ALL: [Self; 10] = [
        Self::Gds,
        Self::Cpu,
        Self::Buffered,
        Self::CpuGpu,
        Self::CpuAsyncGpu,
        Self::PageCache,
        Self::GdsAsync,
        Self::GdsBatch,
        Self::GdsBatchStream,
        Self::Null,
    ];

    /// The paths a plain `stormlp gds` compares.
    pub const AUTO: [Self; 3] = [Self::Gds, Self::CpuGpu, Self::PageCache];

    /// The paths of checkpoints and KV caches to files.
    const OF_FILES: [Self; 7] = [
        Self::Buffered,
        Self::Cpu,
        Self::PageCache,
        Self::CpuGpu,
        Self::Gds,
        Self::GdsAsync,
        Self::GdsBatch,
    ];

    /// Parses a path of checkpoints or of KV caches, of which `what` names one.
    ///
    /// # Errors
    /// The paths to use.
    pub fn of_files(text: &str, what: &str) -> Result<Self, String> {
        let names = || Self::OF_FILES.map(Self::name).join(", ");
        let found = Self::OF_FILES.into_iter().find(|path| path.name() == text);
        found.ok_or_else(|| format!("`{text}` is not a path for {what}: use {}", names()))
    }

    /// Every path that can be requested.
    pub fn named() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain([Self::S3])
    }

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// gdsio's number (`-x`), its label, and the route as the gdsio study writes it.
    fn gdsio(self) -> (Option<u8>, &'static str, &'static str) {
        match self {
            Self::Gds => (Some(0), "GPUD", "Storage->GPU (GDS)"),
            Self::Cpu => (Some(1), "CPUONLY", "Storage->CPU"),
            Self::Buffered => (Some(1), "CPUONLY", "Storage->PAGE_CACHE->CPU"),
            Self::CpuGpu => (Some(2), "CPU_GPU", "Storage->CPU->GPU"),
            Self::CpuAsyncGpu => (Some(3), "CPU_ASYNC_GPU", "Storage->CPU->GPU_ASYNC"),
            Self::PageCache => (Some(4), "CPU_CACHED_GPU", "Storage->PAGE_CACHE->CPU->GPU"),
            Self::GdsAsync => (Some(5), "GPUD_ASYNC", "Storage->GPU_ASYNC"),
            Self::GdsBatch => (Some(6), "GPU_BATCH", "Storage->GPU_BATCH"),
            Self::GdsBatchStream => (Some(7), "GPU_BATCH_STREAM", "Storage->GPU_BATCH_STREAM"),
            Self::GdsCompat => (None, "GPUD_COMPAT", "Storage->CPU->GPU (inside cuFile)"),
            Self::S3 => (None, "S3", "Storage->HTTP->CPU"),
            Self::Null => (None, "NULL", "nothing"),
        }
    }

    /// Its number in gdsio (`-x`); `None` if gdsio lacks it.
    pub fn gdsio_number(self) -> Option<u8> {
        self.gdsio().0
    }

    /// Its label in gdsio's result line.
    pub fn gdsio_label(self) -> &'static str {
        self.gdsio().1
    }

    /// Its route.
    pub fn route(self) -> &'static str {
        self.gdsio().2
    }

    /// Whether cuFile performs the transfer.
    pub fn needs_cufile(self) -> bool {
        matches!(
            self,
            Self::Gds | Self::GdsAsync | Self::GdsBatch | Self::GdsBatchStream | Self::GdsCompat
        )
    }

    /// Whether the CPU moves the bytes, so that the path uses an I/O engine.
    pub fn has_engine(self) -> bool {
        !self.needs_cufile() && !matches!(self, Self::S3 | Self::Null)
    }

    /// Whether the bytes pass through the page cache by design.
    pub fn uses_page_cache(self) -> bool {
        matches!(self, Self::Buffered | Self::PageCache)
    }

    /// Whether files should be opened with `O_DIRECT`.
    pub fn wants_direct(self) -> bool {
        !self.uses_page_cache() && !matches!(self, Self::S3 | Self::Null)
    }

    /// The path that runs where the file system refuses `O_DIRECT`.
    pub fn without_direct(self) -> Self {
        match self {
            Self::Cpu => Self::Buffered,
            Self::CpuGpu | Self::CpuAsyncGpu => Self::PageCache,
            other => other,
        }
    }

    /// Whether the bytes end in (or start from) accelerator memory.
    pub fn ends_in_accelerator(self) -> bool {
        !matches!(self, Self::Cpu | Self::Buffered | Self::S3 | Self::Null)
    }

    /// Whether a host buffer sits between storage and accelerator memory.
    pub fn has_bounce_buffer(self) -> bool {
        matches!(self, Self::CpuGpu | Self::CpuAsyncGpu | Self::PageCache)
    }
}

impl FromStr for PathKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let asked = Self::named().find(|path| path.name() == text);
        let names: Vec<&str> = Self::named().map(Self::name).collect();
        asked.ok_or_else(|| unknown_among(&names, "a path", text))
    }
}

/// The number of host buffers and accelerator buffers a path needs at a queue depth.
pub fn buffers_needed(kind: PathKind, queue_depth: usize) -> (usize, usize) {
    match kind {
        PathKind::Cpu | PathKind::Buffered | PathKind::S3 | PathKind::Null => (queue_depth, 0),
        PathKind::CpuGpu | PathKind::PageCache => (queue_depth, queue_depth),
        // One extra of each, so that a copy overlaps the next read at every depth.
        PathKind::CpuAsyncGpu => (queue_depth + 1, queue_depth + 1),
        PathKind::Gds
        | PathKind::GdsAsync
        | PathKind::GdsBatch
        | PathKind::GdsBatchStream
        | PathKind::GdsCompat => (0, queue_depth),
    }
}

/// The I/O engine of CPU-driven paths.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Display, IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum EngineKind {
    /// io_uring on a raw ring, one per thread.
    Uring,
    /// io_uring through tokio-uring.
    TokioUring,
    /// `pread` and `pwrite`, one at a time per thread.
    Psync,
}

impl EngineKind {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The kind of memory at the end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum MemoryKind {
    /// Device memory from `cuMemAlloc` (gdsio's `-m 0`).
    #[default]
    Device,
    /// Device memory from CUDA's virtual memory API (`-m 1`).
    Vmm,
    /// Pinned host memory from CUDA (`-m 2`).
    Pinned,
    /// Ordinary host memory (`-m 3`).
    Host,
    /// Host memory from `mmap` (`-m 4`).
    Mmap,
}

impl Named for MemoryKind {
    const WHAT: &'static str = "a kind of memory";
}

impl MemoryKind {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The kind of host memory in words; `None` for GPU memory.
    pub fn host_words(self) -> Option<&'static str> {
        match self {
            Self::Device | Self::Vmm => None,
            Self::Pinned => Some("pinned host memory"),
            Self::Host => Some("host memory"),
            Self::Mmap => Some("host memory from mmap"),
        }
    }
}

/// The location of the accelerator memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub enum DeviceId {
    /// Host memory emulates an accelerator.
    Host,
    /// A GPU, by the number that CUDA gives it.
    Gpu(u32),
}

impl DeviceId {
    /// The GPU of NVIDIA's with this CUDA index.
    pub const fn nvidia(index: u32) -> Self {
        Self::Gpu(index)
    }

    /// The number of the GPU; `None` for host memory.
    pub fn gpu_index(self) -> Option<u32> {
        match self {
            Self::Host => None,
            Self::Gpu(index) => Some(index),
        }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.pad("host"),
            Self::Gpu(index) => f.pad(&format!("cuda:{index}")),
        }
    }
}

impl From<DeviceId> for String {
    fn from(device: DeviceId) -> Self {
        device.to_string()
    }
}

impl TryFrom<String> for DeviceId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for DeviceId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "host" {
            return Ok(Self::Host);
        }
        text.strip_prefix("cuda:")
            .unwrap_or(text)
            .parse()
            .map(Self::nvidia)
            .map_err(|_| format!("`{text}` is not a device: use host or cuda:0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for path in PathKind::named() {
            assert_eq!(path.name().parse::<PathKind>().unwrap(), path);
            let json = serde_json::to_string(&path).unwrap();
            assert_eq!(json, format!("\"{}\"", path.name()));
        }
        assert!("gds-compat".parse::<PathKind>().is_err());
        assert!("gdz".parse::<PathKind>().unwrap_err().contains("gds-batch"));
    }
}
