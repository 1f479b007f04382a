//! A GPU as an accelerator.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaContext, DriverError, result, sys};
use stormlp_core::path::MemoryKind;
use stormlp_core::transport::WaitMode;

use super::calls::{absent, bind, failed, forget_current, present};
use super::copies::CudaCopies;
use super::memory::{DeviceMemory, PinnedMemory, VirtualMemory};
use super::ordinal;
use super::pins::Pins;
use super::stream::{Stream, check_current};
use crate::accelerator::device::{Accelerator, CopyQueue};
use crate::accelerator::stand_in::HostStandIn;
use crate::error::TransferError;
use crate::region::{HostBuffer, Region};
use crate::transfer::AcceleratorBuffer;
use crate::watchdog::{Hang, enter};

/// A GPU of this machine.
#[derive(Debug, Clone)]
pub struct CudaDevice {
    context: Arc<CudaContext>,
    name: String,
    direct_capable: bool,
    wait: WaitMode,
}

/// The devices opened so far. They stay open: see the module's documentation.
static OPEN: Mutex<Vec<CudaDevice>> = Mutex::new(Vec::new());

impl CudaDevice {
    /// Opens the device that CUDA numbers `index`, on first use.
    ///
    /// Opening talks to the driver, which may hang if the driver stack is broken: call this only
    /// for devices that the probe has found.
    ///
    /// # Errors
    /// When CUDA or the device is missing, or it cannot be used.
    pub fn open(index: u32) -> Result<Self, TransferError> {
        Self::open_to(index, WaitMode::default())
    }

    /// The same for threads that wait as `wait` says: set on the context, which decides for
    /// streams, and on each event.
    ///
    /// # Errors
    /// As for [`open`](Self::open), and when the context rejects it.
    pub fn open_to(index: u32, wait: WaitMode) -> Result<Self, TransferError> {
        if !present() {
            return Err(absent());
        }
        let _call = enter(Hang::Cuda);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let number = ordinal(index) as usize;
        let known = open.iter_mut().find(|device| device.context.ordinal() == number);
        if let Some(device) = known {
            if device.wait != wait {
                set_wait(index, wait).map_err(failed("cuDevicePrimaryCtxSetFlags"))?;
                device.wait = wait;
            }
            return Ok(device.clone());
        }
        // Before the context is created: drivers before CUDA 11 refuse it afterwards.
        let context =
            set_wait(index, wait).and_then(|()| CudaContext::new(number)).map_err(|error| {
                TransferError::Unavailable {
                    what: format!("device cuda:{index}"),
                    reason: failed("opening it")(error).to_string(),
                    remedy: "`stormlp doctor` lists the devices".to_string(),
                }
            })?;
        // Creating it has made it current here.
        forget_current();
        let name = context.name().map_err(failed("cuDeviceGetName"))?;
        let capable =
            sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
        let device = Self {
            name: format!("{name} (cuda:{index})"),
            direct_capable: context.attribute(capable).unwrap_or(0) > 0,
            context,
            wait,
        };
        open.push(device.clone());
        Ok(device)
    }
}

/// Makes the device's primary context wait for its streams as `wait` says.
fn set_wait(index: u32, wait: WaitMode) -> Result<(), DriverError> {
    result::init()?;
    let device = result::device::get(ordinal(index))?;
    let flags = match wait {
        WaitMode::Spin => sys::CUctx_flags::CU_CTX_SCHED_SPIN,
        WaitMode::Block => sys::CUctx_flags::CU_CTX_SCHED_BLOCKING_SYNC,
    };
    // SAFETY: a call with plain values, for a device that CUDA has just returned.
    unsafe { sys::cuDevicePrimaryCtxSetFlags_v2(device, flags as u32) }.result()
}

impl Accelerator for CudaDevice {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn is_emulated(&self) -> bool {
        false
    }

    fn allocate(
        &self,
        bytes: usize,
        kind: MemoryKind,
        region: &mut Region,
    ) -> Result<Box<dyn AcceleratorBuffer>, TransferError> {
        let _call = enter(Hang::Cuda);
        Ok(match kind {
            MemoryKind::Device => Box::new(DeviceMemory::new(&self.context, bytes)?),
            MemoryKind::Vmm => {
                Box::new(VirtualMemory::new(&self.context, bytes, self.direct_capable)?)
            }
            MemoryKind::Pinned => Box::new(PinnedMemory::new(&self.context, bytes)?),
            MemoryKind::Host | MemoryKind::Mmap => {
                return HostStandIn.allocate(bytes, kind, region);
            }
        })
    }

    fn bind_thread(&self) -> Result<(), TransferError> {
        bind(&self.context)
    }

    fn check(&self) -> Result<(), TransferError> {
        bind(&self.context)?;
        let _call = enter(Hang::Cuda);
        check_current()
    }

    fn copy_queue(&self, capacity: usize) -> Result<Box<dyn CopyQueue>, TransferError> {
        let _call = enter(Hang::Cuda);
        Ok(Box::new(CudaCopies::new(&self.context, capacity, self.wait)?))
    }

    fn wait_mode(&self) -> WaitMode {
        self.wait
    }

    fn stream(&self) -> Result<Stream, TransferError> {
        let _call = enter(Hang::Cuda);
        Stream::new(&self.context)
    }

    fn pin(&self, buffers: &[HostBuffer]) -> Result<Option<Pins>, TransferError> {
        let _call = enter(Hang::Cuda);
        Pins::new(&self.context, buffers).map(Some)
    }
}
