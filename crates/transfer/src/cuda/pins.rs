//! Host buffers pinned for CUDA, so that the device copies to and from them directly.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaContext, sys};

use super::calls::{bind, failed};
use crate::error::TransferError;
use crate::region::{HostBuffer, MappingShare};
use crate::watchdog::{Hang, enter};

/// Keeps host buffers pinned, and their memory mapped, until dropped.
#[derive(Debug)]
pub struct Pins {
    pinned: Vec<(*mut c_void, MappingShare)>,
    /// The reason if pinning failed.
    shortfall: Option<String>,
    context: Arc<CudaContext>,
}

// SAFETY: opaque addresses and a context, whose calls may come from any thread.
unsafe impl Send for Pins {}

impl Pins {
    /// Pins all `buffers`, or none if one is refused, as where it shares a page with memory that is
    /// already pinned: CUDA pins no part of it then, on pages of 64 KiB as well as on small ones.
    ///
    /// # Errors
    /// When the device is lost.
    pub(super) fn new(
        context: &Arc<CudaContext>,
        buffers: &[HostBuffer],
    ) -> Result<Self, TransferError> {
        bind(context)?;
        // Dropping the value unpins the buffers that were pinned before a failure.
        let mut pins = Self {
            pinned: Vec::with_capacity(buffers.len()),
            shortfall: None,
            context: Arc::clone(context),
        };
        for buffer in buffers.iter().filter(|buffer| !buffer.is_empty()) {
            let start: *mut c_void = buffer.as_raw().cast();
            // SAFETY: the buffer is mapped, and the share kept below lets it stay so.
            let pinned = unsafe { sys::cuMemHostRegister_v2(start, buffer.len(), 0) };
            if let Err(error) = pinned.result() {
                pins.unpin();
                let refused = failed("cuMemHostRegister")(error);
                if refused.is_lost_gpu() {
                    return Err(refused);
                }
                let page_kib = rustix::param::page_size() >> 10;
                let why = match pinned {
                    sys::CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED => format!(
                        "one shares a page of {page_kib} KiB with pinned memory, and the rest were \
                         unpinned again; use an --io-size in whole pages"
                    ),
                    _ => refused.to_string(),
                };
                pins.shortfall = Some(format!("bounce buffers are not pinned for CUDA: {why}"));
                break;
            }
            pins.pinned.push((start, buffer.share()));
        }
        Ok(pins)
    }
}

impl Pins {
    /// The reason if pinning failed.
    pub(crate) fn shortfall(&self) -> Option<&str> {
        self.shortfall.as_deref()
    }

    fn unpin(&mut self) {
        for (start, _mapping) in self.pinned.drain(..) {
            // SAFETY: registered once by `new` under this address, and still mapped; copies have
            // been waited for.
            let _ = unsafe { sys::cuMemHostUnregister(start) };
        }
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let _call = enter(Hang::Cuda);
        let _ = bind(&self.context);
        self.unpin();
    }
}
