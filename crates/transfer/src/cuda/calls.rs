//! CUDA's library: whether it is there, the context of a thread, and the errors of its calls.

use std::cell::Cell;
use std::sync::OnceLock;

use cudarc::driver::{CudaContext, DriverError};

use crate::error::TransferError;

/// Whether CUDA's library can be opened; checked once.
pub fn present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: opens libcuda and closes it again; its constructors run, which have no preconditions.
    *PRESENT.get_or_init(|| unsafe { cudarc::driver::sys::is_culib_present() })
}

/// The error for a machine without CUDA's library.
pub(super) fn absent() -> TransferError {
    TransferError::Unavailable {
        what: "CUDA".to_string(),
        reason: "libcuda.so.1 cannot be opened".to_string(),
        remedy: "install the NVIDIA driver, or use --device host".to_string(),
    }
}

thread_local! {
    /// The context that was last made current on this thread; 0 for none.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Makes the device's context current on this thread; no call if it already is.
pub(super) fn bind(context: &CudaContext) -> Result<(), TransferError> {
    let wanted = context.cu_ctx().addr();
    if CURRENT.get() != wanted {
        context.bind_to_thread().map_err(failed("cuCtxSetCurrent"))?;
        CURRENT.set(wanted);
    }
    Ok(())
}

/// Invalidates the cache: another context may be current on this thread.
pub(super) fn forget_current() {
    CURRENT.set(0);
}

/// Converts a failed call to this crate's error.
pub(super) fn failed(call: &'static str) -> impl FnOnce(DriverError) -> TransferError {
    move |error| {
        let words = |text: Result<&std::ffi::CStr, DriverError>| {
            text.map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
        };
        let explanation = format!(
            "{} ({}){}",
            words(error.error_string()),
            words(error.error_name()),
            advice(error)
        );
        let call = format!("CUDA {call}");
        TransferError::Gpu { call, code: 0, cuda_code: error.0 as i32, explanation }
    }
}

/// CUDA's code 802: GPUs behind NVSwitch that the fabric manager has not connected yet.
pub(crate) const SYSTEM_NOT_READY: i32 = 802;

/// The remedy.
pub(crate) const NO_FABRIC: &str = "; start the fabric manager, of the driver's version: \
    `systemctl start nvidia-fabricmanager`";

/// The remedy for a failure, if there is one.
pub(super) fn advice(error: DriverError) -> &'static str {
    use cudarc::driver::sys::CUresult;
    match error.0 {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
            "; use smaller --io-size, fewer --threads or a lower --queue-depth"
        }
        CUresult::CUDA_ERROR_NO_DEVICE | CUresult::CUDA_ERROR_INVALID_DEVICE => {
            "; `nvidia-smi` lists the GPUs, CUDA_VISIBLE_DEVICES may hide some"
        }
        CUresult::CUDA_ERROR_SYSTEM_NOT_READY => NO_FABRIC,
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => "; reboot after a driver update",
        _ => "",
    }
}
