//! The memory that transfers end in: GPU memory, or host memory standing in for it.

pub(crate) mod device;
mod set;
pub(crate) mod stand_in;

use std::sync::Arc;

use stormlp_core::transport::WaitMode;

use crate::cuda::device::CudaDevice;
use crate::error::TransferError;

pub use device::{Accelerator, CopyQueue, QueuedCopy};
pub use set::{AcceleratorSet, Regions};
pub use stand_in::HostStandIn;

/// Opens the accelerator with the given CUDA index, with threads that wait as `wait` says; without
/// an index, the host stand-in.
///
/// # Errors
/// When there is no such device on this machine.
pub fn open(
    cuda_index: Option<u32>,
    wait: WaitMode,
) -> Result<Arc<dyn Accelerator>, TransferError> {
    match cuda_index {
        None => Ok(Arc::new(HostStandIn)),
        Some(index) => Ok(Arc::new(CudaDevice::open_to(index, wait)?)),
    }
}
