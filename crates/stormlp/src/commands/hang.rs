//! Ends a run if a call does not return, or a request to stop is not met, after saving how it ended.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use stormlp_core::failure::Failure;
use stormlp_core::json;
use stormlp_core::note::{Cause, Note};
use stormlp_core::path::PathKind;
use stormlp_core::report::Ending;
use stormlp_transfer::run_context::now;
use stormlp_transfer::storage::write_atomically;
use stormlp_transfer::watchdog::{self, Hang};

use crate::commands::saved;
use crate::output;

/// Seconds after which a call counts as hanging; a longer one is not worth measuring.
const LIMIT_VARIABLE: &str = "STORMLP_CUFILE_TIMEOUT";
const LIMIT: Duration = Duration::from_secs(120);
/// How long saving may take: the report may be on the file system that hangs.
const SAVING: Duration = Duration::from_secs(10);

/// Where libcufile tells more.
const LOG: &str = "see cufile.log beside the report";
const LOG_OF_BATCH: &str =
    "see cufile.log beside the report; in compatibility mode use a lower --queue-depth";
/// Where the kernel tells of a file system that does not answer.
const IN_DMESG: &str = "look in dmesg for a file system that does not answer";

/// Makes runs end if a call hangs.
pub(crate) fn arm() {
    let typed = std::env::var(LIMIT_VARIABLE).ok();
    let seconds = typed.as_ref().and_then(|text| text.parse().ok()).filter(|limit| *limit > 0.0);
    let limit = seconds.and_then(|limit| Duration::try_from_secs_f64(limit).ok());
    if let (Some(text), None) = (&typed, limit) {
        output::say(format!("warning: {LIMIT_VARIABLE}={text} is not a number of seconds"));
    }
    watchdog::on_hang(limit.unwrap_or(LIMIT), end);
}

/// Ends the process: the thread that hangs cannot be joined, and its memory not be freed.
fn end(report: &Path, hung: Hang, after: Duration) {
    let seconds = after.as_secs_f64();
    let path = match hung {
        Hang::CuFile(path) => format!(" on path {path}"),
        _ => String::new(),
    };
    let (cause, call, hint) = match hung {
        Hang::CuFile(PathKind::GdsBatch | PathKind::GdsBatchStream) => {
            (Cause::Device, "a cuFile call", LOG_OF_BATCH)
        }
        Hang::CuFile(_) => (Cause::Device, "a cuFile call", LOG),
        Hang::Driver => (Cause::Device, "cuFileDriverOpen", "look for Xid in dmesg"),
        Hang::Release => {
            (Cause::Device, "a cuFile call that releases memory, a file or the driver", LOG)
        }
        Hang::Cuda => (Cause::Device, "a CUDA call", "look for Xid in dmesg"),
        Hang::Open => (Cause::Storage, "the opening of a file", IN_DMESG),
        Hang::Stop => (Cause::Stopped, "", "it was still cleaning up, or storage does not answer"),
    };
    let fact = match hung {
        Hang::Stop => format!("the run did not end within {seconds} s of a signal, and was killed"),
        _ => format!(
            "{call}{path} has not returned for {seconds} s; its buffers were left alone, and the \
             run was ended"
        ),
    };
    let note = Note::new(cause, fact, format!("{hint}; {LIMIT_VARIABLE}=SECONDS waits longer"));
    let ending = match hung {
        Hang::Stop => Ending::Stopped,
        _ => Ending::Failed(note.clone()),
    };
    match save(report, ending) {
        // It is finished, or another process saves it.
        _ if report == Path::new("") => {}
        Ok(true) => output::say(format!("report: {}", report.display())),
        Ok(false) => output::say(format!("warning: {} was not saved", report.display())),
        Err(_) => output::say(format!("warning: {} was not saved in time", report.display())),
    }
    let failure = Failure::of_run(&note, "");
    output::report(&failure);
    watchdog::end_process(failure.cause().exit_code());
}

/// Saves the ending in the report at `path`, with the cells of its journal, on a thread that is not
/// waited for longer than [`SAVING`]; `false` if there is no report.
fn save(path: &Path, ending: Ending) -> Result<bool, mpsc::RecvTimeoutError> {
    let (told, is_saved) = mpsc::channel();
    let path = path.to_path_buf();
    let save = move || {
        // Without a name it would be the one of the current folder.
        path.file_name()?;
        let mut report = saved::any(&path).ok()?;
        report.end(ending, now());
        write_atomically(&path, json::indented(&report.sealed().ok()?).ok()?.as_bytes()).ok()
    };
    // Without a thread nothing is told.
    let _ = thread::Builder::new().spawn(move || told.send(save().is_some()));
    is_saved.recv_timeout(SAVING)
}
