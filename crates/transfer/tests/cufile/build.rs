//! What the scenarios need beside Rust: the double and a shim compiled with `cc`, and NVIDIA's
//! library from its Python package. All of it lies in the target folder, made at most once a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};

/// Where things are built and fetched to: the target folder, never the repository.
fn workplace() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn sources() -> PathBuf {
    // The tests of the whole program use it, too.
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = package.join("tests/cufile/double");
    if own.is_dir() { own } else { package.join("crates/transfer/tests/cufile/double") }
}

/// The folder that holds the double of a version of libcufile under the names of both libraries,
/// or why there is none.
pub(crate) fn double(version: u32) -> Result<PathBuf, String> {
    static DOUBLES: Mutex<BTreeMap<u32, Result<PathBuf, String>>> = Mutex::new(BTreeMap::new());
    let mut doubles = DOUBLES.lock().unwrap();
    doubles.entry(version).or_insert_with(|| build_double(version)).clone()
}

fn build_double(version: u32) -> Result<PathBuf, String> {
    let folder = workplace().join(format!("double-{version}"));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let library = folder.join("libdouble.so");
    let version = format!("-DDOUBLE_VERSION={version}");
    compile(&[&version], &["cufile.c", "cuda.c"], &library)?;
    for name in ["libcuda.so", "libcuda.so.1", "libcufile.so.0"] {
        let link = folder.join(name);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&library, link).map_err(|error| error.to_string())?;
    }
    Ok(folder)
}

/// The shim that makes up for a missing `/proc/modules`, or why there is none.
pub(crate) fn shim() -> Result<PathBuf, String> {
    static SHIM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    SHIM.get_or_init(|| preloaded("proc_modules")).clone()
}

/// The shim that shows the statistics of an nvidia-fs, or why there is none.
#[allow(dead_code, reason = "the tests of the whole program use it")]
pub(crate) fn nvidia_fs() -> Result<PathBuf, String> {
    static SHIM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    SHIM.get_or_init(|| preloaded("nvidia_fs")).clone()
}

fn preloaded(name: &str) -> Result<PathBuf, String> {
    let library = workplace().join(format!("{name}.so"));
    compile(&[], &[&format!("{name}.c")], &library)?;
    Ok(library)
}

/// Compiles C sources to a shared object; the last step is a rename, since other test runs may
/// use the same folder.
fn compile(options: &[&str], names: &[&str], library: &Path) -> Result<(), String> {
    let fresh = library.with_extension(format!("{}.so", std::process::id()));
    let output = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&fresh)
        .args(options)
        .args(names.iter().map(|name| sources().join(name)))
        .arg("-ldl")
        .output()
        .map_err(|error| format!("no C compiler (`cc`): {error}"))?;
    if !output.status.success() {
        return Err(format!("cc: {}", String::from_utf8_lossy(&output.stderr)));
    }
    std::fs::rename(fresh, library).map_err(|error| error.to_string())
}

/// NVIDIA's libcufile, fetched with pip unless it is here already, or why it cannot be had.
pub(crate) fn real_library() -> Result<PathBuf, String> {
    static LIBRARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    LIBRARY.get_or_init(fetch).clone()
}

fn fetch() -> Result<PathBuf, String> {
    let library = workplace().join("nvidia-cufile/nvidia/cu13/lib/libcufile.so.0");
    if library.exists() {
        return Ok(library);
    }
    let folder = workplace().join(format!("nvidia-cufile.{}", std::process::id()));
    let pip = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"];
    let limits = ["--timeout", "10", "--retries", "0", "--only-binary=:all:", "--dest"];
    python(Command::new("python3").args(pip).args(limits).arg(&folder).arg("nvidia-cufile>=1.16"))?;
    let wheel = std::fs::read_dir(&folder)
        .map_err(|error| error.to_string())?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or("pip fetched no wheel")?;
    python(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&folder))?;
    // Another run may have been quicker; then its copy serves.
    if std::fs::rename(&folder, workplace().join("nvidia-cufile")).is_err() {
        let _ = std::fs::remove_dir_all(&folder);
    }
    if library.exists() { Ok(library) } else { Err("the package holds no libcufile".to_string()) }
}

fn python(command: &mut Command) -> Result<(), String> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("python3: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(format!("nvidia-cufile cannot be had: {}", words.lines().last().unwrap_or("pip failed")))
}
