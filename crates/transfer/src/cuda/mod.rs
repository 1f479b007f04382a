//! NVIDIA GPUs through CUDA's driver API, opened at run time.
//!
//! cudarc panics when the library is missing, so [`calls::present`] is checked before anything else. A
//! device's primary context is retained once for the life of the process: creating one takes
//! tenths of a second, and the cells of a matrix follow each other within milliseconds.

pub(crate) mod calls;
mod copies;
pub(crate) mod device;
mod facts;
mod memory;
pub(crate) mod pins;
pub(crate) mod stream;

use stormlp_core::facts::DEFAULT_CUDA_CONNECTIONS;

use crate::environment;

pub use calls::present;
pub(crate) use calls::{NO_FABRIC, SYSTEM_NOT_READY};
pub use device::CudaDevice;
pub use facts::{devices, driver_version};
pub(crate) use facts::{is_slice, pci_address_of};
pub use pins::Pins;
pub use stream::Stream;

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
