//! Results on stdout, messages on stderr. A reader who has seen enough (`stormlp … | head`) is no
//! error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use stormlp_core::printable::{printable, printable_json, printable_lines};
use stormlp_show::document::Document;
use stormlp_show::text;
use terminal_size::{Width, terminal_size_of};

use crate::exit::Failure;

/// The forms of an answer that is no report.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

impl Format {
    /// Prints a value in this form.
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

/// Prints `text` on stdout, ending it with a line break when it has none.
///
/// # Errors
/// When stdout cannot be written, unless the reader has closed the pipe.
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

/// Prints the help or the version that clap has made, in colours where it finds a terminal.
///
/// # Errors
/// As [`print`].
pub(crate) fn help(asked: &clap::Error) -> Result<(), Failure> {
    written_to_stdout(asked.print().and_then(|()| io::stdout().flush()))
}

/// A reader who has seen enough is no error.
fn written_to_stdout(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::storage(anyhow::Error::new(error).context("cannot write to stdout")))
        }
        _ => Ok(()),
    }
}

/// Tells that what came of a run could not be printed: the run ends as it ran. `kept` says where
/// its result is.
pub(crate) fn or_warn(printed: Result<(), Failure>, kept: impl Display) {
    if let Err(failure) = printed {
        say(format!("warning: {:#}; {kept}", failure.error));
    }
}

/// Prints a message of one line on stderr. That nobody reads it any more must not end a run.
pub(crate) fn say(message: impl Display) {
    let message = message.to_string();
    say_page(&printable(message.trim_end_matches('\n')));
}

/// Which of several hosts speaks.
static HOST: OnceLock<String> = OnceLock::new();

/// Begins every message with the name of this host: others print into the same terminal.
pub(crate) fn speak_for(host: &str) {
    let _ = HOST.set(printable(host).into_owned());
}

/// Prints several lines on stderr, in which what came from elsewhere is printable already.
pub(crate) fn say_page(page: &str) {
    let mut text = printable_lines(page.trim_end_matches('\n')).into_owned();
    if let Some(host) = HOST.get() {
        text = format!("{host}: {text}");
    }
    text.push('\n');
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Prints a document as text, as wide as the terminal.
///
/// # Errors
/// As [`print`].
pub(crate) fn show(document: &Document) -> Result<(), Failure> {
    print(&text::render(document, width()))
}

/// Columns of the terminal, or what `COLUMNS` says; `None` where stdout is piped, so that what
/// reads it gets every column.
pub(crate) fn width() -> Option<usize> {
    let from_environment = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size_of(io::stdout()).map(|(Width(columns), _)| columns.into());
    from_environment.or_else(terminal)
}

/// A value as JSON for scripts and for people who look into files.
///
/// # Errors
/// Never for plain data, which is all that commands print.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map(|json| printable_json(&json).into_owned())
        .context("the result is plain data")
        .map_err(Failure::bug)
}
