//! The request: the options of `stormlp gds`, not yet combined or checked against the machine.

use std::path::PathBuf;
use std::str::FromStr;

use clap::ArgAction;
use clap::builder::BoolishValueParser;
use serde::{Deserialize, Serialize};

use super::choice::{CacheState, CellSpan, Fill, Fsync, IoSize, PathChoice};
use super::preset::preset_name;
use stormlp_core::location::folder_or_prefix;
use stormlp_core::location::names_object;
use stormlp_core::numbers::{whole, within};
use stormlp_core::operation::{Direction, Operation};
use stormlp_core::path::{MemoryKind, PathKind};
use stormlp_core::transport::{DeviceId, Devices, EngineChoice, Requirement};
use stormlp_core::tune::{MachineTune, Tuned};
use stormlp_core::units::ByteSize;
use stormlp_core::units::{parse_seconds, parse_some_bytes};
use stormlp_core::verify::Verify;

/// More threads than this do not help in a single-host benchmark.
pub(super) const MOST_THREADS: u32 = 1024;
/// The kernel limits a ring to 32,768 entries; this leaves room for batches.
pub(super) const MOST_IN_FLIGHT: u32 = 4096;
/// A cell of more than a week is a typing error.
const LONGEST_SECONDS: f64 = 7.0 * 86_400.0;

/// Parses how long a cell runs, in seconds.
pub(super) fn parse_span(text: &str) -> Result<f64, String> {
    let seconds = parse_seconds(text).map_err(|error| error.to_string())?;
    if seconds > 0.0 && seconds <= LONGEST_SECONDS {
        Ok(seconds)
    } else {
        Err("use more than zero and at most a week".to_string())
    }
}

/// Parses the length of a cell: a time, passes such as `2x`, or `steady:` with a time.
fn parse_length(text: &str) -> Result<CellSpan, String> {
    if let Some(most) = text.strip_prefix("steady:") {
        return parse_span(most).map(CellSpan::Steady);
    }
    match text.strip_suffix('x') {
        Some(passes) => whole::<u32>(1..=1_000_000)(passes).map(CellSpan::Passes),
        None => parse_span(text).map(CellSpan::Seconds),
    }
}

/// The location of a job's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobTarget {
    /// A folder with one file for each thread.
    Folder(PathBuf),
    /// One file or block device that all threads of the job share.
    File(PathBuf),
}

impl JobTarget {
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

/// A group of threads with a target and bindings. Jobs run concurrently in one cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobRequest {
    /// Its name in reports.
    pub name: String,
    /// The location of its data.
    pub target: JobTarget,
    /// Threads of this job; `None` for its share of each entry of [`MatrixRequest::threads`].
    pub threads: Option<u32>,
    /// The accelerator of its transfers; `None` for the request's devices in turn.
    pub device: Option<DeviceId>,
    /// The NUMA node its threads are bound to.
    pub numa_node: Option<u32>,
    /// Start offset in its files in bytes, instead of the request's.
    pub offset_bytes: u64,
    /// Its transfer size, instead of the cell's.
    pub io_size: Option<IoSize>,
}

impl JobRequest {
    /// A job on `target` without bindings.
    pub fn on(name: impl Into<String>, target: JobTarget) -> Self {
        Self {
            name: name.into(),
            target,
            threads: None,
            device: None,
            numa_node: None,
            offset_bytes: 0,
            io_size: None,
        }
    }
}

impl FromStr for JobRequest {
    type Err = String;

    /// Parses `dir=/mnt/a,device=cuda:0,numa=0,threads=4,offset=1M,io-size=1M`; either `dir` or
    /// `file` is required, and `name` is optional.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut job = Self::on("", JobTarget::Folder(PathBuf::new()));
        let mut targets = 0;
        for part in text.split(',') {
            let (key, value) =
                part.split_once('=').ok_or_else(|| format!("`{part}` is not key=value"))?;
            let number = || value.parse().map_err(|_| format!("`{part}` needs a number"));
            match key {
                "dir" | "file" => {
                    targets += 1;
                    job.target = match key {
                        "dir" => JobTarget::Folder(PathBuf::from(value)),
                        _ => JobTarget::File(PathBuf::from(value)),
                    };
                }
                "name" => job.name = value.to_string(),
                "device" => job.device = Some(value.parse()?),
                "numa" => job.numa_node = Some(number()?),
                "threads" => job.threads = Some(whole(1..=MOST_THREADS.into())(value)?),
                "offset" => {
                    let size: ByteSize = value.parse().map_err(|e| format!("{e}"))?;
                    job.offset_bytes = size.0;
                }
                "io-size" => job.io_size = Some(value.parse()?),
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SharedFile {
    /// Every thread has a part of the file (gdsio's `-f` without `-T`).
    #[default]
    Split,
    /// Every thread covers the whole file (gdsio's `-f` with `-T`).
    Whole,
}

/// The options of a matrix. Options that decide its cells may be left out until
/// [`complete`](MatrixRequest::complete) fills them in from a preset or the defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(clap::Args)]
#[command(next_help_heading = "Matrix (LIST: values separated by commas)")]
pub struct MatrixRequest {
    /// Name of the report's folder: a preset's name, `matrix`, `knee`, `gdsio` or a job file's.
    #[arg(skip)]
    pub name: String,

    /// gds, gds-async, gds-batch, gds-batch-stream, cpu, buffered, cpu-gpu, cpu-async-gpu,
    /// page-cache, s3, null, all, auto [default: auto, which is gds,cpu-gpu,page-cache]
    #[arg(long = "path", value_name = "LIST", value_delimiter = ',')]
    pub paths: Vec<PathChoice>,

    /// Whether a path that cannot run here is left out without an error, as the user did not name it.
    #[arg(skip)]
    pub optional_paths: bool,

    /// read, write, randread, randwrite [default: read]
    #[arg(long = "op", value_name = "LIST", value_delimiter = ',')]
    pub ops: Vec<Operation>,

    /// Transfer sizes, or sweeps such as 1M:16M:1M [default: 1M]
    #[arg(short = 'b', long = "io-size", value_name = "LIST", value_delimiter = ',',
        value_parser = IoSize::parse_sweep)]
    pub io_sizes: Vec<IoSize>,

    /// Numbers of threads [default: 8]
    #[arg(short = 't', long, value_name = "LIST", value_delimiter = ',',
        value_parser = whole::<u32>(1..=MOST_THREADS.into()))]
    pub threads: Vec<u32>,

    /// Transfers in flight per thread [default: 1]
    #[arg(long = "queue-depth", value_name = "LIST",
        value_delimiter = ',', value_parser = whole::<u32>(1..=MOST_IN_FLIGHT.into()))]
    pub queue_depths: Vec<u32>,

    /// quick, data-preparation, training, inference, full
    #[arg(long, value_name = "NAME", value_parser = preset_name)]
    pub preset: Option<String>,

    /// Length of a cell: 5s, 2x for two passes, or steady:20m for the maximum [default: 5s]
    #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
    pub duration: Option<CellSpan>,

    /// Warm-up before each cell
    #[arg(long = "warmup", value_name = "TIME",
        value_parser = within(parse_seconds, 0.0..=LONGEST_SECONDS, "0 to 168h"), default_value = "0")]
    pub warmup_seconds: f64,

    /// Repetitions of each cell [default: 1; 3 with --find-knee]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1000))]
    pub runs: Option<u32>,

    /// Find the smallest threads × queue depth with 98 % of the peak throughput
    #[arg(long, conflicts_with = "preset")]
    pub find_knee: bool,

    /// Page cache before each cell: cold, warm, as-is
    #[arg(long, value_name = "STATE", default_value = "cold")]
    pub cache: CacheState,

    /// Percentage of reads in a mix
    #[arg(long, value_name = "PERCENT",
        value_parser = whole::<u8>(0..=100))]
    pub read_percent: Option<u8>,

    /// Folder, file or block device
    #[serde(skip)]
    #[arg(value_name = "PATH", value_parser = folder_or_prefix,
        conflicts_with_all = ["folders", "files", "jobs"])]
    pub targets: Vec<PathBuf>,

    /// Folder with a file per thread, or s3://bucket/prefix; repeatable [default:
    /// ./stormlp-data/gds]
    #[serde(skip)]
    #[arg(short = 'd', long = "dir", value_name = "DIR", help_heading = "Files",
        value_parser = folder_or_prefix, conflicts_with_all = ["files", "jobs"])]
    pub folders: Vec<PathBuf>,

    /// File or block device shared by all threads; repeatable
    #[serde(skip)]
    #[arg(long = "file", value_name = "FILE", help_heading = "Files", conflicts_with = "jobs")]
    pub files: Vec<PathBuf>,

    /// Thread group: dir=/mnt/a,device=cuda:0,numa=0,threads=8; repeatable
    #[arg(long = "job", value_name = "KEY=VALUE,…", help_heading = "Files")]
    pub jobs: Vec<JobRequest>,

    /// Stem of the file names in a folder: thread 3 uses `<stem>.3`.
    #[arg(skip = "stormlp")]
    pub file_stem: String,

    /// Size per thread [default: existing files, otherwise 1 GiB; at most 8 GiB in total]
    #[arg(long = "file-size", value_name = "SIZE",
        help_heading = "Files", value_parser = parse_some_bytes)]
    pub file_size_bytes: Option<u64>,

    /// How threads share a given file.
    #[arg(skip)]
    pub shared_file: SharedFile,

    /// Data to write: random, zero
    #[arg(long, value_name = "DATA", help_heading = "Files", default_value = "random")]
    pub fill: Fill,

    /// Verify every byte read
    #[arg(long, help_heading = "Files")]
    pub verify: bool,

    /// Checks of objects: none, size, crc
    #[arg(long, value_name = "HOW", help_heading = "Files", default_value = "size",
        value_parser = Verify::of_objects)]
    pub checksum: Verify,

    /// When to sync written files: end, none, auto
    #[arg(long, value_name = "WHEN", help_heading = "Files", default_value = "auto")]
    pub fsync: Fsync,

    /// Remove files that this run created
    #[arg(long = "clean", help_heading = "Files")]
    pub remove: bool,

    /// Allow writing to files of other programs and block devices; =ext4,gpt if they have these signatures
    #[serde(default)]
    #[arg(
        long,
        value_name = "NAME",
        help_heading = "Files",
        num_args = 0..,
        require_equals = true,
        value_delimiter = ','
    )]
    pub destroy_data: Option<Vec<String>>,

    /// Whether an earlier run of this matrix may have overwritten them already.
    #[serde(skip)]
    #[arg(skip)]
    pub resumes: bool,

    /// GPUs: cuda:0, cuda:0,cuda:1, all; or host to emulate one [default: first GPU, otherwise
    /// host]
    #[arg(long = "device", value_name = "LIST", help_heading = "Accelerator and engine")]
    pub devices: Option<Devices>,

    /// Memory of buffers: device, vmm, pinned, host, mmap
    #[arg(
        long,
        value_name = "KIND",
        help_heading = "Accelerator and engine",
        default_value = "device"
    )]
    pub buffer_memory: MemoryKind,

    /// Whether files are opened with `O_DIRECT` on paths that want it; gdsio's `-O 1` disables it
    /// on cuFile's paths.
    #[arg(skip = true)]
    pub open_direct: bool,

    /// auto, uring, tokio-uring, psync
    #[arg(
        long,
        value_name = "NAME",
        help_heading = "Accelerator and engine",
        default_value = "auto"
    )]
    pub engine: EngineChoice,

    /// Fail if cuFile falls back (gds), or without O_DIRECT (direct)
    #[arg(
        long,
        value_name = "gds,direct",
        value_delimiter = ',',
        help_heading = "Accelerator and engine"
    )]
    pub require: Vec<Requirement>,

    /// Rarely needed settings.
    #[command(flatten)]
    pub tune: Tuned<MatrixTune>,
}

/// The keys of `--tune`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixTune {
    /// Settings of the machine.
    #[command(flatten)]
    #[serde(flatten)]
    pub machine: MachineTune,

    /// Whether buffers are registered with cuFile
    #[arg(long, value_name = "yes|no", default_value = "yes", action = ArgAction::Set,
        value_parser = BoolishValueParser::new())]
    pub register: bool,

    /// Transfers per submission to the kernel [default: half the depth through the page cache,
    /// otherwise 4]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=MOST_IN_FLIGHT.into()))]
    pub submit_batch: Option<u32>,

    /// Seed of random offsets and the pattern
    #[arg(long, value_name = "N", value_parser = whole::<u64>(..), default_value = "0")]
    pub seed: u64,

    /// Alignment of random offsets
    #[arg(long = "alignment", value_name = "SIZE", value_parser = parse_some_bytes,
        default_value = "4K")]
    pub random_alignment_bytes: u64,

    /// Whether random data is generated anew for every write
    #[arg(long, value_name = "yes|no", default_value = "no", action = ArgAction::Set,
        value_parser = BoolishValueParser::new())]
    pub regenerate: bool,
}

impl MatrixRequest {
    /// The paths in table order.
    pub fn paths(&self) -> Vec<PathKind> {
        let of_choice = |choice: &PathChoice| match choice {
            PathChoice::Auto | PathChoice::All if self.uses_objects() => vec![PathKind::S3],
            PathChoice::Auto => PathKind::AUTO.to_vec(),
            PathChoice::All => PathKind::ALL.to_vec(),
            PathChoice::One(path) => vec![*path],
        };
        self.paths.iter().flat_map(of_choice).collect()
    }

    /// Whether anything is written.
    pub fn writes(&self) -> bool {
        let mut ops = self.ops.iter();
        self.read_percent.is_some() || ops.any(|op| op.direction() == Direction::Write)
    }

    /// Whether some of its data is objects.
    pub fn uses_objects(&self) -> bool {
        self.jobs.iter().any(|job| names_object(job.target.path()))
    }

    /// Whether the user named the paths, so that one that cannot run is an error.
    pub fn names_paths(&self) -> bool {
        !self.optional_paths && !matches!(self.paths[..], [PathChoice::Auto | PathChoice::All])
    }

    /// Whether it comes from gdsio's command line, with files of its name.
    pub(super) fn is_gdsio(&self) -> bool {
        self.file_stem == "gdsio"
    }

    /// Whether the run fails without `requirement`.
    pub fn requires(&self, requirement: Requirement) -> bool {
        self.require.contains(&requirement)
    }

    /// How long a cell runs.
    pub fn span(&self) -> CellSpan {
        self.duration.unwrap_or(CellSpan::Seconds(0.0))
    }

    /// Repetitions of each cell; every one is an entry of `cells[]`.
    pub fn runs(&self) -> u32 {
        self.runs.unwrap_or(1)
    }

    /// Whether reads are compared with a previously written pattern: none of its cells writes the
    /// files from end to end.
    pub fn verifies_existing_data(&self) -> bool {
        let reads = |op: &Operation| op.direction() == Direction::Read;
        self.verify && self.ops.iter().any(reads) && !self.ops.contains(&Operation::Write)
    }
}
