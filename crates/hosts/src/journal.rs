//! The cells of a running matrix, next to its report: one line of JSON each.
//!
//! Writing the whole report after every cell would cost more with each one. So the report is
//! written at the start and the end of the matrix, and this file holds the lines in between. An
//! unfinished report is read together with them.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;
use stormlp_core::failure::Failure;

/// Maximum length of a line; real cells have less than a tenth of it.
const LONGEST_LINE: u64 = 16 << 20;

/// The journal of one run.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    /// `None` before the first line.
    file: Option<File>,
    /// End of the last complete line.
    whole_bytes: u64,
    /// Lines not yet written.
    unwritten: Vec<u8>,
    /// When the file was last synced, and how long that took.
    synced: Option<(Instant, Duration)>,
}

impl Journal {
    /// The journal of `report`; no file is created before the first line.
    pub(crate) fn of(report: &Path) -> Self {
        Self {
            path: beside(report),
            file: None,
            whole_bytes: 0,
            unwritten: Vec::new(),
            synced: None,
        }
    }

    /// Appends a line. If it cannot be written now, it is written before the next.
    pub(crate) fn add(&mut self, cell: &impl Serialize) -> anyhow::Result<()> {
        serde_json::to_writer(&mut self.unwritten, cell).context("a cell is plain data")?;
        self.unwritten.push(b'\n');
        self.flush().with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Writes pending lines; an incomplete line is truncated.
    fn flush(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            // Only a new file is created: a link would lead elsewhere.
            none => none.insert(File::options().append(true).create_new(true).open(&self.path)?),
        };
        if let Err(error) = file.write_all(&self.unwritten) {
            file.set_len(self.whole_bytes)?;
            return Err(error);
        }
        self.whole_bytes += self.unwritten.len() as u64;
        self.unwritten.clear();
        // Written data survives this process. To survive the machine it must be synced, which takes
        // at most a twentieth of the time: this may be the storage under test.
        if self.synced.is_none_or(|(since, took)| since.elapsed() >= took * 19) {
            let begun = Instant::now();
            file.sync_data()?;
            self.synced = Some((Instant::now(), begun.elapsed()));
        }
        Ok(())
    }

    /// Removes the journal, whose cells are in the report now.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        (self.file, self.whole_bytes) = (None, 0);
        self.unwritten.clear();
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The cells in the journal of `report`; none if there is no journal. An incomplete last line, as
/// left by a killed run, is ignored.
///
/// # Errors
/// With exit code 4 if the journal cannot be read, and 3 if one of its lines is not a cell.
pub fn cells<T: DeserializeOwned>(report: &Path) -> Result<Vec<T>, Failure> {
    let path = beside(report);
    let unreadable = |error: io::Error| {
        let what = format!("cannot read {}", path.display());
        Failure::machine(anyhow::Error::new(error).context(what))
    };
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Ok(found) if !found.is_file() => {
            return Err(unreadable(io::Error::other("not a regular file")));
        }
        _ => {}
    }
    let mut lines = BufReader::new(File::open(&path).map_err(unreadable)?);
    let (mut line, mut cells) = (Vec::new(), Vec::new());
    for number in 1.. {
        line.clear();
        let mut limited = lines.by_ref().take(LONGEST_LINE);
        limited.read_until(b'\n', &mut line).map_err(unreadable)?;
        if line.last() != Some(&b'\n') && (line.len() as u64) < LONGEST_LINE {
            break;
        }
        let cell = serde_json::from_slice(&line);
        let what = || format!("{}:{number} is not a cell of a matrix", path.display());
        let cell = cell.with_context(what).map_err(|error| {
            Failure::no_plan(error).with_help("remove the file to go on without its cells")
        })?;
        cells.push(cell);
    }
    Ok(cells)
}

/// The path of the journal of `report`.
fn beside(report: &Path) -> PathBuf {
    report.with_extension("cells.jsonl")
}
