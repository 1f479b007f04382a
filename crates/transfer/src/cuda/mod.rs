//! NVIDIA GPUs through CUDA's driver API, opened at run time.
//!
//! cudarc panics when the library is missing, so [`present`] is checked before anything else. A
//! device's primary context is retained once for the life of the process: creating one takes
//! tenths of a second, and the cells of a matrix follow each other within milliseconds.

mod copies;
pub(crate) mod device;
mod facts;
mod memory;
pub(crate) mod pins;
pub(crate) mod stream;

use std::cell::Cell;
use std::sync::OnceLock;

use cudarc::driver::{CudaContext, DriverError};
use stormlp_core::facts::DEFAULT_CUDA_CONNECTIONS;

use crate::environment;
use crate::error::TransferError;

pub use device::CudaDevice;
pub(crate) use facts::pci_address_of;
pub use facts::{devices, driver_version};
pub use pins::Pins;
pub use stream::Stream;

/// Whether CUDA's library can be opened; checked once.
pub fn present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: opens libcuda and closes it again; running its constructors is what using CUDA
    // means, and they have no preconditions.
    *PRESENT.get_or_init(|| unsafe { cudarc::driver::sys::is_culib_present() })
}

/// The error for a machine without CUDA's library.
fn absent() -> TransferError {
    TransferError::Unavailable {
        what: "CUDA".to_string(),
        reason: "libcuda.so.1 cannot be opened".to_string(),
        remedy: "install the NVIDIA driver, or use --device host".to_string(),
    }
}

/// Makes CUDA number the devices by PCI address, as nvidia-smi does, unless the environment says
/// otherwise; call before CUDA is used and before the first thread is started.
pub fn number_devices_by_bus() {
    const ORDER: &str = "CUDA_DEVICE_ORDER";
    if !environment::is_set(ORDER) {
        environment::set(ORDER, "PCI_BUS_ID");
    }
}

/// The number of concurrent streams of a device, from the environment.
pub fn connections() -> u32 {
    let said = std::env::var("CUDA_DEVICE_MAX_CONNECTIONS").ok();
    let number = said.and_then(|text| text.trim().parse::<u32>().ok());
    // CUDA's own limits.
    number.map_or(DEFAULT_CUDA_CONNECTIONS, |number| number.clamp(1, 32))
}

thread_local! {
    /// The context that was last made current on this thread; 0 for none.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Makes the device's context current on this thread; no call if it already is.
fn bind(context: &CudaContext) -> Result<(), TransferError> {
    let wanted = context.cu_ctx().addr();
    if CURRENT.get() != wanted {
        context.bind_to_thread().map_err(failed("cuCtxSetCurrent"))?;
        CURRENT.set(wanted);
    }
    Ok(())
}

/// Invalidates the cache: another context may be current on this thread.
fn forget_current() {
    CURRENT.set(0);
}

/// Converts a failed call to this crate's error.
fn failed(call: &'static str) -> impl FnOnce(DriverError) -> TransferError {
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
        TransferError::Cuda { call, explanation }
    }
}

/// CUDA's code 802: GPUs behind NVSwitch that the fabric manager has not connected yet.
pub(crate) const SYSTEM_NOT_READY: i32 = 802;
/// The remedy.
pub(crate) const NO_FABRIC: &str = "; start the fabric manager, of the driver's version: \
    `systemctl start nvidia-fabricmanager`";

/// The remedy for a failure, if there is one.
fn advice(error: DriverError) -> &'static str {
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
