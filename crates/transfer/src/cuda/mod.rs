//! NVIDIA GPUs through CUDA's driver interface, opened at run time.
//!
//! cudarc panics when the library is missing, so [`present`] is asked before anything else.
//! A device's primary context is retained once for the life of the process: making one takes
//! tenths of a second, and the cells of a matrix follow each other within milliseconds.

mod copies;
mod device;
mod facts;
mod memory;
mod pins;
mod stream;

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

/// Whether CUDA's library can be opened, found out once.
pub fn present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: opens libcuda and closes it again; running its constructors is what using CUDA
    // means, and it has no conditions on that.
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

/// Has CUDA number the devices by their place on the PCI bus, as nvidia-smi does, unless the
/// environment says otherwise; to be called before CUDA is used and before the first thread.
pub fn number_devices_by_bus() {
    const ORDER: &str = "CUDA_DEVICE_ORDER";
    if !environment::is_set(ORDER) {
        environment::set(ORDER, "PCI_BUS_ID");
    }
}

/// How many streams a device works on side by side, as the environment says.
pub fn connections() -> u32 {
    let said = std::env::var("CUDA_DEVICE_MAX_CONNECTIONS").ok();
    let number = said.and_then(|text| text.trim().parse::<u32>().ok());
    // CUDA takes no less and no more.
    number.map_or(DEFAULT_CUDA_CONNECTIONS, |number| number.clamp(1, 32))
}

thread_local! {
    /// The context that was last made current on this thread; 0 for none.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Makes the device's context current on this thread; without a call where it is.
fn bind(context: &CudaContext) -> Result<(), TransferError> {
    let wanted = context.cu_ctx().addr();
    if CURRENT.get() != wanted {
        context.bind_to_thread().map_err(failed("cuCtxSetCurrent"))?;
        CURRENT.set(wanted);
    }
    Ok(())
}

/// Another context may be current on this thread by now.
fn forget_current() {
    CURRENT.set(0);
}

/// A failed call in the words of this crate.
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

/// CUDA's code 802: GPUs behind NVSwitch that their manager has not connected yet.
pub(crate) const SYSTEM_NOT_READY: i32 = 802;
/// What to do about it.
pub(crate) const NO_FABRIC: &str = "; start the fabric manager, of the driver's version: \
    `systemctl start nvidia-fabricmanager`";

/// What to do about a failure, where there is something.
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
