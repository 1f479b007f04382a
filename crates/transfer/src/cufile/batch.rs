//! cuFile's batch interface: many transfers submitted with one call.
//!
//! Observed with libcufile 1.16 to 1.20 (direct host-memory entries): the offset from a registered
//! base is ignored inside a batch, and the bytes land at the base without an error. So every entry
//! here has a separate base and no offset.

use std::ffi::c_void;
use std::sync::Arc;

use stormlp_core::operation::Direction;
use stormlp_core::transport::WaitMode;

use super::driver::Driver;
use super::error::{CuFileError, check, negated};
use super::handle::{FileHandle, signed};
use super::sys;
use crate::watchdog::{Hang, enter};

/// An entry to be submitted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchEntry {
    pub(crate) direction: Direction,
    /// The start of the memory.
    pub(crate) base: *mut c_void,
    pub(crate) len: usize,
    pub(crate) file_offset: u64,
    /// The caller's tag, returned with the outcome.
    pub(crate) mark: usize,
}

/// The outcome of an entry: its tag, and the bytes moved or the error.
pub(crate) type BatchOutcome = (usize, Result<usize, CuFileError>);

/// A batch of fixed capacity; entries are added and complete individually.
#[derive(Debug)]
pub(crate) struct Batch {
    raw: sys::CUfileBatchHandle_t,
    parameters: Vec<sys::CUfileIOParams_t>,
    events: Vec<sys::CUfileIOEvents_t>,
    in_flight: usize,
    wait: WaitMode,
    driver: Arc<Driver>,
}

impl Batch {
    /// A batch with room for `capacity` entries in flight, waited for as `wait` says.
    ///
    /// # Errors
    /// When the library does not support that many entries.
    pub(crate) fn new(
        driver: Arc<Driver>,
        capacity: usize,
        wait: WaitMode,
    ) -> Result<Self, CuFileError> {
        let api = driver.api();
        let mut raw = std::ptr::null_mut();
        let entries = u32::try_from(capacity).unwrap_or(u32::MAX);
        // SAFETY: `raw` is a place for the handle; the driver is open.
        check("cuFileBatchIOSetUp", unsafe { (api.batch_set_up)(&mut raw, entries) })?;
        let event = sys::CUfileIOEvents_t { cookie: std::ptr::null_mut(), status: 0, ret: 0 };
        Ok(Self {
            raw,
            parameters: Vec::with_capacity(capacity),
            events: vec![event; capacity],
            in_flight: 0,
            wait,
            driver,
        })
    }

    /// Submitted entries without a returned outcome.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Submits `entries`, all or none.
    ///
    /// # Errors
    /// When the library accepts none.
    ///
    /// # Safety
    /// Each entry's memory must be memory that cuFile can reach, of at least `len` bytes from
    /// `base` on, that stays allocated and untouched until the entry's outcome has been returned,
    /// as must its file. Device memory needs its CUDA context current on this thread.
    pub(crate) unsafe fn submit<'a>(
        &mut self,
        entries: impl Iterator<Item = (BatchEntry, &'a FileHandle)>,
    ) -> Result<(), CuFileError> {
        self.parameters.clear();
        self.parameters.extend(entries.map(|(entry, file)| sys::CUfileIOParams_t {
            mode: sys::BATCH_MODE,
            base: entry.base,
            file_offset: signed(entry.file_offset),
            base_offset: 0,
            size: entry.len,
            file: file.raw(),
            opcode: match entry.direction {
                Direction::Read => sys::OPCODE_READ,
                Direction::Write => sys::OPCODE_WRITE,
            },
            cookie: std::ptr::without_provenance_mut(entry.mark),
        }));
        let count = self.parameters.len();
        let entries = self.parameters.as_mut_ptr();
        // SAFETY: the handle is set up, the array holds `count` entries and the library copies
        // them (observed: they may be overwritten right after the call); the caller vouches for
        // the memory and the files.
        let status =
            unsafe { (self.driver.api().batch_submit)(self.raw, count as u32, entries, 0) };
        check("cuFileBatchIOSubmit", status)?;
        self.in_flight += count;
        Ok(())
    }

    /// Waits until `min` entries in flight are complete and passes all available outcomes to
    /// `each`.
    ///
    /// # Errors
    /// When the library does not report outcomes.
    pub(crate) fn wait(
        &mut self,
        min: usize,
        mut each: impl FnMut(BatchOutcome),
    ) -> Result<(), CuFileError> {
        let mut wanted = min.min(self.in_flight);
        loop {
            let mut count = self.in_flight.min(self.events.len()) as u32;
            if count == 0 {
                return Ok(());
            }
            let mut at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // Spinning requests none and retries.
            let asked = match self.wait {
                WaitMode::Spin => 0,
                WaitMode::Block => wanted,
            };
            let limit = match asked {
                0 => &raw mut at_once,
                _ => std::ptr::null_mut(),
            };
            let events = self.events.as_mut_ptr();
            // SAFETY: `events` has room for `count` outcomes; no time limit is a null pointer.
            let status = unsafe {
                (self.driver.api().batch_get_status)(
                    self.raw,
                    asked as u32,
                    &mut count,
                    events,
                    limit,
                )
            };
            check("cuFileBatchIOGetStatus", status)?;
            let count = (count as usize).min(self.in_flight);
            self.in_flight -= count;
            let events = self.events[..count].iter();
            events.map(outcome).for_each(&mut each);
            wanted = wanted.saturating_sub(count);
            if wanted == 0 {
                return Ok(());
            }
        }
    }

    /// Asks the library to cancel entries in flight, as far as possible; the outcomes are returned
    /// regardless.
    pub(crate) fn cancel(&mut self) {
        // SAFETY: the handle is set up. Cancelling is best effort according to its documentation.
        unsafe { (self.driver.api().batch_cancel)(self.raw) };
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let _call = enter(Hang::Release);
        if self.in_flight > 0 {
            // The library still works on it: it stays, and so does the driver.
            return std::mem::forget(Arc::clone(&self.driver));
        }
        // SAFETY: set up once, destroyed once, with nothing in flight.
        unsafe { (self.driver.api().batch_destroy)(self.raw) };
    }
}

const COMPLETE: i32 = 0x10;
const INVALID: i32 = 0x04;
const CANCELLED: i32 = 0x08;
const TIMEOUT: i32 = 0x20;

/// An entry in errors, where a call stands otherwise.
const ENTRY: &str = "a batch entry";

/// The outcome from an event.
fn outcome(event: &sys::CUfileIOEvents_t) -> BatchOutcome {
    let failed = |code| Err(CuFileError::Call { call: ENTRY, code, cuda_code: 0 });
    let result = match event.status {
        COMPLETE if event.ret >= 0 => Ok(event.ret as usize),
        INVALID if event.ret >= 0 => failed(5022),
        CANCELLED => failed(-libc::ECANCELED),
        TIMEOUT => failed(-libc::ETIMEDOUT),
        _ if event.ret < -1 => Err(negated(ENTRY, event.ret)),
        _ => failed(5044),
    };
    (event.cookie.addr(), result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: i32, ret: isize) -> Result<usize, i32> {
        let cookie = std::ptr::without_provenance_mut(7);
        let (mark, result) = outcome(&sys::CUfileIOEvents_t { cookie, status, ret });
        assert_eq!(mark, 7);
        result.map_err(|error| match error {
            CuFileError::Call { code, .. } => code,
            other => panic!("{other}"),
        })
    }

    #[test]
    fn events_report_counts_and_failures() {
        assert_eq!(told(COMPLETE, 4096), Ok(4096));
        assert_eq!(told(COMPLETE, -5), Err(-5));
        assert_eq!(told(0x40, -5030), Err(5030));
        assert_eq!(told(0x40, 0), Err(5044));
        assert_eq!(told(CANCELLED, 0), Err(-libc::ECANCELED));
        assert_eq!(told(INVALID, 0), Err(5022));
        assert_eq!(told(0x7777, 3), Err(5044));
    }
}
