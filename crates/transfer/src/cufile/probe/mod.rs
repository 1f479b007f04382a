//! Determines cuFile's abilities here, in a child process with a time limit.
//!
//! `cuFileDriverOpen` of libcufile 1.16 to 1.20 spins forever if `/proc/modules` is missing, and a
//! broken driver stack can do worse. So this executable is started again with [`ARGUMENT`]; the
//! child loads the library, opens the driver and, given a folder, registers a file there and reads
//! it into host memory. The outcome in the child is decisive; the presence or absence of a file is
//! no proof.

mod child;
mod log;
mod message;

use std::fs::File;
use std::io::{self, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use stormlp_core::facts::Availability;

use super::log::LOG_VARIABLE;
use log::{ProbeLog, with_errors};

pub use child::child_main;
pub use message::{CuFileProbe, CudaProbe};
use message::{MARK, Message, OPENS_DRIVER, USES_FOLDER, probe_file};

/// The hidden first argument that makes the executable the child: the caller of [`run`] must
/// dispatch it to [`child_main`], with the folder (if any) as the second argument.
pub const ARGUMENT: &str = "__probe-cufile";

/// The total time limit. Without the persistence daemon a GPU needs several seconds to wake up, and
/// a server has eight of them.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);

/// How long to wait for a killed child.
const DEATH: Duration = Duration::from_secs(1);

/// Asks a child process, `exe` with [`ARGUMENT`], for cuFile's abilities here and in `folder`.
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
    // Without a separate log the probe's would end up in the current directory.
    let log = ProbeLog::new().ok();
    let log_path = log.as_ref().map_or_else(|| "/dev/null".into(), ProbeLog::path);
    command.env(LOG_VARIABLE, &log_path);
    let patience = ChildPatience { limit: time_limit, goes_on };
    match attend(&mut command, patience, Child::kill) {
        Ok(ended) => {
            // A child that was killed or crashed could not remove its file.
            if let Some(folder) = folder.filter(|_| !ended.status.is_some_and(|s| s.success())) {
                let _ = std::fs::remove_file(probe_file(folder, ended.process));
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
    process: u32,
    /// `None`: it had to be killed.
    status: Option<ExitStatus>,
    /// Whether it still exists although it was killed: a driver holds it in the kernel.
    left_behind: bool,
    stdout: String,
    stderr: String,
}

/// Starts a child and waits for it to end, by itself or at the limit. Its children may live on.
fn attend(
    command: &mut Command,
    patience: ChildPatience<'_>,
    kill: impl FnOnce(&mut Child) -> io::Result<()>,
) -> io::Result<Ended> {
    let (stdout, stderr) = (sink()?, sink()?);
    command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let mut child = command.spawn()?;
    let status = ended_within(patience, &mut child)?;
    let mut left_behind = false;
    if status.is_none() {
        kill(&mut child)?;
        let patience = ChildPatience { limit: DEATH, goes_on: &|_| true };
        // Only the kill counts.
        left_behind = ended_within(patience, &mut child)?.is_none();
    }
    let (stdout, stderr) = (written(&stdout)?, written(&stderr)?);
    Ok(Ended { process: child.id(), status, left_behind, stdout, stderr })
}

/// Waits until the child ends or patience runs out.
fn ended_within(patience: ChildPatience<'_>, child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        let status = child.try_wait()?;
        let taken = begun.elapsed();
        if status.is_some() || taken >= patience.limit || !(patience.goes_on)(taken) {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Maximum output of a child; writing more fails, so that a library that prints endlessly does not
/// fill memory.
const OUTPUT_BYTES: u64 = 1 << 20;

/// A file in memory for the output of a child, which neither blocks it nor waits for its children.
fn sink() -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("probe", flags)?);
    file.set_len(OUTPUT_BYTES)?;
    fcntl_add_seals(&file, SealFlags::GROW)?;
    Ok(file)
}

/// The text written to a sink: up to the position, which all that write to it share.
fn written(mut sink: &File) -> io::Result<String> {
    let mut bytes = vec![0; sink.stream_position()? as usize];
    sink.read_exact_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The result from the child's output and exit; text that it could not quote itself is in `log`.
fn judge(ended: &Ended, time_limit: Duration, log: &Path) -> CuFileProbe {
    let mut step = "the start of the probe".to_string();
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
        Some(status) => format!("the probe died in {step} ({status})"),
        None => format!(
            "{step} did not return within {} s{}{}",
            time_limit.as_secs_f64(),
            hint_on_hanging(&step),
            if ended.left_behind {
                format!("; process {} is left behind: the kernel has not ended it", ended.process)
            } else {
                String::new()
            }
        ),
    };
    let remedy = "repair or remove the NVIDIA driver stack, or name another library with \
                  STORMLP_LIBCUFILE; the other paths do not need cuFile";
    let verdict = Availability::unavailable(with_errors(&trouble, log, 0), remedy);
    if step == USES_FOLDER {
        probe.folder = Some(verdict);
    } else {
        probe.driver = verdict;
    }
    probe
}

/// Known reasons for a step to hang.
fn hint_on_hanging(step: &str) -> &'static str {
    if step == OPENS_DRIVER && !Path::new("/proc/modules").exists() {
        " (/proc/modules is missing here, which libcufile 1.16 to 1.20 waits for)"
    } else {
        ""
    }
}

/// Adds the library's output about a failure, such as the location of a syntax error; it uses both
/// standard output and standard error.
fn add_library_words<'a>(availability: &mut Availability, lines: impl Iterator<Item = &'a str>) {
    if let Availability::Unavailable { fact, .. } = availability {
        let words: Vec<&str> =
            lines.map(str::trim).filter(|line| !line.is_empty()).take(4).collect();
        if !words.is_empty() {
            *fact = format!("{fact}; libcufile said: {}", words.join("; "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(status: Option<i32>, stdout: &str, stderr: &str) -> Ended {
        use std::os::unix::process::ExitStatusExt as _;
        Ended {
            status: status.map(ExitStatus::from_raw),
            process: 0,
            left_behind: false,
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
        let said = line(&Message::Begins(OPENS_DRIVER.to_string()));
        let probe = judge(&ended(None, &said, ""), Duration::from_millis(1500), Path::new(NO_LOG));
        assert!(reason(&probe.driver).starts_with("cuFileDriverOpen did not return within 1.5 s"));
    }

    #[test]
    fn a_child_that_dies_in_the_folder_leaves_the_driver_available() {
        let mut found = CuFileProbe::unavailable("", "");
        found.driver = Availability::Available;
        let said = line(&Message::Found(Box::new(found)))
            + &line(&Message::Begins(USES_FOLDER.to_string()));
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
        let ended = attend(child.arg(&script), PATIENT, Child::kill).unwrap();
        assert!(ended.status.unwrap().success());
        assert_eq!(ended.stderr, "said\n");
    }

    const PATIENT: ChildPatience<'_> = ChildPatience { limit: TIME_LIMIT, goes_on: &|_| true };

    /// A child that sleeps for longer than any test.
    fn sleeper() -> Command {
        let mut command = Command::new("sleep");
        command.arg("600");
        command
    }

    #[test]
    fn a_child_that_survives_its_kill_is_left_behind_and_named() {
        let patience = ChildPatience { limit: Duration::from_millis(10), ..PATIENT };
        // As in the kernel's uninterruptible sleep, the signal has no effect.
        let ended = attend(&mut sleeper(), patience, |_| Ok(())).unwrap();
        let process = ended.process;
        let probe = judge(&ended, patience.limit, Path::new(NO_LOG));
        let pid = rustix::process::Pid::from_raw(process.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        assert!(ended.left_behind);
        assert!(
            reason(&probe.driver).contains(&format!("process {process} is left behind")),
            "{probe:?}"
        );
    }

    #[test]
    fn giving_up_does_not_wait_for_the_limit() {
        let patience = ChildPatience { goes_on: &|_| false, ..PATIENT };
        let ended = attend(&mut sleeper(), patience, Child::kill).unwrap();
        assert!(ended.status.is_none() && !ended.left_behind);
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
    fn output_is_limited() {
        let mut child = Command::new("sh");
        child.args(["-c", "i=0; while [ $i -lt 40 ]; do printf %32768s x; i=$((i + 1)); done"]);
        let ended = attend(&mut child, PATIENT, Child::kill).unwrap();
        assert_eq!(ended.stdout.len() as u64, OUTPUT_BYTES);
    }
}
