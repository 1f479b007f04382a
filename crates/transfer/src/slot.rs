//! Slots: where a transfer ends, or what it starts from.

use std::ffi::c_void;

use crate::accelerator::AcceleratorBuffer;
use crate::error::TransferError;
use crate::region::HostBuffer;

/// A buffer known to its path. It moves into a transfer and comes back with the completion, so
/// a buffer in flight cannot be touched or used again.
pub struct Slot {
    index: u32,
    pub(crate) memory: SlotMemory,
}

/// Whose memory a slot is.
pub(crate) enum SlotMemory {
    /// The host's: the paths that end there.
    Host(HostBuffer),
    /// An accelerator's, or its stand-in's.
    Accelerator(Box<dyn AcceleratorBuffer>),
}

impl Slot {
    /// A slot around each piece of memory, numbered from 0.
    pub(crate) fn all(memory: impl IntoIterator<Item = SlotMemory>) -> Vec<Self> {
        let numbered = (0..).zip(memory);
        numbered.map(|(index, memory)| Self { index, memory }).collect()
    }

    /// The slot's number on its path: 0, 1, 2, …
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// Where its memory starts, as the kernel, CUDA and cuFile are to be told.
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

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, where the host can reach them.
    pub fn host(&self) -> Option<&[u8]> {
        match &self.memory {
            SlotMemory::Host(buffer) => Some(buffer),
            SlotMemory::Accelerator(buffer) => buffer.host(),
        }
    }

    /// The bytes to change, where the host can reach them.
    pub fn host_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.memory {
            SlotMemory::Host(buffer) => Some(buffer),
            SlotMemory::Accelerator(buffer) => buffer.host_mut(),
        }
    }

    /// Copies `source` to the start of the slot, wherever it lies.
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

    /// Copies the start of the slot to `target`, wherever it lies.
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
