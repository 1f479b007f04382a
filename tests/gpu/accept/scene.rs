//! Where the run takes place: programs, folders, libraries and the time that is left.

use std::cell::{Cell, OnceCell, RefCell};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::direct::Direct;
use crate::gpu::OpenGpu;
use crate::library::{Library, Sources};
use crate::process::{Ended, run};

/// All of it is to be over by then.
const LIMIT: Duration = Duration::from_secs(590);
/// What all parts together write below the folder.
const ROOM_BYTES: u64 = 3 << 30;

/// The surroundings of the acceptance run.
pub(crate) struct Scene {
    /// Folder of `stormlp`, `gpu`, `bare` and, for runs without a GPU, the doubles.
    programs: PathBuf,
    /// Work is done here, and removed in the end.
    work: tempfile::TempDir,
    /// Where the report goes.
    pub(crate) report: PathBuf,
    /// The double that stands for the GPU, where one does.
    pub(crate) double: Option<PathBuf>,
    /// Only parts whose name contains this.
    pub(crate) only: Option<String>,
    library: Option<Library>,
    begun: Instant,
    started: Cell<u32>,
    gpu: RefCell<Option<OpenGpu>>,
    direct: OnceCell<Direct>,
}

impl Scene {
    /// Sets the scene of the command line.
    pub(crate) fn set(words: &[String]) -> Result<Self, String> {
        let value = |name: &str| {
            let at = words.iter().position(|word| word == name)?;
            words.get(at + 1).cloned()
        };
        let here = std::env::current_exe().map_err(|error| error.to_string())?;
        let beside = || here.parent().map(Path::to_path_buf).unwrap_or_default();
        // Programs run in a folder of their own, so paths are made absolute first.
        let absolute = |path: PathBuf| {
            let found = path.canonicalize();
            found.map_err(|error| format!("{}: {error}", path.display()))
        };
        let programs = absolute(value("--programs").map_or_else(beside, PathBuf::from))?;
        for name in ["stormlp", "gpu", "bare"] {
            if !programs.join(name).is_file() {
                return Err(format!(
                    "{} is missing: tests/gpu/accept/pack makes it",
                    programs.join(name).display()
                ));
            }
        }
        let emulated = words.iter().any(|word| word == "--without-gpu");
        let double = emulated.then(|| match value("--double").as_deref() {
            None | Some("13") => Ok(programs.join("double")),
            Some("12") => Ok(programs.join("double-12")),
            Some(other) => Err(format!("--double {other}: CUDA 12 or 13 has one")),
        });
        let double = double.transpose()?;
        if let Some(double) = double.as_ref().filter(|folder| !folder.exists()) {
            let folder = double.display();
            return Err(format!(
                "{folder} is missing: tests/gpu/accept/pack makes it"
            ));
        }
        let folder = absolute(value("--dir").unwrap_or(".".to_string()).into())?;
        enough_room(&folder)?;
        let work = tempfile::Builder::new()
            .prefix("stormlp-accept-")
            .tempdir_in(&folder);
        Ok(Self {
            work: work.map_err(|error| format!("{}: {error}", folder.display()))?,
            report: value("--report")
                .unwrap_or("accept-report.md".to_string())
                .into(),
            double,
            only: value("--only"),
            library: Sources::here(&programs).choose()?,
            programs,
            begun: Instant::now(),
            started: Cell::new(0),
            gpu: RefCell::new(None),
            direct: OnceCell::new(),
        })
    }

    /// Whether the double stands for the GPU.
    pub(crate) fn emulated(&self) -> bool {
        self.double.is_some()
    }

    /// The time that is left.
    pub(crate) fn left(&self) -> Duration {
        LIMIT.saturating_sub(self.begun.elapsed())
    }

    /// How many processes were started that open the GPU.
    pub(crate) fn started(&self) -> u32 {
        self.started.get()
    }

    /// A folder of its own.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.work.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// The real libcufile, where there is one.
    pub(crate) fn real_library(&self) -> Option<&Library> {
        self.library.as_ref()
    }

    /// What makes up for a missing `/proc/modules`, which some versions of the library wait for.
    pub(crate) fn shim(&self) -> Option<PathBuf> {
        let shim = self.programs.join("double/proc_modules.so");
        (!Path::new("/proc/modules").exists() && shim.exists()).then_some(shim)
    }

    /// A program with the libraries of the scene, whose double does what `fault` says.
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
        run(command.args(words.split_whitespace()))
    }

    /// The report of such a command.
    pub(crate) fn report_of(&self, words: &str) -> Result<Value, String> {
        self.stormlp(&format!("{words} --format json")).json()
    }

    /// The direct route of this machine, found out once.
    pub(crate) fn direct(&self) -> &Direct {
        self.direct.get_or_init(|| Direct::find(self))
    }

    /// The GPU, kept open from the first question on, so that no process has to wake it.
    pub(crate) fn gpu<T>(
        &self,
        ask: impl FnOnce(&mut OpenGpu) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut gpu = self.gpu.borrow_mut();
        let open = match &mut *gpu {
            Some(open) => open,
            none => none.insert(OpenGpu::open(self.program("bare", "").args(["hold", "0"]))?),
        };
        ask(open)
    }

    /// Free memory of the GPU in bytes, as CUDA says.
    pub(crate) fn free_memory(&self) -> Result<u64, String> {
        self.gpu(OpenGpu::free_bytes)
    }
}

/// Whether the folder has room for what the parts write.
fn enough_room(folder: &Path) -> Result<(), String> {
    match room(folder) {
        Some(bytes) if bytes < ROOM_BYTES => Err(format!(
            "{} has {} MiB free, and {} MiB are needed: name another folder with --dir",
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
