//! Finds out what cuFile can do here, in a child process with a time limit.
//!
//! `cuFileDriverOpen` of libcufile 1.16 to 1.20 spins for ever where `/proc/modules` is missing,
//! and a broken driver stack can do worse. So the own executable is started again with
//! [`ARGUMENT`]; the child loads the library, opens the driver and, given a folder, registers a
//! file there and reads it into host memory. What the child did decides; a file that exists or
//! not proves nothing.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use stormlp_model::facts::Availability;
use stormlp_model::operation::Direction;

use super::buffer::Registration;
use super::driver::{Driver, Settings};
use super::error::CuFileError;
use super::handle::FileHandle;
use super::loader::Api;
use super::log::LOG_VARIABLE;

/// The hidden first argument that makes the executable the child: the caller of [`run`] has to
/// hand it on to [`child_main`], with the folder (if any) as the second argument.
pub const ARGUMENT: &str = "__probe-cufile";

/// Long enough for a driver that takes its time, short enough for a person.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);

/// What marks the child's lines among what libraries print.
const MARK: &str = "stormlp-cufile-probe ";

/// What the child had begun when it last spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Before the library was opened.
    Start,
    /// Opening the library.
    Load,
    /// `cuFileDriverOpen`.
    OpenDriver,
    /// Registering a file of the folder and reading it.
    UseFolder,
    /// Closing the driver.
    CloseDriver,
}

impl Step {
    /// The step in words.
    fn words(self) -> &'static str {
        match self {
            Self::Start => "the start of the probe",
            Self::Load => "loading libcufile",
            Self::OpenDriver => "cuFileDriverOpen",
            Self::UseFolder => "the transfer in the data folder",
            Self::CloseDriver => "cuFileDriverClose",
        }
    }
}

/// What the child found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CuFileProbe {
    /// Whether cuFile can be used: the library loads and its driver opens and closes.
    pub driver: Availability,
    /// Whether cuFile takes files of the folder that was asked about; `None` without a folder
    /// or without a driver.
    pub folder: Option<Availability>,
    /// Version of the library, `1.16`.
    pub library_version: Option<String>,
    /// Where the library was found.
    pub library_path: Option<PathBuf>,
    /// Version of nvidia-fs, `2.24`; `None` when it is not loaded.
    pub nvfs_version: Option<String>,
    /// Whether cuFile may fall back to POSIX calls.
    pub compat_mode_allowed: Option<bool>,
    /// What the driver says of itself, one property each.
    pub properties: Vec<String>,
    /// Direct routes for each kind of target, `nvme: p2pdma, nvfs`.
    pub routes: Vec<String>,
    /// Settings that bear on the route and the speed.
    pub parameters: Vec<String>,
}

impl CuFileProbe {
    fn unavailable(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            driver: Availability::unavailable(reason, remedy),
            folder: None,
            library_version: None,
            library_path: None,
            nvfs_version: None,
            compat_mode_allowed: None,
            properties: Vec::new(),
            routes: Vec::new(),
            parameters: Vec::new(),
        }
    }

    /// Whether the cuFile paths can run on the folder that was asked about.
    pub fn availability(&self) -> Availability {
        match (&self.driver, &self.folder) {
            (Availability::Available, Some(folder)) => folder.clone(),
            (driver, _) => driver.clone(),
        }
    }
}

/// What the child says, a line each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    /// It begins a step.
    Begins(Step),
    /// What it knows so far; the last one counts.
    Found(Box<CuFileProbe>),
}

/// Asks a child process, `exe` with [`ARGUMENT`], what cuFile can do here and in `folder`.
///
/// Returns within `time_limit` and a little; a child that hangs is killed.
pub fn run(exe: &Path, folder: Option<&Path>, time_limit: Duration) -> CuFileProbe {
    let mut command = Command::new(exe);
    command.arg(ARGUMENT).args(folder);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if std::env::var_os(LOG_VARIABLE).is_none() {
        // The probe's log interests nobody, and would lie in the current directory.
        command.env(LOG_VARIABLE, "/dev/null");
    }
    match command.spawn().and_then(|child| attend(child, time_limit)) {
        Ok(ended) => judge(&ended, time_limit),
        Err(error) => CuFileProbe::unavailable(
            format!(
                "the probe of cuFile, {} {ARGUMENT}, could not run: {error}",
                exe.display()
            ),
            "check that processes can be started here",
        ),
    }
}

/// What is left of a child.
struct Ended {
    /// `None`: it had to be killed.
    status: Option<ExitStatus>,
    stdout: String,
    stderr: String,
}

/// Waits for the end of the child, by itself or at the limit.
fn attend(mut child: Child, time_limit: Duration) -> io::Result<Ended> {
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    let deadline = Instant::now() + time_limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = |thread: Option<JoinHandle<String>>| {
        thread
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    };
    Ok(Ended {
        status,
        stdout: text(stdout),
        stderr: text(stderr),
    })
}

/// Reads a pipe to its end beside the waiting, so that the child never blocks on a full one.
fn collect(mut pipe: impl io::Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth reading.
        let _ = pipe.by_ref().take(1 << 20).read_to_end(&mut bytes);
        let _ = io::copy(&mut pipe, &mut io::sink());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// What the child's words and its end amount to.
fn judge(ended: &Ended, time_limit: Duration) -> CuFileProbe {
    let mut step = Step::Start;
    let mut found = None;
    let messages = ended
        .stdout
        .lines()
        .filter_map(|line| line.split_once(MARK));
    for message in messages.filter_map(|(_, json)| serde_json::from_str(json).ok()) {
        match message {
            Message::Begins(begun) => step = begun,
            Message::Found(probe) => found = Some(*probe),
        }
    }
    let mut probe = found.unwrap_or_else(|| CuFileProbe::unavailable("nothing was found out", ""));
    let trouble = match ended.status {
        Some(status) if status.success() => {
            let noise = ended.stdout.lines().filter(|line| !line.contains(MARK));
            add_library_words(&mut probe.driver, noise.chain(ended.stderr.lines()));
            return probe;
        }
        Some(status) => format!("the probe died in {} ({status})", step.words()),
        None => format!(
            "{} did not return within {} s{}",
            step.words(),
            time_limit.as_secs_f64(),
            hint_on_hanging(step)
        ),
    };
    let remedy = "mend or remove the NVIDIA driver stack, or name another library with \
                  STORMLP_LIBCUFILE; the other paths do not need cuFile";
    let verdict = Availability::unavailable(trouble, remedy);
    if step == Step::UseFolder {
        probe.folder = Some(verdict);
    } else {
        probe.driver = verdict;
    }
    probe
}

/// What is known to make a step hang.
fn hint_on_hanging(step: Step) -> &'static str {
    if step == Step::OpenDriver && !Path::new("/proc/modules").exists() {
        " (/proc/modules is missing here, which libcufile 1.16 to 1.20 waits for)"
    } else {
        ""
    }
}

/// Adds what the library printed about a failure, such as the place of a syntax error; it uses
/// standard output as well as standard error.
fn add_library_words<'a>(availability: &mut Availability, lines: impl Iterator<Item = &'a str>) {
    if let Availability::Unavailable { reason, .. } = availability {
        let words: Vec<&str> = lines
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .take(4)
            .collect();
        if !words.is_empty() {
            *reason = format!("{reason}; libcufile said: {}", words.join("; "));
        }
    }
}

/// The child's side: finds out and tells on standard output. Never returns an error; what went
/// wrong is what it tells.
pub fn child_main(folder: Option<&Path>) {
    // Nobody would be left to stop a child that spins when its parent is killed.
    let kill = Some(rustix::process::Signal::KILL);
    let _ = rustix::process::set_parent_process_death_signal(kill);
    let mut probe = CuFileProbe::unavailable("nothing was found out", "");
    if let Err(error) = find_out(&mut probe, folder) {
        probe.driver = Availability::unavailable(error.to_string(), error.remedy());
    }
    tell(&Message::Found(Box::new(probe)));
}

/// Prints one line for the parent.
fn tell(message: &Message) {
    let json = serde_json::to_string(message).expect("the probe's messages are plain data");
    let mut stdout = io::stdout().lock();
    // A parent that is gone reads nothing; the death signal is on its way.
    let _ = writeln!(stdout, "\n{MARK}{json}").and_then(|()| stdout.flush());
}

/// Goes through the steps, telling each before it begins.
fn find_out(probe: &mut CuFileProbe, folder: Option<&Path>) -> Result<(), CuFileError> {
    tell(&Message::Begins(Step::Load));
    let api = Api::get()?;
    probe.library_version = Some(api.version().to_string());
    probe.library_path = Some(api.path().to_path_buf());
    tell(&Message::Found(Box::new(probe.clone())));
    tell(&Message::Begins(Step::OpenDriver));
    let driver = Driver::open(&Settings::default())?;
    probe.driver = Availability::Available;
    if let Ok(properties) = driver.properties() {
        probe.properties = properties.describe();
        probe.nvfs_version = properties
            .nvfs_version()
            .map(|(major, minor)| format!("{major}.{minor}"));
    }
    probe.compat_mode_allowed = driver.compat_mode_allowed();
    probe.routes = driver.routes();
    probe.parameters = driver.parameters();
    tell(&Message::Found(Box::new(probe.clone())));
    if let Some(folder) = folder {
        tell(&Message::Begins(Step::UseFolder));
        probe.folder = Some(use_folder(&driver, folder));
        tell(&Message::Found(Box::new(probe.clone())));
    }
    tell(&Message::Begins(Step::CloseDriver));
    drop(driver);
    Ok(())
}

/// Whether cuFile reads a file of `folder` into host memory.
fn use_folder(driver: &std::sync::Arc<Driver>, folder: &Path) -> Availability {
    let path = folder.join(format!(".stormlp-cufile-probe-{}", std::process::id()));
    let verdict = match probe_file(&path) {
        Ok(file) => match read_back(driver, file) {
            Ok(()) => Availability::Available,
            Err(error) => Availability::unavailable(
                format!(
                    "cuFile does not take a file in {}: {error}",
                    folder.display()
                ),
                error.remedy(),
            ),
        },
        Err(error) => Availability::unavailable(
            format!("no file could be made in {}: {error}", folder.display()),
            "choose a folder that can be written",
        ),
    };
    // The file may not even be there.
    let _ = std::fs::remove_file(path);
    verdict
}

const BLOCK_BYTES: usize = 4096;
const FILL: u8 = 0x5a;

/// A file of one block, opened directly where the file system can.
fn probe_file(path: &Path) -> io::Result<File> {
    std::fs::write(path, [FILL; BLOCK_BYTES])?;
    let mut options = File::options();
    options.read(true).write(true);
    options
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .or_else(|_| options.custom_flags(0).open(path))
}

/// Registers file and memory, reads the block, looks at it.
fn read_back(driver: &std::sync::Arc<Driver>, file: File) -> Result<(), CuFileError> {
    #[repr(align(4096))]
    struct Block([u8; BLOCK_BYTES]);
    let mut block = Box::new(Block([0; BLOCK_BYTES]));
    let base = block.0.as_mut_ptr().cast();
    let handle = FileHandle::register(std::sync::Arc::clone(driver), file)?;
    // SAFETY: the block outlives the registration, which is dropped below, before it.
    let registration =
        unsafe { Registration::new(std::sync::Arc::clone(driver), base, BLOCK_BYTES)? };
    // SAFETY: the registered base of a block of that many bytes, which nobody else uses.
    let moved = unsafe { handle.transfer(Direction::Read, base, 0, BLOCK_BYTES, 0) }?;
    drop(registration);
    if moved != BLOCK_BYTES || block.0.iter().any(|byte| *byte != FILL) {
        return Err(CuFileError::WrongData { moved });
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn ended(status: Option<i32>, stdout: &str, stderr: &str) -> Ended {
        use std::os::unix::process::ExitStatusExt as _;
        Ended {
            status: status.map(ExitStatus::from_raw),
            stdout: stdout.to_string(),
            stderr: stderr.to_string(),
        }
    }

    fn reason(availability: &Availability) -> &str {
        match availability {
            Availability::Unavailable { reason, .. } => reason,
            Availability::Available => panic!("available"),
        }
    }

    fn line(message: &Message) -> String {
        format!("noise{MARK}{}\n", serde_json::to_string(message).unwrap())
    }

    #[test]
    fn a_child_that_hangs_is_killed_and_the_step_named() {
        let said = line(&Message::Begins(Step::OpenDriver));
        let probe = judge(&ended(None, &said, ""), Duration::from_millis(1500));
        assert!(reason(&probe.driver).starts_with("cuFileDriverOpen did not return within 1.5 s"));
    }

    #[test]
    fn a_child_that_dies_in_the_folder_leaves_the_driver_available() {
        let mut found = CuFileProbe::unavailable("", "");
        found.driver = Availability::Available;
        let said =
            line(&Message::Found(Box::new(found))) + &line(&Message::Begins(Step::UseFolder));
        let probe = judge(&ended(Some(libc::SIGSEGV), &said, ""), TIME_LIMIT);
        assert!(probe.driver.is_available());
        assert!(reason(&probe.availability()).contains("signal: 11"));
    }

    #[test]
    fn what_the_library_printed_is_handed_on() {
        let found = CuFileProbe::unavailable("cuFileDriverOpen failed", "");
        let said = line(&Message::Found(Box::new(found)));
        let probe = judge(&ended(Some(0), &said, " parsing error\n\n"), TIME_LIMIT);
        assert!(reason(&probe.driver).ends_with("libcufile said: parsing error"));
    }

    #[test]
    fn noise_is_no_message() {
        let probe = judge(
            &ended(Some(0), "\u{fffd}{}\nstormlp-cufile-probe {\"x\":1}\n", ""),
            TIME_LIMIT,
        );
        assert!(reason(&probe.driver).starts_with("nothing was found out"));
    }

    #[test]
    fn an_executable_that_is_no_probe_is_not_believed() {
        let probe = run(Path::new("/bin/sleep"), None, Duration::from_secs(5));
        assert!(
            reason(&probe.driver).contains("died in the start"),
            "{probe:?}"
        );
        let probe = run(Path::new("/nowhere/at-all"), None, TIME_LIMIT);
        assert!(reason(&probe.driver).contains("could not run"), "{probe:?}");
    }
}
