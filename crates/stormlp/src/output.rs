//! Results on stdout. A reader who has seen enough (`stormlp … | head`) is no error.

use std::io::{self, ErrorKind, Write};

use anyhow::Context;
use serde::Serialize;

use crate::exit::Failure;

/// Prints `text` on stdout, ending it with a line break when it has none.
///
/// # Errors
/// When stdout cannot be written, unless the reader has closed the pipe.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| match text.ends_with('\n') || text.is_empty() {
            true => Ok(()),
            false => stdout.write_all(b"\n"),
        })
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::storage(
            anyhow::Error::new(error).context("cannot write to stdout"),
        )),
        _ => Ok(()),
    }
}

/// A value as JSON for scripts and for people who look into files.
///
/// # Errors
/// Never for plain data, which is all that commands print.
pub(crate) fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .context("the result is plain data")
        .map_err(Failure::bug)
}
