//! The child's side of the probe: step by step, announcing each before it begins.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use libloading::Library;
use stormlp_core::facts::{AcceleratorFacts, Availability, GpuPart};
use stormlp_core::operation::Direction;

use super::log::LogMark;
use super::message::{CuFileProbe, CudaProbe, MARK, Message, OPENS_DRIVER, USES_FOLDER};
use crate::cuda;
use crate::cufile::buffer::Registration;
use crate::cufile::driver::{Driver, Settings};
use crate::cufile::error::CuFileError;
use crate::cufile::handle::FileHandle;
use crate::cufile::loader::{Api, located};
use crate::cufile::nvidia::SEE_LOG;
use crate::signals;
use crate::telemetry;

/// The child's side: runs the checks and reports on standard output. Never returns an error;
/// failures are part of the report.
pub fn child_main(folder: Option<&Path>) {
    // Signals that end the parent end this process too, but not in the middle of a file; block
    // them before a library starts threads.
    let _ = signals::mask(libc::SIG_BLOCK, &[libc::SIGINT, libc::SIGTERM, libc::SIGHUP]);
    end_with_parent(true);
    let mut probe = CuFileProbe::unavailable("the probe gave no result", "");
    let mark = LogMark::now();
    if let Err(error) = find_out(&mut probe, folder) {
        probe.driver = unavailable(&error.to_string(), &error, mark);
    }
    tell(&Message::Found(Box::new(probe)));
}

/// The failure as text. The library's log since `mark` comes after the remedy, which a short
/// footnote keeps then.
fn unavailable(fact: &str, error: &CuFileError, mark: LogMark) -> Availability {
    // The log is removed with the probe; its lines are quoted.
    let remedy = match error.remedy() {
        SEE_LOG => "use the paths that do not need cuFile",
        text => text,
    };
    Availability::unavailable(fact, mark.quote(remedy))
}

/// Sets whether this process is killed when its parent ends: otherwise a spinning one would never
/// stop.
fn end_with_parent(ends: bool) {
    let signal = ends.then_some(rustix::process::Signal::KILL);
    let _ = rustix::process::set_parent_process_death_signal(signal);
}

/// Prints one line for the parent.
fn tell(message: &Message) {
    let json = serde_json::to_string(message).expect("the probe's messages are plain data");
    let mut stdout = io::stdout().lock();
    // A dead parent does not read; the death signal is on its way.
    let _ = writeln!(stdout, "\n{MARK}{json}").and_then(|()| stdout.flush());
}

/// Runs the steps, announcing each before it begins.
fn find_out(probe: &mut CuFileProbe, folder: Option<&Path>) -> Result<(), CuFileError> {
    let begin = |step: &str| tell(&Message::Begins(step.to_string()));
    begin("listing CUDA's devices");
    probe.cuda = ask_cuda();
    tell(&Message::Found(Box::new(probe.clone())));
    begin("loading libcufile");
    probe.candidates = Api::candidates().to_vec();
    let api = Api::get()?;
    probe.library_version = Some(api.version().to_string());
    probe.library_path = Some(api.path().to_path_buf());
    tell(&Message::Found(Box::new(probe.clone())));
    begin(OPENS_DRIVER);
    let driver = Driver::open(&Settings::default())?;
    probe.driver = Availability::Available;
    if let Ok(properties) = driver.properties() {
        probe.says = properties.describe();
        probe.per_buffer_cache_bytes = Some(properties.per_buffer_cache_bytes);
    }
    probe.compat_mode_allowed = driver.fallback_allowed();
    probe.limits = Some(driver.limits());
    probe.says.extend_from_slice(driver.routes());
    probe.says.extend(driver.parameters());
    probe.says.extend(driver.lacks_p2pdma.clone());
    tell(&Message::Found(Box::new(probe.clone())));
    if let Some(folder) = folder {
        begin(USES_FOLDER);
        probe.folder = use_folder(&driver, folder);
        tell(&Message::Found(Box::new(probe.clone())));
    }
    begin("cuFileDriverClose");
    drop(driver);
    Ok(())
}

/// Queries CUDA without creating a context.
fn ask_cuda() -> CudaProbe {
    let mut found = CudaProbe { version: cuda::driver_version().ok(), ..CudaProbe::default() };
    match cuda::devices() {
        Ok(devices) => found.devices = devices.into_iter().map(with_state).collect(),
        Err(error) => found.problem = Some(error.to_string()),
    }
    if cuda::present() {
        // The name under which it was found; the handle shares the library that CUDA's calls have
        // opened.
        // SAFETY: CUDA's library is open already, so no code of it runs now.
        found.library_path = unsafe { Library::new("libcuda.so.1") }
            .ok()
            .and_then(|library| located(&library, "cuInit"));
    }
    found
}

/// A GPU with its free memory, and whether it is virtual, as far as NVML reports them: figures of a
/// slice's GPU are not the slice's.
fn with_state(gpu: AcceleratorFacts) -> AcceleratorFacts {
    let address = gpu.pci_address.as_deref().filter(|_| gpu.part.is_none());
    match address.and_then(telemetry::gpu_state) {
        None => gpu,
        Some(state) => AcceleratorFacts {
            free_memory_bytes: Some(state.free_bytes),
            part: state.is_virtual.then_some(GpuPart::Virtual),
            bar1_bytes: gpu.bar1_bytes.filter(|_| !state.is_virtual),
            ..gpu
        },
    }
}

/// Whether cuFile can read a file in `folder` into host memory; `None` where no file can be made, as
/// in a dataset that is mounted read-only.
fn use_folder(driver: &Arc<Driver>, folder: &Path) -> Option<Availability> {
    let path = super::message::probe_file(folder, std::process::id());
    // The file is removed whatever happens to the parent.
    let parent = rustix::process::getppid();
    end_with_parent(false);
    let mark = LogMark::now();
    let verdict = match make_file(&path) {
        Ok(file) => Some(match read_back(driver, file) {
            Ok(()) => Availability::Available,
            Err(error) => {
                let fact = format!("cuFile rejects files in {}: {error}", folder.display());
                unavailable(&fact, &error, mark)
            }
        }),
        Err(_) => None,
    };
    // The file may not even exist.
    let _ = std::fs::remove_file(path);
    end_with_parent(true);
    if rustix::process::getppid() != parent {
        std::process::exit(1);
    }
    verdict
}

const BLOCK_BYTES: usize = 4096;
const FILL: u8 = 0x5a;

/// A file of one block, opened with `O_DIRECT` if the file system supports it.
fn make_file(path: &Path) -> io::Result<File> {
    // Created exclusively, so it cannot be a link.
    File::options()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| file.write_all(&[FILL; BLOCK_BYTES]))?;
    let mut options = File::options();
    options.read(true).write(true);
    options.custom_flags(libc::O_DIRECT).open(path).or_else(|_| options.custom_flags(0).open(path))
}

/// Registers file and memory, reads the block and verifies it.
fn read_back(driver: &Arc<Driver>, file: File) -> Result<(), CuFileError> {
    #[repr(align(4096))]
    struct Block([u8; BLOCK_BYTES]);
    let mut block = Box::new(Block([0; BLOCK_BYTES]));
    let base = block.0.as_mut_ptr().cast();
    let handle = FileHandle::register(Arc::clone(driver), file)?;
    // SAFETY: the block outlives the registration, which is dropped below, before it.
    let registration = unsafe { Registration::new(Arc::clone(driver), base, BLOCK_BYTES)? };
    // SAFETY: the registered base of a block of that many bytes, which nobody else uses.
    let moved = unsafe { handle.transfer(Direction::Read, base, 0, BLOCK_BYTES, 0) }?;
    drop(registration);
    if moved != BLOCK_BYTES || block.0.iter().any(|byte| *byte != FILL) {
        let reason = format!(
            "cuFileRead moved {moved} of {BLOCK_BYTES} bytes, or not the file's bytes, without an error"
        );
        return Err(CuFileError::unusable(reason, "do not use cuFile here; see cufile.log"));
    }
    Ok(())
}
