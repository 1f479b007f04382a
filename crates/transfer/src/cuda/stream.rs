//! Streams, events, and synchronous copies.

use std::sync::Arc;

use cudarc::driver::{CudaContext, DriverError, result, sys};
use stormlp_core::transport::WaitMode;

use super::calls::{bind, failed};
use crate::error::TransferError;
use crate::watchdog::{Hang, enter};

/// CUDA's handle for the calling thread's own stream (`CU_STREAM_PER_THREAD`). Copies of different
/// threads do not wait for each other there, and it needs no creation or destruction.
fn own_stream() -> sys::CUstream {
    std::ptr::without_provenance_mut(2)
}

/// Whether all work enqueued on `stream` is complete.
///
/// # Errors
/// When something on it failed; on a broken context every call fails.
///
/// # Safety
/// It must be a stream of the context current on this thread.
unsafe fn query(stream: sys::CUstream) -> Result<bool, TransferError> {
    // SAFETY: the caller vouches for the stream.
    match unsafe { sys::cuStreamQuery(stream) }.result() {
        Ok(()) => Ok(true),
        Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
        Err(error) => Err(failed("cuStreamQuery")(error)),
    }
}

/// Whether the context that is current on this thread works.
///
/// # Errors
/// When it is broken.
pub(super) fn check_current() -> Result<(), TransferError> {
    // SAFETY: every context has this stream.
    unsafe { query(own_stream()) }.map(drop)
}

/// Copies `source` to device memory and waits until it has arrived there.
///
/// The plain synchronous call may return when the bytes have only been staged, and a cuFile write
/// must not overtake them; synchronising the stream waits for all of it.
///
/// # Safety
/// `target` must be the start of at least `source.len()` bytes of device memory that nobody else
/// uses meanwhile, of the context current on this thread.
pub(super) unsafe fn copy_to_device(
    target: sys::CUdeviceptr,
    source: &[u8],
) -> Result<(), TransferError> {
    let _call = enter(Hang::Cuda);
    // SAFETY: the caller vouches for the target; the source is borrowed until the stream is
    // synchronised below. Should synchronising fail, the context is broken and copies no more.
    unsafe {
        result::memcpy_htod_async(target, source, own_stream())
            .map_err(failed("cuMemcpyHtoDAsync"))?;
        result::stream::synchronize(own_stream()).map_err(failed("cuStreamSynchronize"))
    }
}

/// Copies device memory to `target` and waits for completion.
///
/// # Safety
/// `source` must be the start of at least `target.len()` bytes of device memory that nobody
/// writes meanwhile, of the context current on this thread.
pub(super) unsafe fn copy_to_host(
    target: &mut [u8],
    source: sys::CUdeviceptr,
) -> Result<(), TransferError> {
    let _call = enter(Hang::Cuda);
    // SAFETY: as in `copy_to_device`, the other way round.
    unsafe {
        result::memcpy_dtoh_async(target, source, own_stream())
            .map_err(failed("cuMemcpyDtoHAsync"))?;
        result::stream::synchronize(own_stream()).map_err(failed("cuStreamSynchronize"))
    }
}

/// A stream of a device; synchronised and destroyed when dropped.
#[derive(Debug)]
pub struct Stream {
    raw: sys::CUstream,
    context: Arc<CudaContext>,
}

// SAFETY: CUDA's calls may come from any thread; every call here makes the context current first
// or says that it must be.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream that does not synchronise with the default stream.
    ///
    /// # Errors
    /// When the device has no free stream.
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<Self, TransferError> {
        bind(context)?;
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(failed("cuStreamCreate"))?;
        Ok(Self { raw, context: Arc::clone(context) })
    }

    /// The stream's handle, for CUDA and cuFile.
    pub(crate) fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// Whether all enqueued work is complete.
    ///
    /// # Errors
    /// When something on the stream failed.
    pub(crate) fn is_idle(&self) -> Result<bool, TransferError> {
        // SAFETY: the stream lives as long as `self`; its paths make the context current.
        unsafe { query(self.raw) }
    }

    /// Waits until all enqueued work is complete.
    ///
    /// # Errors
    /// When something on the stream failed.
    pub(crate) fn synchronize(&self) -> Result<(), TransferError> {
        // SAFETY: the stream lives as long as `self`.
        unsafe { result::stream::synchronize(self.raw) }.map_err(failed("cuStreamSynchronize"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _call = enter(Hang::Cuda);
        // A failure means that the context is broken, and with it everything on the stream.
        let _ = bind(&self.context);
        let _ = self.synchronize();
        // SAFETY: made once by `new`, destroyed once.
        let _ = unsafe { result::stream::destroy(self.raw) };
    }
}

/// An event on a stream; destroyed when dropped.
#[derive(Debug)]
pub(super) struct StreamEvent {
    raw: sys::CUevent,
    context: Arc<CudaContext>,
}

impl StreamEvent {
    /// An event without timing; its waiter sleeps or spins.
    pub(super) fn new(context: &Arc<CudaContext>, wait: WaitMode) -> Result<Self, TransferError> {
        bind(context)?;
        let blocking = match wait {
            WaitMode::Spin => 0,
            WaitMode::Block => sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32,
        };
        let flags = blocking | sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a place for the handle; the context is current.
        unsafe { sys::cuEventCreate(&mut raw, flags) }.result().map_err(failed("cuEventCreate"))?;
        Ok(Self { raw, context: Arc::clone(context) })
    }

    /// Records the event after all work enqueued on `stream` so far.
    pub(super) fn record(&self, stream: &Stream) -> Result<(), TransferError> {
        // SAFETY: both live as long as their values, of the same context.
        unsafe { result::event::record(self.raw, stream.raw) }.map_err(failed("cuEventRecord"))
    }

    /// Whether the stream has reached the event.
    pub(super) fn is_over(&self) -> Result<bool, TransferError> {
        // SAFETY: the event lives as long as `self`.
        match unsafe { result::event::query(self.raw) } {
            Ok(()) => Ok(true),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(failed("cuEventQuery")(error)),
        }
    }

    /// Waits until the stream has reached the event.
    pub(super) fn synchronize(&self) -> Result<(), TransferError> {
        // SAFETY: the event lives as long as `self`.
        unsafe { result::event::synchronize(self.raw) }.map_err(failed("cuEventSynchronize"))
    }
}

impl Drop for StreamEvent {
    fn drop(&mut self) {
        let _ = bind(&self.context);
        // SAFETY: made once by `new`, destroyed once; CUDA allows it at any time.
        let _ = unsafe { result::event::destroy(self.raw) };
    }
}
