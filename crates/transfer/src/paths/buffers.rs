//! The buffers of one path.

use stormlp_core::path::{MemoryKind, PathKind, buffers_needed};

use crate::accelerator::device::Accelerator;
use crate::error::TransferError;
use crate::region::{HostBuffer, Region};
use crate::transfer::AcceleratorBuffer;

/// Minimum buffer alignment for direct I/O.
const ALIGN_BYTES: usize = 4096;

/// Host and accelerator memory, as much of each as a path needs.
pub struct PathBuffers {
    /// Host memory: the end of transfers, or their bounce buffers.
    pub host: Vec<HostBuffer>,
    /// Accelerator memory, if transfers end there.
    pub accelerator: Vec<Box<dyn AcceleratorBuffer>>,
}

impl PathBuffers {
    /// Buffers of `bytes` each for a path with `depth` slots; host memory is carved from `region`.
    ///
    /// # Errors
    /// When the region or the accelerator's memory is exhausted.
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
