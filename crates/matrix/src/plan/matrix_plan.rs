//! The plan of a matrix: every number is decided before the first byte moves.

use std::path::PathBuf;

use derive_more::{Add, Sum};
use serde::{Deserialize, Serialize};

use super::choice::{CellSpan, IoSize};
use super::manifest::ContentState;
use super::request::MatrixRequest;
use stormlp_core::distinct::distinct;
use stormlp_core::facts::Availability;
use stormlp_core::location::Location;
use stormlp_core::operation::{Direction, Operation};
use stormlp_core::path::{EngineKind, MemoryKind, PathKind, buffers_needed};
use stormlp_core::placement::{CpuList, Placement};
use stormlp_core::transport::{DeviceId, EngineChoice, Pages, Transport};
use stormlp_core::units::GIB;
use stormlp_core::warning::Warning;

/// Throughput assumed for time estimates, in bytes per second.
pub const ASSUMED_BYTES_PER_SECOND: f64 = GIB as f64;

/// What to do with a file before the first cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileAction {
    /// No action: it exists and is usable.
    Use,
    /// Create it with its full size; the cells write it before anything reads it.
    Allocate,
    /// Create or recreate it and fill it with the pattern of the plan's seed.
    Fill,
}

/// Number of files for each action, and the bytes to write before the first cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Add, Sum)]
pub struct LayoutSummary {
    /// Existing files to use.
    pub used: usize,
    /// Files to create, written by the cells.
    pub made: usize,
    /// Files to fill.
    pub filled: usize,
    /// Bytes to write.
    pub bytes: u64,
}

/// One file or block device of a matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FilePlan {
    /// Its location.
    pub path: PathBuf,
    /// Its current or planned size in bytes.
    pub bytes: u64,
    /// What to do before the first cell.
    pub action: FileAction,
    /// Its contents after that, if known.
    pub content: Option<ContentState>,
    /// The folder of the plan with a manifest that lists it; `None` for an explicitly named file.
    pub folder: Option<usize>,
    /// Whether stormlp created it or will create it, so that it may be removed at the end.
    pub created_by_stormlp: bool,
    /// File system type: `xfs`, `tmpfs`.
    pub file_system: Option<String>,
    /// Bytes in holes or never written extents of an existing file: reading them does not access a
    /// device.
    pub hole_bytes: u64,
}

impl FilePlan {
    /// The file system type if it has no storage behind it, so that caches cannot be dropped.
    pub fn file_system_in_memory(&self) -> Option<&str> {
        let kind = self.file_system.as_deref()?;
        stormlp_core::facts::keeps_files_in_memory(kind).then_some(kind)
    }
}

/// The task of one thread of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerPlan {
    /// Index of its job in [`MatrixRequest::jobs`].
    pub job: usize,
    /// Index of its file in [`MatrixPlan::files`].
    pub file: usize,
    /// First byte of its part of the file.
    pub start_bytes: u64,
    /// Length of its part in bytes; transfers stay entirely within it.
    pub length_bytes: u64,
    /// The device of its transfers.
    pub device: DeviceId,
    /// The NUMA node it is bound to; its host memory buffers are allocated there.
    pub numa_node: Option<u32>,
    /// The CPUs it is bound to; `None` leaves placement to the kernel.
    pub cpus: Option<CpuList>,
    /// The size of its transfers, if its job overrides it.
    pub io_size: Option<IoSize>,
}

impl WorkerPlan {
    /// The size of its transfers in a cell of `io_size`.
    pub(crate) fn io_size_in(&self, io_size: IoSize) -> IoSize {
        self.io_size.unwrap_or(io_size)
    }
}

/// The threads of a cell. Cells with the same thread count share a thread group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadGroupPlan {
    /// One entry for each thread.
    pub workers: Vec<WorkerPlan>,
}

impl ThreadGroupPlan {
    /// The bytes requested of it.
    pub(super) fn requested_bytes(&self, span: CellSpan) -> u64 {
        let lengths = self.workers.iter().map(|worker| worker.length_bytes);
        let once = lengths.fold(0, u64::saturating_add);
        match span {
            CellSpan::Seconds(_) | CellSpan::Steady(_) => once,
            CellSpan::Passes(passes) => once.saturating_mul(u64::from(passes)),
        }
    }
}

/// A single run of one combination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellPlan {
    /// How its bytes move. Each thread has one buffer for each transfer in flight, as long as the
    /// largest transfer, rounded up to whole pages. The device is unset if workers use several.
    #[serde(flatten)]
    pub transport: Transport,
    /// The operation.
    pub op: Operation,
    /// Transfer size.
    pub io_size: IoSize,
    /// Repetition number, from 1.
    pub repeat: u32,
    /// Index in [`MatrixPlan::thread_groups`].
    pub thread_group: usize,
    /// Whether it can run; if not, it is reported as unavailable with this reason.
    pub availability: Availability,
    /// Whether files are opened with `O_DIRECT`. If `false` on a path that wants it, either the
    /// file system refuses it, which the evidence must show, or the plan disables it.
    pub direct: bool,
    /// Whether its files are synced at the end, within the measured time.
    pub fsync: bool,
    /// Requested bytes: every worker's part times the passes; gdsio prints this after the slash.
    pub requested_bytes: u64,
    /// Estimated duration in seconds.
    pub estimated_seconds: f64,
}

impl CellPlan {
    /// Whether its threads make blocking calls, so that the queue depth has no effect.
    pub(super) fn blocks(&self) -> bool {
        let path = self.transport.path;
        // The copies of `cpu-async-gpu` overlap, but its reads and writes do not.
        path == PathKind::Gds || (path.has_engine() && self.transport.engine == EngineKind::Psync)
    }
}

/// A matrix with all numbers decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixPlan {
    /// The request, with its omitted options filled in.
    pub request: MatrixRequest,
    /// The devices in the order in which workers receive them.
    pub devices: Vec<DeviceId>,
    /// Placement of threads and their buffers.
    pub placement: Placement,
    /// The data folders, locked during the run.
    pub folders: Vec<Location>,
    /// The files.
    pub files: Vec<FilePlan>,
    /// Bytes to write before the first cell.
    pub layout_bytes: u64,
    /// The I/O engine of this host, which lays out the files and runs the cells it suits best.
    pub engine: EngineKind,
    /// The thread groups that cells refer to.
    pub thread_groups: Vec<ThreadGroupPlan>,
    /// The cells in execution order.
    pub cells: Vec<CellPlan>,
    /// Host memory for all buffers of the largest cell, in bytes.
    pub region_bytes: u64,
    /// Estimated total duration including layout, in seconds.
    pub estimated_seconds: f64,
    /// Warnings to read before the run.
    pub warnings: Vec<Warning>,
}

impl MatrixPlan {
    /// What to do with its files.
    pub fn layout(&self) -> LayoutSummary {
        let count = |action| {
            let files = self.files.iter();
            files.filter(|file| file.action == action).count()
        };
        LayoutSummary {
            used: count(FileAction::Use),
            made: count(FileAction::Allocate),
            filled: count(FileAction::Fill),
            bytes: self.layout_bytes,
        }
    }

    /// The engines as text, and whether stormlp chose them.
    pub fn engines_in_words(&self) -> String {
        let cells = self.cells.iter().filter(|cell| cell.transport.path.has_engine());
        let chosen = |cell: &CellPlan| cell.transport.requested_engine == EngineChoice::Auto;
        let auto = if self.cells.iter().any(chosen) { " (auto)" } else { "" };
        match distinct(cells.map(|cell| cell.transport.engine.name())).as_slice() {
            [] => "none".to_string(),
            names => format!("{}{auto}", names.join(", ")),
        }
    }

    /// The requested page type of buffers: the same in all cells.
    pub fn pages(&self) -> Pages {
        (self.cells.first()).map_or(Pages::default(), |cell| cell.transport.pages)
    }

    /// Thread placement and wait mode as text, if they were decided and have an effect.
    pub fn threads_in_words(&self) -> Option<String> {
        let waits = |cell: &&CellPlan| cell.transport.waits_for_gpu();
        let cell = self.cells.iter().find(waits).or(self.cells.first());
        cell?.transport.threads_in_words()
    }

    /// The NUMA nodes of workers, each with the host memory in bytes for the buffers of the largest
    /// cell there; `None` stands for unbound workers.
    pub fn regions(&self) -> Vec<(Option<u32>, u64)> {
        let workers = self.thread_groups.iter().flat_map(|thread_group| &thread_group.workers);
        let mut nodes: Vec<Option<u32>> = workers.map(|worker| worker.numa_node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let bytes = |node| region_bytes(&self.cells, &self.thread_groups, |w| w.numa_node == node);
        nodes.into_iter().map(|node| (node, bytes(node))).collect()
    }

    /// Whether any runnable cell writes.
    pub fn writes(&self) -> bool {
        self.writing_cells().next().is_some()
    }

    /// The runnable cells that write.
    pub fn writing_cells(&self) -> impl Iterator<Item = &CellPlan> {
        let mixed = self.request.read_percent.is_some();
        let writes = move |cell: &&CellPlan| {
            let some = cell.op.direction() == Direction::Write || mixed;
            some && cell.transport.path != PathKind::Null
        };
        let runnable = (self.cells.iter()).filter(|cell| cell.availability.is_available());
        runnable.filter(writes)
    }

    /// Number of distinct file bytes that a cell covers: workers may share them.
    pub fn covered_bytes(&self, cell: &CellPlan) -> u64 {
        let workers = (self.thread_groups.get(cell.thread_group))
            .map_or(&[][..], |thread_group| &thread_group.workers);
        let part = |worker: &WorkerPlan| {
            let end = worker.start_bytes.saturating_add(worker.length_bytes);
            (worker.file, worker.start_bytes, end)
        };
        let mut parts: Vec<(usize, u64, u64)> = workers.iter().map(part).collect();
        parts.sort_unstable();
        let (mut sum, mut last) = (0u64, (usize::MAX, 0));
        for (file, start, end) in parts {
            let from = if last.0 == file { start.max(last.1) } else { start };
            sum = sum.saturating_add(end.saturating_sub(from));
            last = (file, end.max(from));
        }
        sum
    }

    /// Share of holes in its files, if significant and visible to reads: files written first have
    /// no holes any more.
    pub fn hole_share(&self) -> Option<f64> {
        const LEAST: f64 = 0.01;
        let sum = |of: fn(&FilePlan) -> u64| self.files.iter().map(of).fold(0, u64::saturating_add);
        let share = sum(|file| file.hole_bytes) as f64 / sum(|file| file.bytes).max(1) as f64;
        let written_first = (self.cells.first()).is_some_and(|cell| cell.op == Operation::Write);
        (share >= LEAST && !written_first).then_some(share)
    }

    /// Number of cells that can run on this machine.
    pub fn runnable_cells(&self) -> usize {
        self.cells.iter().filter(|cell| cell.availability.is_available()).count()
    }
}

/// Whether this kind is ordinary host memory, including on GPU paths.
pub(super) fn is_host_memory(kind: MemoryKind) -> bool {
    matches!(kind, MemoryKind::Host | MemoryKind::Mmap)
}

/// Host memory for the buffers of the largest cell, of all workers or of those on one NUMA node.
/// The stand-in's accelerator buffers are host memory too.
pub(super) fn region_bytes(
    cells: &[CellPlan],
    thread_groups: &[ThreadGroupPlan],
    counts: impl Fn(&WorkerPlan) -> bool,
) -> u64 {
    let of_cell = |cell: &CellPlan| {
        let (host, accelerator) = buffers_needed(cell.transport.path, cell.transport.queue_depth);
        let workers = thread_groups.get(cell.thread_group).map_or(&[][..], |of| &of.workers);
        workers.iter().filter(|worker| counts(worker)).fold(0u64, |sum, worker| {
            let carved = is_host_memory(cell.transport.memory) || worker.device == DeviceId::Host;
            let count = host + if carved { accelerator } else { 0 };
            sum.saturating_add((count as u64).saturating_mul(cell.transport.chunk_bytes))
        })
    };
    let runnable = cells.iter().filter(|c| c.availability.is_available());
    runnable.map(of_cell).max().unwrap_or(0)
}
