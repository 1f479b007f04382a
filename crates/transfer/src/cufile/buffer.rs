//! Memory registered with cuFile.

use std::ffi::c_void;
use std::sync::Arc;

use super::driver::Driver;
use super::error::{CuFileError, check};
use crate::watchdog::{Hang, enter};

/// The registration of a piece of memory owned by someone else, who must free it later.
///
/// nvidia-fs can deadlock when memory is freed while registered, so an owner keeps this value next
/// to the memory and drops it first.
#[derive(Debug)]
pub(crate) struct Registration {
    base: *mut c_void,
    driver: Arc<Driver>,
}

// SAFETY: an opaque address and a share of the driver, whose calls may come from any thread.
unsafe impl Send for Registration {}

impl Registration {
    /// Registers `len` bytes starting at `base`.
    ///
    /// # Errors
    /// When cuFile does not support this kind of memory, or it cannot be pinned (BAR1 exhausted).
    ///
    /// # Safety
    /// The memory must stay allocated until the value is dropped; device memory needs its CUDA
    /// context current on this thread, here and when the value is dropped.
    pub(crate) unsafe fn new(
        driver: Arc<Driver>,
        base: *mut c_void,
        len: usize,
    ) -> Result<Self, CuFileError> {
        // SAFETY: the caller vouches for the memory; 0 is the only valid value of the flags.
        let status = unsafe { (driver.api().buf_register)(base, len, 0) };
        check("cuFileBufRegister", status)?;
        Ok(Self { base, driver })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _call = enter(Hang::Release);
        // SAFETY: registered once under this address, which is still allocated. A failure cannot
        // be handled.
        unsafe { (self.driver.api().buf_deregister)(self.base) };
    }
}
