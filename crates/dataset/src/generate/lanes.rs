//! The threads' buffers and paths to storage: one region for all, one path per thread.

use std::path::Path;
use std::sync::Arc;

use stormlp_core::facts::Availability;
use stormlp_core::location::names_object;
use stormlp_core::path::{EngineKind, MemoryKind, PathKind};
use stormlp_core::units::ByteSize;
use stormlp_transfer::engine::uring;
use stormlp_transfer::storage::{Access, Storage, is_direct_refused, temporary_name};
use stormlp_transfer::{
    Accelerator, HostStandIn, PathBuffers, PathSpec, Region, TransferError, TransferPath, probe,
};

use super::error::{GenerateError, LARGER_FILES};
use super::plan::GeneratePlan;

/// Upper bound on the memory of a thread in addition to its buffers, and of the program itself.
const THREAD_BYTES: u64 = 4 << 20;
const PROGRAM_BYTES: u64 = 32 << 20;

/// Rejects more threads than memory allows: otherwise the kernel would kill the run midway.
pub(super) fn check_memory(
    threads: usize,
    (depth, chunk_bytes): (usize, usize),
    usable_bytes: u64,
) -> Result<(), GenerateError> {
    let each = (depth * chunk_bytes) as u64 + THREAD_BYTES;
    let needed_bytes = PROGRAM_BYTES + each * threads as u64;
    if needed_bytes > usable_bytes {
        let (needed, usable) = (ByteSize(needed_bytes), ByteSize(usable_bytes));
        Err(GenerateError::machine(
            format!(
                "{threads} threads need about {needed}, but this process may use only {usable}"
            ),
            "raise the memory limit (cgroup, ulimit -v), or use fewer --threads of `stormlp \
             datagen`",
        ))
    } else {
        Ok(())
    }
}

/// Rejects files above the file size limit of this process, before anything is made.
pub(super) fn check_file_sizes(plan: &GeneratePlan, limit_bytes: u64) -> Result<(), GenerateError> {
    if limit_bytes == u64::MAX || names_object(&plan.folder) {
        // With many files, checking the size of each is slow.
        return Ok(());
    }
    let mut sizes =
        (0..plan.dataset.files()).map(|index| (index, plan.dataset.expected_bytes(index)));
    match sizes.find(|(_, bytes)| *bytes > limit_bytes) {
        None => Ok(()),
        Some((index, needed_bytes)) => {
            let path = plan.folder.join(plan.dataset.path(index));
            let (path, needed, limit) =
                (path.display(), ByteSize(needed_bytes), ByteSize(limit_bytes));
            Err(GenerateError::machine(
                format!(
                    "{path} needs {needed}, but this process may only write files up to {limit}"
                ),
                LARGER_FILES,
            ))
        }
    }
}

/// Rejects a requested engine that the kernel does not support, before anything is made.
pub(super) fn check_engine(engine: Option<EngineKind>) -> Result<(), GenerateError> {
    match engine {
        Some(engine @ (EngineKind::Uring | EngineKind::TokioUring)) => match probe::io_uring() {
            Availability::Available => Ok(()),
            Availability::Unavailable { fact, remedy } => {
                let needs = format!("io_uring, which --engine {engine} needs");
                let fact = format!("{needs}, is not available: {fact}");
                Err(GenerateError::machine(fact, remedy))
            }
        },
        Some(EngineKind::Psync) | None => Ok(()),
    }
}

/// For files with a smaller mean size, `O_DIRECT` opens, preallocation and truncation cost more
/// than the writes.
const SMALL_FILE_BYTES: u64 = 64 << 10;

/// How files are opened and written, decided before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriteWay {
    pub(super) engine: EngineKind,
    pub(super) kind: PathKind,
    /// Whether files are small: written with plain calls through the page cache, and synced
    /// together at the end.
    pub(super) small: bool,
}

impl WriteWay {
    /// Plain calls for small files, unless an engine was requested. Otherwise the requested engine,
    /// or the best that this kernel allows, with `O_DIRECT` if the folder's file system supports
    /// it.
    pub(super) fn choose(plan: &GeneratePlan) -> Result<Self, GenerateError> {
        if names_object(&plan.folder) {
            let engine = plan.engine.unwrap_or(EngineKind::Psync);
            return Ok(Self { engine, kind: PathKind::S3, small: false });
        }
        let mean_bytes = plan.dataset.total_bytes() / plan.dataset.files().max(1);
        if plan.engine.is_none() && mean_bytes < SMALL_FILE_BYTES {
            return Ok(Self { engine: EngineKind::Psync, kind: PathKind::Buffered, small: true });
        }
        let engine = plan.engine.unwrap_or_else(|| match uring::probe() {
            Ok(_) => EngineKind::Uring,
            Err(_) => EngineKind::Psync,
        });
        let direct = has_direct(&*plan.storage, &plan.folder)?;
        let kind = if direct { PathKind::Cpu } else { PathKind::Buffered };
        Ok(Self { engine, kind, small: false })
    }

    /// Whether files are opened with `O_DIRECT`.
    pub(super) fn direct(self) -> bool {
        self.kind.wants_direct()
    }

    /// Creates a thread's path; called on that thread.
    pub(super) fn path(
        self,
        storage: &dyn Storage,
        buffers: PathBuffers,
    ) -> Result<Box<dyn TransferPath>, GenerateError> {
        let spec = PathSpec {
            kind: self.kind,
            engine: self.engine,
            host: buffers.host,
            accelerator_buffers: buffers.accelerator,
            accelerator: Arc::new(HostStandIn),
            submit_batch: 1,
            max_files: 1,
            register_buffers: true,
            page_aligned: false,
        };
        let path = storage.path(spec);
        path.map_err(GenerateError::setup)
    }
}

/// Tries `O_DIRECT` on a file in the folder.
fn has_direct(storage: &dyn Storage, folder: &Path) -> Result<bool, GenerateError> {
    let probe = temporary_name(&folder.join("stormlp-probe"));
    let opened = storage.open(&probe, Access::Create, true);
    // The file is of no further use, whatever the result.
    storage.discard(&probe);
    match opened {
        Ok(_) => Ok(true),
        Err(error) if is_direct_refused(&error) => Ok(false),
        Err(error) => Err(GenerateError::setup(error)),
    }
}

/// The buffers of all threads, the same for both kinds of paths.
pub(super) fn buffers(
    threads: usize,
    (depth, chunk_bytes): (usize, usize),
) -> Result<Vec<PathBuffers>, GenerateError> {
    let mut region = Region::new(threads * depth * chunk_bytes).map_err(GenerateError::setup)?;
    let mut allocate = |_| {
        let memory = (&HostStandIn as &dyn Accelerator, MemoryKind::Host);
        PathBuffers::allocate(PathKind::Cpu, depth, chunk_bytes, memory, &mut region)
    };
    let buffers: Result<_, TransferError> = (0..threads).map(&mut allocate).collect();
    buffers.map_err(GenerateError::setup)
}
