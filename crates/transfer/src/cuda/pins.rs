//! Host buffers pinned for CUDA, so that the device copies from and to them directly.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaContext, sys};

use super::{bind, failed};
use crate::error::TransferError;
use crate::region::{HostBuffer, MappingShare};

/// Keeps host buffers pinned, and their memory mapped, until it is dropped.
#[derive(Debug)]
pub struct Pins {
    pinned: Vec<(*mut c_void, MappingShare)>,
    context: Arc<CudaContext>,
}

// SAFETY: opaque addresses and a context, whose calls may come from any thread.
unsafe impl Send for Pins {}

impl Pins {
    /// Pins every one of `buffers`.
    ///
    /// # Errors
    /// When the kernel does not lock that much memory.
    pub(super) fn new(
        context: &Arc<CudaContext>,
        buffers: &[HostBuffer],
    ) -> Result<Self, TransferError> {
        bind(context)?;
        // Dropping the value unpins what has been pinned before a failure.
        let mut pins = Self {
            pinned: Vec::with_capacity(buffers.len()),
            context: Arc::clone(context),
        };
        for buffer in buffers.iter().filter(|buffer| !buffer.is_empty()) {
            let start: *mut c_void = buffer.as_raw().cast();
            // SAFETY: the buffer is mapped, and the share kept below lets it stay so.
            match unsafe { sys::cuMemHostRegister_v2(start, buffer.len(), 0) } {
                // A neighbour on the same page has pinned it already.
                sys::CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED => {}
                other => {
                    other.result().map_err(failed("cuMemHostRegister"))?;
                    pins.pinned.push((start, buffer.share()));
                }
            }
        }
        Ok(pins)
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let _ = self.context.bind_to_thread();
        for (start, _mapping) in self.pinned.drain(..) {
            // SAFETY: registered once by `new` under this address, and still mapped; copies have
            // been waited for.
            let _ = unsafe { sys::cuMemHostUnregister(start) };
        }
    }
}
