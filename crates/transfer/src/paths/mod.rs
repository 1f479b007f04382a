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
pub(crate) mod null;
mod s3;
mod s3_ranges;

use std::fs::File;
use std::sync::Arc;

pub use buffers::PathBuffers;
use stormlp_core::evidence::DirectIo;
pub use stormlp_core::path::buffers_needed;
use stormlp_core::path::{EngineKind, PathKind};

use crate::accelerator::device::Accelerator;
use crate::error::TransferError;
use crate::probe::direct::buffered_by;
use crate::region::HostBuffer;
use crate::transfer::{AcceleratorBuffer, TransferPath};

/// The specification of a path. Buffers come from the run's single region, so no memory is
/// allocated in the measured part.
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
        PathKind::S3 => Box::new(s3::S3Path::new(spec)?),
        PathKind::Null => Box::new(null::NullPath::new(spec.host)),
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
    /// Checks the flags of a file that is about to be attached, and whether they are obeyed.
    fn see(&mut self, file: &File) {
        match rustix::fs::fcntl_getfl(file) {
            Ok(flags)
                if flags.contains(rustix::fs::OFlags::DIRECT) && buffered_by(file).is_none() =>
            {
                self.direct += 1;
            }
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
        (DirectIo::Refused, kind.without_direct())
    }
}

#[cfg(test)]
mod tests;
