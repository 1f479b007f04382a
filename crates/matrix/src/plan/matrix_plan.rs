//! What was decided: every number of a matrix before the first byte moves.

use std::iter::Sum;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::cells;
use super::choice::{CacheState, Fill, Fsync, IoSize, PathChoice, Span};
use super::manifest::ContentState;
use stormlp_core::facts::Availability;
use stormlp_core::location::Location;
use stormlp_core::operation::{Direction, Operation};
use stormlp_core::path::{EngineKind, PathKind};
use stormlp_core::placement::{CpuList, Placement};
use stormlp_core::telemetry::Telemetry;
use stormlp_core::transport::{DeviceId, EngineChoice, Pages, Transport};
use stormlp_core::warning::Warning;

/// What is to be done about a file before the first cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileAction {
    /// Nothing: it is there and fit for use.
    Use,
    /// Make it with its full size; the cells write it before anything reads it.
    Allocate,
    /// Make it (anew) and write the pattern of the plan's seed from end to end.
    Fill,
}

/// How many files of which action there are, and what is to be written before the first cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Layout {
    /// Files that are used as they are.
    pub used: usize,
    /// Files that are made, and written by the cells.
    pub made: usize,
    /// Files that are filled.
    pub filled: usize,
    /// Bytes to be written.
    pub bytes: u64,
}

impl Sum for Layout {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            used: sum.used + one.used,
            made: sum.made + one.made,
            filled: sum.filled + one.filled,
            bytes: sum.bytes.saturating_add(one.bytes),
        })
    }
}

/// One file or block device of a matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FilePlan {
    /// Where it is.
    pub path: PathBuf,
    /// How large it is or becomes, in bytes.
    pub bytes: u64,
    /// What is to be done before the first cell.
    pub action: FileAction,
    /// What it holds once that is done, as far as it is known.
    pub content: Option<ContentState>,
    /// The folder of the plan whose manifest lists it; `None` for a file that was named outright.
    pub folder: Option<usize>,
    /// Whether stormlp made it or is about to, so that it may be removed in the end.
    pub made_here: bool,
    /// Whether it is a block device.
    pub block_device: bool,
    /// Type of the file system it lies on: `xfs`, `tmpfs`.
    #[serde(default)]
    pub file_system: Option<String>,
    /// How many bytes of a file that was there lay in holes, or in space that was never written:
    /// reading them takes nothing from a device.
    #[serde(default)]
    pub hole_bytes: u64,
}

impl FilePlan {
    /// The file system where it has no storage behind it, so that no cache can be dropped.
    pub fn file_system_in_memory(&self) -> Option<&str> {
        let kind = self.file_system.as_deref()?;
        stormlp_core::facts::keeps_files_in_memory(kind).then_some(kind)
    }
}

/// A data folder of a matrix: locked while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FolderPlan {
    /// Where it is.
    pub path: Location,
    /// Whether it has to be made.
    pub create: bool,
}

/// What one thread of a cell does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerPlan {
    /// Index of its job in [`MatrixPlan::job_names`].
    pub job: usize,
    /// Index of its file in [`MatrixPlan::files`].
    pub file: usize,
    /// First byte of its part of the file.
    pub start_bytes: u64,
    /// Length of its part in bytes; transfers lie wholly within it.
    pub length_bytes: u64,
    /// The device its transfers end in.
    pub device: DeviceId,
    /// The NUMA node it is bound to, and its buffers in host memory come from.
    pub numa_node: Option<u32>,
    /// The CPUs it is bound to; `None` leaves it to the kernel.
    #[serde(default)]
    pub cpus: Option<CpuList>,
    /// The size of its transfers, where its job has one of its own.
    pub io_size: Option<IoSize>,
}

/// The threads of a cell. Cells of the same number of threads share a crew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Crew {
    /// One for each thread.
    pub workers: Vec<WorkerPlan>,
}

/// One run of one combination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellPlan {
    /// How its bytes move: on each thread one buffer for each transfer in flight, as long as the
    /// largest transfer, rounded up to whole pages. Workers on several devices have no device
    /// here.
    #[serde(flatten)]
    pub transport: Transport,
    /// The operation.
    pub op: Operation,
    /// The size of a transfer.
    pub io_size: IoSize,
    /// Which of the repetitions this is, from 1.
    pub repeat: u32,
    /// Index in [`MatrixPlan::crews`].
    pub crew: usize,
    /// Whether it can run; one that cannot is reported as unavailable with this reason.
    pub availability: Availability,
    /// Whether files are opened with `O_DIRECT`. `false` on a path that wants it says that the
    /// file system refuses it, which the evidence must show, or that the plan leaves it out.
    pub direct: bool,
    /// Whether its files are synced at its end, within the measured time.
    #[serde(default)]
    pub fsync: bool,
    /// Bytes asked for: every worker's part times the passes; what gdsio prints after the slash.
    pub requested_bytes: u64,
    /// How long it is thought to take, in seconds.
    pub estimated_seconds: f64,
}

/// A matrix in which every number is decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixPlan {
    /// Names the report's folder.
    pub name: String,
    /// The paths as they were asked for.
    pub paths: PathChoice,
    /// How long a cell runs.
    pub span: Span,
    /// Seconds a cell runs before it is measured.
    pub warmup_seconds: f64,
    /// How often each combination runs.
    pub repeat: u32,
    /// Whether only those cells run that it takes to find the knees.
    #[serde(default)]
    pub find_knee: bool,
    /// What a cell finds in the page cache.
    pub cache: CacheState,
    /// The devices, in the order workers take them.
    pub devices: Vec<DeviceId>,
    /// Whether what is read is compared with the pattern, and what is written is the pattern.
    pub verify: bool,
    /// Seed of random offsets and of the pattern.
    pub seed: u64,
    /// What random offsets are multiples of, in bytes; 1 for unaligned ones.
    pub random_alignment_bytes: u64,
    /// What write buffers hold, unless `verify` asks for the pattern.
    pub fill: Fill,
    /// When the files of a writing cell are synced, as it was asked for.
    #[serde(deserialize_with = "Fsync::read")]
    pub fsync: Fsync,
    /// Whether files that were made stay.
    pub keep: bool,
    /// Whether a `gds` path that falls back is an error.
    pub require_gds: bool,
    /// The level at which cuFile counts through the measured part; `null` has it count a few
    /// transfers by their routes, before that part where they do no harm there.
    #[serde(default)]
    pub cufile_stats: Option<u8>,
    /// Whether a refused `O_DIRECT` is an error.
    pub require_direct: bool,
    /// Whether files are opened with `O_DIRECT` where the path wants it.
    #[serde(default = "yes")]
    pub open_direct: bool,
    /// Where threads and their buffers are.
    #[serde(default)]
    pub placement: Placement,
    /// Seconds between two looks at devices, host, network and GPUs; `null` without any.
    #[serde(rename = "telemetry_seconds", default = "Telemetry::off")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub telemetry: Telemetry,
    /// Share of reads in percent in a mixed run.
    pub read_percent: Option<u8>,
    /// The data folders.
    pub folders: Vec<FolderPlan>,
    /// The files.
    pub files: Vec<FilePlan>,
    /// Bytes to be written before the first cell.
    pub layout_bytes: u64,
    /// The engine of this host, which writes them and serves the cells where it is the best; `None`
    /// in reports of before it was told.
    #[serde(default)]
    pub engine: Option<EngineKind>,
    /// Names of the jobs.
    pub job_names: Vec<String>,
    /// The crews that cells refer to.
    pub crews: Vec<Crew>,
    /// The cells in the order they run.
    pub cells: Vec<CellPlan>,
    /// Host memory for all buffers of the largest cell, in bytes.
    pub region_bytes: u64,
    /// How long all of it is thought to take, layout included, in seconds.
    pub estimated_seconds: f64,
    /// What the reader should know before it runs.
    pub warnings: Vec<Warning>,
}

/// What plans of before did without being asked.
fn yes() -> bool {
    true
}

impl MatrixPlan {
    /// What is to be done about its files.
    pub fn layout(&self) -> Layout {
        let count = |action| {
            let files = self.files.iter();
            files.filter(|file| file.action == action).count()
        };
        Layout {
            used: count(FileAction::Use),
            made: count(FileAction::Allocate),
            filled: count(FileAction::Fill),
            bytes: self.layout_bytes,
        }
    }

    /// The engine of this host; in older reports that of the cells, which all had the same.
    pub fn host_engine(&self) -> EngineKind {
        let first = || (self.cells.first()).map_or(EngineKind::Psync, |c| c.transport.engine);
        self.engine.unwrap_or_else(first)
    }

    /// The engines of its cells, each once.
    fn engines(&self) -> Vec<EngineKind> {
        let mut engines = Vec::new();
        for cell in &self.cells {
            if cell.transport.path.has_engine() && !engines.contains(&cell.transport.engine) {
                engines.push(cell.transport.engine);
            }
        }
        engines
    }

    /// The engines in words, and whether stormlp chose them.
    pub fn engines_in_words(&self) -> String {
        let names: Vec<String> = self.engines().iter().map(ToString::to_string).collect();
        let chosen = |cell: &CellPlan| cell.transport.engine_asked == EngineChoice::Auto;
        let by_itself = |cell: &CellPlan| {
            chosen(cell) && cell.transport.engine == EngineKind::Psync && names.len() > 1
        };
        if names.is_empty() {
            "none".to_string()
        } else if self.cells.iter().any(by_itself) {
            "psync for single transfers through the page cache, else uring (auto)".to_string()
        } else if self.cells.iter().any(chosen) {
            format!("{} (auto)", names.join(", "))
        } else {
            names.join(", ")
        }
    }

    /// The pages that buffers are to lie on: the same in all cells.
    pub fn pages(&self) -> Pages {
        (self.cells.first()).map_or(Pages::default(), |cell| cell.transport.pages)
    }

    /// Where threads are and how they wait, as far as that was decided and has an effect.
    pub fn threads_in_words(&self) -> Option<String> {
        let waits = |cell: &&CellPlan| cell.transport.waits_for_gpu();
        let cell = self.cells.iter().find(waits).or(self.cells.first());
        cell?.transport.threads_in_words()
    }

    /// The nodes that workers are bound to, each with the host memory in bytes for the buffers of
    /// the largest cell there; `None` stands for workers that are not bound.
    pub fn regions(&self) -> Vec<(Option<u32>, u64)> {
        let workers = self.crews.iter().flat_map(|crew| &crew.workers);
        let mut nodes: Vec<Option<u32>> = workers.map(|worker| worker.numa_node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let bytes = |node| cells::region_bytes(&self.cells, &self.crews, |w| w.numa_node == node);
        nodes.into_iter().map(|node| (node, bytes(node))).collect()
    }

    /// Whether a cell that can run writes.
    pub fn writes(&self) -> bool {
        self.writing_cells().next().is_some()
    }

    /// The cells that can run and write.
    pub fn writing_cells(&self) -> impl Iterator<Item = &CellPlan> {
        let mixed = self.read_percent.is_some();
        let writes = move |cell: &&CellPlan| {
            let some = cell.op.direction() == Direction::Write || mixed;
            some && cell.transport.path != PathKind::Null
        };
        let runnable = (self.cells.iter()).filter(|cell| cell.availability.is_available());
        runnable.filter(writes)
    }

    /// How many different bytes of its files a cell goes over: workers may share them.
    pub fn covered_bytes(&self, cell: &CellPlan) -> u64 {
        let workers = (self.crews.get(cell.crew)).map_or(&[][..], |crew| &crew.workers);
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

    /// What share of its files lies in holes, where it is worth a word and reads find them: what is
    /// written first has none any more.
    pub fn hole_share(&self) -> Option<f64> {
        const LEAST: f64 = 0.01;
        let sum = |of: fn(&FilePlan) -> u64| self.files.iter().map(of).fold(0, u64::saturating_add);
        let share = sum(|file| file.hole_bytes) as f64 / sum(|file| file.bytes).max(1) as f64;
        let written_first = (self.cells.first()).is_some_and(|cell| cell.op == Operation::Write);
        (share >= LEAST && !written_first).then_some(share)
    }

    /// The cells that can run on this machine.
    pub fn runnable_cells(&self) -> usize {
        self.cells.iter().filter(|cell| cell.availability.is_available()).count()
    }
}
