//! Runs a command of a comparison or a calibration in a shell, until it ends or the user stops it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use stormlp_core::stop::StopToken;

/// Interval between looks whether the command ended: rare enough not to disturb it.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Maximum time for a stopped command to save its results.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ends the command and all that it started when this process is gone: then the shell's input ends
/// without a line.
const GUARD: &str = "exec 3<&0 </dev/null; ( (read -r line <&3 || kill -KILL 0) & ); exec 3<&-; ";

/// Runs `command` in `place`, with additional `variables`; its output goes to
/// `stdout` and `stderr` in `folder`.
///
/// It has a separate process group, so that Ctrl-C on a terminal reaches it from here, once, with
/// all that it started.
///
/// # Errors
/// If a file cannot be written or the shell cannot be started.
pub(crate) fn run(
    command: &str,
    (place, variables): (&Path, &[(&str, OsString)]),
    folder: &Path,
    stop: &StopToken,
) -> io::Result<ExitStatus> {
    // By its path: it is found without a PATH, too.
    let mut child = Command::new("/bin/sh")
        .current_dir(place)
        .args(["-c", &format!("{GUARD}{command}")])
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(File::create(folder.join("stdout"))?)
        .stderr(File::create(folder.join("stderr"))?)
        .process_group(0)
        .spawn()?;
    let guard = child.stdin.take();
    let mut stopped: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            // It may have ended the guard, too.
            let _ = guard.map(|mut guard| guard.write_all(b"\n"));
            return Ok(status);
        }
        match stopped {
            None if stop.is_stopped() => {
                signal(&child, Signal::INT);
                stopped = Some(Instant::now());
            }
            Some(since) if since.elapsed() > PATIENCE => signal(&child, Signal::KILL),
            _ => {}
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// The line that explains a command's end best, of its output in `folder`: an error of ours, the last
/// message, such as the exception of a Python program, or the last line that it printed.
pub(crate) fn last_words(folder: &Path) -> Option<String> {
    let read = |name| {
        String::from_utf8_lossy(&fs::read(folder.join(name)).unwrap_or_default()).into_owned()
    };
    let (errors, printed) = (read("stderr"), read("stdout"));
    let mut lines = errors.lines().filter(|line| !line.trim().is_empty());
    let last = lines.clone().next_back();
    let best = lines.find(|line| line.starts_with("error: ")).or(last);
    let best = best.or_else(|| printed.lines().rfind(|line| !line.trim().is_empty()));
    best.map(|line| line.trim().to_string())
}

/// Sends a signal to a command and all it started. One that has just ended needs none.
fn signal(child: &Child, signal: Signal) {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let _ = id.map(|id| kill_process_group(id, signal));
}
