//! Transfer paths: the ways bytes get between a file and a slot.

mod bounce;
mod buffers;
mod gds;
mod gds_async;
mod gds_batch;
mod gds_common;
mod gds_route;
mod host;
mod idle;
mod null;

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

pub use buffers::PathBuffers;
use stormlp_core::evidence::{DirectIo, Evidence};
use stormlp_core::operation::Direction;
pub use stormlp_core::path::buffers_needed;
use stormlp_core::path::{EngineKind, PathKind};

use crate::accelerator::{Accelerator, AcceleratorBuffer};
pub use crate::engine::FileId;
use crate::error::TransferError;
use crate::region::HostBuffer;
use crate::slot::Slot;
pub(crate) use null::NullPath;

/// The blocks that cuFile's streams may be promised.
const PAGE_BYTES: u64 = 4096;

/// Where bytes are to come from or to go.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Storage to slot, or slot to storage.
    pub direction: Direction,
    /// Which file.
    pub file: FileId,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// How many bytes; at most the slot's length.
    pub len: usize,
}

impl Place {
    /// Whether it is of whole 4 KiB blocks at a multiple of 4 KiB.
    pub(crate) fn is_page_aligned(&self) -> bool {
        self.offset.is_multiple_of(PAGE_BYTES) && (self.len as u64).is_multiple_of(PAGE_BYTES)
    }
}

/// One transfer to be done.
pub struct Transfer {
    /// Which bytes of storage.
    pub place: Place,
    /// Where the bytes end, or start from. Its number tells transfers apart.
    pub slot: Slot,
}

/// A transfer that is over.
pub struct Completion {
    /// The slot that took part.
    pub slot: Slot,
    /// Bytes moved, possibly fewer than asked for (0 at the end of a file), or what failed.
    pub result: Result<usize, TransferError>,
}

/// A transfer that could not even be started; the slot comes back.
pub struct Rejected {
    /// The slot.
    pub slot: Slot,
    /// What failed.
    pub error: TransferError,
}

/// One way for bytes to travel between files and slots. Owned by one thread.
pub trait TransferPath {
    /// Makes a file known. It has been opened with the flags the path wants
    /// (see [`PathKind::wants_direct`]).
    ///
    /// # Errors
    /// When the kernel or cuFile does not take the file.
    fn attach(&mut self, file: File) -> Result<FileId, TransferError>;

    /// Forgets a file that has nothing in flight, and closes it.
    ///
    /// # Errors
    /// When closing fails.
    fn detach(&mut self, file: FileId) -> Result<(), TransferError>;

    /// Hands out the slots, once; allocated and registered when the path was built.
    fn take_slots(&mut self) -> Vec<Slot>;

    /// Starts a transfer, or keeps it until a batch is full. A path without a queue does the
    /// whole transfer here.
    ///
    /// # Errors
    /// When the transfer could not be started; the slot is in the answer.
    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected>;

    /// Starts what was kept and waits until `min` transfers are over (or all that are in flight,
    /// where there are fewer); appends all that are over to `done`.
    ///
    /// # Errors
    /// When the path itself broke; a transfer's own failure is in its completion.
    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError>;

    /// Lets a write to `eventfd` end a `wait` early. `false`: this path never blocks in `wait`
    /// for longer than its transfers take.
    ///
    /// # Errors
    /// When the kernel does not take the descriptor.
    fn wake_on(&mut self, eventfd: BorrowedFd<'_>) -> Result<bool, TransferError> {
        let _ = eventfd;
        Ok(false)
    }

    /// Ends what is counted for the evidence alone, with nothing in flight: what comes next is
    /// measured, and has no calls in it but those that move data.
    fn stop_counting(&mut self) {}

    /// What ran, with its proof.
    fn evidence(&self) -> Evidence;
}

/// What a path is to be built from. Buffers come from the run's one region, so nothing is
/// allocated in the measured part.
pub struct PathSpec {
    /// Which path.
    pub kind: PathKind,
    /// Which engine drives it, for the paths the CPU drives.
    pub engine: EngineKind,
    /// Host buffers, as many as [`buffers_needed`] says.
    pub host: Vec<HostBuffer>,
    /// Accelerator buffers, as many as [`buffers_needed`] says.
    pub accelerator_buffers: Vec<Box<dyn AcceleratorBuffer>>,
    /// The device the accelerator buffers are on.
    pub accelerator: Arc<dyn Accelerator>,
    /// Submissions gathered before they go to the kernel.
    pub submit_batch: usize,
    /// Files attached at one time, at most.
    pub max_files: usize,
    /// Whether to register buffers with cuFile.
    pub register_buffers: bool,
    /// Whether every transfer is of whole 4 KiB blocks at offsets that are multiples of 4 KiB.
    pub page_aligned: bool,
}

/// Builds a path on the calling thread, which must be the one to use it.
///
/// # Errors
/// When this machine cannot run it: io_uring refused, no cuFile, no such device.
pub fn build_path(spec: PathSpec) -> Result<Box<dyn TransferPath>, TransferError> {
    Ok(match spec.kind {
        PathKind::Null => Box::new(NullPath::new(spec.host)),
        PathKind::Cpu | PathKind::Buffered => Box::new(host::HostPath::new(spec)?),
        PathKind::CpuGpu | PathKind::PageCache => Box::new(bounce::BouncePath::new(spec, None)?),
        PathKind::CpuAsyncGpu => {
            spec.accelerator.bind_thread()?;
            let queue = spec.accelerator.copy_queue(spec.accelerator_buffers.len())?;
            Box::new(bounce::BouncePath::new(spec, Some(queue))?)
        }
        PathKind::Gds => Box::new(gds::GdsPath::new(spec)?),
        PathKind::GdsBatch | PathKind::GdsBatchStream => {
            Box::new(gds_batch::GdsBatchPath::new(spec)?)
        }
        PathKind::GdsAsync => Box::new(gds_async::GdsStreamPath::new(spec)?),
        PathKind::GdsCompat => {
            return Err(TransferError::Unavailable {
                what: format!("path {}", spec.kind),
                reason: "it is what cuFile falls back to, not what can be asked for".to_string(),
                remedy: "use --path gds".to_string(),
            });
        }
    })
}

/// Whether the files attached so far were opened with `O_DIRECT`.
#[derive(Debug, Default, Clone, Copy)]
struct DirectWatch {
    direct: usize,
    cached: usize,
}

impl DirectWatch {
    /// Looks at the flags of a file that is about to be attached.
    fn see(&mut self, file: &File) {
        match rustix::fs::fcntl_getfl(file) {
            Ok(flags) if flags.contains(rustix::fs::OFlags::DIRECT) => self.direct += 1,
            _ => self.cached += 1,
        }
    }

    /// The verdict for a path of the given kind, and the path that ran.
    fn verdict(self, kind: PathKind) -> (DirectIo, PathKind) {
        if !kind.wants_direct() {
            return (DirectIo::NotAsked, kind);
        }
        if self.cached == 0 {
            return (DirectIo::Honoured, kind);
        }
        let effective = match kind {
            PathKind::Cpu => PathKind::Buffered,
            PathKind::CpuGpu | PathKind::CpuAsyncGpu => PathKind::PageCache,
            other => other,
        };
        (DirectIo::Refused, effective)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
