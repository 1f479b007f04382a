//! Devices as transfers use them: they allocate memory, and copy asynchronously.

use stormlp_core::operation::Direction;
use stormlp_core::path::MemoryKind;
use stormlp_core::transport::WaitMode;

use crate::cuda::pins::Pins;
use crate::cuda::stream::Stream;
use crate::error::TransferError;
use crate::region::{HostBuffer, Region};
use crate::transfer::AcceleratorBuffer;
use crate::transfer::Slot;

/// A device with memory for transfers, and the allocator of that memory.
pub trait Accelerator: Send + Sync {
    /// The name shown in reports: `NVIDIA H200 (cuda:0)`, or `host memory (emulated)`.
    fn name(&self) -> String;

    /// Whether host memory stands in for a device.
    fn is_emulated(&self) -> bool;

    /// Allocates `bytes` of the given kind; the stand-in carves them from `region`.
    ///
    /// # Errors
    /// When the device or the region cannot provide the memory.
    fn allocate(
        &self,
        bytes: usize,
        kind: MemoryKind,
        region: &mut Region,
    ) -> Result<Box<dyn AcceleratorBuffer>, TransferError>;

    /// Prepares the calling thread to use the device.
    ///
    /// # Errors
    /// When the device cannot be used from this thread.
    fn bind_thread(&self) -> Result<(), TransferError>;

    /// Asks the device whether it works, after a failure that may be its.
    ///
    /// # Errors
    /// When it does not: most often it is lost to this process.
    fn check(&self) -> Result<(), TransferError> {
        Ok(())
    }

    /// A queue of copies that run asynchronously to the thread that owns it.
    ///
    /// # Errors
    /// When the device has no free stream, or the host cannot start a thread.
    fn copy_queue(&self, capacity: usize) -> Result<Box<dyn CopyQueue>, TransferError>;

    /// How to wait for the device; host memory completes everything synchronously.
    fn wait_mode(&self) -> WaitMode {
        WaitMode::default()
    }

    /// A stream of the device, for paths that enqueue transfers on one.
    ///
    /// # Errors
    /// When the device has no streams (host memory) or none is available.
    fn stream(&self) -> Result<Stream, TransferError> {
        Err(TransferError::Unavailable {
            what: format!("a stream of {}", self.name()),
            reason: "streams belong to GPUs".to_string(),
            remedy: "use --device cuda:0, or --path gds or gds-batch".to_string(),
        })
    }

    /// Pins host buffers until the returned value is dropped, so that the device copies to and
    /// from them without staging; `None` if the device does not need this.
    ///
    /// # Errors
    /// When the memory cannot be locked.
    fn pin(&self, buffers: &[HostBuffer]) -> Result<Option<Pins>, TransferError> {
        let _ = buffers;
        Ok(None)
    }
}

/// A copy that owns both ends until it completes.
pub struct QueuedCopy {
    /// The direction: to the accelerator for a read, to the host for a write.
    pub direction: Direction,
    /// The host side.
    pub host: Slot,
    /// The accelerator side.
    pub accelerator: Slot,
    /// The number of bytes, from the start of both.
    pub len: usize,
    /// The result of the copy; `Ok` until it has run.
    pub result: Result<(), TransferError>,
}

impl QueuedCopy {
    /// Runs the copy synchronously.
    pub fn run(&mut self) {
        let host = self.host.host_mut().expect("host memory");
        let host = &mut host[..self.len];
        self.result = match self.direction {
            Direction::Read => self.accelerator.copy_in(host),
            Direction::Write => self.accelerator.copy_out(host),
        };
    }
}

/// Asynchronous copies, executed in order.
pub trait CopyQueue {
    /// Starts a copy.
    fn enqueue(&mut self, copy: QueuedCopy);

    /// Returns finished copies, waiting until there are at least `min`.
    fn wait(&mut self, min: usize, done: &mut Vec<QueuedCopy>);
}
