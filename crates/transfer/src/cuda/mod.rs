//! NVIDIA GPUs through CUDA's driver API, opened at run time.
//!
//! cudarc panics when the library is missing, so [`calls::present`] is checked first. A device's
//! primary context is retained once for the life of the process: creating one takes tenths of a
//! second, and the cells of a matrix follow each other within milliseconds.

pub(crate) mod calls;
mod copies;
pub(crate) mod device;
mod facts;
mod memory;
pub(crate) mod pins;
pub(crate) mod stream;

use std::sync::OnceLock;

use stormlp_core::facts::{DEFAULT_CUDA_CONNECTIONS, HostFacts};

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

/// The devices that CUDA still sees after [`show_only`], by their numbers before.
static SHOWN: OnceLock<Vec<u32>> = OnceLock::new();

/// Hides the GPUs of `host` other than `used` from CUDA in this process: cuFile's driver opens a
/// context on each that it sees, which needs memory and time, and fails on one that another process
/// uses exclusively. Devices keep their numbers in stormlp. Call this like
/// [`number_devices_by_bus`]; with more threads, or with MIG slices, which have no such numbers,
/// all stay visible.
pub fn show_only(used: impl IntoIterator<Item = u32>, host: &HostFacts) {
    const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
    let mut used: Vec<u32> = used.into_iter().collect();
    used.sort_unstable();
    used.dedup();
    let gpus = &host.accelerators;
    if used.is_empty() || used.len() >= gpus.len() || gpus.iter().any(|gpu| gpu.part.is_some()) {
        return;
    }
    let before = std::env::var(VISIBLE).ok();
    if let Some(list) = narrowed(before.as_deref(), &used)
        && environment::set(VISIBLE, list)
    {
        // Set once: a process runs one command.
        let _ = SHOWN.set(used);
    }
}

/// The entries of a list of visible devices that CUDA numbers `used`; without a list, their numbers.
fn narrowed(list: Option<&str>, used: &[u32]) -> Option<String> {
    let entries: Option<Vec<&str>> = list.map(|list| list.split(',').map(str::trim).collect());
    let entry = |index: &u32| match &entries {
        Some(entries) => entries.get(*index as usize).map(|entry| (*entry).to_string()),
        None => Some(index.to_string()),
    };
    let chosen: Option<Vec<String>> = used.iter().map(entry).collect();
    chosen.map(|chosen| chosen.join(","))
}

/// CUDA's number for the device that stormlp numbers `index`.
pub(crate) fn ordinal(index: u32) -> i32 {
    let shown = SHOWN.get().and_then(|shown| shown.iter().position(|other| *other == index));
    shown.map_or(index.cast_signed(), |position| position as i32)
}

/// The number of concurrent streams of a device, from the environment.
pub fn connections() -> u32 {
    let said = std::env::var("CUDA_DEVICE_MAX_CONNECTIONS").ok();
    let number = said.and_then(|text| text.trim().parse::<u32>().ok());
    // CUDA's limits.
    number.map_or(DEFAULT_CUDA_CONNECTIONS, |number| number.clamp(1, 32))
}

#[cfg(test)]
mod tests {
    use super::narrowed;

    #[test]
    fn only_the_devices_in_use_stay_visible() {
        assert_eq!(narrowed(None, &[0, 3]).unwrap(), "0,3");
        assert_eq!(narrowed(Some("4, GPU-7f, 6"), &[1, 2]).unwrap(), "GPU-7f,6");
        assert_eq!(narrowed(Some("4"), &[1]), None);
    }
}
