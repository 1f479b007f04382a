//! The C side of cuFile: types and function signatures as laid out by `cufile.h` on 64-bit Linux.
//!
//! Enums of C are plain integers here: a library may return a value its header does not list (a
//! negative errno, a code newer than this file), and decoding such a value into a Rust enum would
//! be undefined behaviour.

#![allow(non_camel_case_types, reason = "names of the C interface, so that they can be looked up")]

use std::ffi::{c_int, c_uint, c_void};

/// The return value of nearly every call: cuFile's code and the underlying CUDA driver code.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CUfileError_t {
    pub(crate) err: c_int,
    pub(crate) cu_err: c_int,
}

/// A registered file.
pub(crate) type CUfileHandle_t = *mut c_void;
/// A batch.
pub(crate) type CUfileBatchHandle_t = *mut c_void;
/// A CUDA stream; null is the default stream.
pub(crate) type CUstream = *mut c_void;

/// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`: the descriptor holds a Linux file descriptor.
pub(crate) const HANDLE_TYPE_OPAQUE_FD: c_int = 1;

/// The file to be registered. The C union is a pointer wide; a descriptor occupies its first four
/// bytes.
#[repr(C)]
pub(crate) struct CUfileDescr_t {
    pub(crate) kind: c_int,
    pub(crate) handle: CUfileDescrHandle,
    pub(crate) fs_ops: *const c_void,
}

/// The union inside [`CUfileDescr_t`].
#[repr(C)]
pub(crate) union CUfileDescrHandle {
    pub(crate) fd: c_int,
    pub(crate) handle: *mut c_void,
}

/// The only mode of a batch entry.
pub(crate) const BATCH_MODE: c_int = 1;
/// `CUFILE_READ`.
pub(crate) const OPCODE_READ: c_int = 0;
/// `CUFILE_WRITE`.
pub(crate) const OPCODE_WRITE: c_int = 1;

/// One entry of a batch; the C union has one member, flattened here.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct CUfileIOParams_t {
    pub(crate) mode: c_int,
    pub(crate) base: *mut c_void,
    pub(crate) file_offset: i64,
    pub(crate) base_offset: i64,
    pub(crate) size: usize,
    pub(crate) file: CUfileHandle_t,
    pub(crate) opcode: c_int,
    pub(crate) cookie: *mut c_void,
}

/// The outcome of a batch entry. `ret` is a `size_t` in C that also carries negative errors.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct CUfileIOEvents_t {
    pub(crate) cookie: *mut c_void,
    pub(crate) status: c_int,
    pub(crate) ret: isize,
}

pub(crate) type FnStatus = unsafe extern "C" fn() -> CUfileError_t;
pub(crate) type FnGetVersion = unsafe extern "C" fn(*mut c_int) -> CUfileError_t;
/// A call with one pointer: to a batch, a stream, or a place for an answer.
pub(crate) type FnOf = unsafe extern "C" fn(*mut c_void) -> CUfileError_t;
/// A call that releases a file or a batch.
pub(crate) type FnRelease = unsafe extern "C" fn(*mut c_void);
pub(crate) type FnHandleRegister =
    unsafe extern "C" fn(*mut CUfileHandle_t, *mut CUfileDescr_t) -> CUfileError_t;
pub(crate) type FnBufRegister = unsafe extern "C" fn(*const c_void, usize, c_int) -> CUfileError_t;
pub(crate) type FnBufDeregister = unsafe extern "C" fn(*const c_void) -> CUfileError_t;
/// Of a write C's memory is constant.
pub(crate) type FnMove =
    unsafe extern "C" fn(CUfileHandle_t, *mut c_void, usize, i64, i64) -> isize;
pub(crate) type FnBatchSetUp =
    unsafe extern "C" fn(*mut CUfileBatchHandle_t, c_uint) -> CUfileError_t;
pub(crate) type FnBatchSubmit = unsafe extern "C" fn(
    CUfileBatchHandle_t,
    c_uint,
    *mut CUfileIOParams_t,
    c_uint,
) -> CUfileError_t;
pub(crate) type FnBatchGetStatus = unsafe extern "C" fn(
    CUfileBatchHandle_t,
    c_uint,
    *mut c_uint,
    *mut CUfileIOEvents_t,
    *mut libc::timespec,
) -> CUfileError_t;
pub(crate) type FnStreamRegister = unsafe extern "C" fn(CUstream, c_uint) -> CUfileError_t;
pub(crate) type FnAsync = unsafe extern "C" fn(
    CUfileHandle_t,
    *mut c_void,
    *mut usize,
    *mut i64,
    *mut i64,
    *mut isize,
    CUstream,
) -> CUfileError_t;
pub(crate) type FnSetBool = unsafe extern "C" fn(c_int, bool) -> CUfileError_t;
pub(crate) type FnGetBool = unsafe extern "C" fn(c_int, *mut u8) -> CUfileError_t;
pub(crate) type FnGetSize = unsafe extern "C" fn(c_int, *mut usize) -> CUfileError_t;
pub(crate) type FnGetSlabs = unsafe extern "C" fn(*mut usize, *mut usize, c_int) -> CUfileError_t;
pub(crate) type FnSetStatsLevel = unsafe extern "C" fn(c_int) -> CUfileError_t;
pub(crate) type FnGetP2pFlags = unsafe extern "C" fn(c_int, *mut c_uint) -> CUfileError_t;

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes as the C compiler lays out the headers of 1.11 to 1.20 on x86-64 and aarch64.
    #[test]
    fn layouts_match_the_header() {
        assert_eq!(size_of::<CUfileError_t>(), 8);
        assert_eq!(size_of::<CUfileDescr_t>(), 24);
        assert_eq!(size_of::<CUfileIOParams_t>(), 64);
        assert_eq!(size_of::<CUfileIOEvents_t>(), 24);
    }
}
