//! Where the run takes place: programs, folders, libraries and the time that is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// All of it is to be over by then.
const LIMIT: Duration = Duration::from_secs(590);
/// One command is killed after this.
const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// The surroundings of the acceptance run.
pub(crate) struct Scene {
    /// Folder of `stormlp`, `gpu`, `bare` and, for runs without a GPU, `double`.
    programs: PathBuf,
    /// Work is done here, and removed in the end.
    work: tempfile::TempDir,
    /// Where the report goes.
    pub(crate) report: PathBuf,
    /// Whether the double stands for the GPU.
    pub(crate) emulated: bool,
    /// Only parts whose name contains this.
    pub(crate) only: Option<String>,
    library: Option<PathBuf>,
    begun: Instant,
}

/// How a command ended.
pub(crate) struct Ended {
    /// Its exit code; `None` where a signal ended it, or the limit.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The report it printed, or what it said instead.
    pub(crate) fn json(&self) -> Result<Value, String> {
        match (self.code, serde_json::from_str(&self.stdout)) {
            (Some(0), Ok(value)) => Ok(value),
            _ => Err(format!("exit code {:?}: {}", self.code, self.last_words())),
        }
    }

    /// The end of what it said on standard error.
    pub(crate) fn last_words(&self) -> String {
        let lines: Vec<&str> = self
            .stderr
            .lines()
            .filter(|l| !l.trim().is_empty())
            .collect();
        lines[lines.len().saturating_sub(3)..].join(" / ")
    }
}

impl Scene {
    /// Sets the scene of the command line.
    pub(crate) fn set(words: &[String]) -> Result<Self, String> {
        let value = |name: &str| {
            let at = words.iter().position(|word| word == name)?;
            words.get(at + 1).cloned()
        };
        let here = std::env::current_exe().map_err(|error| error.to_string())?;
        let programs = value("--programs").map_or_else(
            || here.parent().map(Path::to_path_buf).unwrap_or_default(),
            PathBuf::from,
        );
        for name in ["stormlp", "gpu", "bare"] {
            if !programs.join(name).is_file() {
                return Err(format!(
                    "{} is missing: tests/gpu/accept/pack makes it",
                    programs.join(name).display()
                ));
            }
        }
        let folder = value("--dir").map_or_else(|| PathBuf::from("."), PathBuf::from);
        let work = tempfile::Builder::new()
            .prefix("stormlp-accept-")
            .tempdir_in(&folder);
        let emulated = words.iter().any(|word| word == "--without-gpu");
        if emulated && !programs.join("double/libcufile.so.0").exists() {
            return Err("there is no double: tests/gpu/accept/pack makes it".to_string());
        }
        Ok(Self {
            work: work.map_err(|error| format!("{}: {error}", folder.display()))?,
            report: value("--report")
                .unwrap_or("accept-report.md".to_string())
                .into(),
            emulated,
            only: value("--only"),
            library: real_library(&programs),
            programs,
            begun: Instant::now(),
        })
    }

    /// The time that is left.
    pub(crate) fn left(&self) -> Duration {
        LIMIT.saturating_sub(self.begun.elapsed())
    }

    /// A folder of its own.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.work.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// The real libcufile, where there is one.
    pub(crate) fn real_library(&self) -> Option<&Path> {
        self.library.as_deref()
    }

    /// What makes up for a missing `/proc/modules`, which some versions of the library wait for.
    pub(crate) fn shim(&self) -> Option<PathBuf> {
        let shim = self.programs.join("double/proc_modules.so");
        (!Path::new("/proc/modules").exists() && shim.exists()).then_some(shim)
    }

    /// A program with the libraries of the scene, whose double does what `fault` says.
    pub(crate) fn program(&self, name: &str, fault: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir(self.work.path());
        if self.emulated {
            let double = self.programs.join("double");
            command.env("STORMLP_LIBCUFILE", double.join("libcufile.so.0"));
            command.env("LD_LIBRARY_PATH", double);
            command.env("DOUBLE_FAULT", fault);
        } else {
            self.library.iter().for_each(|library| {
                command.env("STORMLP_LIBCUFILE", library);
            });
            self.shim().iter().for_each(|shim| {
                command.env("LD_PRELOAD", shim);
            });
        }
        command
    }

    /// A program with the real library on host memory, where there is one.
    pub(crate) fn on_host_memory(&self, name: &str) -> Option<Command> {
        let library = self.real_library()?;
        let mut command = Command::new(self.programs.join(name));
        command.current_dir(self.work.path());
        command.env("STORMLP_LIBCUFILE", library);
        if let Some(shim) = self.shim() {
            command.env("LD_PRELOAD", shim);
        }
        Some(command)
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

    /// Free memory of the GPU in bytes, as CUDA says.
    pub(crate) fn free_memory(&self) -> Result<u64, String> {
        let told = run(self.program("bare", "").args(["memory", "0"])).json()?;
        told["free_bytes"]
            .as_u64()
            .ok_or("it does not say".to_string())
    }
}

/// Runs a command to its end, or to the limit.
pub(crate) fn run(command: &mut Command) -> Ended {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    match command.spawn() {
        Ok(child) => attend(child, COMMAND_LIMIT),
        Err(error) => Ended {
            code: None,
            stdout: String::new(),
            stderr: format!("{}: {error}", command.get_program().display()),
        },
    }
}

/// Waits for a child that was started with pipes; kills it at the limit.
pub(crate) fn attend(child: Child, limit: Duration) -> Ended {
    let id = child.id();
    let waits = std::thread::spawn(move || child.wait_with_output());
    let begun = Instant::now();
    while !waits.is_finished() {
        if begun.elapsed() > limit {
            signal(id, "KILL");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match waits.join().unwrap() {
        Ok(Output {
            status,
            stdout,
            stderr,
        }) => Ended {
            code: status.code(),
            stdout: text(stdout),
            stderr: text(stderr),
        },
        Err(error) => Ended {
            code: None,
            stdout: String::new(),
            stderr: error.to_string(),
        },
    }
}

/// Sends a signal to a process of ours.
pub(crate) fn signal(process: u32, name: &str) {
    let _ = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(process.to_string())
        .status();
}

/// The library that the environment names, that lies with the programs, or in a Python package.
fn real_library(programs: &Path) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("STORMLP_LIBCUFILE") {
        return Some(PathBuf::from(named));
    }
    let carried = programs.join("libcufile.so.0");
    if carried.exists() {
        return Some(carried);
    }
    let found = Command::new("sh")
        .args(["-c", FIND_LIBRARY])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&found.stdout);
    text.lines()
        .next()
        .map(PathBuf::from)
        .filter(|path| path.exists())
}

/// Where toolkits and Python packages have it; what the loader finds by itself comes first.
const FIND_LIBRARY: &str = "\
ldconfig -p | sed -n 's/.*libcufile.so.0.*=> //p' | head -1
ls -d /usr/local/cuda*/targets/*/lib/libcufile.so.0 /usr/local/cuda*/lib64/libcufile.so.0 | head -1
ls -d /usr/lib/python3*/*-packages /usr/local/lib/python3*/*-packages \"$HOME\"/.local/lib/python3*/site-packages \
  /opt/*/lib/python3*/site-packages /opt/*/*/lib/python3*/site-packages 2>/dev/null | while read -r folder; do
  ls \"$folder\"/nvidia/cu13/lib/libcufile.so.0 \"$folder\"/nvidia/cufile/lib/libcufile.so.0; done 2>/dev/null | head -1";
