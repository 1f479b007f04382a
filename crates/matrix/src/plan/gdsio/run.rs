//! A run as gdsio describes it, and the request that it makes.

use std::path::PathBuf;

use crate::plan::choice::{CacheState, Fill, Fsync, IoSize, PathChoice};
use crate::plan::request::{JobRequest, JobTarget, MatrixRequest, SharedFile};
use stormlp_core::facts::HostFacts;
use stormlp_core::names::VariantArray;
use stormlp_core::operation::Operation;
use stormlp_core::path::{MemoryKind, PathKind};
use stormlp_core::transport::DeviceId;
use stormlp_core::units::MIB;
use stormlp_core::verify::Verify;

/// Why a gdsio command cannot be converted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GdsioError {
    /// A flag that gdsio does not have.
    #[error("gdsio has no flag `{0}`")]
    UnknownFlag(String),
    /// A flag or key that is not supported here.
    #[error("`{name}` is not supported: {reason}")]
    Refused {
        /// The flag or key.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A flag that lacks its value.
    #[error("`{0}` needs a value")]
    NoValue(String),
    /// A value that cannot be parsed.
    #[error("`{name} {value}`: {fault}")]
    Value {
        /// The flag or key.
        name: String,
        /// Its value.
        value: String,
        /// What is wrong with it.
        fault: String,
    },
    /// A job file line that is not a section, key or comment.
    #[error("line {line}: {fault}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        fault: String,
    },
    /// Conflicting options.
    #[error("{0}")]
    Contradiction(String),
}

/// A run as gdsio describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct GdsioRun {
    /// Transfer type (`-x`).
    pub transfer_type: u8,
    /// Kind of I/O (`-I`).
    pub op: Operation,
    /// Transfer size or mix of sizes (`-i`).
    pub io_size: IoSize,
    /// Size (`-s`) in bytes.
    pub size_bytes: Option<u64>,
    /// Start offset (`-o`) in bytes.
    pub offset_bytes: u64,
    /// Run time (`-T`) in seconds; `None` means one pass.
    pub seconds: Option<f64>,
    /// Kind of memory (`-m`).
    pub memory: u8,
    /// Batch entries (`-B`).
    pub batch: Option<u32>,
    /// Share of reads in percent (`-M`).
    pub read_percent: Option<u8>,
    /// The seed (`-k`).
    pub seed: u64,
    /// Alignment of random offsets (`-a`) in bytes.
    pub alignment_bytes: Option<u64>,
    /// Verify (`-V`).
    pub verify: bool,
    /// Unaligned random offsets (`-U`).
    pub unaligned: bool,
    /// Refill for every write (`-F`).
    pub refill: bool,
    /// Skip buffer registration (`-b`).
    pub skip_register: bool,
    /// Peer access between GPUs (`-p`).
    pub nvlinks: bool,
    /// Open without `O_DIRECT` (`-O 1`).
    pub buffered: bool,
    /// Per-job statistics (`-J`).
    pub per_job: bool,
    /// The jobs.
    pub jobs: Vec<GdsioJob>,
}

/// One job: a target with bindings.
#[derive(Debug, Clone, PartialEq)]
pub struct GdsioJob {
    /// Its name.
    pub name: String,
    /// Its folder or file.
    pub target: JobTarget,
    /// The GPU (`-d`).
    pub gpu: Option<u32>,
    /// The NUMA node (`-n`).
    pub numa_node: Option<u32>,
    /// Threads, or batch entries for the batch types (`-w`).
    pub workers: u32,
    /// The job's own offset in bytes, if any.
    pub offset_bytes: Option<u64>,
    /// The job's own transfer size, if any.
    pub io_size: Option<IoSize>,
}

impl GdsioJob {
    pub(super) fn new(name: String, target: JobTarget) -> Self {
        Self {
            name,
            target,
            gpu: None,
            numa_node: None,
            workers: 1,
            offset_bytes: None,
            io_size: None,
        }
    }
}

impl Default for GdsioRun {
    fn default() -> Self {
        Self {
            transfer_type: 0,
            op: Operation::Read,
            io_size: IoSize::fixed(MIB),
            size_bytes: None,
            offset_bytes: 0,
            seconds: None,
            memory: 0,
            batch: None,
            read_percent: None,
            seed: 0,
            alignment_bytes: None,
            verify: false,
            unaligned: false,
            refill: false,
            skip_register: false,
            nvlinks: false,
            buffered: false,
            per_job: false,
            jobs: Vec::new(),
        }
    }
}

impl GdsioRun {
    /// The path of the transfer type.
    ///
    /// cuFile's types accept `-O 1` as newer versions of gdsio do: the files are opened without
    /// `O_DIRECT`, and the library chooses its own I/O path.
    ///
    /// # Errors
    /// If the type does not exist or does not work without `O_DIRECT`.
    pub fn path(&self) -> Result<PathKind, GdsioError> {
        let path = match (self.transfer_type, self.buffered) {
            (1, true) => PathKind::Buffered,
            (2, true) => PathKind::PageCache,
            (number, _) => PathKind::ALL
                .into_iter()
                .find(|path| path.gdsio_number() == Some(number))
                .ok_or_else(|| {
                    GdsioError::Contradiction(format!("`-x {number}`: gdsio has the types 0 to 7"))
                })?,
        };
        if self.buffered && path.wants_direct() && !path.needs_cufile() {
            return Err(GdsioError::Refused {
                name: format!("-O 1 with -x {}", self.transfer_type),
                reason: "its copies overlap with direct reads only; -x 2 and 4 go without O_DIRECT"
                    .to_string(),
            });
        }
        Ok(path)
    }

    fn memory_kind(&self, path: PathKind) -> Result<MemoryKind, GdsioError> {
        let kind = *MemoryKind::VARIANTS.get(usize::from(self.memory)).ok_or_else(|| {
            GdsioError::Contradiction(format!("`-m {}`: gdsio has the kinds 0 to 4", self.memory))
        })?;
        if self.memory >= 2 && path.ends_in_accelerator() && !path.needs_cufile() {
            return Err(GdsioError::Contradiction(format!(
                "`-m {}` goes with -x 0, 5, 6 and 7 only",
                self.memory
            )));
        }
        Ok(kind)
    }

    /// The equivalent single-cell matrix; two cells for writes with `-V`, which are read back.
    ///
    /// # Errors
    /// If options of the run conflict.
    pub fn to_request(&self) -> Result<MatrixRequest, GdsioError> {
        let path = self.path()?;
        self.check_jobs()?;
        if self.nvlinks {
            return Err(GdsioError::Refused {
                name: "-p (enable_nvlinks)".to_string(),
                reason:
                    "stormlp does not use peer access between GPUs, so NVLink would not be used; \
                     remove it, and enable cuFile's dynamic routing in cufile.json"
                        .to_string(),
            });
        }
        let batch = matches!(path, PathKind::GdsBatch | PathKind::GdsBatchStream);
        let mut request = MatrixRequest::plain(PathBuf::new());
        request.name = "gdsio".to_string();
        request.file_stem = "gdsio".to_string();
        request.paths = PathChoice::each(&[path]);
        request.optional_paths = false;
        request.memory = self.memory_kind(path)?;
        request.ops = match (self.op, self.verify) {
            (Operation::Write, true) => vec![Operation::Write, Operation::Read],
            (Operation::RandWrite, true) => vec![Operation::RandWrite, Operation::RandRead],
            (op, _) => vec![op],
        };
        request.io_sizes = vec![self.io_size];
        request.file_size_bytes = self.size_bytes;
        request.offset_bytes = self.offset_bytes;
        (request.duration_seconds, request.passes, request.shared_file) = match self.seconds {
            Some(seconds) => (Some(seconds), None, SharedFile::Whole),
            None => (None, Some(1), SharedFile::Split),
        };
        request.cache = CacheState::AsIs;
        request.fsync = Fsync::None;
        request.no_register = self.skip_register;
        request.open_direct = !self.buffered;
        request.verify = Verify::of_content(self.verify);
        request.read_percent = self.read_percent;
        request.seed = self.seed;
        request.random_alignment_bytes =
            if self.unaligned { 1 } else { self.alignment_bytes.unwrap_or(4096) };
        request.fill = if self.refill { Fill::Every } else { Fill::Once };
        if batch {
            let workers = self.jobs.first().map_or(1, |job| job.workers);
            request.queue_depths = vec![self.batch.unwrap_or(workers)];
        }
        request.jobs = (self.jobs.iter())
            .map(|job| JobRequest {
                name: job.name.clone(),
                target: job.target.clone(),
                threads: Some(if batch { 1 } else { job.workers }),
                // A path that ends in host memory does not use a GPU.
                device: job.gpu.filter(|_| path.ends_in_accelerator()).map(DeviceId::nvidia),
                numa_node: job.numa_node,
                offset_bytes: job.offset_bytes,
                io_size: job.io_size,
            })
            .collect();
        Ok(request)
    }

    fn check_jobs(&self) -> Result<(), GdsioError> {
        let folders = self.jobs.iter().filter(|j| matches!(j.target, JobTarget::Folder(_))).count();
        if self.jobs.is_empty() {
            return Err(GdsioError::Contradiction(
                "name a folder with -D, a file with -f, or a job file".to_string(),
            ));
        }
        if folders != 0 && folders != self.jobs.len() {
            return Err(GdsioError::Contradiction(
                "folders (-D) and files (-f) cannot be combined in one run".to_string(),
            ));
        }
        Ok(())
    }
}

/// Replaces the GPUs of a request with host memory. Without cuFile, its transfer types emulate its
/// compatibility mode: a read into host memory, then a copy. Returns a notice for the user.
pub fn emulate(request: &mut MatrixRequest, facts: &HostFacts) -> Option<String> {
    let path = *request.paths().first()?;
    if !path.ends_in_accelerator() {
        return None;
    }
    request.devices = Some(DeviceId::Host.into());
    for job in &mut request.jobs {
        job.device = Some(DeviceId::Host);
    }
    if !path.needs_cufile() {
        return None;
    }
    if facts.support(path).is_available() {
        if !matches!(request.memory, MemoryKind::Host | MemoryKind::Mmap) {
            request.memory = MemoryKind::Host;
        }
        return None;
    }
    request.paths = PathChoice::each(&[PathKind::CpuGpu]);
    request.memory = MemoryKind::Device;
    let number = path.gdsio_number().unwrap_or_default();
    Some(format!(
        "cuFile is not available, so -x {number} runs as -x 2: into host memory, then a copy to \
         memory that emulates a GPU's"
    ))
}

/// Parses a size as gdsio does: `K`, `M` and `G` are powers of 1024, with or without `B`.
pub(super) fn size(name: &str, value: &str) -> Result<u64, GdsioError> {
    let binary = value.trim().trim_end_matches(['b', 'B']).trim_end_matches(['i', 'I']);
    number_fault(name, value, binary.parse::<stormlp_core::units::ByteSize>().map(|size| size.0))
}

/// Parses a size or `min:max:step`.
pub(super) fn io_size(name: &str, value: &str) -> Result<IoSize, GdsioError> {
    let parts: Vec<String> = (value.split(':'))
        .map(|part| size(name, part).map(|bytes| bytes.to_string()))
        .collect::<Result<_, _>>()?;
    number_fault(name, value, IoSize::parse_mix(&parts.join(":")))
}

pub(super) fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, GdsioError> {
    let fault = || "it is not a number that fits here";
    number_fault(name, value, value.trim().parse::<T>().map_err(|_| fault()))
}

/// Parses 0 or 1.
pub(super) fn switch(name: &str, value: &str) -> Result<bool, GdsioError> {
    match value.trim() {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => number_fault(name, value, Err("it is neither 0 nor 1")),
    }
}

pub(super) fn seconds(name: &str, value: &str) -> Result<f64, GdsioError> {
    let seconds = stormlp_core::units::parse_duration(value).map(|duration| duration.as_secs_f64());
    number_fault(name, value, seconds)
}

/// The error for a flag with an invalid value.
fn number_fault<T, E: ToString>(
    name: &str,
    value: &str,
    result: Result<T, E>,
) -> Result<T, GdsioError> {
    result.map_err(|fault| GdsioError::Value {
        name: name.to_string(),
        value: value.to_string(),
        fault: fault.to_string(),
    })
}
