//! What ran, and how that is known: a path is never named without its evidence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::path::{EngineKind, PathKind};

/// What became of `O_DIRECT` on the files of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DirectIo {
    /// The path goes through the page cache by design, or touches no file.
    #[default]
    NotAsked,
    /// Every file was opened with `O_DIRECT` and `fcntl(F_GETFL)` shows it still set.
    Honoured,
    /// The file system refused it; the bytes went through the page cache.
    Refused,
}

/// How the I/O engine under a path was set up, as the kernel granted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EngineFacts {
    /// The engine that ran.
    pub engine: EngineKind,
    /// Flags of the ring, as the kernel names them; empty without a ring.
    pub ring_flags: Vec<String>,
    /// Whether the buffers were registered with the ring.
    pub registered_buffers: bool,
    /// Whether the files were registered with the ring.
    pub registered_files: bool,
    /// Why something above is less than what was asked for.
    pub fallbacks: Vec<String>,
}

/// What cuFile counted while a cell ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CuFileEvidence {
    /// Version of the library, `1.16`.
    pub library_version: String,
    /// Where the library was found.
    pub library_path: String,
    /// Transfers over PCI peer-to-peer DMA; `None` where the library does not count.
    pub p2p_operations: Option<u64>,
    /// Transfers through the nvidia-fs kernel driver; `None` where the library does not count.
    pub nvfs_operations: Option<u64>,
    /// Transfers through POSIX reads and writes, which is compatibility mode; `None` where the
    /// library does not count.
    pub posix_operations: Option<u64>,
    /// Operations that `/proc/driver/nvidia-fs/stats` counted meanwhile.
    pub nvfs_driver_operations: Option<u64>,
    /// Whether compatibility mode was allowed.
    pub compat_mode_allowed: Option<bool>,
    /// Properties of the driver that bear on the path, in words.
    pub properties: Vec<String>,
}

/// What ran, with the facts that prove it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The path the bytes really took; `None` when that could not be told.
    pub effective_path: Option<PathKind>,
    /// The route in one sentence, with what it rests on.
    pub summary: String,
    /// Whether `O_DIRECT` held.
    pub direct_io: DirectIo,
    /// The engine, for the paths the CPU drives.
    pub engine: Option<EngineFacts>,
    /// cuFile's own counters, for the paths it drives.
    pub cufile: Option<CuFileEvidence>,
}
