//! What was asked for: lists, not yet crossed; nothing checked against the machine.

use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::choice::{CacheState, Fill, Fsync, IoSize, PathChoice, Span};
use stormlp_core::operation::{Direction, Operation};
use stormlp_core::path::MemoryKind;
use stormlp_core::telemetry::Telemetry;
use stormlp_core::transport::{DeviceId, EngineChoice, Pages, Threading};
use stormlp_core::units::ByteSize;

/// Where the bytes of a job lie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A folder in which every thread has a file of its own.
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

    /// The same, to be changed.
    pub fn path_mut(&mut self) -> &mut PathBuf {
        match self {
            Self::Folder(path) | Self::File(path) => path,
        }
    }
}

/// A group of threads with a target and bindings of its own. Jobs run side by side in one cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRequest {
    /// What reports call it.
    pub name: String,
    /// Where its bytes lie.
    pub target: Target,
    /// Threads of this job; `None` takes its share of each entry of [`MatrixRequest::threads`].
    pub threads: Option<u32>,
    /// The accelerator its transfers end in; `None` takes the request's devices in turn.
    pub device: Option<DeviceId>,
    /// The NUMA node its threads are bound to.
    pub numa_node: Option<u32>,
    /// Where in its files it starts, instead of the request's offset, in bytes.
    pub offset_bytes: Option<u64>,
    /// The size of its transfers, instead of the cell's.
    pub io_size: Option<IoSize>,
}

impl JobRequest {
    /// A job on `target` without bindings of its own.
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

    /// Reads `dir=/mnt/a,device=cuda:0,numa=0,threads=4,offset=1M,io-size=1M`; one of `dir` and
    /// `file` is needed, and `name` is taken too.
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

/// How a size given for a file shared by threads is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedFile {
    /// Every thread has its own part of the file (gdsio's `-f` without `-T`).
    #[default]
    Split,
    /// Every thread goes over the whole file (gdsio's `-f` with `-T`).
    Whole,
}

/// What was asked of a matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixRequest {
    /// Names the report's folder: a preset's name, `matrix` or `gdsio`.
    pub name: String,
    /// The paths to compare.
    pub paths: PathChoice,
    /// The operations.
    pub ops: Vec<Operation>,
    /// The sizes of a transfer.
    pub io_sizes: Vec<IoSize>,
    /// Threads of a cell.
    pub threads: Vec<u32>,
    /// Transfers in flight for each thread; batch entries on the batch paths.
    pub queue_depths: Vec<u32>,
    /// The jobs of every cell; at least one.
    pub jobs: Vec<JobRequest>,
    /// Stem of the files in a folder: thread 3 has `<stem>.3`.
    pub file_stem: String,
    /// Size of each thread's file, or of the part that is used of a given one, in bytes.
    pub file_size_bytes: Option<u64>,
    /// Whether files whose size was not given hold what a cell reads of this storage in its time:
    /// what a preset asks for.
    pub fit_files: bool,
    /// How threads share a given file.
    pub shared_file: SharedFile,
    /// How long a cell runs.
    pub span: Span,
    /// Seconds a cell runs before it is measured.
    pub warmup_seconds: f64,
    /// How often each cell runs; every time is an entry of `cells[]`.
    pub repeat: u32,
    /// Whether only cells are run that it takes to find the fewest transfers in flight that come
    /// near the best bandwidth.
    #[serde(default)]
    pub find_knee: bool,
    /// Where in every file to start, in bytes.
    pub offset_bytes: u64,
    /// What a cell finds in the page cache.
    pub cache: CacheState,
    /// The accelerators; empty takes the first one there is, else the host stand-in.
    pub devices: Vec<DeviceId>,
    /// What kind of memory transfers end in.
    pub memory: MemoryKind,
    /// What pages buffers in host memory are to lie on.
    pub pages: Pages,
    /// Whether buffers are registered with cuFile.
    pub register: bool,
    /// Whether files are opened with `O_DIRECT` where the path wants it; gdsio's `-O 1` leaves it
    /// out on cuFile's paths.
    pub open_direct: bool,
    /// How threads wait, and where they and their buffers are.
    pub threading: Threading,
    /// Telemetry interval.
    pub telemetry: Telemetry,
    /// Whether what is read is compared with the pattern.
    pub verify: bool,
    /// Seed of random offsets and of the pattern.
    pub seed: u64,
    /// Whether random offsets may lie anywhere.
    pub unaligned: bool,
    /// What random offsets are multiples of, in bytes, unless `unaligned`.
    pub random_alignment_bytes: u64,
    /// What write buffers hold.
    pub fill: Fill,
    /// When the files of a writing cell are synced.
    pub fsync: Fsync,
    /// Whether files that were laid out stay for the next run.
    pub keep: bool,
    /// The engine of the CPU's paths.
    pub engine: EngineChoice,
    /// Submissions gathered before they go to the kernel; by path and depth when not said.
    pub submit_batch: Option<u32>,
    /// Whether a `gds` path that falls back is an error.
    pub require_gds: bool,
    /// The level at which cuFile counts through the measured part; `None` has it count a few
    /// transfers by their routes, before that part where they do no harm there.
    pub cufile_stats: Option<u8>,
    /// Whether a file system that refuses `O_DIRECT` is an error.
    pub require_direct: bool,
    /// Whether block devices may be written, which destroys what is on them.
    pub overwrite_block_devices: bool,
    /// Names of the file systems, partition tables and memberships on block devices that may be
    /// written over, as `blkid` names them.
    pub overwrite_signatures: Vec<String>,
    /// Whether an earlier run of this matrix may have written over them already.
    pub resumes: bool,
    /// Share of reads in percent in a mixed run (gdsio's `-M`).
    pub read_percent: Option<u8>,
}

impl MatrixRequest {
    /// Whether reads are compared with a pattern that must have been written before: no cell of it
    /// goes over the files from end to end.
    pub fn compares_what_was_there(&self) -> bool {
        let reads = |op: &Operation| op.direction() == Direction::Read;
        self.verify && self.ops.iter().any(reads) && !self.ops.contains(&Operation::Write)
    }

    /// The plain request: what `stormlp gds` measures when nothing else is said.
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
