//! Results on stdout, messages on stderr. A reader that closes the pipe early (`stormlp … | head`)
//! is not an error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use stormlp_core::printable::{printable, printable_json, printable_lines};
use stormlp_show::document::Document;
use stormlp_show::text;
use terminal_size::{Width, terminal_size_of};

use stormlp_core::failure::Failure;

/// Output formats for results other than reports.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

impl Format {
    /// Prints a value in this format.
    ///
    /// # Errors
    /// As [`print`].
    pub(crate) fn print<T: Serialize + ?Sized>(
        self,
        value: &T,
        document: impl FnOnce(&T) -> Document,
    ) -> Result<(), Failure> {
        match self {
            Self::Text => show(&document(value)),
            Self::Json => print(&json(value)?),
        }
    }
}

/// Prints `text` on stdout, with a trailing newline added if missing.
///
/// # Errors
/// If stdout cannot be written, unless the reader has closed the pipe.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let text = &*printable_lines(text);
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| {
            if text.ends_with('\n') || text.is_empty() { Ok(()) } else { stdout.write_all(b"\n") }
        })
        .and_then(|()| stdout.flush());
    written_to_stdout(written)
}

/// Prints the help or version rendered by clap, in colour on a terminal.
///
/// # Errors
/// As [`print`].
pub(crate) fn help(asked: &clap::Error) -> Result<(), Failure> {
    written_to_stdout(asked.print().and_then(|()| io::stdout().flush()))
}

/// A closed pipe is not an error.
fn written_to_stdout(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::storage(anyhow::Error::new(error).context("cannot write to stdout")))
        }
        _ => Ok(()),
    }
}

/// Warns if the result of a run could not be printed; this does not change how the run ends. `kept`
/// says where the result is saved.
pub(crate) fn or_warn(printed: Result<(), Failure>, kept: impl Display) {
    if let Err(failure) = printed {
        say(format!("warning: {}; {kept}", failure.note.fact));
    }
}

/// Prints a one-line message on stderr. A closed stderr must not end a run.
pub(crate) fn say(message: impl Display) {
    let message = message.to_string();
    say_page(&printable(message.trim_end_matches('\n')));
}

/// The name of this host, in a run on several hosts.
static HOST: OnceLock<String> = OnceLock::new();

/// Prefixes every message with the name of this host: other hosts print to the same terminal.
pub(crate) fn speak_for(host: &str) {
    let _ = HOST.set(printable(host).into_owned());
}

/// Prints several lines on stderr; text from outside must already be printable.
pub(crate) fn say_page(page: &str) {
    let mut text = printable_lines(page.trim_end_matches('\n')).into_owned();
    if let Some(host) = HOST.get() {
        text = format!("{host}: {text}");
    }
    if let Some(columns) = message_columns() {
        text = text::wrapped(&text, columns);
    }
    text.push('\n');
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Prints a failure on stderr and returns its exit code.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    say_page(&format!("error: {}", failure.note.fact));
    if !failure.note.remedy.is_empty() {
        say(format!("help: {}", failure.note.remedy));
    }
    ExitCode::from(failure.cause().exit_code())
}

/// Whether text shows everything, and whether messages about progress are hidden: `--details`, `--quiet`.
static ASKED: OnceLock<(bool, bool)> = OnceLock::new();

/// Width of text for a reader other than a terminal, such as a launcher or a pipe.
const PIPE_COLUMNS: usize = 100;

/// Decides whether text shows everything, or only a screen, and whether progress is `quiet`.
/// `STORMLP_DETAILS=1` asks for everything, too, for the logs of batch jobs.
pub(crate) fn arrange(details: bool, quiet: bool) {
    let details = details || std::env::var_os("STORMLP_DETAILS").is_some_and(|v| v == "1");
    let _ = ASKED.set((details, quiet));
}

/// Whether everything is asked for.
pub(crate) fn details() -> bool {
    ASKED.get().is_some_and(|(details, _)| *details)
}

/// Says where a result was written, unless progress is hidden.
pub(crate) fn wrote(place: &Path) {
    if !ASKED.get().is_some_and(|(_, quiet)| *quiet) {
        say(format!("wrote {}", place.display()));
    }
}

/// Prints a document as text.
///
/// # Errors
/// As [`print`].
pub(crate) fn show(document: &Document) -> Result<(), Failure> {
    print(&drawn(document))
}

/// A document as text that fits the terminal: a screen, or everything with `--details`.
pub(crate) fn drawn(document: &Document) -> String {
    if details() { text::render(document, Some(width())) } else { text::screen(document, width()) }
}

/// Width of stdout in columns: `COLUMNS`, or the terminal's.
fn width() -> usize {
    let from_environment = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size_of(io::stdout()).map(|(Width(columns), _)| columns.into());
    from_environment.or_else(terminal).unwrap_or(PIPE_COLUMNS)
}

/// Width of a terminal that shows messages; `None` for logs and programs, which get whole lines.
fn message_columns() -> Option<usize> {
    terminal_size_of(io::stderr()).map(|(Width(columns), _)| columns.into())
}

/// Whether no line of a message is wider than the terminal.
pub(crate) fn fits(message: &str) -> bool {
    let columns = message_columns().unwrap_or(usize::MAX);
    message.lines().all(|line| line.chars().count() <= columns)
}

/// A value as indented JSON, for scripts and human readers.
///
/// # Errors
/// Never for plain data, which is all that commands print.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Result<String, Failure> {
    stormlp_core::json::indented(value)
        .map(|json| printable_json(&json).into_owned())
        .context("the result is plain data")
        .map_err(Failure::bug)
}
