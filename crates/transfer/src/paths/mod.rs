//! Transfer paths: the ways bytes move between a file and a slot.

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

/// The block size that cuFile's streams may be promised.
const PAGE_BYTES: u64 = 4096;

/// The storage side of a transfer.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Storage to slot, or slot to storage.
    pub direction: Direction,
    /// The file.
    pub file: FileId,
    /// The file offset in bytes.
    pub offset: u64,
    /// The number of bytes; at most the slot's length.
    pub len: usize,
}

impl Place {
    /// Whether it consists of whole 4 KiB blocks at a multiple of 4 KiB.
    pub(crate) fn is_page_aligned(&self) -> bool {
        self.offset.is_multiple_of(PAGE_BYTES) && (self.len as u64).is_multiple_of(PAGE_BYTES)
    }
}

/// A transfer request.
pub struct Transfer {
    /// The storage side.
    pub place: Place,
    /// The memory side. Its number identifies the transfer.
    pub slot: Slot,
}

/// A completed transfer.
pub struct Completion {
    /// The slot of the transfer.
    pub slot: Slot,
    /// Bytes transferred, possibly fewer than requested (0 at the end of a file), or the error.
    pub result: Result<usize, TransferError>,
}

/// A transfer that could not be started; returns the slot.
pub struct Rejected {
    /// The slot.
    pub slot: Slot,
    /// The error.
    pub error: TransferError,
}

/// A way for bytes to move between files and slots. Owned by one thread.
pub trait TransferPath {
    /// Registers a file, which must have been opened with the flags the path wants (see
    /// [`PathKind::wants_direct`]).
    ///
    /// # Errors
    /// When the kernel or cuFile rejects the file.
    fn attach(&mut self, file: File) -> Result<FileId, TransferError>;

    /// Removes and closes a file that has no transfers in flight.
    ///
    /// # Errors
    /// When closing fails.
    fn detach(&mut self, file: FileId) -> Result<(), TransferError>;

    /// Returns the slots, allocated and registered when the path was built; call once.
    fn take_slots(&mut self) -> Vec<Slot>;

    /// Starts a transfer, or keeps it until a batch is full. A path without a queue executes the
    /// whole transfer here.
    ///
    /// # Errors
    /// When the transfer could not be started; the slot is returned.
    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected>;

    /// Submits what is batched and waits until `min` transfers are complete (or all in flight, if
    /// fewer); appends all completed transfers to `done`.
    ///
    /// # Errors
    /// When the path itself failed; a transfer's own error is in its completion.
    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError>;

    /// Lets a write to `eventfd` end a `wait` early. `false`: this path never blocks in `wait` for
    /// longer than its transfers take.
    ///
    /// # Errors
    /// When the kernel rejects the descriptor.
    fn wake_on(&mut self, eventfd: BorrowedFd<'_>) -> Result<bool, TransferError> {
        let _ = eventfd;
        Ok(false)
    }

    /// Ends counting that only serves the evidence, with nothing in flight: subsequent transfers
    /// are measured and make only the calls that move data.
    fn stop_counting(&mut self) {}

    /// What actually ran, with its proof.
    fn evidence(&self) -> Evidence;
}

/// The specification of a path. Buffers come from the run's single region, so nothing is allocated
/// in the measured part.
pub struct PathSpec {
    /// The kind of path.
    pub kind: PathKind,
    /// The engine, for CPU-driven paths.
    pub engine: EngineKind,
    /// Host buffers, as many as [`buffers_needed`] says.
    pub host: Vec<HostBuffer>,
    /// Accelerator buffers, as many as [`buffers_needed`] says.
    pub accelerator_buffers: Vec<Box<dyn AcceleratorBuffer>>,
    /// The device the accelerator buffers are on.
    pub accelerator: Arc<dyn Accelerator>,
    /// Submissions batched per system call.
    pub submit_batch: usize,
    /// The maximum number of files attached at a time.
    pub max_files: usize,
    /// Whether to register buffers with cuFile.
    pub register_buffers: bool,
    /// Whether every transfer consists of whole 4 KiB blocks at multiples of 4 KiB.
    pub page_aligned: bool,
}

/// Builds a path on the thread that will use it.
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
                reason: "it is cuFile's fallback and cannot be requested".to_string(),
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
    /// Checks the flags of a file that is about to be attached.
    fn see(&mut self, file: &File) {
        match rustix::fs::fcntl_getfl(file) {
            Ok(flags) if flags.contains(rustix::fs::OFlags::DIRECT) => self.direct += 1,
            _ => self.cached += 1,
        }
    }

    /// The verdict for a path of the given kind, and the path that actually ran.
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
