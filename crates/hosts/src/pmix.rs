//! PMIx: `srun --mpi=pmix`, Open MPI's `mpirun` and PRRTE provide a server for it. Waiting blocks
//! in the kernel, so it uses no CPU time of the threads that read.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use libloading::os::unix::{Library as Opened, RTLD_GLOBAL, RTLD_NOW};

use crate::rounds::{Backend, LibraryView};

/// Names the library to use and disables the rest.
const LIBRARY_VARIABLE: &str = "STORMLP_LIBPMIX";
const LIBRARY: &str = "libpmix.so.2";
/// `PMIX_RANK_WILDCARD`: a key that concerns all processes.
const RANK_WILDCARD: u32 = u32::MAX - 1;
/// `PMIX_GLOBAL`: visible on every host.
const GLOBAL: u8 = 3;
/// `PMIX_BOOL`, `PMIX_UINT32` and `PMIX_BYTE_OBJECT`.
const BOOL: u16 = 1;
const UINT32: u16 = 14;
const BYTE_OBJECT: u16 = 27;
const JOB_SIZE: &CStr = c"pmix.job.size";
const COLLECT_DATA: &CStr = c"pmix.collect";

/// Error codes that occur when other processes are gone.
const PMIX_ERR_TIMEOUT: c_int = -24;
const PMIX_ERR_UNREACH: c_int = -25;
const PMIX_ERR_PARTIAL_SUCCESS: c_int = -52;
const PMIX_ERR_LOST_CONNECTION: c_int = -61;

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Process {
    namespace: [c_char; 256],
    rank: u32,
}

/// `pmix_byte_object_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ByteObject {
    bytes: *mut c_char,
    size: usize,
}

/// The union in `pmix_value_t`: the members in use, and its full size.
#[repr(C)]
#[derive(Clone, Copy)]
union Data {
    flag: bool,
    uint32: u32,
    bytes: ByteObject,
    all: [u64; 3],
}

/// `pmix_value_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Value {
    kind: u16,
    data: Data,
}

/// `pmix_info_t`.
#[repr(C)]
struct Info {
    key: [c_char; 512],
    flags: u32,
    value: Value,
}

// The layout of every PMIx from 2.1 on.
const _: () = assert!(size_of::<Process>() == 260);
const _: () = assert!(size_of::<Value>() == 32);
const _: () = assert!(size_of::<Info>() == 552);

type Init = unsafe extern "C" fn(*mut Process, *mut Info, usize) -> c_int;
type Get = unsafe extern "C" fn(
    *const Process,
    *const c_char,
    *const Info,
    usize,
    *mut *mut Value,
) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Process, usize, *const Info, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type Abort = unsafe extern "C" fn(c_int, *const c_char, *mut Process, usize) -> c_int;

/// The functions in use of an opened library, which is never closed, because it starts threads.
pub(crate) struct PmixLibrary {
    path: String,
    init: Init,
    get: Get,
    put: Put,
    commit: Commit,
    fence: Fence,
    finalize: Finalize,
    abort: Abort,
}

/// Opens the library.
///
/// # Errors
/// Why it cannot be opened or used.
pub(crate) fn find() -> Result<PmixLibrary, String> {
    let named = std::env::var(LIBRARY_VARIABLE).ok();
    let path = named.filter(|path| !path.is_empty()).unwrap_or_else(|| LIBRARY.to_string());
    // SAFETY: this is the name of a PMIx library, which is meant to run its initialisers on
    // loading.
    let opened = unsafe { Opened::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
    let opened = opened.map_err(|error| error.to_string())?;
    // SAFETY: each name has the type that the PMIx standard gives it.
    let library = unsafe {
        PmixLibrary {
            path,
            init: function(&opened, c"PMIx_Init")?,
            get: function(&opened, c"PMIx_Get")?,
            put: function(&opened, c"PMIx_Put")?,
            commit: function(&opened, c"PMIx_Commit")?,
            fence: function(&opened, c"PMIx_Fence")?,
            finalize: function(&opened, c"PMIx_Finalize")?,
            abort: function(&opened, c"PMIx_Abort")?,
        }
    };
    std::mem::forget(opened);
    Ok(library)
}

/// A function of the library.
///
/// # Safety
/// `F` must be the type of the function called `name`.
unsafe fn function<F: Copy>(opened: &Opened, name: &CStr) -> Result<F, String> {
    // SAFETY: the caller's promise.
    let symbol = unsafe { opened.get::<F>(name.to_bytes_with_nul()) };
    symbol.map(|symbol| *symbol).map_err(|error| error.to_string())
}

/// The connection to the PMIx server of this host.
pub(crate) struct Pmix {
    library: PmixLibrary,
    own: Process,
    size: u32,
    /// Number of all-gathers so far, so that each uses new keys.
    rounds: u64,
}

impl Pmix {
    /// Connects to the server.
    pub(crate) fn init(library: PmixLibrary) -> Result<Self, String> {
        let mut own = Process { namespace: [0; 256], rank: 0 };
        // SAFETY: the call fills in the identity of this process; there are no directives.
        let answer = unsafe { (library.init)(&raw mut own, ptr::null_mut(), 0) };
        if answer != 0 {
            return Err(format!(
                "no PMIx server responds here (PMIx_Init failed with error {answer})"
            ));
        }
        let mut pmix = Self { library, own, size: 0, rounds: 0 };
        pmix.size = pmix.get(RANK_WILDCARD, JOB_SIZE, |value| {
            match value.kind {
                // SAFETY: the type tag says which member of the union is set.
                UINT32 => Some(unsafe { value.data.uint32 }),
                _ => None,
            }
        })?;
        Ok(pmix)
    }

    /// The value process `rank` has put under `key`, converted by `read` from the library's memory.
    fn get<T>(
        &self,
        rank: u32,
        key: &CStr,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, String> {
        let of = Process { rank, ..self.own };
        let mut value: *mut Value = ptr::null_mut();
        // SAFETY: PMIx is set up; process and key live through the call, which writes one address.
        let answer = unsafe {
            (self.library.get)(&raw const of, key.as_ptr(), ptr::null(), 0, &raw mut value)
        };
        let asked = match rank {
            RANK_WILDCARD => ANOTHER.to_string(),
            rank => of_rank(rank),
        };
        checked("PMIx_Get", answer, &asked)?;
        // SAFETY: on success the address is null or points to a value now owned by the caller.
        let found = unsafe { value.as_ref() }.and_then(read);
        if let Some(value) = ptr::NonNull::new(value) {
            // SAFETY: PMIx allocates values, and the bytes in them, with malloc for the caller to
            // free; no reference to either is left.
            unsafe {
                let held = *value.as_ptr();
                if held.kind == BYTE_OBJECT {
                    libc::free(held.data.bytes.bytes.cast());
                }
                libc::free(value.as_ptr().cast());
            }
        }
        found.ok_or_else(|| format!("PMIx has no {} for rank {rank}", key.to_string_lossy()))
    }

    fn fence(&self, info: &[Info]) -> Result<(), String> {
        // SAFETY: PMIx is set up; a null list means all processes of the job, and `info` lives
        // through the call.
        let answer = unsafe { (self.library.fence)(ptr::null(), 0, info.as_ptr(), info.len()) };
        checked("PMIx_Fence", answer, &another(self.own.rank, self.size))
    }
}

impl Backend for Pmix {
    fn seen(&self) -> LibraryView {
        LibraryView {
            rank: self.own.rank,
            size: self.size.max(1),
            library: self.library.path.clone(),
        }
    }

    fn barrier(&mut self) -> Result<(), String> {
        self.fence(&[])
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        self.rounds += 1;
        let key = CString::new(format!("stormlp.{}", self.rounds)).map_err(|e| e.to_string())?;
        let mut own = bytes.to_vec();
        // Some versions treat an empty byte object as missing.
        own.push(0);
        let mut value = Value {
            kind: BYTE_OBJECT,
            data: Data { bytes: ByteObject { bytes: own.as_mut_ptr().cast(), size: own.len() } },
        };
        // SAFETY: PMIx copies key and value before it returns.
        check("PMIx_Put", unsafe { (self.library.put)(GLOBAL, key.as_ptr(), &raw mut value) })?;
        // SAFETY: PMIx is set up.
        check("PMIx_Commit", unsafe { (self.library.commit)() })?;
        self.fence(&[collect()])?;
        let read = |value: &Value| {
            if value.kind != BYTE_OBJECT {
                return None;
            }
            // SAFETY: the type tag says that this member is set, with this number of bytes.
            let bytes = unsafe {
                let held = value.data.bytes;
                if held.bytes.is_null() {
                    return None;
                }
                std::slice::from_raw_parts(held.bytes.cast::<u8>(), held.size)
            };
            bytes.split_last().map(|(_, bytes)| bytes.to_vec())
        };
        let ranks = 0..self.size.max(1);
        ranks.map(|rank| self.get(rank, &key, read)).collect()
    }

    fn abort(&mut self, code: u8) {
        // SAFETY: PMIx is set up; a null list means all processes of the job.
        unsafe {
            (self.library.abort)(
                c_int::from(code),
                c"stormlp failed on another host".as_ptr(),
                ptr::null_mut(),
                0,
            )
        };
    }

    fn leave(&mut self) {
        // SAFETY: PMIx is set up, and no call follows.
        unsafe { (self.library.finalize)(ptr::null(), 0) };
    }
}

/// The directive that makes a fence exchange the values put.
fn collect() -> Info {
    let mut key = [0; 512];
    for (to, from) in key.iter_mut().zip(COLLECT_DATA.to_bytes()) {
        *to = from.cast_signed() as c_char;
    }
    let mut data = Data { all: [0; 3] };
    data.flag = true;
    Info { key, flags: 0, value: Value { kind: BOOL, data } }
}

/// Stands for a process that has ended when it is unknown which one.
const ANOTHER: &str = "another host";

fn of_rank(rank: u32) -> String {
    format!("the process of rank {rank}")
}

/// The other process, as seen by `own` of `size` processes: with more than two, a fence does not
/// tell which.
fn another(own: u32, size: u32) -> String {
    match (own, size) {
        (0 | 1, 2) => of_rank(1 - own),
        _ => ANOTHER.to_string(),
    }
}

/// The meaning of an error about the process `another`, if it has one.
fn meaning(code: c_int, another: &str) -> Option<String> {
    match code {
        PMIX_ERR_PARTIAL_SUCCESS => Some(format!("{another} has ended")),
        PMIX_ERR_UNREACH | PMIX_ERR_LOST_CONNECTION => Some(format!(
            "the launcher no longer responds: {another} may have ended, or it is ending the job"
        )),
        PMIX_ERR_TIMEOUT => Some(format!("{another} did not arrive in time")),
        _ => None,
    }
}

fn check(call: &str, answer: c_int) -> Result<(), String> {
    checked(call, answer, ANOTHER)
}

fn checked(call: &str, answer: c_int, another: &str) -> Result<(), String> {
    match answer {
        0 => Ok(()),
        code => Err(match meaning(code, another) {
            Some(meaning) => format!("{meaning} ({call} failed with error {code})"),
            None => format!("{call} failed with error {code}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_hosts_the_other_one_is_named() {
        let told = |size| checked("PMIx_Fence", PMIX_ERR_PARTIAL_SUCCESS, &another(1, size));
        let two = "the process of rank 0 has ended (PMIx_Fence failed with error -52)";
        assert_eq!(told(2), Err(two.to_string()));
        let more = "another host has ended (PMIx_Fence failed with error -52)";
        assert_eq!(told(3), Err(more.to_string()));
        assert_eq!(checked("PMIx_Fence", 0, ANOTHER), Ok(()));
    }
}
