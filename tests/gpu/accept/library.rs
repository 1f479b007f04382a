//! The libcufile that the run uses, and why.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A libcufile and why it was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Library {
    pub(crate) path: PathBuf,
    pub(crate) why: &'static str,
}

/// Where one may come from, in this order: the named one, the machine's, the carried one.
pub(crate) struct Sources {
    /// `STORMLP_LIBCUFILE`.
    pub(crate) named: Option<OsString>,
    /// The libraries of the machine's loader, toolkits and Python packages.
    pub(crate) own: Vec<PathBuf>,
    /// Next to the programs.
    pub(crate) carried: PathBuf,
}

impl Sources {
    /// The sources of this machine.
    pub(crate) fn here(programs: &Path) -> Self {
        Self {
            named: std::env::var_os("STORMLP_LIBCUFILE").filter(|path| !path.is_empty()),
            own: on_this_machine(),
            carried: carried(programs, cuda_major()),
        }
    }

    /// The library to use; `None` if there is none.
    ///
    /// # Errors
    /// When the one that was named is not there.
    pub(crate) fn choose(&self) -> Result<Option<Library>, String> {
        if let Some(named) = &self.named {
            return named_library(Path::new(named)).map(Some);
        }
        let own = self.own.iter().find(|path| path.exists());
        let own = own.map(|path| (path, "it is this machine's own"));
        let carried = self.carried.exists().then_some(&self.carried);
        let carried = carried.map(|path| (path, "it was brought along: this machine has none"));
        Ok(own.or(carried).map(|(path, why)| Library { path: path.clone(), why }))
    }
}

/// The library among the programs: the one for this CUDA version, where there are several.
pub(crate) fn carried(programs: &Path, cuda: Option<u32>) -> PathBuf {
    let of = |major: u32| programs.join(format!("libcufile-{major}/libcufile.so.0"));
    let wanted = cuda.map(|major| major.clamp(12, 13));
    let found = wanted.into_iter().chain([13, 12]).map(of).find(|path| path.exists());
    found.unwrap_or_else(|| programs.join("libcufile.so.0"))
}

/// The CUDA major version of the driver, `CUDA Version: 12.8` in the output of `nvidia-smi`.
fn cuda_major() -> Option<u32> {
    let told = Command::new("nvidia-smi").stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let (_, version) = text.split_once("CUDA Version:")?;
    version.trim().split('.').next()?.parse().ok()
}

/// The library that was named. Programs run in separate folders, so a path is made absolute; a name
/// without a folder is for the loader to find.
fn named_library(named: &Path) -> Result<Library, String> {
    let path = match named.components().count() {
        1 => named.to_path_buf(),
        _ => named
            .canonicalize()
            .map_err(|error| format!("STORMLP_LIBCUFILE names {}: {error}", named.display()))?,
    };
    Ok(Library { path, why: "STORMLP_LIBCUFILE names it" })
}

/// The machine's libraries, the loader's first.
fn on_this_machine() -> Vec<PathBuf> {
    let found = Command::new("sh").args(["-c", FIND]).stderr(Stdio::null()).output();
    let text = found.map_or_else(|_| Vec::new(), |found| found.stdout);
    String::from_utf8_lossy(&text).lines().map(PathBuf::from).collect()
}

/// The newest toolkit is the last of them by version.
const FIND: &str = "\
PATH=$PATH:/sbin:/usr/sbin
ldconfig -p | sed -n 's/.*libcufile.so.0.*=> //p' | head -1
ls -d /usr/local/cuda/targets/*/lib/libcufile.so.0 /usr/local/cuda/lib64/libcufile.so.0 | head -1
ls -d /usr/local/cuda-*/targets/*/lib/libcufile.so.0 /usr/local/cuda-*/lib64/libcufile.so.0 | sort -rV | head -1
ls -d /usr/lib/python3*/*-packages /usr/local/lib/python3*/*-packages \"$HOME\"/.local/lib/python3*/site-packages \
  /opt/*/lib/python3*/site-packages /opt/*/*/lib/python3*/site-packages | while read -r folder; do
  ls \"$folder\"/nvidia/cu13/lib/libcufile.so.0 \"$folder\"/nvidia/cufile/lib/libcufile.so.0; done | head -1";
