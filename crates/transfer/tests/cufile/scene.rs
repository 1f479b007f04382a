//! A scenario: the work of a child process, its environment, and its required end.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{CHILD, build};

/// Longer than any scenario lasts; a child that is still there hangs.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Which library a child loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    /// NVIDIA's, with the shim.
    Real,
    /// The double, with a fault (or an empty word).
    Double(&'static str),
    /// The double of an older version, `1110` for 1.11, with a fault.
    Older(u32, &'static str),
}

/// The default version of the double.
const NEWEST: u32 = 1190;

/// One scenario.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) library: Library,
    /// The work of the child; it fails by panicking.
    pub(crate) play: fn(),
    /// Permitted entries of the double's ledger at the end, if not all zeroes.
    pub(crate) left_over: &'static [&'static str],
}

/// How a scenario ended.
pub(crate) enum Verdict {
    Passed,
    Skipped(String),
    Failed(String),
}

impl Scenario {
    /// Plays the scenario in a child and judges it.
    pub(crate) fn run(&self) -> Verdict {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([CHILD, self.name]).current_dir(folder.path());
        let ledger = folder.path().join("ledger");
        if let Err(why) = self.set_the_scene(&mut command, folder.path(), &ledger) {
            let forced = std::env::var_os("STORMLP_REQUIRE_CUFILE").is_some_and(|v| v == "1");
            return if forced { Verdict::Failed(why) } else { Verdict::Skipped(why) };
        }
        let (ended, words) = attend(command);
        match ended {
            None => Verdict::Failed(format!("no end within {TIME_LIMIT:?}\n{words}")),
            Some(false) => Verdict::Failed(words),
            Some(true) => self.audit(&ledger),
        }
    }

    /// The environment of the child.
    fn set_the_scene(
        &self,
        command: &mut Command,
        here: &Path,
        ledger: &Path,
    ) -> Result<(), String> {
        match self.library {
            Library::Real => {
                if !Path::new("/dev/shm").is_dir() {
                    return Err("there is no /dev/shm".to_string());
                }
                command.env("STORMLP_LIBCUFILE", build::real_library()?);
                command.env("STORMLP_TEST_SHIM", build::shim()?);
                command.env("LD_PRELOAD", build::shim()?);
                command.env("CUFILE_LOGFILE_PATH", here.join("chosen.log"));
            }
            Library::Double(fault) | Library::Older(_, fault) => {
                let folder = build::double(match self.library {
                    Library::Older(version, _) => version,
                    _ => NEWEST,
                })?;
                command.env("STORMLP_LIBCUFILE", folder.join("libcufile.so.0"));
                command.env("LD_LIBRARY_PATH", folder);
                command.env("DOUBLE_FAULT", fault).env("DOUBLE_LEDGER", ledger);
            }
        }
        Ok(())
    }

    /// Whether everything that was registered or allocated has been given back.
    fn audit(&self, ledger: &Path) -> Verdict {
        if self.library == Library::Real {
            return Verdict::Passed;
        }
        let Ok(text) = std::fs::read_to_string(ledger) else {
            return Verdict::Failed("the double wrote no ledger".to_string());
        };
        let left: Vec<&str> = text
            .lines()
            .filter(|line| !line.ends_with(" 0"))
            .filter(|line| !self.left_over.iter().any(|name| line.starts_with(name)))
            .collect();
        if left.is_empty() {
            Verdict::Passed
        } else {
            Verdict::Failed(format!("left over at exit: {}", left.join(", ")))
        }
    }
}

/// Waits for a child: whether it succeeded (`None`: it had to be killed), and its output.
fn attend(mut command: Command) -> (Option<bool>, String) {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let collect = std::thread::spawn(move || {
        let mut words = String::new();
        let _ = stderr.read_to_string(&mut words);
        words
    });
    let drain = std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    let deadline = Instant::now() + TIME_LIMIT;
    let ended = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status.success());
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let _ = drain.join();
    (ended, collect.join().unwrap())
}

/// A temporary folder in memory: the real libcufile accepts it without udev.
pub(crate) fn memory_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// The shim of the real library's scenarios.
pub(crate) fn shim_of_this_child() -> PathBuf {
    std::env::var_os("STORMLP_TEST_SHIM").unwrap().into()
}
