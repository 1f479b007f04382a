//! Opens an MPI library and determines its flavour.
//!
//! Two constants differ between libraries: the communicator of all processes and the byte datatype.
//! With them differs the type of a handle: a pointer in Open MPI and in the standard ABI of MPI 5,
//! an integer in MPICH and all libraries that share its ABI.

use std::ffi::{CStr, c_char, c_int, c_void};

use libloading::os::unix::{Library as Opened, RTLD_GLOBAL, RTLD_NOW};

/// Names the library to use and disables the rest.
const LIBRARY_VARIABLE: &str = "STORMLP_LIBMPI";
/// Open MPI 4 and 5.
const OPEN_MPI: [&CStr; 2] = [c"libmpi.so.40", c"libmpi_abi.so.0"];
/// MPICH under the distributions' name, MPICH's name (also Intel MPI's), MVAPICH's, and the
/// standard ABI.
const MPICH: [&CStr; 4] =
    [c"libmpich.so.12", c"libmpi.so.12", c"libmpi_abi.so.1", c"libmpi_abi.so.0"];

/// An opened library, by its type of handles. It is never closed, because it starts threads and has
/// exit handlers.
pub(crate) enum MpiLibrary {
    /// Handles are pointers.
    Pointers(MpiTable<*mut c_void>),
    /// Handles are integers.
    Integers(MpiTable<c_int>),
}

// SAFETY: the addresses are of functions and of constants of a library that is never closed.
unsafe impl<H> Send for MpiTable<H> {}

type Init = unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char) -> c_int;
type GetInteger<H> = unsafe extern "C" fn(H, *mut c_int) -> c_int;
type Barrier<H> = unsafe extern "C" fn(H, *mut H) -> c_int;
type Gather<H> =
    unsafe extern "C" fn(*const c_void, c_int, H, *mut c_void, c_int, H, H, *mut H) -> c_int;
type Test<H> = unsafe extern "C" fn(*mut H, *mut c_int, *mut c_void) -> c_int;
type SetErrhandler<H> = unsafe extern "C" fn(H, H) -> c_int;
type Abort<H> = unsafe extern "C" fn(H, c_int) -> c_int;
type Finalize = unsafe extern "C" fn() -> c_int;
type Version = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;

/// The functions and constants in use.
pub(crate) struct MpiTable<H> {
    pub(super) path: String,
    pub(super) init: Init,
    pub(super) rank: GetInteger<H>,
    pub(super) size: GetInteger<H>,
    pub(super) barrier: Barrier<H>,
    pub(super) gather: Gather<H>,
    pub(super) test: Test<H>,
    pub(super) set_errhandler: SetErrhandler<H>,
    pub(super) abort: Abort<H>,
    pub(super) finalize: Finalize,
    pub(super) version: Version,
    pub(super) world: H,
    pub(super) byte: H,
    pub(super) errors_return: H,
}

/// Opens the library named by `STORMLP_LIBMPI`, otherwise the first available one of the launcher's
/// kind.
///
/// # Errors
/// Why none can be opened, or why the one found cannot be used.
pub(crate) fn find(open_mpi: bool) -> Result<MpiLibrary, String> {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()) {
        // SAFETY: the user names an MPI library, which is meant to run its initialisers on loading.
        let opened = unsafe { Opened::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
        let name = path.to_string_lossy().into_owned();
        let opened = opened.map_err(|error| format!("{LIBRARY_VARIABLE}: {error}"))?;
        return examine(opened, name);
    }
    let names: &[&CStr] = if open_mpi { &OPEN_MPI } else { &MPICH };
    for name in names {
        let text = name.to_string_lossy();
        // Plug-ins of the library resolve its symbols in the global scope. SAFETY: these are names
        // of MPI libraries, which are meant to run their initialisers on loading.
        if let Ok(opened) = unsafe { Opened::open(Some(&*text), RTLD_NOW | RTLD_GLOBAL) } {
            return examine(opened, text.into_owned());
        }
    }
    let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
    Err(format!("none of {} can be opened", names.join(", ")))
}

fn examine(opened: Opened, path: String) -> Result<MpiLibrary, String> {
    let library = if path.contains("mpi_abi") {
        // The standard ABI uses small integers in place of addresses.
        let constant = |value: usize| std::ptr::without_provenance_mut(value);
        let constants = [constant(0x101), constant(0x247), constant(0x142)];
        table(&opened, path, constants).map(MpiLibrary::Pointers)
    } else if let Ok(world) = address(&opened, c"ompi_mpi_comm_world") {
        let byte = address(&opened, c"ompi_mpi_byte")?;
        let errors_return = address(&opened, c"ompi_mpi_errors_return")?;
        table(&opened, path, [world, byte, errors_return]).map(MpiLibrary::Pointers)
    } else {
        let numbers = [0x4400_0000, 0x4c00_010d, 0x5400_0001];
        table(&opened, path, numbers).map(MpiLibrary::Integers)
    }?;
    std::mem::forget(opened);
    Ok(library)
}

/// Resolves the functions. The constants of the library are known by now.
fn table<H>(
    opened: &Opened,
    path: String,
    [world, byte, errors_return]: [H; 3],
) -> Result<MpiTable<H>, String> {
    // SAFETY: each name has the type that the MPI standard gives it, with handles of this flavour.
    unsafe {
        Ok(MpiTable {
            path,
            init: function(opened, c"MPI_Init")?,
            rank: function(opened, c"MPI_Comm_rank")?,
            size: function(opened, c"MPI_Comm_size")?,
            barrier: function(opened, c"MPI_Ibarrier")?,
            gather: function(opened, c"MPI_Iallgather")?,
            test: function(opened, c"MPI_Test")?,
            set_errhandler: function(opened, c"MPI_Comm_set_errhandler")?,
            abort: function(opened, c"MPI_Abort")?,
            finalize: function(opened, c"MPI_Finalize")?,
            version: function(opened, c"MPI_Get_library_version")?,
            world,
            byte,
            errors_return,
        })
    }
}

fn address(opened: &Opened, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the symbol's address is taken as it is; it is not read here.
    let symbol = unsafe { opened.get::<*mut c_void>(name.to_bytes_with_nul()) };
    let symbol = symbol.map_err(|error| error.to_string())?;
    Ok(symbol.as_raw_ptr())
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
