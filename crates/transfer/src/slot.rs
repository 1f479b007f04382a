//! Slots: the memory ends of transfers.

use std::ffi::c_void;

use crate::accelerator::AcceleratorBuffer;
use crate::error::TransferError;
use crate::region::HostBuffer;

/// A buffer registered with its path. It moves into a transfer and comes back with the completion,
/// so a buffer in flight cannot be accessed or reused.
pub struct Slot {
    index: u32,
    pub(crate) memory: SlotMemory,
}

/// The memory of a slot.
pub(crate) enum SlotMemory {
    /// Host memory, for paths that end there.
    Host(HostBuffer),
    /// Accelerator memory, or its stand-in.
    Accelerator(Box<dyn AcceleratorBuffer>),
}

impl Slot {
    /// One slot per piece of memory, numbered from 0.
    pub(crate) fn all(memory: impl IntoIterator<Item = SlotMemory>) -> Vec<Self> {
        let numbered = (0..).zip(memory);
        numbered.map(|(index, memory)| Self { index, memory }).collect()
    }

    /// The slot's number in its path: 0, 1, 2, …
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// The start address, for the kernel, CUDA and cuFile.
    pub(crate) fn start(&self) -> *mut c_void {
        match &self.memory {
            SlotMemory::Host(buffer) => buffer.as_raw().cast(),
            SlotMemory::Accelerator(buffer) => {
                std::ptr::with_exposed_provenance_mut(buffer.address())
            }
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        match &self.memory {
            SlotMemory::Host(buffer) => buffer.len(),
            SlotMemory::Accelerator(buffer) => buffer.len(),
        }
    }

    /// Whether the length is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The contents, if the host can access them.
    pub fn host(&self) -> Option<&[u8]> {
        match &self.memory {
            SlotMemory::Host(buffer) => Some(buffer),
            SlotMemory::Accelerator(buffer) => buffer.host(),
        }
    }

    /// The contents, mutable, if the host can access them.
    pub fn host_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.memory {
            SlotMemory::Host(buffer) => Some(buffer),
            SlotMemory::Accelerator(buffer) => buffer.host_mut(),
        }
    }

    /// Copies `source` to the start of the slot, in whichever memory.
    ///
    /// # Errors
    /// When the device fails.
    pub fn copy_in(&mut self, source: &[u8]) -> Result<(), TransferError> {
        match &mut self.memory {
            SlotMemory::Host(buffer) => {
                buffer[..source.len()].copy_from_slice(source);
                Ok(())
            }
            SlotMemory::Accelerator(buffer) => buffer.copy_from_host(source),
        }
    }

    /// Copies the start of the slot to `target`, from whichever memory.
    ///
    /// # Errors
    /// When the device fails.
    pub fn copy_out(&self, target: &mut [u8]) -> Result<(), TransferError> {
        match &self.memory {
            SlotMemory::Host(buffer) => {
                target.copy_from_slice(&buffer[..target.len()]);
                Ok(())
            }
            SlotMemory::Accelerator(buffer) => buffer.copy_to_host(target),
        }
    }
}
