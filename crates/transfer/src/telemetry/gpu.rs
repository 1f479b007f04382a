//! GPU metrics from NVIDIA's management library (NVML): utilisation, and bytes over PCIe and
//! NVLink. It comes with the driver and is opened at run time.

use std::ffi::CString;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings as nvml;
use nvml_wrapper_sys::bindings::field_id;

use crate::cuda;

/// The library as the driver installs it.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// Byte counters in NVML. Received and sent are from the GPU's point of view.
const COUNTS: [NvmlCounter; 4] = [
    NvmlCounter::of_pcie(field_id::NVML_FI_DEV_PCIE_COUNT_RX_BYTES),
    NvmlCounter::of_pcie(field_id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES),
    NvmlCounter::of_nvlink(field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX),
    NvmlCounter::of_nvlink(field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX),
];
/// The sum over all links of a GPU (`nvmlDeviceGetFieldValues`).
const ALL_LINKS: u32 = u32::MAX;
/// Values read per GPU: its utilisation, then the counters.
pub(super) const VALUES: usize = 1 + COUNTS.len();

/// The memory of a GPU now, and whether a hypervisor provides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GpuState {
    /// Free memory in bytes.
    pub(crate) free_bytes: u64,
    /// Whether it is a virtual GPU.
    pub(crate) is_virtual: bool,
}

/// The state of the GPU at a PCI address; `None` if NVML does not report it.
pub(crate) fn gpu_state(address: &str) -> Option<GpuState> {
    let known = [(String::new(), address.to_string())];
    Gpus::through(Path::new(LIBRARY), &known)?.state()
}

/// GPUs monitored through one opened library.
pub(super) struct Gpus {
    library: nvml::NvmlLib,
    devices: Vec<Gpu>,
    /// NVML averages utilisation over up to a second, and each query goes to the driver.
    last_read: Mutex<Option<Instant>>,
}

struct Gpu {
    name: String,
    handle: nvml::nvmlDevice_t,
    sums: Mutex<[Sum; COUNTS.len()]>,
}

// SAFETY: NVML may be called from any thread at any time (its documentation, "NVML is
// thread-safe"), and handles are numbers of the library that stay valid until it is shut down.
unsafe impl Send for Gpus {}
// SAFETY: as above.
unsafe impl Sync for Gpus {}

impl std::fmt::Debug for Gpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Gpus {
    /// The GPUs with these CUDA indices; `None` if NVML does not know them.
    pub(super) fn open(indices: impl IntoIterator<Item = u32>) -> Option<Self> {
        let known: Vec<(String, String)> = indices
            .into_iter()
            // The address of a slice is its GPU's, and the GPU's counters are not the slice's.
            .filter(|index| !cuda::is_slice(*index))
            .filter_map(|index| Some((format!("cuda:{index}"), cuda::pci_address_of(index)?)))
            .collect();
        (!known.is_empty()).then(|| Self::through(Path::new(LIBRARY), &known))?
    }

    /// GPUs given by display name and PCI address, through the library at `path`.
    fn through(path: &Path, gpus: &[(String, String)]) -> Option<Self> {
        // SAFETY: the initialisers of the driver's library have no preconditions; whoever can
        // replace it with another library can run code as this user anyway.
        let library = unsafe { nvml::NvmlLib::new(path) }.ok()?;
        let has_all = library.nvmlInit_v2.is_ok()
            && library.nvmlShutdown.is_ok()
            && library.nvmlDeviceGetHandleByPciBusId_v2.is_ok()
            && library.nvmlDeviceGetUtilizationRates.is_ok()
            && library.nvmlDeviceGetFieldValues.is_ok();
        // SAFETY: the function exists and has no arguments.
        if !has_all || !succeeded(unsafe { library.nvmlInit_v2() }) {
            return None;
        }
        // From here on it is shut down on drop.
        let mut opened = Self { library, devices: Vec::new(), last_read: Mutex::default() };
        for (name, address) in gpus {
            let handle = opened.handle(address)?;
            let name = name.clone();
            let sums = Mutex::default();
            opened.devices.push(Gpu { name, handle, sums });
        }
        Some(opened)
    }

    fn handle(&self, address: &str) -> Option<nvml::nvmlDevice_t> {
        let address = CString::new(address).ok()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the string ends with a zero and outlives the call; the handle is written to.
        let returned = unsafe {
            self.library.nvmlDeviceGetHandleByPciBusId_v2(address.as_ptr(), &raw mut handle)
        };
        succeeded(returned).then_some(handle)
    }

    /// The state of the first GPU.
    fn state(&self) -> Option<GpuState> {
        let handle = self.devices.first()?.handle;
        let mut memory = nvml::nvmlMemory_t { total: 0, free: 0, used: 0 };
        let ask = self.library.nvmlDeviceGetMemoryInfo.as_ref().ok()?;
        // SAFETY: the function exists, the handle came from this library, which writes the three
        // numbers.
        if !succeeded(unsafe { ask(handle, &raw mut memory) }) {
            return None;
        }
        let mut mode = nvml::nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_NONE;
        if let Ok(ask) = self.library.nvmlDeviceGetVirtualizationMode.as_ref() {
            // SAFETY: as above; an older library lacks the function, and a failure has no effect.
            unsafe { ask(handle, &raw mut mode) };
        }
        let is_virtual = mode == nvml::nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_VGPU;
        Some(GpuState { free_bytes: memory.free, is_virtual })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().map(|gpu| gpu.name.as_str())
    }

    /// The values of each GPU, at most once a second unless requested `now`; values not read or
    /// not available are NaN.
    pub(super) fn read(&self, now: bool) -> Vec<[f64; VALUES]> {
        let unread = [f64::NAN; VALUES];
        let is_due = self.is_due(now);
        let gpus = self.devices.iter();
        gpus.map(|gpu| if is_due { self.numbers(gpu) } else { unread }).collect()
    }

    fn is_due(&self, now: bool) -> bool {
        self.last_read.lock().is_ok_and(|mut last| {
            let is_due = now || last.is_none_or(|last| last.elapsed() >= Duration::from_secs(1));
            *last = if is_due { Some(Instant::now()) } else { *last };
            is_due
        })
    }

    fn numbers(&self, gpu: &Gpu) -> [f64; VALUES] {
        let mut numbers = [f64::NAN; VALUES];
        let mut rates = nvml::nvmlUtilization_t { gpu: 0, memory: 0 };
        // SAFETY: the handle came from this library, which writes the two numbers.
        let returned =
            unsafe { self.library.nvmlDeviceGetUtilizationRates(gpu.handle, &raw mut rates) };
        if succeeded(returned) {
            numbers[0] = f64::from(rates.gpu) / 100.0;
        }
        // SAFETY: plain numbers, and a union of numbers: all zeroes is a valid value.
        let mut fields: [nvml::nvmlFieldValue_t; COUNTS.len()] = unsafe { std::mem::zeroed() };
        for (field, count) in fields.iter_mut().zip(COUNTS) {
            (field.fieldId, field.scopeId) = (count.id, count.scope);
        }
        // SAFETY: the count is the number of fields, which the library fills in.
        let returned = unsafe {
            self.library.nvmlDeviceGetFieldValues(
                gpu.handle,
                fields.len() as i32,
                fields.as_mut_ptr(),
            )
        };
        if succeeded(returned)
            && let Ok(mut sums) = gpu.sums.lock()
        {
            let now = Instant::now();
            let sums = sums.iter_mut().zip(&fields).zip(COUNTS);
            for (number, ((sum, field), count)) in numbers[1..].iter_mut().zip(sums) {
                *number = value(field).map_or(f64::NAN, |read| sum.go_on(count, read, now));
            }
        }
        numbers
    }
}

impl Drop for Gpus {
    fn drop(&mut self) {
        // SAFETY: initialised once in `through`; no handle is used after this.
        unsafe { self.library.nvmlShutdown() };
    }
}

fn succeeded(returned: nvml::nvmlReturn_t) -> bool {
    returned == nvml::nvmlReturn_enum_NVML_SUCCESS
}

/// A byte counter of NVML.
#[derive(Debug, Clone, Copy)]
struct NvmlCounter {
    id: u32,
    scope: u32,
    /// Bytes per count.
    unit_bytes: f64,
    /// More bytes per second than any such link carries.
    never_per_second: f64,
}

impl NvmlCounter {
    /// PCIe fields have no scope. Generation 6 carries 128 GB/s over 16 lanes.
    const fn of_pcie(id: u32) -> Self {
        Self { id, scope: 0, unit_bytes: 1.0, never_per_second: 0.2e12 }
    }

    /// All links of a GPU together, counted in KiB. Generation 5 carries 0.9 TB/s each way.
    const fn of_nvlink(id: u32) -> Self {
        Self { id, scope: ALL_LINKS, unit_bytes: 1024.0, never_per_second: 2e12 }
    }
}

/// The value of a field and its maximum: the counter wraps around after that.
#[derive(Debug, Clone, Copy)]
struct NvmlReading {
    count: u64,
    most: u64,
}

/// Accumulated bytes of a counter since the first reading.
#[derive(Debug, Clone, Copy, Default)]
enum Sum {
    #[default]
    Unread,
    Known {
        at: Instant,
        count: u64,
        bytes: f64,
    },
    /// The number of wrap-arounds is unknown.
    Lost,
}

impl Sum {
    /// Advances to the reading at `now`; NaN if the number of wrap-arounds is ambiguous.
    fn go_on(&mut self, of: NvmlCounter, read: NvmlReading, now: Instant) -> f64 {
        let NvmlReading { count, most } = read;
        let bytes = match *self {
            Self::Lost => None,
            Self::Unread => Some(count as f64 * of.unit_bytes),
            Self::Known { at, count: before, bytes } => {
                let could_be = (now - at).as_secs_f64().max(1e-3) * of.never_per_second;
                let more = if count >= before {
                    count - before
                } else {
                    (most - before).saturating_add(count).saturating_add(1)
                };
                let more = more as f64 * of.unit_bytes;
                // One more wrap-around would exceed the link's capacity.
                let is_certain = more <= could_be && could_be < most as f64 * of.unit_bytes;
                is_certain.then_some(bytes + more)
            }
        };
        *self = bytes.map_or(Self::Lost, |bytes| Self::Known { at: now, count, bytes });
        bytes.unwrap_or(f64::NAN)
    }
}

/// The value of a field, by its declared type.
fn value(field: &nvml::nvmlFieldValue_t) -> Option<NvmlReading> {
    if !succeeded(field.nvmlReturn) {
        return None;
    }
    // SAFETY: the library says which member of the union it wrote, and all of them are numbers.
    let (count, most) = unsafe {
        match field.valueType {
            nvml::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => {
                (u64::from(field.value.uiVal), u64::from(u32::MAX))
            }
            nvml::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG => (field.value.ulVal, u64::MAX),
            nvml::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => {
                (field.value.ullVal, u64::MAX)
            }
            _ => return None,
        }
    };
    Some(NvmlReading { count, most })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    /// A C library with increasing counters, for a GPU without NVLink.
    const DOUBLE: &str = r#"
        #include <string.h>
        typedef struct { unsigned id, scope; long long stamp, latency; int type, returned;
                         union { double d; unsigned long long u; } value; } field;
        static unsigned long long bytes = 1000;
        int nvmlInit_v2(void) { return 0; }
        int nvmlShutdown(void) { return 0; }
        int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **handle) {
            if (strcmp(address, "0000:3b:00.0")) return 6;
            *handle = &bytes;
            return 0;
        }
        int nvmlDeviceGetUtilizationRates(void *handle, unsigned *rates) {
            rates[0] = 40; rates[1] = 7;
            return 0;
        }
        int nvmlDeviceGetFieldValues(void *handle, int count, field *fields) {
            for (int i = 0; i < count; i++) {
                int link = fields[i].id == 138 || fields[i].id == 139;
                fields[i].returned = link && fields[i].scope == 0xffffffffu ? 3 : 0;
                fields[i].type = 3;
                fields[i].value.u = bytes += fields[i].id == 197 ? 20 : 10;
            }
            return 0;
        }
    "#;

    #[test]
    fn gpu_metrics_are_read_and_missing_ones_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("nvml.c");
        let library = folder.path().join(LIBRARY);
        std::fs::write(&source, DOUBLE).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).args([&library, &source]);
        if !compiler.status().is_ok_and(|status| status.success()) {
            stormlp_fixtures::skipped("cc failed", "install a C compiler");
            return;
        }
        let gpu = |address: &str| [("cuda:0".to_string(), address.to_string())];
        assert!(Gpus::through(&library, &gpu("0000:af:00.0")).is_none(), "no such GPU");
        let gpus = Gpus::through(&library, &gpu("0000:3b:00.0")).unwrap();
        assert_eq!(gpus.names().collect::<Vec<_>>(), ["cuda:0"]);
        let [share, received, sent, nvlink_received, nvlink_sent] = gpus.read(false)[0];
        assert_eq!((share, received, sent), (0.4, 1010.0, 1030.0));
        assert!(nvlink_received.is_nan() && nvlink_sent.is_nan());
        assert!(gpus.read(false)[0][0].is_nan(), "a second is not over");
        assert_eq!(gpus.read(true)[0][0], 0.4);
    }

    #[test]
    fn a_restarted_counter_continues_and_a_doubtful_one_is_dropped() {
        let begun = Instant::now();
        let [pcie, _, nvlink, _] = COUNTS;
        let course = |of: NvmlCounter, most: u64, read: &[u64]| -> Vec<f64> {
            let mut sum = Sum::default();
            let second = Duration::from_secs(1);
            let sums = (0..).zip(read).map(|(nth, count)| {
                let read = NvmlReading { count: *count, most };
                sum.go_on(of, read, begun + second * nth)
            });
            sums.collect()
        };
        let narrow = u64::from(u32::MAX);
        let kib = 1024.0;
        let began_again = course(nvlink, narrow, &[narrow - 1, 3]);
        assert_eq!(began_again[1] - began_again[0], 5.0 * kib);
        assert_eq!(course(pcie, u64::MAX, &[7, 1007]), [7.0, 1007.0]);
        // A 32-bit byte counter wraps within moments; a 64-bit one does not, so that was a reset.
        for (of, most, read) in [(pcie, narrow, [7, 1007, 2007]), (pcie, u64::MAX, [1000, 7, 8])] {
            let lost = course(of, most, &read);
            assert!(lost[0] > 0.0 && lost[1].is_nan() && lost[2].is_nan(), "{lost:?}");
        }
    }

    #[test]
    fn without_the_library_nothing_is_followed() {
        let gpu = [("cuda:0".to_string(), "0000:3b:00.0".to_string())];
        assert!(Gpus::through(Path::new("libno-such.so.1"), &gpu).is_none());
        assert!(Gpus::open([]).is_none());
    }
}
