//! The GPU, kept open by one process: waking a GPU lasts seconds if its driver lets it sleep as
//! soon as no process has it open.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::process::run;

/// Waking eight GPUs lasts some ten seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// A process that has the GPU open and answers questions.
pub(crate) struct OpenGpu {
    child: Child,
    questions: ChildStdin,
    answers: Receiver<String>,
}

impl OpenGpu {
    /// Starts `bare hold`.
    pub(crate) fn open(command: &mut Command) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("it has no pipes".to_string());
        };
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(answers).lines().map_while(Result::ok);
            lines.for_each(|line| drop(sender.send(line)));
        });
        let mut open = Self { child, questions, answers: receiver };
        match open.free_bytes() {
            Ok(_) => Ok(open),
            Err(why) => Err(format!("{why}: {}", open.last_words())),
        }
    }

    /// The message of the process on standard error, which ends it.
    fn last_words(&mut self) -> String {
        let _ = self.child.kill();
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        said.trim().to_string()
    }

    /// Free memory of the GPU.
    pub(crate) fn free_bytes(&mut self) -> Result<u64, String> {
        let silent = |_| "the process that keeps the GPU open does not respond".to_string();
        writeln!(self.questions, "memory").map_err(|error| error.to_string())?;
        let line = self.answers.recv_timeout(LIMIT).map_err(silent)?;
        let told: Value = serde_json::from_str(&line).map_err(|_| line.clone())?;
        free_bytes_of(&told)
    }
}

/// The GPU's free memory as reported by `bare`.
pub(crate) fn free_bytes_of(told: &Value) -> Result<u64, String> {
    told["free_bytes"].as_u64().ok_or_else(|| told.to_string())
}

impl Drop for OpenGpu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // It is gone at once, or waits in the kernel and is left.
        std::thread::sleep(Duration::from_millis(20));
        let _ = self.child.try_wait();
    }
}

/// Whether the driver lets GPUs sleep as soon as no process has them open; `None` if that is
/// unknown.
pub(crate) fn persistence_is_off() -> Option<bool> {
    nvidia_smi("persistence_mode").map(|modes| modes.contains("Disabled"))
}

/// Whether only one process at a time may open a GPU of this machine, as batch systems often set
/// it. The first GPU in CUDA's order is not known before a process opened one.
pub(crate) fn is_exclusive() -> bool {
    nvidia_smi("compute_mode").is_some_and(|modes| names_exclusive(&modes))
}

/// Whether compute modes, one a line, name one that keeps other processes out.
pub(crate) fn names_exclusive(modes: &str) -> bool {
    modes.lines().any(|mode| mode.trim().starts_with("Exclusive"))
}

/// A property of each GPU, one a line; `None` where that is not told.
fn nvidia_smi(property: &str) -> Option<String> {
    let query = format!("--query-gpu={property}");
    let told = run(Command::new("nvidia-smi").args([query.as_str(), "--format=csv,noheader"]));
    (told.code == Some(0)).then_some(told.stdout)
}
