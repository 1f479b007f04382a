//! Ends a run if a cuFile call does not return, after saving how it ended.

use std::path::Path;
use std::time::Duration;

use stormlp_core::failure::Failure;
use stormlp_core::json;
use stormlp_core::note::{Cause, Note};
use stormlp_core::path::PathKind;
use stormlp_core::report::Ending;
use stormlp_transfer::cufile;
use stormlp_transfer::run_context::now;
use stormlp_transfer::storage::write_atomically;

use crate::commands::saved;
use crate::output;

/// Seconds after which a call counts as hanging; a longer one is not worth measuring.
const LIMIT_VARIABLE: &str = "STORMLP_CUFILE_TIMEOUT";
const LIMIT: Duration = Duration::from_secs(120);

/// Makes runs end if a cuFile call hangs.
pub(crate) fn arm() {
    let typed = std::env::var(LIMIT_VARIABLE).ok();
    let seconds = typed.as_ref().and_then(|text| text.parse().ok()).filter(|limit| *limit > 0.0);
    let limit = seconds.and_then(|limit| Duration::try_from_secs_f64(limit).ok());
    if let (Some(text), None) = (&typed, limit) {
        output::say(format!("warning: {LIMIT_VARIABLE}={text} is not a number of seconds"));
    }
    cufile::on_hang(limit.unwrap_or(LIMIT), end);
}

/// Ends the process: the thread that hangs cannot be joined, and its memory not be freed.
fn end(report: &Path, path: Option<PathKind>, after: Duration) {
    let call = match path {
        Some(path) => format!("a cuFile call on path {path}"),
        None => "a cuFile call that releases memory, a file or the driver".to_string(),
    };
    let seconds = after.as_secs_f64();
    let fact = format!(
        "{call} has not returned for {seconds} s; its buffers were left alone, and the run was ended"
    );
    let fewer = match path {
        Some(PathKind::GdsBatch | PathKind::GdsBatchStream) => {
            "in compatibility mode use a lower --queue-depth; "
        }
        _ => "",
    };
    let remedy =
        format!("see cufile.log beside the report; {fewer}{LIMIT_VARIABLE}=SECONDS waits longer");
    let note = Note::new(Cause::Device, fact, remedy);
    if save(report, &note).is_some() {
        output::say(format!("report: {}", report.display()));
    }
    let failure = Failure::of_run(&note, "");
    output::report(&failure);
    cufile::end_process(failure.cause().exit_code());
}

/// Saves the ending in the report at `path`, with the cells of its journal; `None` if there is no
/// report yet.
fn save(path: &Path, note: &Note<Cause>) -> Option<()> {
    let mut report = saved::any(path).ok()?;
    report.end(Ending::Failed(note.clone()), now());
    write_atomically(path, json::indented(&report.sealed().ok()?).ok()?.as_bytes()).ok()
}
