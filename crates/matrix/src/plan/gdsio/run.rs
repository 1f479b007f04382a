//! A run as gdsio describes it, and the request that it makes.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use crate::plan::choice::{CacheState, CellSpan, Fsync, IoSize, PathChoice};
use crate::plan::request::{
    JobRequest, JobTarget, MOST_IN_FLIGHT, MOST_THREADS, MatrixRequest, SharedFile, parse_span,
};
use stormlp_core::facts::HostFacts;
use stormlp_core::names::VariantArray;
use stormlp_core::numbers::whole;
use stormlp_core::operation::Operation;
use stormlp_core::path::{MemoryKind, PathKind};
use stormlp_core::transport::DeviceId;
use stormlp_core::units::ByteSize;

/// A run as gdsio's flags describe it.
#[derive(Debug, Clone, PartialEq)]
pub struct GdsioRun {
    /// Values that its flags set directly. The workers of a job are its threads.
    pub(super) request: MatrixRequest,
    /// Transfer type (`-x`).
    pub(super) transfer_type: u8,
    /// Kind of memory (`-m`).
    memory: u8,
    /// Start offset of jobs that set none (`-o`).
    offset_bytes: u64,
    /// Batch entries (`-B`).
    batch: Option<u32>,
    /// Per-job statistics (`-J`).
    pub per_job: bool,
}

impl Default for GdsioRun {
    fn default() -> Self {
        let request = MatrixRequest {
            name: "gdsio".to_string(),
            file_stem: "gdsio".to_string(),
            optional_paths: false,
            jobs: Vec::new(),
            duration: Some(CellSpan::Passes(1)),
            cache: CacheState::AsIs,
            fsync: Fsync::None,
            ..MatrixRequest::plain(PathBuf::new())
        };
        Self { request, transfer_type: 0, memory: 0, offset_bytes: 0, batch: None, per_job: false }
    }
}

impl GdsioRun {
    /// Adds a job, which the job options after it belong to.
    pub(super) fn add_job(&mut self, name: String, target: JobTarget) {
        self.request.jobs.push(JobRequest { threads: Some(1), ..JobRequest::on(name, target) });
    }

    /// Applies the flag with this `letter`; `name` is the flag or the key of a job file.
    ///
    /// # Errors
    /// If the value is invalid, or the flag is not supported.
    pub(super) fn set(&mut self, letter: char, name: &str, value: &str) -> Result<(), String> {
        let request = &mut self.request;
        match letter {
            'd' => self.last_job(name)?.device = Some(DeviceId::nvidia(number(name, value)?)),
            'n' => self.last_job(name)?.numa_node = Some(number(name, value)?),
            'w' => {
                let workers = whole(1..=MOST_THREADS.into())(value.trim());
                self.last_job(name)?.threads = Some(taken(name, value, workers)?);
            }
            'm' => self.memory = number(name, value)?,
            's' => request.file_size_bytes = Some(some_size(name, value)?),
            'o' => self.offset_bytes = size(name, value)?,
            'i' => request.io_sizes = vec![io_size(name, value)?],
            'x' => self.transfer_type = number(name, value)?,
            'I' => request.ops = vec![operation(name, value)?],
            'T' => {
                let seconds = taken(name, value, parse_span(value))?;
                request.duration = Some(CellSpan::Seconds(seconds));
                request.shared_file = SharedFile::Whole;
            }
            'k' => request.tune.seed = number(name, value)?,
            // `-U` wins, wherever it stands.
            'a' if request.tune.random_alignment_bytes == 1 => drop(some_size(name, value)?),
            'a' => request.tune.random_alignment_bytes = some_size(name, value)?,
            'U' if switch(name, value)? => request.tune.random_alignment_bytes = 1,
            'B' => {
                let entries = whole(1..=MOST_IN_FLIGHT.into())(value.trim());
                self.batch = Some(taken(name, value, entries)?);
            }
            'O' => request.open_direct = !switch(name, value)?,
            'M' => {
                request.read_percent = Some(taken(name, value, whole(0..=100)(value.trim()))?);
            }
            'V' => request.verify = switch(name, value)?,
            'F' => request.tune.regenerate = switch(name, value)?,
            'b' => request.tune.register = !switch(name, value)?,
            'p' if switch(name, value)? => {
                return Err(
                    "`-p (enable_nvlinks)` is not supported: stormlp does not use peer access \
                     between GPUs; remove it, and enable cuFile's dynamic routing in cufile.json"
                        .to_string(),
                );
            }
            'J' => self.per_job = switch(name, value)?,
            // Write buffers always have random content.
            'R' | 'U' | 'p' => drop(switch(name, value)?),
            _ => {
                return Err(format!(
                    "`{name}` is not supported: stormlp has no transfers over RDMA sockets; use \
                     -D or -f on a mounted file system"
                ));
            }
        }
        Ok(())
    }

    /// The job that a job option applies to: the last one named.
    fn last_job(&mut self, name: &str) -> Result<&mut JobRequest, String> {
        self.request.jobs.last_mut().ok_or_else(|| {
            format!(
                "`{name}` belongs to a job: name its -f or -D; with several, put it after its own"
            )
        })
    }

    /// The path of the transfer type.
    ///
    /// cuFile's types accept `-O 1` as newer versions of gdsio do: the files are opened without
    /// `O_DIRECT`, and the library chooses its I/O path.
    ///
    /// # Errors
    /// If the type does not exist or does not work without `O_DIRECT`.
    pub(super) fn path(&self) -> Result<PathKind, String> {
        let buffered = !self.request.open_direct;
        let path = match (self.transfer_type, buffered) {
            (1, true) => PathKind::Buffered,
            (2, true) => PathKind::PageCache,
            (number, _) => PathKind::ALL
                .into_iter()
                .find(|path| path.gdsio_number() == Some(number))
                .ok_or_else(|| format!("`-x {number}`: gdsio has the types 0 to 7"))?,
        };
        if buffered && path.wants_direct() && !path.needs_cufile() {
            return Err(format!(
                "`-O 1 with -x {}` is not supported: its copies overlap with direct reads only; \
                 -x 2 and 4 go without O_DIRECT",
                self.transfer_type
            ));
        }
        Ok(path)
    }

    fn memory_kind(&self, path: PathKind) -> Result<MemoryKind, String> {
        let number = self.memory;
        let kind = MemoryKind::VARIANTS.get(usize::from(number));
        let kind = kind.ok_or_else(|| format!("`-m {number}`: gdsio has the kinds 0 to 4"))?;
        if number >= 2 && path.ends_in_accelerator() && !path.needs_cufile() {
            return Err(format!("`-m {number}` goes with -x 0, 5, 6 and 7 only"));
        }
        Ok(*kind)
    }

    /// The equivalent single-cell matrix; two cells for writes with `-V`, which are read back.
    ///
    /// # Errors
    /// If options of the run conflict.
    pub fn to_request(&self) -> Result<MatrixRequest, String> {
        let path = self.path()?;
        self.check_jobs()?;
        let mut request = self.request.clone();
        request.paths = PathChoice::each(&[path]);
        request.buffer_memory = self.memory_kind(path)?;
        for job in request.jobs.iter_mut().filter(|job| job.offset_bytes == 0) {
            job.offset_bytes = self.offset_bytes;
        }
        if request.verify {
            match request.ops[0] {
                Operation::Write => request.ops.push(Operation::Read),
                Operation::RandWrite => request.ops.push(Operation::RandRead),
                Operation::Read | Operation::RandRead => {}
            }
        }
        if matches!(path, PathKind::GdsBatch | PathKind::GdsBatchStream) {
            request.queue_depths = vec![self.batch.or(request.jobs[0].threads).unwrap_or(1)];
            request.jobs.iter_mut().for_each(|job| job.threads = Some(1));
        }
        if !path.ends_in_accelerator() {
            request.jobs.iter_mut().for_each(|job| job.device = None);
        }
        Ok(request)
    }

    fn check_jobs(&self) -> Result<(), String> {
        let jobs = &self.request.jobs;
        let folders = jobs.iter().filter(|job| matches!(job.target, JobTarget::Folder(_))).count();
        match folders {
            _ if jobs.is_empty() => {
                Err("name a folder with -D, a file with -f, or a job file".to_string())
            }
            0 => Ok(()),
            all if all == jobs.len() => Ok(()),
            _ => Err("folders (-D) and files (-f) cannot be combined in one run".to_string()),
        }
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
        if !matches!(request.buffer_memory, MemoryKind::Host | MemoryKind::Mmap) {
            request.buffer_memory = MemoryKind::Host;
        }
        return None;
    }
    request.paths = PathChoice::each(&[PathKind::CpuGpu]);
    request.buffer_memory = MemoryKind::Device;
    let number = path.gdsio_number().unwrap_or_default();
    Some(format!(
        "cuFile is not available, so -x {number} runs as -x 2: into host memory, then a copy to \
         memory that emulates a GPU's"
    ))
}

/// Parses a size as gdsio does: `K`, `M` and `G` are powers of 1024, with or without `B`.
pub(super) fn size(name: &str, value: &str) -> Result<u64, String> {
    let binary = value.trim().trim_end_matches(['b', 'B']).trim_end_matches(['i', 'I']);
    taken(name, value, binary.parse().map(ByteSize::bytes))
}

fn some_size(name: &str, value: &str) -> Result<u64, String> {
    match size(name, value)? {
        0 => taken(name, value, Err("it must be above zero")),
        bytes => Ok(bytes),
    }
}

/// Parses a size or `min:max:step`.
pub(super) fn io_size(name: &str, value: &str) -> Result<IoSize, String> {
    let parts: Result<Vec<String>, String> =
        value.split(':').map(|part| Ok(size(name, part)?.to_string())).collect();
    taken(name, value, parts?.join(":").parse())
}

/// Parses one of gdsio's kinds of I/O; job files may name it in a word.
fn operation(name: &str, value: &str) -> Result<Operation, String> {
    if let (Ok(op), "rw") = (value.parse(), name) {
        return Ok(op);
    }
    let op = value.trim().parse().ok().and_then(|number: usize| Operation::VARIANTS.get(number));
    let fault = "gdsio has read (0), write (1), randread (2) and randwrite (3)";
    taken(name, value, op.copied().ok_or(fault))
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    let number = value.trim().parse().map_err(|_| "it is not a number that fits here");
    taken(name, value, number)
}

/// Parses 0 or 1.
fn switch(name: &str, value: &str) -> Result<bool, String> {
    match value.trim() {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => taken(name, value, Err("it is neither 0 nor 1")),
    }
}

/// The parsed value, or an error that names the flag or key.
fn taken<T, E: Display>(name: &str, value: &str, parsed: Result<T, E>) -> Result<T, String> {
    parsed.map_err(|fault| format!("`{name} {value}`: {fault}"))
}
