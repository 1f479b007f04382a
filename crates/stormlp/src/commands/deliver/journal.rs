//! The cells of a matrix that runs, beside its report: a line of JSON each.
//!
//! Writing the whole report after every cell would cost more with each one. So the report is
//! written when the matrix begins and when it ends, and the lines between stand in this file. A
//! report that was never finished is read together with them.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use stormlp_matrix::plan::CellReport;

use crate::exit::Failure;

/// A line may have so many bytes; those of real cells have less than a tenth.
const LONGEST_LINE: u64 = 16 << 20;

/// The journal of one run.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    /// `None` before the first line.
    file: Option<File>,
    /// Where the whole lines end.
    whole_bytes: u64,
    /// Lines that could not be written yet.
    unwritten: Vec<u8>,
    /// When the file was last synced, and how long that took.
    synced: Option<(Instant, Duration)>,
}

impl Journal {
    /// The journal of `report`; nothing is made before the first line.
    pub(super) fn of(report: &Path) -> Self {
        Self {
            path: beside(report),
            file: None,
            whole_bytes: 0,
            unwritten: Vec::new(),
            synced: None,
        }
    }

    /// Adds a line. One that cannot be written now is written before the next.
    pub(super) fn add(&mut self, cell: &impl Serialize) -> anyhow::Result<()> {
        serde_json::to_writer(&mut self.unwritten, cell).context("a cell is plain data")?;
        self.unwritten.push(b'\n');
        self.flush().with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Writes what is not written; a line that was begun is taken back when it cannot be ended.
    fn flush(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            // Only a file that was not there: a link would lead elsewhere.
            none => none.insert(File::options().append(true).create_new(true).open(&self.path)?),
        };
        if let Err(error) = file.write_all(&self.unwritten) {
            file.set_len(self.whole_bytes)?;
            return Err(error);
        }
        self.whole_bytes += self.unwritten.len() as u64;
        self.unwritten.clear();
        // What is written outlives this process. To outlive the machine it has to be synced, which
        // takes a twentieth of the time at most: the storage under test may be this one.
        if self.synced.is_none_or(|(since, took)| since.elapsed() >= took * 19) {
            let begun = Instant::now();
            file.sync_data()?;
            self.synced = Some((Instant::now(), begun.elapsed()));
        }
        Ok(())
    }

    /// Removes the journal, whose cells stand in the report now.
    pub(super) fn remove(&mut self) -> io::Result<()> {
        (self.file, self.whole_bytes) = (None, 0);
        self.unwritten.clear();
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The cells in the journal of `report`; none where there is no journal. A last line that was cut
/// short, as a killed run leaves it, is no cell.
///
/// # Errors
/// With exit code 4 when the journal cannot be read, and 3 when a line of it is no cell.
pub(crate) fn cells(report: &Path) -> Result<Vec<CellReport>, Failure> {
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

/// Where the journal of `report` lies.
fn beside(report: &Path) -> PathBuf {
    report.with_extension("cells.jsonl")
}
