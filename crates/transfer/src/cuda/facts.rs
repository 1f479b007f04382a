//! The GPUs and their properties.

use std::ffi::CStr;
use std::path::Path;

use cudarc::driver::{result, sys};
use stormlp_core::facts::{AcceleratorFacts, GpuPart};

use super::calls::{absent, failed, present};
use super::ordinal;
use crate::error::TransferError;

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
    let folder =
        pci_address.as_ref().map(|address| Path::new("/sys/bus/pci/devices").join(address));
    let part = name.contains(SLICE).then_some(GpuPart::MigSlice);
    Ok(AcceleratorFacts {
        index: ordinal.unsigned_abs(),
        name,
        numa_node: folder.as_deref().and_then(numa_node),
        pcie_link: folder.as_deref().and_then(pcie_link),
        // What belongs to the whole GPU is not the part's.
        bar1_bytes: folder.as_deref().filter(|_| part.is_none()).and_then(bar1_bytes),
        // CUDA needs a context to say; NVML does not.
        free_memory_bytes: None,
        part,
        memory_bytes: memory_bytes.map(|bytes| bytes as u64),
        pci_address,
    })
}

/// The PCI address of the device with the number `index`; `None` without CUDA or such a device.
pub(crate) fn pci_address_of(index: u32) -> Option<String> {
    if !present() || result::init().is_err() {
        return None;
    }
    pci_address(result::device::get(ordinal(index)).ok()?)
}

/// Whether the device with the number `index` is a MIG slice.
pub(crate) fn is_slice(index: u32) -> bool {
    let works = present() && result::init().is_ok();
    let device = works.then(|| result::device::get(ordinal(index)).ok()).flatten();
    device
        .and_then(|device| result::device::get_name(device).ok())
        .is_some_and(|name| name.contains(SLICE))
}

/// What CUDA's name of a MIG slice contains before its profile: `H100 80GB HBM3 MIG 1g.10gb`.
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

/// The NUMA node of a PCI device; sysfs reports −1 for none.
fn numa_node(folder: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(folder.join("numa_node")).ok()?;
    text.trim().parse().ok()
}

/// The link that a PCI device has trained, in the kernel's words.
fn pcie_link(folder: &Path) -> Option<String> {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let (speed, width) = (text("current_link_speed")?, text("current_link_width")?);
    Some(format!("{} x{}", speed.trim(), width.trim()))
}

/// Size of BAR1: the second region in a device's `resource`, whose lines hold first and last
/// address. Not the second line, which from Hopper on is the upper half of BAR0.
fn bar1_bytes(folder: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(folder.join("resource")).ok()?;
    let region = |line: &str| {
        let mut words = line.split_whitespace();
        let mut address = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        Some((address()?, address()?))
    };
    let mut regions = text.lines().filter_map(region).filter(|(first, last)| last > first);
    let (first, last) = regions.nth(1)?;
    (last - first).checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_the_bus_are_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("numa_node"), "1\n").unwrap();
        let lines = "0x00000000f6000000 0x00000000f6ffffff 0x0000000000040200\n\
                     0x0000383000000000 0x00003837ffffffff 0x000000000014220c\n";
        std::fs::write(folder.path().join("resource"), lines).unwrap();
        assert_eq!(numa_node(folder.path()), Some(1));
        assert_eq!(pcie_link(folder.path()), None);
        std::fs::write(folder.path().join("current_link_speed"), "32.0 GT/s PCIe\n").unwrap();
        std::fs::write(folder.path().join("current_link_width"), "16\n").unwrap();
        assert_eq!(pcie_link(folder.path()).unwrap(), "32.0 GT/s PCIe x16");
        assert_eq!(bar1_bytes(folder.path()), Some(32 << 30));
        let zeroes = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
        let (bar0, bar1) = lines.split_at(lines.find('\n').unwrap() + 1);
        let hopper = format!("{bar0}{zeroes}{bar1}");
        std::fs::write(folder.path().join("resource"), hopper).unwrap();
        assert_eq!(bar1_bytes(folder.path()), Some(32 << 30));
        std::fs::write(folder.path().join("numa_node"), "-1\n").unwrap();
        std::fs::write(folder.path().join("resource"), "nonsense").unwrap();
        assert_eq!(numa_node(folder.path()), None);
        assert_eq!(bar1_bytes(folder.path()), None);
    }

    #[test]
    fn without_cuda_the_error_has_a_remedy() {
        if !present() {
            let error = devices().unwrap_err().to_string();
            assert!(error.contains("libcuda.so.1 cannot be opened"), "{error}");
            assert!(driver_version().is_err());
        }
    }
}
