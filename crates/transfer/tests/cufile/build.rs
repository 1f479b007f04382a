//! Requirements of the scenarios in addition to Rust: the double and shims compiled with `cc`, and
//! NVIDIA's library from its Python packages. All of it is in the target folder, built at most once
//! per run.

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
    match own.is_dir() {
        true => own,
        false => package.join("crates/transfer/tests/cufile/double"),
    }
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
    compile(&[&version], &["cufile.c", "cuda.c", "streams.c"], &library)?;
    link(&library, &["libcuda.so", "libcuda.so.1", "libcufile.so.0"])?;
    Ok(folder)
}

/// The folder of a libcuda for NVIDIA's libcufile where there is no GPU, or why there is none.
#[allow(dead_code, reason = "the tests of all wheels use it")]
pub(crate) fn stand_in() -> Result<PathBuf, String> {
    let folder = workplace().join("stand-in");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let library = folder.join("libstandin.so");
    compile(&[], &["stand_in.c", "cuda.c", "stand_in_streams.c"], &library)?;
    link(&library, &["libcuda.so", "libcuda.so.1"])?;
    Ok(folder)
}

/// Gives a library more names in its folder.
fn link(library: &Path, names: &[&str]) -> Result<(), String> {
    for name in names {
        let link = library.with_file_name(name);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(library, link).map_err(|error| error.to_string())?;
    }
    Ok(())
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

/// The shim that has reads and writes of files fail, or why there is none.
#[allow(dead_code, reason = "the tests of all wheels and of the whole program use it")]
pub(crate) fn io_trouble() -> Result<PathBuf, String> {
    preloaded("io_trouble")
}

/// The shim that shows entries of udev's database, or why there is none.
#[allow(dead_code, reason = "the tests of all wheels use it")]
pub(crate) fn udev() -> Result<PathBuf, String> {
    preloaded("udev")
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
        .args(["-ldl", "-lpthread"])
        .output()
        .map_err(|error| format!("no C compiler (`cc`): {error}"))?;
    if !output.status.success() {
        return Err(format!("cc: {}", String::from_utf8_lossy(&output.stderr)));
    }
    std::fs::rename(fresh, library).map_err(|error| error.to_string())
}

/// NVIDIA's newest libcufile, fetched with pip unless it is here already, or why it cannot be had.
pub(crate) fn real_library() -> Result<PathBuf, String> {
    static LIBRARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    LIBRARY.get_or_init(|| wheel("nvidia-cufile", "nvidia-cufile>=1.16")).clone()
}

/// The libcufile of the wheel that meets `requirement`, which lies in the folder `name` once it
/// has been fetched with pip; or why it cannot be had.
pub(crate) fn wheel(name: &str, requirement: &str) -> Result<PathBuf, String> {
    let place = workplace().join(name);
    if let Some(library) = library_below(&place) {
        return Ok(library);
    }
    let folder = workplace().join(format!("{name}.{}", std::process::id()));
    let fetched = fetch(requirement, &folder);
    // Another run may have been quicker; then its copy serves.
    if fetched.is_err() || std::fs::rename(&folder, &place).is_err() {
        let _ = std::fs::remove_dir_all(&folder);
    }
    fetched?;
    library_below(&place).ok_or_else(|| "the package holds no libcufile".to_string())
}

/// The library, in another folder in packages of CUDA 12 than of CUDA 13.
fn library_below(place: &Path) -> Option<PathBuf> {
    ["cu13", "cufile"]
        .map(|part| place.join("nvidia").join(part).join("lib/libcufile.so.0"))
        .into_iter()
        .find(|library| library.exists())
}

/// Has pip fetch a wheel into `folder`, and unpacks it there.
fn fetch(requirement: &str, folder: &Path) -> Result<(), String> {
    let pip = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"];
    let limits = ["--timeout", "10", "--retries", "0", "--only-binary=:all:", "--dest"];
    python(Command::new("python3").args(pip).args(limits).arg(folder).arg(requirement))?;
    let wheel = std::fs::read_dir(folder)
        .map_err(|error| error.to_string())?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or("pip fetched no wheel")?;
    python(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(folder))
}

fn python(command: &mut Command) -> Result<(), String> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("python3: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "nvidia-cufile cannot be downloaded: {}",
        words.lines().last().unwrap_or("pip failed")
    ))
}
