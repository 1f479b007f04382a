//! The buffers of one path.

use stormlp_core::path::{MemoryKind, PathKind, buffers_needed};

use crate::accelerator::{Accelerator, AcceleratorBuffer};
use crate::error::TransferError;
use crate::region::{HostBuffer, Region};

/// Where direct I/O wants buffers to begin, at least.
const ALIGN_BYTES: usize = 4096;

/// Memory of the host and of an accelerator, as much of each as a path needs.
pub struct PathBuffers {
    /// Host memory: where transfers end, or what they pass through.
    pub host: Vec<HostBuffer>,
    /// Accelerator memory, where transfers end there.
    pub accelerator: Vec<Box<dyn AcceleratorBuffer>>,
}

impl PathBuffers {
    /// Buffers of `bytes` each for a path with `depth` slots; host memory is cut from `region`.
    ///
    /// # Errors
    /// When the region is used up, or the accelerator has no more.
    pub fn allocate(
        kind: PathKind,
        depth: usize,
        bytes: usize,
        (accelerator, memory): (&dyn Accelerator, MemoryKind),
        region: &mut Region,
    ) -> Result<Self, TransferError> {
        let (hosts, accelerators) = buffers_needed(kind, depth);
        let full =
            || TransferError::Memory { bytes, source: std::io::ErrorKind::OutOfMemory.into() };
        Ok(Self {
            host: (0..hosts)
                .map(|_| region.carve(bytes, ALIGN_BYTES).ok_or_else(full))
                .collect::<Result<_, _>>()?,
            accelerator: (0..accelerators)
                .map(|_| accelerator.allocate(bytes, memory, region))
                .collect::<Result<_, _>>()?,
        })
    }
}
