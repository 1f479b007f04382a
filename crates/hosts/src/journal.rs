//! The units of a running measurement (a matrix's cells, a training's epochs), next to its report:
//! one line of JSON each.
//!
//! Writing the whole report after every unit would cost more with each one. So this file holds the
//! units since the report was last written. An unfinished report is read together with them.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;
use stormlp_core::failure::Failure;
use stormlp_core::json;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Access, Disk, Kind, Reader, Storage as _};

/// Maximum length of a line; real runs need less than a tenth of it.
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
    pub(crate) fn add(&mut self, unit: &impl Serialize) -> anyhow::Result<()> {
        self.unwritten.extend(json::compact(unit).context("a unit is plain data")?);
        self.unwritten.push(b'\n');
        Ok(self.flush()?)
    }

    /// Writes pending lines, over the rest of an earlier attempt.
    fn flush(&mut self) -> Result<(), TransferError> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(Disk.open(&self.path, Access::Create, false)?),
        };
        Disk.write_at(file, &self.path, self.whole_bytes, &self.unwritten)?;
        self.whole_bytes += self.unwritten.len() as u64;
        self.unwritten.clear();
        // Written data survives this process. To survive the machine it must be synced, for at most
        // a twentieth of the time: this may be the storage under test.
        if self.synced.is_none_or(|(since, took)| since.elapsed() >= took * 19) {
            let begun = Instant::now();
            Disk.sync(file, &self.path)?;
            self.synced = Some((Instant::now(), begun.elapsed()));
        }
        Ok(())
    }

    /// Removes the journal, once its units are in the report.
    pub(crate) fn remove(&mut self) -> Result<(), TransferError> {
        (self.file, self.whole_bytes) = (None, 0);
        self.unwritten.clear();
        Disk.remove(&self.path).map(drop)
    }
}

/// The units in the journal of `report`, each as its line; none if there is no journal. An incomplete
/// last line, as left by a killed run, is ignored.
///
/// # Errors
/// With exit code 4 if the journal cannot be read, and 5 if its device failed.
pub fn lines(report: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let path = beside(report);
    let unreadable = |source: io::Error| TransferError::file("read", &path, source);
    match Disk.look(&path)? {
        None => return Ok(Vec::new()),
        Some(found) if found.kind != Kind::File || found.link => {
            return Err(unreadable(io::Error::other("not a regular file")).into());
        }
        Some(_) => {}
    }
    let mut file = BufReader::new(Reader::open(&Disk, &path)?);
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        let mut limited = file.by_ref().take(LONGEST_LINE);
        limited.read_until(b'\n', &mut line).map_err(unreadable)?;
        if line.last() != Some(&b'\n') && (line.len() as u64) < LONGEST_LINE {
            return Ok(lines);
        }
        lines.push(line);
    }
}

/// The units in the `lines` of the journal of `report`.
///
/// # Errors
/// With exit code 3 if a line is not such a unit.
pub fn units<T: DeserializeOwned>(report: &Path, lines: &[Vec<u8>]) -> Result<Vec<T>, Failure> {
    let parse = |(nth, line): (usize, &Vec<u8>)| {
        let what = || format!("line {} of {} cannot be used", nth + 1, beside(report).display());
        serde_json::from_slice(line).with_context(what).map_err(|error| {
            Failure::no_plan(error).with_help("remove the file to go on without its lines")
        })
    };
    lines.iter().enumerate().map(parse).collect()
}

/// The path of the journal of `report`.
fn beside(report: &Path) -> PathBuf {
    report.with_extension("journal.jsonl")
}
