//! The memory transfers end in: a GPU's, or host memory standing in for one.

use stormlp_core::operation::Direction;
use stormlp_core::path::MemoryKind;
use stormlp_core::transport::WaitMode;

use crate::cuda::{CudaDevice, Pins, Stream};
use crate::error::TransferError;
use crate::region::{HostBuffer, Region};
use crate::slot::Slot;

/// A device whose memory transfers end in, and how to get such memory.
pub trait Accelerator: Send + Sync {
    /// What reports call it: `NVIDIA H200 (cuda:0)`, or `host memory (emulated)`.
    fn name(&self) -> String;

    /// Whether host memory stands in for a device.
    fn is_emulated(&self) -> bool;

    /// Allocates `bytes` of the given kind; a stand-in carves them from `region`.
    ///
    /// # Errors
    /// When the device or the region has no such memory.
    fn allocate(
        &self,
        bytes: usize,
        kind: MemoryKind,
        region: &mut Region,
    ) -> Result<Box<dyn AcceleratorBuffer>, TransferError>;

    /// Makes the calling thread ready to use the device.
    ///
    /// # Errors
    /// When the device cannot be used from this thread.
    fn bind_thread(&self) -> Result<(), TransferError>;

    /// A queue that copies beside the thread that owns it.
    ///
    /// # Errors
    /// When the device has no stream, or the host no thread, to spare.
    fn copy_queue(&self, capacity: usize) -> Result<Box<dyn CopyQueue>, TransferError>;

    /// How to wait for what it does; host memory does everything at once.
    fn wait_mode(&self) -> WaitMode {
        WaitMode::default()
    }

    /// A stream of the device, for the paths that hand transfers to one.
    ///
    /// # Errors
    /// When the device has no streams, as host memory has none, or none to spare.
    fn stream(&self) -> Result<Stream, TransferError> {
        Err(TransferError::Unavailable {
            what: format!("a stream of {}", self.name()),
            reason: "streams belong to GPUs".to_string(),
            remedy: "use --device cuda:0, or --path gds or gds-batch".to_string(),
        })
    }

    /// Pins host buffers until the answer is dropped, so that the device copies from and to them
    /// without staging; `None` from a device that has no use for that.
    ///
    /// # Errors
    /// When the memory cannot be locked.
    fn pin(&self, buffers: &[HostBuffer]) -> Result<Option<Pins>, TransferError> {
        let _ = buffers;
        Ok(None)
    }
}

/// A piece of accelerator memory that nobody else has.
pub trait AcceleratorBuffer: Send {
    /// Length in bytes.
    fn len(&self) -> usize;

    /// Whether it holds nothing.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address as the device and cuFile know it.
    fn address(&self) -> usize;

    /// The bytes themselves, where the host can reach them.
    fn host(&self) -> Option<&[u8]> {
        None
    }

    /// The bytes themselves to change, where the host can reach them.
    fn host_mut(&mut self) -> Option<&mut [u8]> {
        None
    }

    /// Copies `source` to the start of this memory and waits for the end of the copy.
    ///
    /// # Errors
    /// When the device fails.
    fn copy_from_host(&mut self, source: &[u8]) -> Result<(), TransferError>;

    /// Copies the start of this memory to `target` and waits for the end of the copy.
    ///
    /// # Errors
    /// When the device fails.
    fn copy_to_host(&self, target: &mut [u8]) -> Result<(), TransferError>;
}

/// A copy that owns both ends until it is done.
pub struct QueuedCopy {
    /// Which way: to the accelerator for a read, to the host for a write.
    pub direction: Direction,
    /// The host's end.
    pub host: Slot,
    /// The accelerator's end.
    pub accelerator: Slot,
    /// How many bytes from the start of both.
    pub len: usize,
    /// How the copy ended; `Ok` until it has run.
    pub result: Result<(), TransferError>,
}

impl QueuedCopy {
    /// Does the copy here and now.
    pub fn run(&mut self) {
        let host = self.host.host_mut().expect("the host's own memory");
        let host = &mut host[..self.len];
        self.result = match self.direction {
            Direction::Read => self.accelerator.copy_in(host),
            Direction::Write => self.accelerator.copy_out(host),
        };
    }
}

/// Copies that run beside the thread that queued them, in order.
pub trait CopyQueue {
    /// Starts a copy.
    fn enqueue(&mut self, copy: QueuedCopy);

    /// Hands back finished copies, waiting until there are at least `min`.
    fn wait(&mut self, min: usize, done: &mut Vec<QueuedCopy>);
}

/// Host memory standing in for an accelerator's. Reports call it emulated.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostStandIn;

impl Accelerator for HostStandIn {
    fn name(&self) -> String {
        "host memory (emulated)".to_string()
    }

    fn is_emulated(&self) -> bool {
        true
    }

    fn allocate(
        &self,
        bytes: usize,
        _kind: MemoryKind,
        region: &mut Region,
    ) -> Result<Box<dyn AcceleratorBuffer>, TransferError> {
        let buffer = region.carve(bytes, 4096).ok_or(TransferError::Memory {
            bytes,
            source: std::io::Error::from_raw_os_error(libc::ENOMEM),
        })?;
        Ok(Box::new(EmulatedBuffer(buffer)))
    }

    fn bind_thread(&self) -> Result<(), TransferError> {
        Ok(())
    }

    fn copy_queue(&self, capacity: usize) -> Result<Box<dyn CopyQueue>, TransferError> {
        Ok(Box::new(crate::thread::CopyThread::spawn(capacity)?))
    }
}

/// Host memory under the name of an accelerator's.
struct EmulatedBuffer(HostBuffer);

impl AcceleratorBuffer for EmulatedBuffer {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn address(&self) -> usize {
        self.0.as_raw() as usize
    }

    fn host(&self) -> Option<&[u8]> {
        Some(&self.0)
    }

    fn host_mut(&mut self) -> Option<&mut [u8]> {
        Some(&mut self.0)
    }

    fn copy_from_host(&mut self, source: &[u8]) -> Result<(), TransferError> {
        self.0[..source.len()].copy_from_slice(source);
        Ok(())
    }

    fn copy_to_host(&self, target: &mut [u8]) -> Result<(), TransferError> {
        target.copy_from_slice(&self.0[..target.len()]);
        Ok(())
    }
}

/// The accelerator with the given CUDA index, whose threads wait as `wait` says, or the host
/// stand-in for none.
///
/// # Errors
/// When there is no such device on this machine.
pub fn open(
    cuda_index: Option<u32>,
    wait: WaitMode,
) -> Result<std::sync::Arc<dyn Accelerator>, TransferError> {
    match cuda_index {
        None => Ok(std::sync::Arc::new(HostStandIn)),
        Some(index) => Ok(std::sync::Arc::new(CudaDevice::open_to(index, wait)?)),
    }
}
