//! Determines what cuFile can do here, in a child process with a time limit.
//!
//! `cuFileDriverOpen` of libcufile 1.16 to 1.20 spins forever if `/proc/modules` is missing, and a
//! broken driver stack can do worse. So this executable is started again with [`ARGUMENT`]; the
//! child loads the library, opens the driver and, given a folder, registers a file there and reads
//! it into host memory. The outcome in the child is decisive; the presence or absence of a file
//! proves nothing.

mod child;
mod log;
mod message;

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use stormlp_core::facts::Availability;

use super::log::LOG_VARIABLE;
use log::{ProbeLog, with_errors};

pub use child::child_main;
pub use message::{CuFileProbe, CudaProbe, ProbeStep};
use message::{MARK, Message, probe_file};

/// The hidden first argument that makes the executable the child: the caller of [`run`] must
/// dispatch it to [`child_main`], with the folder (if any) as the second argument.
pub const ARGUMENT: &str = "__probe-cufile";

/// The total time limit. Without the persistence daemon a GPU takes several seconds to wake up,
/// and a server has eight of them.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);

/// How long to wait for a killed child.
const DEATH: Duration = Duration::from_secs(1);

/// Asks a child process, `exe` with [`ARGUMENT`], what cuFile can do here and in `folder`.
///
/// Returns shortly after `time_limit` at the latest; a hanging child is killed, and abandoned if
/// even that does not end it. `goes_on` is called every few milliseconds with the elapsed time;
/// `false` ends the child early.
pub fn run(
    exe: &Path,
    folder: Option<&Path>,
    time_limit: Duration,
    goes_on: &dyn Fn(Duration) -> bool,
) -> CuFileProbe {
    let mut command = Command::new(exe);
    command.arg(ARGUMENT).args(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Without a log of its own the probe's would end up in the current directory.
    let log = ProbeLog::new().ok();
    let log_path = log.as_ref().map_or_else(|| "/dev/null".into(), ProbeLog::path);
    command.env(LOG_VARIABLE, &log_path);
    let patience = ChildPatience { limit: time_limit, goes_on };
    let attended = command.spawn().and_then(|child| {
        let pid = child.id();
        attend(child, patience, Child::kill).map(|ended| (ended, pid))
    });
    match attended {
        Ok((ended, pid)) => {
            // A child that was killed or crashed could not remove its file.
            if let Some(folder) = folder.filter(|_| !ended.status.is_some_and(|s| s.success())) {
                let _ = std::fs::remove_file(probe_file(folder, pid));
            }
            judge(&ended, time_limit, &log_path)
        }
        Err(error) => CuFileProbe::unavailable(
            format!("the probe of cuFile, {} {ARGUMENT}, could not run: {error}", exe.display()),
            "check that processes can be started here",
        ),
    }
}

/// How long to wait for a child.
#[derive(Clone, Copy)]
struct ChildPatience<'a> {
    limit: Duration,
    goes_on: &'a dyn Fn(Duration) -> bool,
}

/// How a child ended.
struct Ended {
    /// `None`: it had to be killed.
    status: Option<ExitStatus>,
    /// A killed process that still exists: a driver holds it in the kernel.
    left_behind: Option<u32>,
    stdout: String,
    stderr: String,
}

/// Waits for the child to end, by itself or at the limit. Its own children may live on and keep
/// the pipes open: they are not waited for.
fn attend(
    mut child: Child,
    patience: ChildPatience<'_>,
    kill: impl FnOnce(&mut Child) -> io::Result<()>,
) -> io::Result<Ended> {
    let mut stdout = child.stdout.take().map(Words::of).transpose()?;
    let mut stderr = child.stderr.take().map(Words::of).transpose()?;
    let mut listen = || {
        for words in [stdout.as_mut().map(Words::take), stderr.as_mut().map(Words::take)] {
            words.unwrap_or(Ok(()))?;
        }
        io::Result::Ok(())
    };
    let status = ended_within(patience, &mut child, &mut listen)?;
    let mut left_behind = None;
    if status.is_none() {
        kill(&mut child)?;
        let patience = ChildPatience { limit: DEATH, goes_on: &|_| true };
        // That it was killed is what counts.
        let died = ended_within(patience, &mut child, &mut listen)?;
        left_behind = died.is_none().then(|| child.id());
    }
    Ok(Ended {
        status,
        left_behind,
        stdout: stdout.map_or_else(String::new, Words::into_text),
        stderr: stderr.map_or_else(String::new, Words::into_text),
    })
}

/// Reads the child's output until it ends or patience runs out.
fn ended_within(
    patience: ChildPatience<'_>,
    child: &mut Child,
    listen: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        // In this order: output written before the end is in the pipe when the end is seen.
        let status = child.try_wait()?;
        listen()?;
        let taken = begun.elapsed();
        if status.is_some() || taken >= patience.limit || !(patience.goes_on)(taken) {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The result from the child's output and exit; what it could not quote itself is in `log`.
fn judge(ended: &Ended, time_limit: Duration, log: &Path) -> CuFileProbe {
    let mut step = ProbeStep::Start;
    let mut found = None;
    let messages = ended.stdout.lines().filter_map(|line| line.split_once(MARK));
    for message in messages.filter_map(|(_, json)| serde_json::from_str(json).ok()) {
        match message {
            Message::Begins(begun) => step = begun,
            Message::Found(probe) => found = Some(*probe),
        }
    }
    let mut probe =
        found.unwrap_or_else(|| CuFileProbe::unavailable("the probe gave no result", ""));
    let trouble = match ended.status {
        Some(status) if status.success() => {
            let noise = ended.stdout.lines().filter(|line| !line.contains(MARK));
            add_library_words(&mut probe.driver, noise.chain(ended.stderr.lines()));
            return probe;
        }
        Some(status) => format!("the probe died in {} ({status})", step.words()),
        None => format!(
            "{} did not return within {} s{}{}",
            step.words(),
            time_limit.as_secs_f64(),
            hint_on_hanging(step),
            ended.left_behind.map_or_else(String::new, |process| format!(
                "; process {process} is left behind: the kernel has not ended it"
            ))
        ),
    };
    let remedy = "repair or remove the NVIDIA driver stack, or name another library with \
                  STORMLP_LIBCUFILE; the other paths do not need cuFile";
    let verdict = Availability::unavailable(with_errors(&trouble, log, 0), remedy);
    if step == ProbeStep::UseFolder {
        probe.folder = Some(verdict);
    } else {
        probe.driver = verdict;
    }
    probe
}

/// Known reasons for a step to hang.
fn hint_on_hanging(step: ProbeStep) -> &'static str {
    if step == ProbeStep::OpenDriver && !Path::new("/proc/modules").exists() {
        " (/proc/modules is missing here, which libcufile 1.16 to 1.20 waits for)"
    } else {
        ""
    }
}

/// Adds the library's own output about a failure, such as the location of a syntax error; it uses
/// both standard output and standard error.
fn add_library_words<'a>(availability: &mut Availability, lines: impl Iterator<Item = &'a str>) {
    if let Availability::Unavailable { fact, .. } = availability {
        let words: Vec<&str> =
            lines.map(str::trim).filter(|line| !line.is_empty()).take(4).collect();
        if !words.is_empty() {
            *fact = format!("{fact}; libcufile said: {}", words.join("; "));
        }
    }
}

/// Output beyond this is dropped: a library that prints endlessly must not fill memory.
const KEPT_BYTES: usize = 1 << 20;
/// Bytes read at a time, so that endless output cannot block the reader.
const TURN_BYTES: usize = 1 << 20;

/// The reading end of a pipe, and what has been read from it.
#[derive(Debug)]
struct Words {
    pipe: File,
    bytes: Vec<u8>,
}

impl Words {
    /// Reads `pipe` without ever blocking.
    fn of(pipe: impl Into<OwnedFd>) -> io::Result<Self> {
        let pipe = File::from(pipe.into());
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        Ok(Self { pipe, bytes: Vec::new() })
    }

    /// Reads what is in the pipe now, so that the child does not block on a full one.
    fn take(&mut self) -> io::Result<()> {
        let mut block = [0; 16 << 10];
        let mut left = TURN_BYTES;
        while left > 0 {
            match self.pipe.read(&mut block) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    let room = KEPT_BYTES - self.bytes.len();
                    self.bytes.extend_from_slice(&block[..read.min(room)]);
                    left = left.saturating_sub(read);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn into_text(self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn ended(status: Option<i32>, stdout: &str, stderr: &str) -> Ended {
        use std::os::unix::process::ExitStatusExt as _;
        Ended {
            status: status.map(ExitStatus::from_raw),
            left_behind: None,
            stdout: stdout.to_string(),
            stderr: stderr.to_string(),
        }
    }

    const NO_LOG: &str = "/dev/null";

    fn reason(availability: &Availability) -> &str {
        match availability {
            Availability::Unavailable { fact, .. } => fact,
            Availability::Available => panic!("available"),
        }
    }

    fn line(message: &Message) -> String {
        format!("noise{MARK}{}\n", serde_json::to_string(message).unwrap())
    }

    #[test]
    fn a_child_that_hangs_is_killed_and_the_step_named() {
        let said = line(&Message::Begins(ProbeStep::OpenDriver));
        let probe = judge(&ended(None, &said, ""), Duration::from_millis(1500), Path::new(NO_LOG));
        assert!(reason(&probe.driver).starts_with("cuFileDriverOpen did not return within 1.5 s"));
    }

    #[test]
    fn a_child_that_dies_in_the_folder_leaves_the_driver_available() {
        let mut found = CuFileProbe::unavailable("", "");
        found.driver = Availability::Available;
        let said =
            line(&Message::Found(Box::new(found))) + &line(&Message::Begins(ProbeStep::UseFolder));
        let probe = judge(&ended(Some(libc::SIGSEGV), &said, ""), TIME_LIMIT, Path::new(NO_LOG));
        assert!(probe.driver.is_available());
        assert!(reason(&probe.availability()).contains("signal: 11"));
    }

    #[test]
    fn library_output_is_passed_on() {
        let found = CuFileProbe::unavailable("cuFileDriverOpen failed", "");
        let said = line(&Message::Found(Box::new(found)));
        let probe =
            judge(&ended(Some(0), &said, " parsing error\n\n"), TIME_LIMIT, Path::new(NO_LOG));
        assert!(reason(&probe.driver).ends_with("libcufile said: parsing error"));
    }

    #[test]
    fn noise_is_not_a_message() {
        let probe = judge(
            &ended(Some(0), "\u{fffd}{}\nstormlp-cufile-probe {\"x\":1}\n", ""),
            TIME_LIMIT,
            Path::new(NO_LOG),
        );
        assert!(reason(&probe.driver).starts_with("the probe gave no result"));
    }

    #[test]
    fn descendants_of_the_child_are_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("probe");
        // The grandchild keeps both pipes open until its script is removed.
        let lines = "(while [ -e \"$0\" ]; do sleep 0.1; done) &\necho said >&2\n";
        std::fs::write(&script, lines).unwrap();
        let mut child = Command::new("sh");
        child.arg(&script).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = child.spawn().unwrap();
        let ended = attend(child, PATIENT, Child::kill).unwrap();
        assert!(ended.status.unwrap().success());
        assert_eq!(ended.stderr, "said\n");
    }

    const PATIENT: ChildPatience<'_> = ChildPatience { limit: TIME_LIMIT, goes_on: &|_| true };

    /// A child that sleeps for longer than any test.
    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("600").stdout(Stdio::piped());
        command.stderr(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn a_child_that_survives_its_kill_is_left_behind_and_named() {
        let child = sleeper();
        let process = child.id();
        let patience = ChildPatience { limit: Duration::from_millis(10), ..PATIENT };
        // As in the kernel's uninterruptible sleep, the signal has no effect.
        let ended = attend(child, patience, |_| Ok(())).unwrap();
        let probe = judge(&ended, patience.limit, Path::new(NO_LOG));
        let pid = rustix::process::Pid::from_raw(process.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        assert_eq!(ended.left_behind, Some(process));
        assert!(
            reason(&probe.driver).contains(&format!("process {process} is left behind")),
            "{probe:?}"
        );
    }

    #[test]
    fn giving_up_does_not_wait_for_the_limit() {
        let patience = ChildPatience { goes_on: &|_| false, ..PATIENT };
        let ended = attend(sleeper(), patience, Child::kill).unwrap();
        assert!(ended.status.is_none() && ended.left_behind.is_none());
    }

    #[test]
    fn a_child_that_is_killed_or_dies_leaves_no_file() {
        use std::os::unix::fs::PermissionsExt;
        let (place, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let script = place.path().join("probe");
        for end in ["exec sleep 100", "exit 3"] {
            let lines = format!("#!/bin/sh\n: > \"$2/.stormlp-cufile-probe-$$\"\n{end}\n");
            std::fs::write(&script, lines).unwrap();
            std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
            let probe = run(&script, Some(folder.path()), Duration::from_secs(1), &|_| true);
            assert!(!probe.driver.is_available());
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{end}");
        }
    }

    #[test]
    fn an_executable_that_is_not_the_probe_is_rejected() {
        let goes_on = |_| true;
        let limit = Duration::from_secs(5);
        let probe = run(Path::new("/bin/sleep"), None, limit, &goes_on);
        assert!(reason(&probe.driver).contains("died in the start"), "{probe:?}");
        let probe = run(Path::new("/nowhere/at-all"), None, TIME_LIMIT, &goes_on);
        assert!(reason(&probe.driver).contains("could not run"), "{probe:?}");
    }

    #[test]
    fn output_is_limited_and_an_open_pipe_is_not_waited_for() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut words = Words::of(reader).unwrap();
        words.take().unwrap();
        for _ in 0..40 {
            writer.write_all(&[b'x'; 32 << 10]).unwrap();
            words.take().unwrap();
        }
        assert_eq!(words.bytes.len(), KEPT_BYTES);
        assert!(words.into_text().starts_with("xxx"));
    }
}
