//! Child processes that never outlive the run: killed at a limit, and when the run no longer waits
//! for them.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

/// One command is killed after this.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);
/// A matrix has measured its first cell by then, on a GPU that had to be woken.
pub(crate) const TO_START: Duration = Duration::from_secs(40);
/// A child that was killed and is still there waits inside the kernel: it is abandoned.
const GRACE: Duration = Duration::from_secs(5);

/// How a command ended.
pub(crate) struct Ended {
    /// Its exit code; `None` where a signal ended it, or the limit.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// A process that never started, and why.
    pub(crate) fn never(why: impl Into<String>) -> Self {
        Self { code: None, stdout: String::new(), stderr: why.into() }
    }

    /// The report it printed, or its message instead.
    pub(crate) fn json(&self) -> Result<Value, String> {
        match (self.code, serde_json::from_str(&self.stdout)) {
            (Some(0), Ok(value)) => Ok(value),
            _ => Err(self.to_text()),
        }
    }

    /// Its exit code and the end of its messages on standard error.
    pub(crate) fn to_text(&self) -> String {
        let code = match self.code {
            Some(code) => format!("exit code {code}"),
            // A signal ended it, or it never started.
            None => "no exit code".to_string(),
        };
        let lines: Vec<&str> = self.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(3)..].join(" / ");
        format!("{code}: {last}")
    }
}

/// A child with pipes, killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    over: bool,
}

impl Running {
    /// Starts a command.
    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn();
        let mut child =
            child.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        Ok(Self {
            stdout: text_of(child.stdout.take()),
            stderr: text_of(child.stderr.take()),
            child,
            over: false,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to it, unless it has ended.
    pub(crate) fn signal(&mut self, name: &str) {
        if self.ended().is_none() {
            let _ =
                Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status();
        }
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until `there` is true; the answer says why it never was.
    pub(crate) fn until(
        &mut self,
        what: &str,
        limit: Duration,
        there: impl Fn() -> bool,
    ) -> Result<(), String> {
        let begun = Instant::now();
        while !there() {
            if self.ended().is_some() {
                return Err(format!("it ended before {what}"));
            }
            if begun.elapsed() > limit {
                let seconds = limit.as_secs();
                return Err(format!("{what} did not appear within {seconds} s"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits for its end, and kills it at the limit. Looks at it with `look` now and then.
    pub(crate) fn attend(mut self, limit: Duration, mut look: impl FnMut(u32)) -> Ended {
        let begun = Instant::now();
        let mut looked = begun;
        let status = loop {
            if let Some(status) = self.ended() {
                break Some(status);
            }
            if begun.elapsed() > limit {
                let _ = self.child.kill();
            }
            if begun.elapsed() > limit + GRACE {
                break None;
            }
            if looked.elapsed() > Duration::from_millis(300) {
                look(self.id());
                looked = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        self.over = true;
        // A child of the child may hold a pipe open.
        let text = |from: &Receiver<String>| from.recv_timeout(GRACE).unwrap_or_default();
        let mut stderr = text(&self.stderr);
        if begun.elapsed() > limit {
            stderr.push_str(&format!("\nit was killed after {} s", limit.as_secs()));
        }
        Ended { code: status.and_then(|status| status.code()), stdout: text(&self.stdout), stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let _ = self.child.kill();
        let begun = Instant::now();
        while self.ended().is_none() && begun.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whether a matrix that saves below `results` has a cell behind it, and so is in its measured part.
pub(crate) fn has_measured(results: &Path) -> bool {
    let runs = std::fs::read_dir(results).into_iter().flatten().flatten();
    let mut journals = runs.map(|run| run.path().join("report.journal.jsonl"));
    journals.any(|journal| journal.metadata().is_ok_and(|facts| facts.len() > 0))
}

/// Reads a pipe to its end on a thread, so that it never fills.
fn text_of(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// Runs a short command to its end, or to the limit.
pub(crate) fn run(command: &mut Command) -> Ended {
    match Running::start(command) {
        Ok(running) => running.attend(LIMIT, |_| {}),
        Err(why) => Ended::never(why),
    }
}
