//! The GPUs and their properties.

use std::ffi::CStr;

use cudarc::driver::{result, sys};
use stormlp_core::facts::{AcceleratorFacts, GpuPart};

use super::calls::{absent, failed, present};
use super::ordinal;
use crate::error::TransferError;
use crate::probe::gpu;
use crate::probe::root::Root;

/// The CUDA version that the driver supports, `12.8`.
///
/// # Errors
/// When there is no CUDA library or it does not report a version.
pub fn driver_version() -> Result<String, TransferError> {
    if !present() {
        return Err(absent());
    }
    let mut version = 0;
    // SAFETY: `version` is a place for one int; the call needs no initialisation.
    unsafe { sys::cuDriverGetVersion(&mut version) }
        .result()
        .map_err(failed("cuDriverGetVersion"))?;
    Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
}

/// The GPUs that CUDA can use, in its order. Uses no device memory and creates no context.
///
/// # Errors
/// When there is no CUDA library or no working driver behind it.
pub fn devices() -> Result<Vec<AcceleratorFacts>, TransferError> {
    if !present() {
        return Err(absent());
    }
    result::init().map_err(failed("cuInit"))?;
    let count = result::device::get_count().map_err(failed("cuDeviceGetCount"))?;
    (0..count).map(facts).collect()
}

/// The properties of the device with the number `ordinal`.
fn facts(ordinal: i32) -> Result<AcceleratorFacts, TransferError> {
    let device = result::device::get(ordinal).map_err(failed("cuDeviceGet"))?;
    let name = result::device::get_name(device).map_err(failed("cuDeviceGetName"))?;
    // SAFETY: `device` comes from `get`.
    let memory_bytes = unsafe { result::device::total_mem(device) }.ok();
    let pci_address = pci_address(device);
    let pci = pci_address.as_deref().map(|address| gpu::device(&Root::system(), address));
    let part = name.contains(SLICE).then_some(GpuPart::MigSlice);
    Ok(AcceleratorFacts {
        index: ordinal.unsigned_abs(),
        name,
        numa_node: pci.as_ref().and_then(|pci| pci.numa_node),
        pcie_link: pci.as_ref().and_then(|pci| pci.link.clone().ok()),
        // Figures of the whole GPU are not the part's.
        bar1_bytes: pci.filter(|_| part.is_none()).and_then(|pci| pci.bar1_bytes.ok()),
        // CUDA needs a context to say; NVML does not.
        free_memory_bytes: None,
        part,
        memory_bytes: memory_bytes.map(|bytes| bytes as u64),
        pci_address,
    })
}

/// The device with the number `index`; `None` without CUDA or such a device.
fn device_of(index: u32) -> Option<sys::CUdevice> {
    let works = present() && result::init().is_ok();
    works.then(|| result::device::get(ordinal(index)).ok())?
}

/// The PCI address of the device with the number `index`; `None` without CUDA or such a device.
pub(crate) fn pci_address_of(index: u32) -> Option<String> {
    pci_address(device_of(index)?)
}

/// Whether the device with the number `index` is a MIG slice.
pub(crate) fn is_slice(index: u32) -> bool {
    let name = device_of(index).and_then(|device| result::device::get_name(device).ok());
    name.is_some_and(|name| name.contains(SLICE))
}

/// The text in CUDA's name of a MIG slice before its profile: `H100 80GB HBM3 MIG 1g.10gb`.
const SLICE: &str = " MIG ";

/// The device's PCI address in sysfs notation.
fn pci_address(device: sys::CUdevice) -> Option<String> {
    let mut text = [0u8; 32];
    // SAFETY: the buffer has the length that is passed; the call ends the string with a zero.
    unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr().cast(), text.len() as i32, device) }
        .result()
        .ok()?;
    let text = CStr::from_bytes_until_nul(&text).ok()?.to_str().ok()?;
    Some(text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_cuda_the_error_has_a_remedy() {
        if !present() {
            let error = devices().unwrap_err().to_string();
            assert!(error.contains("libcuda.so.1 cannot be opened"), "{error}");
            assert!(driver_version().is_err());
        }
    }
}
