//! The request: lists, not yet combined or checked against the machine.

use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::choice::{CacheState, Fill, Fsync, IoSize, PathChoice, Span};
use stormlp_core::operation::{Direction, Operation};
use stormlp_core::path::MemoryKind;
use stormlp_core::telemetry::Telemetry;
use stormlp_core::transport::{DeviceId, EngineChoice, Pages, Threading};
use stormlp_core::units::ByteSize;

/// The location of a job's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A folder with one file for each thread.
    Folder(PathBuf),
    /// One file or block device that all threads of the job share.
    File(PathBuf),
}

impl Target {
    /// The folder or file.
    pub fn path(&self) -> &PathBuf {
        match self {
            Self::Folder(path) | Self::File(path) => path,
        }
    }

    /// The folder or file, mutable.
    pub fn path_mut(&mut self) -> &mut PathBuf {
        match self {
            Self::Folder(path) | Self::File(path) => path,
        }
    }
}

/// A group of threads with its own target and bindings. Jobs run concurrently in one cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRequest {
    /// Its name in reports.
    pub name: String,
    /// The location of its data.
    pub target: Target,
    /// Threads of this job; `None` takes its share of each entry of [`MatrixRequest::threads`].
    pub threads: Option<u32>,
    /// The accelerator of its transfers; `None` takes the request's devices in turn.
    pub device: Option<DeviceId>,
    /// The NUMA node its threads are bound to.
    pub numa_node: Option<u32>,
    /// Start offset in its files in bytes, instead of the request's.
    pub offset_bytes: Option<u64>,
    /// Its transfer size, instead of the cell's.
    pub io_size: Option<IoSize>,
}

impl JobRequest {
    /// A job on `target` without bindings.
    pub fn on(name: impl Into<String>, target: Target) -> Self {
        Self {
            name: name.into(),
            target,
            threads: None,
            device: None,
            numa_node: None,
            offset_bytes: None,
            io_size: None,
        }
    }
}

impl FromStr for JobRequest {
    type Err = String;

    /// Parses `dir=/mnt/a,device=cuda:0,numa=0,threads=4,offset=1M,io-size=1M`; either `dir` or
    /// `file` is required, and `name` is optional.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut job = Self::on("", Target::Folder(PathBuf::new()));
        let mut targets = 0;
        for part in text.split(',') {
            let (key, value) =
                part.split_once('=').ok_or_else(|| format!("`{part}` is not key=value"))?;
            let number = || value.parse().map_err(|_| format!("`{part}` needs a number"));
            match key {
                "dir" | "file" => {
                    targets += 1;
                    job.target = match key {
                        "dir" => Target::Folder(PathBuf::from(value)),
                        _ => Target::File(PathBuf::from(value)),
                    };
                }
                "name" => job.name = value.to_string(),
                "device" => job.device = Some(value.parse()?),
                "numa" => job.numa_node = Some(number()?),
                "threads" => job.threads = Some(number()?),
                "offset" => {
                    let size: ByteSize = value.parse().map_err(|e| format!("{e}"))?;
                    job.offset_bytes = Some(size.0);
                }
                "io-size" => job.io_size = Some(IoSize::parse_mix(value)?),
                _ => {
                    return Err(format!(
                        "`{key}` is not a key: use dir, file, name, device, numa, threads, \
                         offset and io-size"
                    ));
                }
            }
        }
        match targets {
            1 => Ok(job),
            _ => Err("a job has one `dir=` or one `file=`".to_string()),
        }
    }
}

/// Interpretation of the size of a file shared by threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedFile {
    /// Every thread has its own part of the file (gdsio's `-f` without `-T`).
    #[default]
    Split,
    /// Every thread covers the whole file (gdsio's `-f` with `-T`).
    Whole,
}

/// The request for a matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixRequest {
    /// Name of the report's folder: a preset's name, `matrix` or `gdsio`.
    pub name: String,
    /// The paths to compare.
    pub paths: PathChoice,
    /// The operations.
    pub ops: Vec<Operation>,
    /// The transfer sizes.
    pub io_sizes: Vec<IoSize>,
    /// The thread counts of cells.
    pub threads: Vec<u32>,
    /// Transfers in flight for each thread; batch entries on the batch paths.
    pub queue_depths: Vec<u32>,
    /// The jobs of every cell; at least one.
    pub jobs: Vec<JobRequest>,
    /// Stem of the file names in a folder: thread 3 uses `<stem>.3`.
    pub file_stem: String,
    /// Size of each thread's file, or of the used part of a given one, in bytes.
    pub file_size_bytes: Option<u64>,
    /// Whether files without a given size are fitted to what a cell reads from this storage in its
    /// time; presets request that.
    pub fit_files: bool,
    /// How threads share a given file.
    pub shared_file: SharedFile,
    /// Duration of a cell.
    pub span: Span,
    /// Warm-up before the measurement, in seconds.
    pub warmup_seconds: f64,
    /// Repetitions of each cell; every one is an entry of `cells[]`.
    pub repeat: u32,
    /// Whether only the cells needed to find the fewest transfers in flight near the best bandwidth
    /// run.
    #[serde(default)]
    pub find_knee: bool,
    /// Start offset in every file, in bytes.
    pub offset_bytes: u64,
    /// State of the page cache before a cell.
    pub cache: CacheState,
    /// The accelerators; if empty, the first available one, else the host stand-in.
    pub devices: Vec<DeviceId>,
    /// The kind of memory at the end of transfers.
    pub memory: MemoryKind,
    /// The page type of host memory buffers.
    pub pages: Pages,
    /// Whether buffers are registered with cuFile.
    pub register: bool,
    /// Whether files are opened with `O_DIRECT` on paths that want it; gdsio's `-O 1` disables it
    /// on cuFile's paths.
    pub open_direct: bool,
    /// Wait mode and placement of threads and their buffers.
    pub threading: Threading,
    /// Telemetry interval.
    pub telemetry: Telemetry,
    /// Whether reads are verified against the pattern.
    pub verify: bool,
    /// Seed of random offsets and of the pattern.
    pub seed: u64,
    /// Whether random offsets are unaligned.
    pub unaligned: bool,
    /// Alignment of random offsets in bytes, unless `unaligned`.
    pub random_alignment_bytes: u64,
    /// Contents of write buffers.
    pub fill: Fill,
    /// When the files of a writing cell are synced.
    pub fsync: Fsync,
    /// Whether the test files are kept for the next run.
    pub keep: bool,
    /// The I/O engine of the CPU paths.
    pub engine: EngineChoice,
    /// Submissions batched per system call; by default chosen from path and depth.
    pub submit_batch: Option<u32>,
    /// Whether a fallback of a `gds` path is an error.
    pub require_gds: bool,
    /// cuFile statistics level during the measurement; `None` means that cuFile counts a few
    /// transfers by route, before the measurement if they do not distort it.
    pub cufile_stats: Option<u8>,
    /// Whether it is an error if a file system refuses `O_DIRECT`.
    pub require_direct: bool,
    /// Whether block devices may be written, which destroys their contents.
    pub overwrite_block_devices: bool,
    /// The file systems, partition tables and memberships on block devices that may be overwritten,
    /// as `blkid` names them.
    pub overwrite_signatures: Vec<String>,
    /// Whether an earlier run of this matrix may have overwritten them already.
    pub resumes: bool,
    /// Share of reads in a mixed run in percent (gdsio's `-M`).
    pub read_percent: Option<u8>,
}

impl MatrixRequest {
    /// Whether reads are compared with a previously written pattern: none of its cells writes the
    /// files from end to end.
    pub fn compares_what_was_there(&self) -> bool {
        let reads = |op: &Operation| op.direction() == Direction::Read;
        self.verify && self.ops.iter().any(reads) && !self.ops.contains(&Operation::Write)
    }

    /// The default request of `stormlp gds`.
    pub fn plain(folder: PathBuf) -> Self {
        Self {
            name: "matrix".to_string(),
            paths: PathChoice::Auto,
            ops: vec![Operation::Read],
            io_sizes: vec![IoSize::fixed(1 << 20)],
            threads: vec![8],
            queue_depths: vec![1],
            jobs: vec![JobRequest::on("job0", Target::Folder(folder))],
            file_stem: "stormlp".to_string(),
            file_size_bytes: None,
            fit_files: false,
            shared_file: SharedFile::Split,
            span: Span::Seconds(5.0),
            warmup_seconds: 0.0,
            repeat: 1,
            find_knee: false,
            offset_bytes: 0,
            cache: CacheState::Cold,
            devices: Vec::new(),
            memory: MemoryKind::Device,
            pages: Pages::Huge,
            register: true,
            open_direct: true,
            threading: Threading::default(),
            telemetry: Telemetry::default(),
            verify: false,
            seed: 0,
            unaligned: false,
            random_alignment_bytes: 4096,
            fill: Fill::Once,
            fsync: Fsync::Auto,
            keep: true,
            engine: EngineChoice::Auto,
            submit_batch: None,
            require_gds: false,
            cufile_stats: None,
            require_direct: false,
            overwrite_block_devices: false,
            overwrite_signatures: Vec::new(),
            resumes: false,
            read_percent: None,
        }
    }
}
