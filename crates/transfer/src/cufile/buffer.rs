//! Memory registered with cuFile.

use std::ffi::c_void;
use std::sync::Arc;

use super::driver::Driver;
use super::error::{CuFileError, check};

/// The registration of a piece of memory, which somebody else owns and must free later.
///
/// nvidia-fs can deadlock when memory is freed while it is registered, so an owner keeps this
/// value beside the memory and drops it first.
#[derive(Debug)]
pub(crate) struct Registration {
    base: *mut c_void,
    driver: Arc<Driver>,
}

// SAFETY: an opaque address and a share of the driver, whose calls may come from any thread.
unsafe impl Send for Registration {}

impl Registration {
    /// Registers `len` bytes from `base` on.
    ///
    /// # Errors
    /// When the memory is of a kind cuFile does not take, or cannot be pinned (BAR1 used up).
    ///
    /// # Safety
    /// The memory must stay allocated until the value is dropped; device memory needs its CUDA
    /// context current on this thread, here and when the value is dropped.
    pub(crate) unsafe fn new(
        driver: Arc<Driver>,
        base: *mut c_void,
        len: usize,
    ) -> Result<Self, CuFileError> {
        // SAFETY: the caller vouches for the memory; 0 is the only value for the flags.
        let status = unsafe { (driver.api().buf_register)(base, len, 0) };
        check("cuFileBufRegister", status)?;
        Ok(Self { base, driver })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: registered once under this address, which is still allocated. A failure leaves
        // nothing that could be done.
        unsafe { (self.driver.api().buf_deregister)(self.base) };
    }
}
