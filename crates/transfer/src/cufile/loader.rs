//! Opens libcufile at run time and looks up its functions.
//!
//! The runtime package installs only `libcufile.so.0`, so that name comes first; the plain
//! `libcufile.so` and the files of [`candidates`](super::candidates) follow. Functions that only
//! newer libraries have are optional here, and are checked by the code that needs them. The library
//! is never closed: it starts threads and exit handlers.

use std::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;
use stormlp_core::machine::LibraryCandidate;

use super::candidates::{Places, candidate, fit, ranked};
use super::error::{CuFileError, check};
use super::nvidia::FILES;
use super::sys;
use super::version::LibraryVersion;
use crate::cuda;

/// Names the library to use; no other is tried.
pub const LIBRARY_VARIABLE: &str = "STORMLP_LIBCUFILE";

/// The functions of an opened libcufile. Every field is one function of `cufile.h`.
#[derive(Debug)]
pub struct Api {
    path: PathBuf,
    version: LibraryVersion,
    pub(super) driver_open: sys::FnStatus,
    pub(super) driver_close: sys::FnStatus,
    pub(super) get_properties: sys::FnOf,
    pub(super) handle_register: sys::FnHandleRegister,
    pub(super) handle_deregister: sys::FnRelease,
    pub(super) buf_register: sys::FnBufRegister,
    pub(super) buf_deregister: sys::FnBufDeregister,
    pub(super) read: sys::FnMove,
    pub(super) write: sys::FnMove,
    pub(super) batch_set_up: sys::FnBatchSetUp,
    pub(super) batch_submit: sys::FnBatchSubmit,
    pub(super) batch_get_status: sys::FnBatchGetStatus,
    pub(super) batch_cancel: sys::FnOf,
    pub(super) batch_destroy: sys::FnRelease,
    pub(super) stream_register: sys::FnStreamRegister,
    pub(super) stream_deregister: sys::FnOf,
    pub(super) read_async: sys::FnAsync,
    pub(super) write_async: sys::FnAsync,
    pub(super) parameters: Option<ParameterApi>,
    /// From 1.15.
    pub(super) get_posix_pool: Option<sys::FnGetSlabs>,
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
    pub(super) level_3: sys::FnOf,
}

impl Api {
    /// The library of this process, opened on the first call.
    ///
    /// # Errors
    /// When none can be opened or the one found is unusable; the result stays the same for the
    /// life of the process.
    pub fn get() -> Result<&'static Self, CuFileError> {
        opened().api.as_ref().map_err(Clone::clone)
    }

    /// Every libcufile that was found, the one that was opened first.
    pub fn candidates() -> &'static [LibraryCandidate] {
        &opened().candidates
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

    /// Looks up the functions; those that every version has are required.
    fn look_up(library: Library, name: &Path) -> Result<Self, CuFileError> {
        let symbols = Symbols::of(library, name);
        // Looked up first, so that a different library is not reported as too old.
        // SAFETY: the type is the one of `cufile.h`.
        let driver_open = unsafe { symbols.required("DriverOpen")? };
        let version = symbols.version()?;
        // SAFETY: each type is the one `cufile.h` declares for the name next to it, the same in
        // every header from 1.8 to 1.20.
        unsafe {
            Ok(Self {
                driver_open,
                // cuFile's header maps the plain name to `_v2`, which later versions have.
                driver_close: match symbols.optional("DriverClose_v2") {
                    Some(close) => close,
                    None => symbols.required("DriverClose")?,
                },
                get_properties: symbols.required("DriverGetProperties")?,
                handle_register: symbols.required("HandleRegister")?,
                handle_deregister: symbols.required("HandleDeregister")?,
                buf_register: symbols.required("BufRegister")?,
                buf_deregister: symbols.required("BufDeregister")?,
                read: symbols.required("Read")?,
                write: symbols.required("Write")?,
                batch_set_up: symbols.required("BatchIOSetUp")?,
                batch_submit: symbols.required("BatchIOSubmit")?,
                batch_get_status: symbols.required("BatchIOGetStatus")?,
                batch_cancel: symbols.required("BatchIOCancel")?,
                batch_destroy: symbols.required("BatchIODestroy")?,
                stream_register: symbols.required("StreamRegister")?,
                stream_deregister: symbols.required("StreamDeregister")?,
                read_async: symbols.required("ReadAsync")?,
                write_async: symbols.required("WriteAsync")?,
                parameters: symbols.parameters(),
                get_posix_pool: symbols.optional("GetParameterPosixPoolSlabArray"),
                stats: symbols.stats(),
                get_p2p_flags: symbols.optional("DriverGetP2PFlags"),
                version,
                path: symbols.path,
            })
        }
    }
}

/// The library of this process, and those it was chosen from.
struct Opened {
    api: Result<Api, CuFileError>,
    candidates: Vec<LibraryCandidate>,
}

/// Opens the library on the first call.
fn opened() -> &'static Opened {
    static OPENED: OnceLock<Opened> = OnceLock::new();
    OPENED.get_or_init(|| {
        let chosen = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty());
        let driver = cuda::driver_version().ok();
        let major = driver.and_then(|version| version.split('.').next()?.parse().ok());
        match chosen {
            Some(chosen) => Opened::chosen(Path::new(&chosen)),
            None => Opened::best(&Places::here(), major),
        }
    })
}

impl Opened {
    /// The library that the user has chosen; no other is tried.
    fn chosen(path: &Path) -> Self {
        let mut candidate = candidate(path.to_path_buf(), LIBRARY_VARIABLE, None);
        let library = load(path).map_err(|tried| CuFileError::not_found(&[tried]));
        let api = library.and_then(|library| Api::look_up(library, path));
        candidate.taken = api.is_ok();
        match &api {
            Ok(api) => {
                candidate.version = Some(api.version.to_string());
                candidate.cuda_major = Some(api.version.cuda_major());
                candidate.why = format!("{LIBRARY_VARIABLE} names it");
            }
            Err(error) => candidate.why = error.to_string(),
        }
        Self { candidates: vec![candidate], api }
    }

    /// The one that fits a driver of CUDA `driver` best; of several the loader's first, then the
    /// libraries of `places` in their order.
    fn best(places: &Places, driver: Option<u32>) -> Self {
        let mut tried = Vec::new();
        let mut found: Vec<_> = of_loader(&mut tried).into_iter().collect();
        found.extend(places.candidates());
        let mut candidates = ranked(found, driver);
        let mut api: Option<Api> = None;
        let mut refused = None;
        for candidate in &mut candidates {
            candidate.why = fit(candidate.cuda_major, driver).1;
            if api.is_some() {
                continue;
            }
            let path = &candidate.path;
            match load(path).map(|library| Api::look_up(library, path)) {
                Ok(Ok(usable)) => {
                    candidate.taken = true;
                    api = Some(usable);
                }
                Ok(Err(error)) => {
                    candidate.why = error.to_string();
                    refused.get_or_insert(error);
                }
                Err(error) => {
                    candidate.why = format!("it does not load: {error}");
                    tried.push(error);
                }
            }
        }
        candidates.sort_by_key(|candidate| !candidate.taken);
        let none = refused.unwrap_or_else(|| CuFileError::not_found(&tried));
        Self { api: api.ok_or(none), candidates }
    }
}

/// The library that the loader finds by its name; where it does not, `tried` gets the reasons.
fn of_loader(tried: &mut Vec<String>) -> Option<LibraryCandidate> {
    for name in FILES {
        match load(Path::new(name)) {
            Ok(library) => {
                let symbols = Symbols::of(library, Path::new(name));
                let version = symbols.version().ok().map(|version| version.to_string());
                return Some(candidate(symbols.path, "the loader", version));
            }
            Err(error) => tried.push(error),
        }
    }
    None
}

/// Opens a library.
///
/// # Errors
/// When it does not load: its name with the loader's message.
fn load(name: &Path) -> Result<Library, String> {
    // SAFETY: opening runs the library's constructors. The names are libcufile's, or the user's
    // choice; NVIDIA's library has no preconditions for being opened.
    unsafe { Library::new(name) }.map_err(|error| format!("{} ({})", name.display(), cause(&error)))
}

/// The functions of an open library, by their names without `cuFile`.
struct Symbols {
    library: &'static Library,
    path: PathBuf,
}

impl Symbols {
    /// The functions of `library`, which was opened as `name`.
    fn of(library: Library, name: &Path) -> Self {
        // Never closed: see the module's documentation.
        let library: &'static Library = Box::leak(Box::new(library));
        let path = located(library, "cuFileDriverOpen").unwrap_or_else(|| name.into());
        Self { library, path }
    }

    /// # Safety
    /// `T` must be the type of the function `name`, which [`sys`] declares.
    unsafe fn optional<T: Copy>(&self, name: &'static str) -> Option<T> {
        let symbol = format!("cuFile{name}");
        // SAFETY: the caller vouches for the type.
        unsafe { self.library.get::<T>(symbol.as_str()) }.ok().map(|symbol| *symbol)
    }

    /// # Safety
    /// As for [`Symbols::optional`].
    unsafe fn required<T: Copy>(&self, name: &'static str) -> Result<T, CuFileError> {
        // SAFETY: the caller vouches for the type.
        unsafe { self.optional(name) }.ok_or_else(|| {
            let path = self.path.display();
            let reason =
                format!("{path} has no function cuFile{name}: it is not a usable libcufile");
            CuFileError::unusable(reason, "check STORMLP_LIBCUFILE")
        })
    }

    /// The version; a library that does not report one is too old.
    fn version(&self) -> Result<LibraryVersion, CuFileError> {
        let too_old = |found: &str| {
            let (path, oldest) = (self.path.display(), LibraryVersion::OLDEST);
            CuFileError::unusable(
                format!("libcufile at {path} is too old: {found}, and {oldest} or later is needed"),
                "install a newer CUDA toolkit, or name a newer library with STORMLP_LIBCUFILE",
            )
        };
        // SAFETY: the type is the one of `cufile.h`.
        let get: sys::FnGetVersion = unsafe { self.optional("GetVersion") }
            .ok_or_else(|| too_old("it does not report its version"))?;
        let mut number = 0;
        // SAFETY: the argument is a place for one int; the call needs no open driver.
        check("cuFileGetVersion", unsafe { get(&mut number) })?;
        let version = LibraryVersion::from_number(number);
        if version < LibraryVersion::OLDEST {
            return Err(too_old(&format!("version {version}")));
        }
        Ok(version)
    }

    /// # Safety
    /// As for [`Symbols::optional`]; the same for the one below.
    unsafe fn parameters(&self) -> Option<ParameterApi> {
        // SAFETY: the types are as in `cufile.h`.
        unsafe {
            Some(ParameterApi {
                set_bool: self.optional("SetParameterBool")?,
                get_bool: self.optional("GetParameterBool")?,
                get_size: self.optional("GetParameterSizeT")?,
            })
        }
    }

    unsafe fn stats(&self) -> Option<StatsApi> {
        // SAFETY: the types are as in `cufile.h`.
        unsafe {
            Some(StatsApi {
                set_level: self.optional("SetStatsLevel")?,
                start: self.optional("StatsStart")?,
                level_3: self.optional("GetStatsL3")?,
            })
        }
    }
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
    // SAFETY: the loader's string, which lives as long as the library, here borrowed.
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
    fn a_missing_library_is_reported_with_the_loaders_message() {
        let opened = Opened::chosen(Path::new("/nowhere/libcufile.so.0"));
        let error = opened.api.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("/nowhere/libcufile.so.0"), "{text}");
        assert!(text.contains("cannot open shared object file"), "{text}");
        assert!(error.remedy().contains(LIBRARY_VARIABLE));
        assert!(!opened.candidates[0].taken);
    }

    #[test]
    fn a_wrong_library_is_refused() {
        let error = Opened::chosen(Path::new("libc.so.6")).api.unwrap_err();
        assert!(error.to_string().contains("it is not a usable libcufile"), "{error}");
    }

    #[test]
    fn a_file_that_does_not_load_is_listed_with_the_reason() {
        let root = tempfile::tempdir().unwrap();
        let lib = root.path().join("cuda-12.8/lib64");
        std::fs::create_dir_all(&lib).unwrap();
        std::fs::write(lib.join("libcufile.so.0"), "not a library").unwrap();
        let places = Places { toolkits: root.path().into(), ..Places::default() };
        let opened = Opened::best(&places, Some(12));
        let listed = opened.candidates.iter().find(|one| one.path.starts_with(root.path()));
        let listed = listed.unwrap();
        assert!(!listed.taken && listed.why.contains("does not load"), "{listed:?}");
    }
}
