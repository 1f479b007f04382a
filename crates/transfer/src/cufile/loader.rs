//! Opens libcufile at run time and looks up its functions.
//!
//! The runtime package installs only `libcufile.so.0`, so that name comes first; the plain
//! `libcufile.so` and the toolkit's folders follow. Functions that only newer libraries have are
//! optional here, and are checked by the code that needs them. The library is never closed: it
//! starts threads and exit handlers of its own.

use std::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

use super::error::{CuFileError, check};
use super::sys;
use super::version::LibraryVersion;

/// Names the library to use; no other is tried.
pub const LIBRARY_VARIABLE: &str = "STORMLP_LIBCUFILE";

/// The functions of an opened libcufile. Every field is one function of `cufile.h`.
#[derive(Debug)]
pub struct Api {
    path: PathBuf,
    version: LibraryVersion,
    pub(super) driver_open: sys::FnStatus,
    pub(super) driver_close: sys::FnStatus,
    pub(super) get_properties: sys::FnGetProperties,
    pub(super) handle_register: sys::FnHandleRegister,
    pub(super) handle_deregister: sys::FnHandleDeregister,
    pub(super) buf_register: sys::FnBufRegister,
    pub(super) buf_deregister: sys::FnBufDeregister,
    pub(super) read: sys::FnRead,
    pub(super) write: sys::FnWrite,
    pub(super) batch_set_up: sys::FnBatchSetUp,
    pub(super) batch_submit: sys::FnBatchSubmit,
    pub(super) batch_get_status: sys::FnBatchGetStatus,
    pub(super) batch_cancel: sys::FnBatchCancel,
    pub(super) batch_destroy: sys::FnBatchDestroy,
    pub(super) stream_register: sys::FnStreamRegister,
    pub(super) stream_deregister: sys::FnStreamDeregister,
    pub(super) read_async: sys::FnAsync,
    pub(super) write_async: sys::FnAsync,
    pub(super) parameters: Option<ParameterApi>,
    pub(super) stats: Option<StatsApi>,
    pub(super) get_p2p_flags: Option<sys::FnGetP2pFlags>,
}

/// Numbered parameters (from 1.14).
#[derive(Debug, Clone, Copy)]
pub(super) struct ParameterApi {
    pub(super) set_bool: sys::FnSetBool,
    pub(super) get_bool: sys::FnGetBool,
    pub(super) get_size: sys::FnGetSize,
}

/// Statistics (from 1.15).
#[derive(Debug, Clone, Copy)]
pub(super) struct StatsApi {
    pub(super) set_level: sys::FnSetStatsLevel,
    pub(super) start: sys::FnStatus,
    pub(super) level_3: sys::FnGetStats,
}

impl Api {
    /// The library of this process, opened on the first call.
    ///
    /// # Errors
    /// When none can be opened or the one found is unusable; the result stays the same for the
    /// life of the process.
    pub fn get() -> Result<&'static Self, CuFileError> {
        static API: OnceLock<Result<Api, CuFileError>> = OnceLock::new();
        API.get_or_init(|| {
            let chosen = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty());
            Self::open(&candidates(chosen.map(PathBuf::from)))
        })
        .as_ref()
        .map_err(Clone::clone)
    }

    /// Where the library was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The library's version.
    pub fn version(&self) -> LibraryVersion {
        self.version
    }

    /// Whether the library can count transfers by route.
    pub fn counts_routes(&self) -> bool {
        self.stats.is_some()
    }

    /// Opens the first of `candidates` that loads.
    fn open(candidates: &[PathBuf]) -> Result<Self, CuFileError> {
        let mut tried = Vec::new();
        for name in candidates {
            // SAFETY: opening runs the library's constructors. The names are libcufile's own, or
            // what the user chose to run; NVIDIA's library has no preconditions for being opened.
            match unsafe { Library::new(name) } {
                Ok(library) => return Self::look_up(library, name),
                Err(error) => tried.push(format!("{} ({})", name.display(), cause(&error))),
            }
        }
        Err(CuFileError::NotFound { tried })
    }

    /// Looks up the functions; those that every version has are required.
    fn look_up(library: Library, name: &Path) -> Result<Self, CuFileError> {
        // Never closed: see the module's documentation.
        let library: &'static Library = Box::leak(Box::new(library));
        let symbols = Symbols {
            library,
            path: located(library, "cuFileDriverOpen").unwrap_or_else(|| name.into()),
        };
        // Looked up first, so that a different library is not reported as too old.
        // SAFETY: the type is the one of `cufile.h`.
        let driver_open = unsafe { symbols.required("cuFileDriverOpen")? };
        let version = symbols.version()?;
        // SAFETY: each type is the one `cufile.h` declares for the name beside it, the same in
        // every header from 1.8 to 1.20.
        unsafe {
            Ok(Self {
                driver_open,
                // The header maps the plain name to `_v2`, which later versions have.
                driver_close: match symbols.optional("cuFileDriverClose_v2") {
                    Some(close) => close,
                    None => symbols.required("cuFileDriverClose")?,
                },
                get_properties: symbols.required("cuFileDriverGetProperties")?,
                handle_register: symbols.required("cuFileHandleRegister")?,
                handle_deregister: symbols.required("cuFileHandleDeregister")?,
                buf_register: symbols.required("cuFileBufRegister")?,
                buf_deregister: symbols.required("cuFileBufDeregister")?,
                read: symbols.required("cuFileRead")?,
                write: symbols.required("cuFileWrite")?,
                batch_set_up: symbols.required("cuFileBatchIOSetUp")?,
                batch_submit: symbols.required("cuFileBatchIOSubmit")?,
                batch_get_status: symbols.required("cuFileBatchIOGetStatus")?,
                batch_cancel: symbols.required("cuFileBatchIOCancel")?,
                batch_destroy: symbols.required("cuFileBatchIODestroy")?,
                stream_register: symbols.required("cuFileStreamRegister")?,
                stream_deregister: symbols.required("cuFileStreamDeregister")?,
                read_async: symbols.required("cuFileReadAsync")?,
                write_async: symbols.required("cuFileWriteAsync")?,
                parameters: symbols.parameters(),
                stats: symbols.stats(),
                get_p2p_flags: symbols.optional("cuFileDriverGetP2PFlags"),
                version,
                path: symbols.path,
            })
        }
    }
}

struct Symbols {
    library: &'static Library,
    path: PathBuf,
}

impl Symbols {
    /// # Safety
    /// `T` must be the function type that `cufile.h` declares for `name`.
    unsafe fn optional<T: Copy>(&self, name: &str) -> Option<T> {
        // SAFETY: the caller vouches for the type.
        unsafe { self.library.get::<T>(name) }.ok().map(|symbol| *symbol)
    }

    /// # Safety
    /// As for [`Symbols::optional`].
    unsafe fn required<T: Copy>(&self, symbol: &'static str) -> Result<T, CuFileError> {
        // SAFETY: the caller vouches for the type.
        unsafe { self.optional(symbol) }
            .ok_or_else(|| CuFileError::NotCuFile { path: self.path.clone(), symbol })
    }

    /// The version; a library that does not report one is too old.
    fn version(&self) -> Result<LibraryVersion, CuFileError> {
        let too_old = |found| CuFileError::TooOld { path: self.path.clone(), found };
        // SAFETY: the type is the one of `cufile.h`.
        let get: sys::FnGetVersion =
            unsafe { self.optional("cuFileGetVersion") }.ok_or_else(|| too_old(None))?;
        let mut number = 0;
        // SAFETY: the argument is a place for one int; the call needs no open driver.
        check("cuFileGetVersion", unsafe { get(&mut number) })?;
        let version = LibraryVersion::from_number(number);
        if version < LibraryVersion::OLDEST {
            return Err(too_old(Some(version)));
        }
        Ok(version)
    }

    /// # Safety
    /// As for [`Symbols::optional`]; likewise for the one below.
    unsafe fn parameters(&self) -> Option<ParameterApi> {
        // SAFETY: the types are those of `cufile.h`.
        unsafe {
            Some(ParameterApi {
                set_bool: self.optional("cuFileSetParameterBool")?,
                get_bool: self.optional("cuFileGetParameterBool")?,
                get_size: self.optional("cuFileGetParameterSizeT")?,
            })
        }
    }

    unsafe fn stats(&self) -> Option<StatsApi> {
        // SAFETY: the types are those of `cufile.h`.
        unsafe {
            Some(StatsApi {
                set_level: self.optional("cuFileSetStatsLevel")?,
                start: self.optional("cuFileStatsStart")?,
                level_3: self.optional("cuFileGetStatsL3")?,
            })
        }
    }
}

/// The candidates, in order; a library chosen by the user is the only one.
fn candidates(chosen: Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(chosen) = chosen {
        return vec![chosen];
    }
    let mut candidates = vec!["libcufile.so.0".into(), "libcufile.so".into()];
    candidates.extend(toolkit_libraries(Path::new("/usr/local")));
    candidates
}

/// Libraries in the toolkits under `root`: `cuda` first, then the newest `cuda-X.Y`.
fn toolkit_libraries(root: &Path) -> Vec<PathBuf> {
    let mut toolkits: Vec<(Vec<u32>, PathBuf)> = std::fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = match name.strip_prefix("cuda")? {
                "" => vec![u32::MAX],
                rest => rest.strip_prefix('-')?.split('.').map_while(|n| n.parse().ok()).collect(),
            };
            Some((version, entry.path()))
        })
        .collect();
    toolkits.sort_by(|left, right| right.cmp(left));
    let target = format!("targets/{}-linux/lib/libcufile.so.0", toolkit_architecture());
    toolkits
        .into_iter()
        .flat_map(|(_, toolkit)| [toolkit.join(&target), toolkit.join("lib64/libcufile.so.0")])
        .filter(|path| path.exists())
        .collect()
}

/// The architecture in NVIDIA's folder names.
fn toolkit_architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "sbsa" } else { "x86_64" }
}

/// Where the loader found a library, determined from one of its functions.
pub(super) fn located(library: &Library, function: &str) -> Option<PathBuf> {
    // SAFETY: the symbol is only inspected as an address, never called with this type.
    let address: *const c_void = *unsafe { library.get::<*const c_void>(function) }.ok()?;
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be queried; `info` is a place for the answer.
    if unsafe { libc::dladdr(address, info.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: dladdr filled `info`, and zeroes are a valid value for its pointers.
    let file = unsafe { info.assume_init() }.dli_fname;
    if file.is_null() {
        return None;
    }
    // SAFETY: the loader's own string, which lives as long as the library, here borrowed.
    Some(PathBuf::from(unsafe { CStr::from_ptr(file) }.to_string_lossy().into_owned()))
}

/// The loader's message, which libloading keeps in the source of its error.
fn cause(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chosen_library_stands_alone() {
        assert_eq!(candidates(Some("/x/lib.so".into())), [PathBuf::from("/x/lib.so")]);
        assert_eq!(candidates(None)[0], PathBuf::from("libcufile.so.0"));
    }

    #[test]
    fn toolkits_are_searched_newest_first() {
        let root = tempfile::tempdir().unwrap();
        for toolkit in ["cuda-12.9", "cuda-12.10", "cuda-13.0", "cudnn", "other"] {
            let lib = root.path().join(toolkit).join("lib64");
            std::fs::create_dir_all(&lib).unwrap();
            std::fs::write(lib.join("libcufile.so.0"), "").unwrap();
        }
        let found: Vec<String> = toolkit_libraries(root.path())
            .iter()
            .map(|path| path.strip_prefix(root.path()).unwrap().display().to_string())
            .collect();
        let expected = ["cuda-13.0", "cuda-12.10", "cuda-12.9"];
        assert_eq!(found, expected.map(|name| format!("{name}/lib64/libcufile.so.0")));
    }

    #[test]
    fn a_missing_library_is_reported_with_the_loaders_message() {
        let error = Api::open(&["/nowhere/libcufile.so.0".into()]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("/nowhere/libcufile.so.0"), "{text}");
        assert!(text.contains("cannot open shared object file"), "{text}");
        assert!(error.remedy().contains(LIBRARY_VARIABLE));
    }

    #[test]
    fn a_wrong_library_is_refused() {
        let error = Api::open(&["libc.so.6".into()]).unwrap_err();
        assert!(matches!(error, CuFileError::NotCuFile { .. }), "{error}");
    }
}
