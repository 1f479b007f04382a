//! The kinds of memory a device can provide: plain, virtual, pinned host memory.

use std::sync::Arc;

use cudarc::driver::{CudaContext, result, sys};

use super::calls::{bind, failed};
use super::stream::{copy_to_device, copy_to_host};
use crate::error::TransferError;
use crate::transfer::AcceleratorBuffer;
use crate::watchdog::{Hang, enter};

/// The pinning granularity of the direct routes: registered memory that starts and ends on such a
/// boundary shares no page with other memory, and is aligned for direct transfers.
const GPU_PAGE_BYTES: usize = 64 << 10;

/// Device memory from `cuMemAlloc`, not from the pool of `cuMemAllocAsync`: the pool is not on
/// cuFile's list of supported memory.
pub(super) struct DeviceMemory {
    allocation: sys::CUdeviceptr,
    start: sys::CUdeviceptr,
    len: usize,
    context: Arc<CudaContext>,
}

impl DeviceMemory {
    /// At least `len` bytes, starting on a GPU page boundary.
    pub(super) fn new(context: &Arc<CudaContext>, len: usize) -> Result<Self, TransferError> {
        bind(context)?;
        let whole = len.max(1).next_multiple_of(GPU_PAGE_BYTES);
        let allocate = |bytes| {
            // SAFETY: the context is current; the content is written before it is read, and any
            // bytes are valid content.
            unsafe { result::malloc_sync(bytes) }.map_err(failed("cuMemAlloc"))
        };
        let mut allocation = allocate(whole)?;
        if !(allocation as usize).is_multiple_of(GPU_PAGE_BYTES) {
            // Small allocations are only aligned to 256 bytes: allocate an extra page and start
            // inside.
            // SAFETY: from `malloc_sync` just now, and nobody has seen it.
            unsafe { result::free_sync(allocation) }.map_err(failed("cuMemFree"))?;
            allocation = allocate(whole + GPU_PAGE_BYTES)?;
        }
        Ok(Self {
            allocation,
            start: allocation.next_multiple_of(GPU_PAGE_BYTES as u64),
            len,
            context: Arc::clone(context),
        })
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let _call = enter(Hang::Cuda);
        // A failure means that the context is broken, and its memory gone.
        let _ = bind(&self.context);
        // SAFETY: from `malloc_sync`, freed once; whoever used it asynchronously has waited.
        let _ = unsafe { result::free_sync(self.allocation) };
    }
}

/// Device memory through the virtual memory interface: an address range, a physical allocation,
/// and a mapping between them.
pub(super) struct VirtualMemory {
    start: sys::CUdeviceptr,
    mapped_bytes: usize,
    handle: Option<sys::CUmemGenericAllocationHandle>,
    mapped: bool,
    len: usize,
    context: Arc<CudaContext>,
}

impl VirtualMemory {
    /// At least `len` bytes; `direct_capable` marks them for peer-to-peer DMA, which not every
    /// device supports.
    pub(super) fn new(
        context: &Arc<CudaContext>,
        len: usize,
        direct_capable: bool,
    ) -> Result<Self, TransferError> {
        bind(context)?;
        let properties = properties(context, direct_capable);
        let mut granularity = 0;
        let minimum = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        // SAFETY: both arguments live during the call.
        unsafe { sys::cuMemGetAllocationGranularity(&mut granularity, &properties, minimum) }
            .result()
            .map_err(failed("cuMemGetAllocationGranularity"))?;
        let mapped_bytes = len.max(1).next_multiple_of(granularity.max(GPU_PAGE_BYTES));
        let mut start = 0;
        // SAFETY: `start` is a place for the address; a reserved range has no alias.
        unsafe { sys::cuMemAddressReserve(&mut start, mapped_bytes, 0, 0, 0) }
            .result()
            .map_err(failed("cuMemAddressReserve"))?;
        // From here on, dropping the value undoes the steps so far.
        let mut memory = Self {
            start,
            mapped_bytes,
            handle: None,
            mapped: false,
            len,
            context: Arc::clone(context),
        };
        memory.map(&properties)?;
        Ok(memory)
    }

    /// Maps memory to the reserved range and gives the device access.
    fn map(&mut self, properties: &sys::CUmemAllocationProp) -> Result<(), TransferError> {
        let (start, bytes) = (self.start, self.mapped_bytes);
        let mut handle = 0;
        // SAFETY: both arguments live during the call.
        unsafe { sys::cuMemCreate(&mut handle, bytes, properties, 0) }
            .result()
            .map_err(failed("cuMemCreate"))?;
        self.handle = Some(handle);
        // SAFETY: the range is reserved and unmapped, the allocation has just that size.
        unsafe { sys::cuMemMap(start, bytes, 0, handle, 0) }
            .result()
            .map_err(failed("cuMemMap"))?;
        self.mapped = true;
        let access = sys::CUmemAccessDesc {
            location: properties.location,
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the range is mapped; one description is passed, and the count is one.
        unsafe { sys::cuMemSetAccess(start, bytes, &access, 1) }
            .result()
            .map_err(failed("cuMemSetAccess"))
    }
}

/// The properties of a physical allocation: pinned, on the device of `context`.
fn properties(context: &CudaContext, direct_capable: bool) -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: sys::CUmemAllocationHandleType_enum(0),
        location: sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: context.ordinal() as i32,
        },
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: u8::from(direct_capable),
            usage: 0,
            reserved: [0; 4],
        },
    }
}

impl Drop for VirtualMemory {
    fn drop(&mut self) {
        let _call = enter(Hang::Cuda);
        // Failures mean that the context is broken, and its memory gone.
        let _ = bind(&self.context);
        // SAFETY: each step undoes what `new` has done, in the opposite order and once; whoever
        // used the memory asynchronously has waited.
        unsafe {
            if self.mapped {
                let _ = sys::cuMemUnmap(self.start, self.mapped_bytes);
            }
            if let Some(handle) = self.handle {
                let _ = sys::cuMemRelease(handle);
            }
            let _ = sys::cuMemAddressFree(self.start, self.mapped_bytes);
        }
    }
}

/// Common to both kinds of device memory.
macro_rules! device_buffer {
    ($kind:ty) => {
        impl AcceleratorBuffer for $kind {
            fn len(&self) -> usize {
                self.len
            }

            fn address(&self) -> usize {
                self.start as usize
            }

            fn copy_from_host(&mut self, source: &[u8]) -> Result<(), TransferError> {
                assert!(source.len() <= self.len, "a copy beyond the end of a buffer");
                bind(&self.context)?;
                // SAFETY: the memory belongs to `self`, is long enough, and `&mut` keeps others
                // away; its context is current.
                unsafe { copy_to_device(self.start, source) }
            }

            fn copy_to_host(&self, target: &mut [u8]) -> Result<(), TransferError> {
                assert!(target.len() <= self.len, "a copy beyond the end of a buffer");
                bind(&self.context)?;
                // SAFETY: the memory belongs to `self` and is long enough, and `&self` keeps
                // writers away; its context is current.
                unsafe { copy_to_host(target, self.start) }
            }
        }
    };
}

device_buffer!(DeviceMemory);
device_buffer!(VirtualMemory);

/// Host memory pinned by CUDA, accessible to both sides.
pub(super) struct PinnedMemory {
    start: std::ptr::NonNull<u8>,
    len: usize,
    context: Arc<CudaContext>,
}

// SAFETY: plain memory without thread affinity, reachable through this value alone.
unsafe impl Send for PinnedMemory {}

impl PinnedMemory {
    /// `len` zero bytes. Not write-combined: the host reads them when verifying.
    pub(super) fn new(context: &Arc<CudaContext>, len: usize) -> Result<Self, TransferError> {
        bind(context)?;
        // SAFETY: the context is current; the content is written below.
        let start =
            unsafe { result::malloc_host(len.max(1), 0) }.map_err(failed("cuMemHostAlloc"))?;
        let start = std::ptr::NonNull::new(start.cast::<u8>()).ok_or_else(super::calls::absent)?;
        // SAFETY: just allocated with that length, and nobody has seen it.
        unsafe { start.write_bytes(0, len) };
        Ok(Self { start, len, context: Arc::clone(context) })
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        let _call = enter(Hang::Cuda);
        let _ = bind(&self.context);
        // SAFETY: from `malloc_host`, freed once.
        let _ = unsafe { result::free_host(self.start.as_ptr().cast()) };
    }
}

impl AcceleratorBuffer for PinnedMemory {
    fn len(&self) -> usize {
        self.len
    }

    fn address(&self) -> usize {
        self.start.as_ptr().expose_provenance()
    }

    fn host(&self) -> Option<&[u8]> {
        // SAFETY: allocated with that length, written by `new`, and borrowed with `self`.
        Some(unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) })
    }

    fn host_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: as above, and `&mut` makes the access exclusive.
        Some(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) })
    }
}
