//! A file registered with cuFile, and the blocking calls on it.

use std::ffi::c_void;
use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use stormlp_core::operation::Direction;

use super::driver::Driver;
use super::error::{CuFileError, check, check_transfer};
use super::sys;
use crate::error::TransferError;
use crate::region::Region;
use crate::transfer::Transfer;
use crate::watchdog::{Hang, enter};

/// A registered file; deregistered, then closed, when dropped.
#[derive(Debug)]
pub(crate) struct FileHandle {
    raw: sys::CUfileHandle_t,
    driver: Arc<Driver>,
    file: File,
}

// SAFETY: every cuFile call may be made from any thread (API reference, "thread safety"); the
// handle is an opaque key.
unsafe impl Send for FileHandle {}

impl FileHandle {
    /// Registers `file` with the driver.
    ///
    /// # Errors
    /// When cuFile rejects the file: its type, its open flags, its file system.
    pub(crate) fn register(driver: Arc<Driver>, file: File) -> Result<Self, CuFileError> {
        let mut description = sys::CUfileDescr_t {
            kind: sys::HANDLE_TYPE_OPAQUE_FD,
            // All eight bytes are initialised: the descriptor, then zeros.
            handle: sys::CUfileDescrHandle { handle: std::ptr::null_mut() },
            fs_ops: std::ptr::null(),
        };
        description.handle.fd = file.as_raw_fd();
        let mut raw = std::ptr::null_mut();
        // SAFETY: both arguments are places for the call; the descriptor is open and stays so
        // until the handle is deregistered, since `file` lives as long as `self`.
        let status = unsafe { (driver.api().handle_register)(&mut raw, &mut description) };
        check("cuFileHandleRegister", status)?;
        Ok(Self { raw, driver, file })
    }

    /// The cuFile handle.
    pub(super) fn raw(&self) -> sys::CUfileHandle_t {
        self.raw
    }

    /// Moves `len` bytes between the file at `file_offset` and the memory `base_offset` bytes
    /// after `base`, and waits for completion. The count may be short; 0 at the end of the file.
    ///
    /// # Errors
    /// When the transfer fails.
    ///
    /// # Safety
    /// `base` must be the start of memory that cuFile can reach (if it is registered: its
    /// registered base), of at least `base_offset + len` bytes, that stays allocated during the
    /// call and that nobody else reads or writes meanwhile; device memory needs its CUDA context
    /// current on this thread.
    pub(crate) unsafe fn transfer(
        &self,
        direction: Direction,
        base: *mut c_void,
        base_offset: usize,
        len: usize,
        file_offset: u64,
    ) -> Result<usize, CuFileError> {
        let (file_at, base_at) = (signed(file_offset), signed(base_offset as u64));
        let api = self.driver.api();
        let (call, moves) = match direction {
            Direction::Read => ("cuFileRead", api.read),
            Direction::Write => ("cuFileWrite", api.write),
        };
        // SAFETY: the handle is registered; the caller vouches for the memory.
        let returned = unsafe { moves(self.raw, base, len, file_at, base_at) };
        check_transfer(call, returned, || {
            std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
        })
    }
}

impl FileHandle {
    /// Has the kernel move the bytes of a transfer that failed for a reason that libcufile may have
    /// hidden; a write writes what the transfer was to write. `false` if the kernel could not be
    /// asked for it in this form.
    ///
    /// # Errors
    /// The kernel's, if it names one about the storage.
    pub(crate) fn ask(&self, transfer: &Transfer) -> Result<bool, TransferError> {
        let Transfer { place, slot } = transfer;
        // Whole blocks, as the file may be open for direct transfers.
        let start = place.offset - place.offset % 4096;
        let len = ((place.offset - start) as usize + place.len).next_multiple_of(4096);
        let Ok(mut region) = Region::new(len) else { return Ok(false) };
        let mut bytes = region.carve(len, 4096).expect("the region has that many bytes");
        let (action, asked) = match place.direction {
            Direction::Read => ("the read", self.file.read_exact_at(&mut bytes, start)),
            Direction::Write => {
                slot.copy_out(&mut bytes[..place.len])?;
                ("the write", self.file.write_all_at(&bytes[..place.len], place.offset))
            }
        };
        match asked {
            // The end of the file, or the form of the question.
            Err(error) if matches!(error.raw_os_error(), None | Some(libc::EINVAL)) => Ok(false),
            asked => asked.map(|()| true).map_err(TransferError::io(action)),
        }
    }

    /// Whether the file (or block device) has no bytes at `offset` and beyond; if unknown, it is
    /// assumed to end there.
    pub(crate) fn ends_by(&self, offset: u64) -> bool {
        let end = (&self.file).seek(SeekFrom::End(0));
        end.map_or(true, |end| end <= offset)
    }
}

impl Drop for FileHandle {
    fn drop(&mut self) {
        let _call = enter(Hang::Release);
        // SAFETY: registered once, deregistered once; transfers borrow `self`, so none is under
        // way. The file is closed afterwards, with the fields.
        unsafe { (self.driver.api().handle_deregister)(self.raw) };
    }
}

/// An offset as C's `off_t`, clamped to its range.
pub(super) fn signed(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}
