//! The place of the run: programs, folders, libraries and the time that is left.

use std::cell::{Cell, OnceCell, RefCell};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::clock::Clock;
use crate::direct::Direct;
use crate::gpu::{OpenGpu, free_bytes_of, is_exclusive};
use crate::library::{Library, Sources};
use crate::options::{Double, Options};
use crate::preflight::{Preflight, nvidia_smi};
use crate::process::{Ended, LIMIT, Running, run};
use crate::report::Report;

/// All of it is to be over by then.
const TIME: Duration = Duration::from_secs(590);
/// Bytes that all parts together write below the folder.
const ROOM_BYTES: u64 = 3 << 30;

/// The surroundings of the acceptance run.
pub(crate) struct Scene {
    /// Folder of `stormlp`, `gpu`, `bare` and, for runs without a GPU, the doubles.
    programs: PathBuf,
    /// Work is done here, and removed in the end.
    work: tempfile::TempDir,
    /// The double that stands for the GPU, where one does.
    pub(crate) double: Option<PathBuf>,
    library: Option<Library>,
    pub(crate) clock: Clock,
    started: Cell<u32>,
    /// Whether only one process at a time may open the GPU, so that none keeps it open.
    pub(crate) exclusive: bool,
    gpu: RefCell<Option<OpenGpu>>,
    opened_in: OnceCell<Duration>,
    direct: OnceCell<Direct>,
    preflight: OnceCell<Preflight>,
    /// Where raw reports, logs and the driver's facts are kept.
    raw: PathBuf,
}

impl Scene {
    /// Sets the scene of the command line.
    pub(crate) fn set(options: &Options) -> Result<Self, String> {
        let here = std::env::current_exe().map_err(|error| error.to_string())?;
        let beside = || here.parent().map(Path::to_path_buf).unwrap_or_default();
        // Programs run in a separate folder, so paths are made absolute first.
        let absolute = |path: PathBuf| {
            let found = path.canonicalize();
            found.map_err(|error| format!("{}: {error}", path.display()))
        };
        let programs = absolute(options.programs.clone().unwrap_or_else(beside))?;
        for name in ["stormlp", "gpu", "bare"] {
            if !programs.join(name).is_file() {
                return Err(format!(
                    "{} is missing: tests/gpu/accept/pack builds it",
                    programs.join(name).display()
                ));
            }
        }
        let double = options.without_gpu.then(|| match options.double {
            Double::Cuda13 => programs.join("double"),
            Double::Cuda12 => programs.join("double-12"),
        });
        if let Some(double) = double.as_ref().filter(|folder| !folder.exists()) {
            let folder = double.display();
            return Err(format!("{folder} is missing: tests/gpu/accept/pack builds it"));
        }
        let folder = absolute(options.dir.clone())?;
        enough_room(&folder)?;
        let work = tempfile::Builder::new().prefix("stormlp-accept-").tempdir_in(&folder);
        Ok(Self {
            work: work.map_err(|error| format!("{}: {error}", folder.display()))?,
            exclusive: !options.without_gpu && is_exclusive(),
            double,
            library: Sources::here(&programs).choose()?,
            programs,
            clock: Clock::new(TIME),
            started: Cell::new(0),
            gpu: RefCell::new(None),
            opened_in: OnceCell::new(),
            direct: OnceCell::new(),
            preflight: OnceCell::new(),
            raw: std::path::absolute(options.report.with_extension("raw"))
                .map_err(|error| error.to_string())?,
        })
    }

    /// Whether the double stands for the GPU.
    pub(crate) fn emulated(&self) -> bool {
        self.double.is_some()
    }

    /// Where the work is done.
    pub(crate) fn work(&self) -> &Path {
        self.work.path()
    }

    /// Runs a command to its end while there is time.
    pub(crate) fn run(&self, command: &mut Command) -> Ended {
        self.clock.run(command, LIMIT)
    }

    /// Starts a command while there is time.
    pub(crate) fn start(&self, command: &mut Command) -> Result<Running, String> {
        self.clock.start(command)
    }

    /// How many processes were started that open the GPU.
    pub(crate) fn started(&self) -> u32 {
        self.started.get()
    }

    /// A separate folder.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.work.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// The real libcufile, where there is one.
    pub(crate) fn real_library(&self) -> Option<&Library> {
        self.library.as_ref()
    }

    /// A substitute for a missing `/proc/modules`, which some versions of the library wait for.
    pub(crate) fn shim(&self) -> Option<PathBuf> {
        let shim = self.programs.join("double/proc_modules.so");
        (!Path::new("/proc/modules").exists() && shim.exists()).then_some(shim)
    }

    /// A program with the libraries of the scene and a double that fails as `fault` says.
    pub(crate) fn program(&self, name: &str, fault: &str) -> Command {
        match &self.double {
            None => self.with_library(name, self.library.as_ref()),
            Some(double) => {
                let mut command = self.bare_program(name);
                command.env("STORMLP_LIBCUFILE", double.join("libcufile.so.0"));
                command.env("LD_LIBRARY_PATH", double);
                command.env("DOUBLE_FAULT", fault);
                command
            }
        }
    }

    /// A program with the real library on host memory, where there is one.
    pub(crate) fn on_host_memory(&self, name: &str) -> Option<Command> {
        Some(self.with_library(name, Some(self.real_library()?)))
    }

    fn with_library(&self, name: &str, library: Option<&Library>) -> Command {
        let mut command = self.bare_program(name);
        if let Some(library) = library {
            command.env("STORMLP_LIBCUFILE", &library.path);
        }
        if let Some(shim) = self.shim() {
            command.env("LD_PRELOAD", shim);
        }
        command
    }

    fn bare_program(&self, name: &str) -> Command {
        self.started.set(self.started.get() + 1);
        let mut command = Command::new(self.programs.join(name));
        command.current_dir(self.work.path());
        command
    }

    /// Words of `stormlp`, the double taking the direct route.
    pub(crate) fn stormlp(&self, words: &str) -> Ended {
        let mut command = self.program("stormlp", "direct");
        self.run(command.args(words.split_whitespace()))
    }

    /// The report of such a command.
    pub(crate) fn report_of(&self, words: &str) -> Result<Value, String> {
        self.stormlp(&format!("{words} --format json")).json()
    }

    /// The direct route of this machine, found out once.
    pub(crate) fn direct(&self) -> &Direct {
        self.direct
            .get_or_init(|| Direct::find(&self.folder("direct"), |words| self.report_of(words)))
    }

    /// The machine's features, looked up and reported once.
    pub(crate) fn look_before(&self, report: &mut Report) -> &Preflight {
        self.preflight.get_or_init(|| {
            let doctor = self.stormlp("doctor . --format json");
            self.keep("doctor.json", &doctor.stdout);
            self.keep("nvidia-smi.txt", &nvidia_smi());
            Preflight::look(doctor.json(), report)
        })
    }

    /// The findings before the parts.
    pub(crate) fn preflight(&self) -> Preflight {
        self.preflight.get().cloned().unwrap_or_default()
    }

    /// Keeps a text next to the report; a text that cannot be written is missing there.
    pub(crate) fn keep(&self, name: &str, text: &str) {
        let _ = fs::create_dir_all(&self.raw).and_then(|()| fs::write(self.raw.join(name), text));
    }

    /// Keeps the saved reports and logs of all runs so far, wherever in this folder they are; the
    /// folder that has them, if any.
    pub(crate) fn keep_results(&self) -> Option<PathBuf> {
        let mut left = vec![self.work().to_path_buf()];
        while let Some(place) = left.pop() {
            let below = fs::read_dir(&place).into_iter().flatten().flatten();
            left.extend(below.map(|entry| entry.path()).filter(|path| path.is_dir()));
            let Some(run) = place.file_name().filter(|_| place.join("report.json").is_file())
            else {
                continue;
            };
            let folder = self.raw.join(run);
            for name in ["report.json", "cufile.log"] {
                let from = place.join(name);
                if from.is_file() && fs::create_dir_all(&folder).is_ok() {
                    let _ = fs::copy(from, folder.join(name));
                }
            }
        }
        self.raw.is_dir().then(|| self.raw.clone())
    }

    /// Free memory of the GPU in bytes, as CUDA says. The first question opens the GPU, which stays
    /// open so that no process has to wake it, unless only one process may have it.
    pub(crate) fn free_memory(&self) -> Result<u64, String> {
        self.clock.check()?;
        if self.exclusive {
            let mut command = self.program("bare", "");
            return free_bytes_of(&self.run(command.args(["memory", "0"])).json()?);
        }
        let mut gpu = self.gpu.borrow_mut();
        let open = match &mut *gpu {
            Some(open) => open,
            none => none.insert(OpenGpu::open(self.program("bare", "").args(["hold", "0"]))?),
        };
        open.free_bytes()
    }

    /// The same while another process has the GPU open; `None` where it must not be disturbed.
    pub(crate) fn free_memory_beside(&self) -> Option<u64> {
        (!self.exclusive).then(|| self.free_memory().ok())?
    }

    /// How long the first process took to open the GPU.
    pub(crate) fn opened_in(&self) -> Result<Duration, String> {
        if let Some(known) = self.opened_in.get() {
            return Ok(*known);
        }
        let begun = Instant::now();
        self.free_memory()?;
        Ok(*self.opened_in.get_or_init(|| begun.elapsed()))
    }
}

/// Whether the folder has room for the bytes of the parts.
fn enough_room(folder: &Path) -> Result<(), String> {
    match room(folder) {
        Some(bytes) if bytes < ROOM_BYTES => Err(format!(
            "{} has {} MiB free, but {} MiB are needed: name another folder with --dir",
            folder.display(),
            bytes >> 20,
            ROOM_BYTES >> 20
        )),
        _ => Ok(()),
    }
}

/// Free bytes of a file system; `None` where it is not told.
pub(crate) fn room(folder: &Path) -> Option<u64> {
    let told = run(Command::new("df").arg("-Pk").arg(folder));
    let line = told.stdout.lines().nth(1)?;
    let kib: u64 = line.split_whitespace().nth(3)?.parse().ok()?;
    Some(kib << 10)
}
