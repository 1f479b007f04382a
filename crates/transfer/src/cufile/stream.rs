//! cuFile's stream interface: transfers in the order of a CUDA stream.
//!
//! The library reads the arguments when the stream reaches the transfer, not when it is submitted,
//! so they are kept in a box until then.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use stormlp_core::operation::Direction;

use super::driver::Driver;
use super::error::{CuFileError, check, check_transfer};
use super::handle::{FileHandle, signed};
use super::sys;
use crate::watchdog::{Hang, enter};

/// Every argument is fixed at submission.
const FIXED_ARGUMENTS: u32 = 1 | 2 | 4;
/// In addition, all of them are multiples of 4 KiB.
const ALIGNED_ARGUMENTS: u32 = 8;

/// Read and written by the library during a transfer.
#[derive(Debug)]
struct Arguments {
    len: usize,
    file_offset: i64,
    base_offset: i64,
    /// Bytes moved, or a negated error; 0 until the library writes it, from its threads.
    moved: AtomicIsize,
}

/// A CUDA stream that is registered with cuFile, with one transfer on it at a time.
#[derive(Debug)]
pub(crate) struct FileStream {
    raw: sys::CUstream,
    /// Owned through a raw pointer, because the library keeps its address between the calls.
    arguments: *mut Arguments,
    driver: Arc<Driver>,
}

impl FileStream {
    /// Registers a stream; `aligned` promises that every transfer consists of whole 4 KiB blocks.
    ///
    /// # Errors
    /// When the library rejects it.
    ///
    /// # Safety
    /// `raw` must be a stream of the CUDA context current on this thread, and outlive the value.
    pub(crate) unsafe fn register(
        driver: Arc<Driver>,
        raw: sys::CUstream,
        aligned: bool,
    ) -> Result<Self, CuFileError> {
        let flags = FIXED_ARGUMENTS | if aligned { ALIGNED_ARGUMENTS } else { 0 };
        // SAFETY: the caller vouches for the stream.
        let status = unsafe { (driver.api().stream_register)(raw, flags) };
        check("cuFileStreamRegister", status)?;
        let arguments =
            Arguments { len: 0, file_offset: 0, base_offset: 0, moved: AtomicIsize::new(0) };
        Ok(Self { raw, arguments: Box::into_raw(Box::new(arguments)), driver })
    }

    /// Submits a transfer; [`FileStream::outcome`] returns its result once the stream has been
    /// synchronised.
    ///
    /// # Errors
    /// When the library rejects it.
    ///
    /// # Safety
    /// The stream must be idle. `base` must be the start of memory that cuFile can reach, of at
    /// least `base_offset + len` bytes, that stays allocated and untouched until the stream is idle again, as
    /// must `file`; its CUDA context must be current on this thread.
    pub(crate) unsafe fn start(
        &mut self,
        direction: Direction,
        file: &FileHandle,
        (base, base_offset): (*mut c_void, usize),
        len: usize,
        file_offset: u64,
    ) -> Result<(), CuFileError> {
        let (call, transfer) = match direction {
            Direction::Read => ("cuFileReadAsync", self.driver.api().read_async),
            Direction::Write => ("cuFileWriteAsync", self.driver.api().write_async),
        };
        let arguments = self.arguments;
        // SAFETY: the box lives as long as `self`, and with the stream idle nobody else uses it.
        // The fields are handed over by address; the caller vouches for stream, memory and file.
        let status = unsafe {
            arguments.write(Arguments {
                len,
                file_offset: signed(file_offset),
                base_offset: signed(base_offset as u64),
                moved: AtomicIsize::new(0),
            });
            transfer(
                file.raw(),
                base,
                &raw mut (*arguments).len,
                &raw mut (*arguments).file_offset,
                &raw mut (*arguments).base_offset,
                (*arguments).moved.as_ptr(),
                self.raw,
            )
        };
        check(call, status)
    }

    /// The result of the last transfer, 0 until the library has written it. The stream may not have
    /// reached its end yet; and a transfer of 0 bytes never shows it.
    pub(crate) fn moved(&self) -> isize {
        // SAFETY: the box lives as long as `self`, and this field is an atomic, which the library
        // writes as one word.
        unsafe { &(*self.arguments).moved }.load(Ordering::Acquire)
    }

    /// The result of the last transfer.
    ///
    /// # Errors
    /// When it failed.
    ///
    /// # Safety
    /// The stream must have been synchronised since the transfer was submitted.
    pub(crate) unsafe fn outcome(&self) -> Result<usize, CuFileError> {
        let moved = self.moved();
        // The stream has no errno.
        check_transfer("a stream transfer", moved, || libc::EIO)
    }
}

impl Drop for FileStream {
    fn drop(&mut self) {
        let _call = enter(Hang::Release);
        // SAFETY: registered once; the owner has synchronised the stream and destroys it later.
        unsafe { (self.driver.api().stream_deregister)(self.raw) };
        // SAFETY: from `Box::into_raw` in `register`, and the stream no longer refers to it.
        drop(unsafe { Box::from_raw(self.arguments) });
    }
}
