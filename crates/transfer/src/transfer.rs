//! A transfer: the memory it ends in, its place in a file, its completion, and the interface of paths.

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use stormlp_core::evidence::Evidence;
use stormlp_core::operation::Direction;

use crate::error::TransferError;
use crate::region::HostBuffer;
use crate::storage::OpenObject;

/// The block size that cuFile's streams may be promised.
const PAGE_BYTES: u64 = 4096;

/// A buffer registered with its path. It moves into a transfer and comes back with the completion,
/// so a buffer in flight cannot be accessed or reused.
pub struct Slot {
    index: u32,
    /// Bytes at its start that the transfer leaves alone: those that a short write has written.
    written: usize,
    /// Goes before the memory: its registration with a library. A thin pointer keeps the slot small.
    pub(crate) held: Option<Box<Box<dyn Send>>>,
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
        numbered.map(|(index, memory)| Self { index, written: 0, held: None, memory }).collect()
    }

    /// The slot's number in its path: 0, 1, 2, …
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// Where in the slot the memory of its transfer begins: past the bytes of a short write.
    #[inline]
    pub(crate) fn written(&self) -> usize {
        self.written
    }

    /// Lets the next transfer begin `written` bytes after the start of the slot.
    #[inline]
    pub(crate) fn set_written(&mut self, written: usize) {
        self.written = written;
    }

    /// The memory of a transfer of `len` bytes, if the host can access it.
    pub(crate) fn part_mut(&mut self, len: usize) -> Option<&mut [u8]> {
        let written = self.written;
        Some(&mut self.host_mut()?[written..written + len])
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

/// An exclusively owned piece of accelerator memory.
pub trait AcceleratorBuffer: Send {
    /// Length in bytes.
    fn len(&self) -> usize;

    /// Whether the length is zero.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address as the device and cuFile know it.
    fn address(&self) -> usize;

    /// The contents, if the host can access them.
    fn host(&self) -> Option<&[u8]> {
        None
    }

    /// The contents, mutable, if the host can access them.
    fn host_mut(&mut self) -> Option<&mut [u8]> {
        None
    }

    /// Copies `source` to the start of this memory and waits for completion.
    ///
    /// # Errors
    /// When the device fails.
    fn copy_from_host(&mut self, source: &[u8]) -> Result<(), TransferError> {
        let target = self.host_mut().expect("memory of the host, or with separate copies");
        target[..source.len()].copy_from_slice(source);
        Ok(())
    }

    /// Copies the start of this memory to `target` and waits for completion.
    ///
    /// # Errors
    /// When the device fails.
    fn copy_to_host(&self, target: &mut [u8]) -> Result<(), TransferError> {
        let source = self.host().expect("memory of the host, or with separate copies");
        target.copy_from_slice(&source[..target.len()]);
        Ok(())
    }
}

/// A file attached to an engine or a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId(pub(crate) u32);

/// The storage side of a transfer.
#[derive(Debug, Clone, Copy)]
pub struct FileRange {
    /// Storage to slot, or slot to storage.
    pub direction: Direction,
    /// The file.
    pub file: FileId,
    /// The file offset in bytes.
    pub offset: u64,
    /// The number of bytes; at most the slot's length.
    pub len: usize,
}

impl FileRange {
    /// Whether it consists of whole 4 KiB blocks at a multiple of 4 KiB.
    pub(crate) fn is_page_aligned(&self) -> bool {
        self.offset.is_multiple_of(PAGE_BYTES) && (self.len as u64).is_multiple_of(PAGE_BYTES)
    }
}

/// A transfer request.
pub struct Transfer {
    /// The storage side.
    pub place: FileRange,
    /// The memory side. Its number identifies the transfer.
    pub slot: Slot,
}

/// A completed transfer.
pub struct Completion {
    /// The slot of the transfer.
    pub slot: Slot,
    /// Bytes transferred, possibly fewer than requested (0 at the end of a file), or the error.
    pub result: Result<usize, TransferError>,
}

/// A transfer that could not be started; returns the slot.
pub struct Rejected {
    /// The slot.
    pub slot: Slot,
    /// The error.
    pub error: TransferError,
}

/// A way for bytes to move between files and slots. Owned by one thread.
pub trait TransferPath {
    /// Registers a file, which must have been opened with the flags the path wants (see
    /// [`PathKind::wants_direct`]).
    ///
    /// # Errors
    /// When the kernel or cuFile rejects the file.
    fn attach(&mut self, file: File) -> Result<FileId, TransferError>;

    /// Registers an object; only paths to object stores accept any.
    ///
    /// # Errors
    /// When the path moves files, or the object's bucket cannot be addressed.
    fn attach_object(&mut self, object: OpenObject) -> Result<FileId, TransferError> {
        let _ = object;
        Err(TransferError::Unavailable {
            what: "a path from files to memory".to_string(),
            reason: "it was given an object".to_string(),
            remedy: "use --path s3".to_string(),
        })
    }

    /// Removes and closes a file that has no transfers in flight.
    ///
    /// # Errors
    /// When closing fails.
    fn detach(&mut self, file: FileId) -> Result<(), TransferError>;

    /// Returns the slots, allocated and registered when the path was built; call once.
    fn take_slots(&mut self) -> Vec<Slot>;

    /// Starts a transfer, or keeps it until a batch is full. A path without a queue executes the
    /// whole transfer here.
    ///
    /// # Errors
    /// When the transfer could not be started; the slot is returned.
    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected>;

    /// Submits the batch and waits until `min` transfers are complete (or all in flight, if fewer);
    /// appends all completed transfers to `done`.
    ///
    /// # Errors
    /// When the path itself failed; a transfer's error is in its completion.
    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError>;

    /// Lets a write to `eventfd` end a `wait` early. `false`: this path never blocks in `wait` for
    /// longer than its transfers last.
    ///
    /// # Errors
    /// When the kernel rejects the descriptor.
    fn wake_on(&mut self, eventfd: BorrowedFd<'_>) -> Result<bool, TransferError> {
        let _ = eventfd;
        Ok(false)
    }

    /// Ends counting that only serves the evidence, with no transfer in flight: subsequent
    /// transfers are measured and make only the calls that move data.
    fn stop_counting(&mut self) {}

    /// Transfers that end before `start` only warm up: the path's measurements exclude them. No
    /// transfer is in flight.
    fn measure_from(&mut self, start: Instant) {
        let _ = start;
    }

    /// Compares objects that are read in ranges, which show their checksum only as a whole. No
    /// transfer is in flight.
    ///
    /// # Errors
    /// When other bytes were read than the endpoint has.
    fn compare_whole(&mut self) -> Result<(), TransferError> {
        Ok(())
    }

    /// The path that ran, with its proof.
    fn evidence(&self) -> Evidence;
}
